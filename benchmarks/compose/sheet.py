"""What every peer is given: the job with its layout already done, as plain values in one folder.

Points from the lower left corner of the page, bleed included.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

PAGE_WIDTH, PAGE_HEIGHT = 450.0, 306.0
BLEED = 9.0
INK = (20, 42, 130)

Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Run:
    """Text that starts at a place on its baseline; `slope` is in radians, anticlockwise."""

    text: str
    left: float
    baseline: float
    size: float
    slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """What one back says to its recipient; `dark` are the bars and the QR code's modules, joined by rows."""

    words: Sequence[Run]
    address: Sequence[Run]
    dark: Sequence[Rectangle]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A folder with the fonts and the photo, and what stands on the pages."""

    folder: Path
    shared: Sequence[Run]
    frame: Rectangle
    divider: Rectangle
    pieces: Sequence[Piece]

    @property
    def photo(self) -> Path:
        return photo_in(self.folder)

    @property
    def hand(self) -> Path:
        return hand_in(self.folder)

    @property
    def plain(self) -> Path:
        return plain_in(self.folder)

    def save(self) -> None:
        """One line for what is shared, and one for each piece."""
        shared = {"shared": self.shared, "frame": self.frame, "divider": self.divider}
        lines = [json.dumps(part, default=asdict) for part in (shared, *self.pieces)]
        _file_in(self.folder).write_text("\n".join(lines))


def load(folder: Path, count: int) -> Sheet:
    """With the first so many pieces alone: nobody's memory holds what it does not draw."""
    with _file_in(folder).open() as file:
        first = json.loads(next(file))
        pieces = [_piece(json.loads(line)) for line in islice(file, count)]
    return Sheet(folder, _runs(first["shared"]), first["frame"], first["divider"], pieces)


def photo_in(folder: Path) -> Path:
    return folder / "front.jpg"


def hand_in(folder: Path) -> Path:
    return folder / "hand.ttf"


def plain_in(folder: Path) -> Path:
    return folder / "plain.ttf"


def _file_in(folder: Path) -> Path:
    return folder / "sheet.jsonl"


def _piece(row: dict[str, Any]) -> Piece:
    return Piece(_runs(row["words"]), _runs(row["address"]), row["dark"])


def _runs(rows: Sequence[dict[str, Any]]) -> list[Run]:
    return [Run(**row) for row in rows]
