"""Ourselves: words, breaks and takes are part of our time; the peers are given them."""

from pathlib import Path

from benchmarks.compose.contender import InThisProcess
from benchmarks.compose.ours import PIECES_A_FILE, Core
from benchmarks.compose.sheet import Sheet


class Quillpost(InThisProcess):
    def __init__(self, sheet: Sheet) -> None:
        self._core = Core(sheet.folder)
        self._copies = self._core.copies(0, PIECES_A_FILE)

    def compose(self, count: int, out: Path) -> None:
        out.write_bytes(self._core.batch(self._copies[:count]))


def start(sheet: Sheet) -> Quillpost:
    return Quillpost(sheet)
