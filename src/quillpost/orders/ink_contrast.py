"""Whether the handwriting of a piece can be read where it is written: on white paper, or on a picture."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quillpost.composition.art.tones import Tones
from quillpost.composition.content import Design
from quillpost.composition.pages.contrast import READABLE, WHITE, contrast, contrast_over
from quillpost.composition.pages.sides import Piece, Side
from quillpost.creative.images import FetchedPicture
from quillpost.creative.picture_tones import tones_of
from quillpost.orders.pictures import Place, whose

HARD_TO_READ = "The handwriting_color is hard to read"

Measure = Callable[[FetchedPicture], Tones | None]


@dataclass(frozen=True, slots=True)
class InkContrast:
    """`lowest` is that of the words that stand out least, where some are hard to read, from 1, not at all, to
    21, black on white."""

    lowest: float | None
    warnings: list[str]


def judge_ink(
    piece: Piece,
    design: Design,
    pictures: Mapping[FetchedPicture, Place],
    *,
    field: str,
    has_qr: bool,
    measure: Measure = tones_of,
) -> InkContrast:
    """How well everything in the hand stands out; `pictures` lie under the message, by `field` of the call.

    Of a message that is blank nothing is told, and yet its place is looked at: words may come later.
    """
    inside: list[tuple[float, str]] = []
    outside: list[tuple[float, str]] = []
    on_white = contrast(design.ink, WHITE), "on white paper: choose a darker color."
    if not design.pdf_only and pictures:
        inside = _on_pictures(piece.message_side, design, pictures, field, has_qr, measure)
    elif not design.pdf_only:
        inside = [on_white]
    if piece.envelope is not None and piece.envelope.handwritten:
        outside = [on_white]
    read = [*(inside if design.message.strip() else ()), *outside]
    told = [
        f"{HARD_TO_READ} {where} Its contrast is {value:.1f} to 1; {READABLE:g} to 1 reads well."
        for value, where in dict.fromkeys(read)
        if value < READABLE
    ]
    lowest = min(value for value, _ in [*inside, *outside, (READABLE, "")])
    return InkContrast(lowest if lowest < READABLE else None, told)


def _on_pictures(
    side: Side,
    design: Design,
    pictures: Mapping[FetchedPicture, Place],
    field: str,
    has_qr: bool,
    measure: Measure,
) -> list[tuple[float, str]]:
    area, box = side.art_area, side.message_box(qr=has_qr)
    if area is None or box is None:
        return []
    worst: tuple[float, str] | None = None
    for picture, place in pictures.items():
        tones = measure(picture)
        if tones is None:
            continue
        value = contrast_over(design.ink, tones, area, box)
        of_whom = f" ({whose(place)})" if place is not None else ""
        if worst is None or value < worst[0]:
            worst = (value, f"on {field}{of_whom}: choose another color or another picture.")
    return [worst] if worst else []
