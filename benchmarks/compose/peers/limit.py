"""The practical limit: deflate the pages, ready as they are, and write them down."""

from pathlib import Path

from benchmarks.compose.contender import InThisProcess
from benchmarks.compose.ours import PIECES_A_FILE, Core, deflate, page_streams
from benchmarks.compose.sheet import Sheet


class Limit(InThisProcess):
    def __init__(self, sheet: Sheet) -> None:
        core = Core(sheet.folder)
        self._streams = list(page_streams(core.batch(core.copies(0, PIECES_A_FILE))))

    def compose(self, count: int, out: Path) -> None:
        with out.open("wb") as file:
            for stream in self._streams[:count]:
                file.write(deflate(stream))


def start(sheet: Sheet) -> Limit:
    return Limit(sheet)
