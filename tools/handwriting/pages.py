"""Pages in one style and manner, drawn by the service's own previews, and the ink on them."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from quillpost.app import bootstrap
from quillpost.core.settings import Settings
from quillpost.rendering.models import Addressee, Copy, Design
from quillpost.rendering.service import Renderer

# What a design says in each manner of writing. The first one is read for legibility unless others are named.
MANNERS: Mapping[str, Mapping[str, Any]] = {name: {"manner": name} for name in ("natural", "neat", "lively")}

DPI = 150
FONT_SIZE = "medium"
BLACK = (0.0, 0.0, 0.0)
# Sides that show nothing but the message: the large one, and a small one that is quicker to draw.
SHEET = ("windowlessletter", "cover")
CARD = ("notecard", "back")

# A line apart from the next one, so that what hangs from one never touches the other.
LINE_BREAK = "\n\n"

_FACES = Path(__file__).resolve().parents[2] / ".tools" / "faces"
_INK_SHARE = 1 / 3  # of full black: from there on a pixel is ink
_TOUCHING_SHARES = (0.0, 0.01, 0.03, 0.06)
_MAX_HEIGHT_RATIO = 4.0

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Pages:
    """Draws messages. A page shows the same in every run; another `draw` writes the same text anew."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    @property
    def styles(self) -> dict[int, str]:
        """Number and name of those that claim to pass for a person's hand."""
        return {number: style.name for number, style in self._renderer.hands.styles.items() if style.kind == "AI"}

    def draw(
        self, text: str, style: int, manner: str, *, draw: int = 0, dpi: int = DPI, side: tuple[str, str] = SHEET
    ) -> Image.Image:
        """The side in gray."""
        product, preview = side
        design = Design(product, text, BLACK, hand=style, font_size=FONT_SIZE, **MANNERS[manner])
        # An engine may take its chance from the item or from its reader: both differ.
        copy = Copy(draw + 1, 0, Addressee(name=f"Reader {draw}"))
        images = self._renderer.preview(design, copy, dpi=dpi, only_preview=preview)
        return Image.open(io.BytesIO(images.sides[preview])).convert("L")

    def draw_lines(
        self, lines: Sequence[str], style: int, manner: str, *, draw: int = 0, side: tuple[str, str] = SHEET
    ) -> list[Floats]:
        """Each line's ink, cut out; the lines stand far apart."""
        page = self.draw(LINE_BREAK.join(lines), style, manner, draw=draw, side=side)
        return [crop_to_ink(line) for line in split_lines(darkness(page), len(lines))]


def build_pages() -> Pages:
    return Pages(bootstrap.build_renderer(Settings.model_validate({"faces_folder": _FACES})))


def darkness(page: Image.Image) -> Floats:
    """From 0, white, to 1, black."""
    return 1.0 - np.asarray(page, np.float64) / 255.0


def is_ink(picture: Floats) -> Flags:
    return picture > _INK_SHARE


def crop_to_ink(picture: Floats) -> Floats:
    left, top, right, bottom = ink_box(picture)
    return picture[top:bottom, left:right]


def ink_box(picture: Floats) -> tuple[int, int, int, int]:
    """Left, top, right and bottom in pixels; the last two are behind the ink."""
    ink = is_ink(picture)
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not len(rows):
        raise ValueError("There is no ink on this picture.")
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def split_lines(picture: Floats, count: int) -> list[Floats]:
    """The lines from the top, as wide as the page; the widest bands without ink separate them.

    Where lines nearly touch, a band with little ink is enough.
    """
    ink_by_row = is_ink(picture).sum(axis=1)
    for share in _TOUCHING_SHARES:
        rows = np.flatnonzero(ink_by_row > share * ink_by_row.max(initial=0))
        gaps = np.diff(rows)
        cuts = np.sort(np.argsort(gaps, kind="stable")[len(gaps) - (count - 1) :])
        if len(rows) < count or (gaps[cuts] < 2).any():
            continue
        starts, ends = [rows[0], *rows[cuts + 1]], [*rows[cuts] + 1, rows[-1] + 1]
        heights = np.subtract(ends, starts)
        # The dot of an i is not a line.
        if heights.max() <= _MAX_HEIGHT_RATIO * heights.min():
            return [picture[start:end] for start, end in zip(starts, ends, strict=True)]
    raise ValueError(f"The page does not show {count} lines that can be told apart.")
