"""What can be sent, and what each piece asks of a call: the specification's matrix, cell by cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Cell(StrEnum):
    REQUIRED = "required"
    UNLESS_MESSAGE = "required unless message given"
    UNLESS_MESSAGE_OR_PDF = "required unless message given or pdf_only_url set"
    UNLESS_PDF = "required unless pdf_only_url"
    OPTIONAL = "optional"
    ALTERNATIVE = "optional alternative"
    NOT_USED = "not used"


@dataclass(frozen=True, slots=True)
class Piece:
    """A kind of mail, as one column of the matrix has it. `paths` are its names in addresses.

    `unused_beside_pdf` are the fields of a call that change nothing where a PDF is the whole letter.
    """

    name: str
    paths: tuple[str, ...]
    audience: Cell
    front: Cell
    message: Cell
    background: Cell
    pdf_only: Cell
    unused_beside_pdf: tuple[str, ...] = ()

    @property
    def is_letter(self) -> bool:
        return self.pdf_only is not Cell.NOT_USED

    def type(self, size: str | None) -> str:
        """The order's type on the wire; the largest postcards are a type of their own."""
        return "postcard6x11" if self.name == "postcard" and size == "6x11" else self.name

    def drawn_as(self, size: str | None) -> str:
        """The name of composition's template for it."""
        return f"postcard-{size}" if self.name == "postcard" else self.name


def _card(name: str, *, background: Cell = Cell.OPTIONAL) -> Piece:
    return Piece(
        name,
        (name,),
        audience=Cell.REQUIRED,
        front=Cell.UNLESS_MESSAGE,
        message=Cell.REQUIRED,
        background=background,
        pdf_only=Cell.NOT_USED,
    )


COVER = (
    "message", "front_image_url", "image_template", "use_custom_background", "additional_pages_url",
    "qrcode_url", "font_size",
)  # fmt: skip
"""What is seen on a letter's cover, or follows it."""

HAND = ("handwriting_style", "handwriting_color", "handwriting_realism")


def _letter(name: str, *paths: str, unused_beside_pdf: tuple[str, ...]) -> Piece:
    return Piece(
        name,
        paths,
        audience=Cell.REQUIRED,
        front=Cell.UNLESS_MESSAGE_OR_PDF,
        message=Cell.UNLESS_PDF,
        background=Cell.NOT_USED,
        pdf_only=Cell.ALTERNATIVE,
        unused_beside_pdf=unused_beside_pdf,
    )


POSTCARD = _card("postcard")
LETTER = _letter(
    "letter",
    "windowed-letter",
    "windowedletter",
    "letter",
    "letter/windowed",
    unused_beside_pdf=COVER + HAND,
)
# Its envelope is written by hand, whatever is inside.
WINDOWLESS_LETTER = _letter(
    "windowlessletter",
    "windowless-letter",
    "windowlessletter",
    "letter/windowless",
    unused_beside_pdf=COVER,
)
NOTECARD = _card("notecard")
GIFTCARD = _card("giftcard", background=Cell.NOT_USED)
MAGNACARD = _card("magnacard")

PIECES = (POSTCARD, LETTER, WINDOWLESS_LETTER, NOTECARD, GIFTCARD, MAGNACARD)

DISPLAY_TYPES = {
    ("postcard", "4x6"): "Postcard-4x6",
    ("postcard", "6x9"): "Postcard-6x9",
    ("postcard6x11", "6x11"): "Postcard-6x11",
    ("letter", None): "Windowed Letter",
    ("windowlessletter", None): "Windowless Letter",
    ("notecard", None): "Notecard",
    ("giftcard", None): "Gift Card",
    ("magnacard", None): "Magnacard",
}
"""The human form of an order's type and size."""

NO_FRONT = "Give a front_image_url or an image_template: only a call with its own message may go without."

TYPES = tuple(dict.fromkeys(type_ for type_, _ in DISPLAY_TYPES))


@dataclass(frozen=True, slots=True)
class Family:
    """The types that one name of a filter stands for; with a `size`, only those of that size."""

    types: tuple[str, ...]
    size: str | None = None


def _families() -> dict[str, Family]:
    of_size = {
        size: Family((type_,), size) for (type_, size) in DISPLAY_TYPES if type_.startswith("postcard")
    }
    letters = {name: piece.name for piece in (LETTER, WINDOWLESS_LETTER) for name in piece.paths}
    return {
        "postcard": Family(tuple(type_ for type_ in TYPES if type_.startswith("postcard"))),
        **{f"postcard{size}": family for size, family in of_size.items()},
        **{f"{size}-postcard": family for size, family in of_size.items()},
        **{type_: Family((type_,)) for type_ in TYPES if not type_.startswith("postcard")},
        **{name: Family((type_,)) for name, type_ in letters.items() if "/" not in name},
    }


FAMILIES: Mapping[str, Family] = _families()
"""By each name that a filter by type may have, the specified ones and those that other clients use."""


@dataclass(frozen=True, slots=True)
class Supplied:
    """Which of the things that the matrix speaks of are there; `pdf_only` may come from a template."""

    audience: bool
    front: bool
    message: bool
    message_template: bool
    pdf_only: bool


def missing(piece: Piece, supplied: Supplied) -> Mapping[str, str]:
    """What the piece requires and the call lacks: the field, and what to do."""
    there = {
        Cell.REQUIRED: False,
        Cell.UNLESS_MESSAGE: supplied.message,
        Cell.UNLESS_MESSAGE_OR_PDF: supplied.message or supplied.pdf_only,
        Cell.UNLESS_PDF: supplied.pdf_only,
    }
    found = {}
    if not (supplied.audience or there[piece.audience]):
        found["recipients"] = "Give at least one recipient, or mailing_list_ids, or a radius_search."
    if not (supplied.message or supplied.message_template or there[piece.message]):
        instead = " (or a pdf_only_url)" if piece.is_letter else ""
        found["message"] = f"Give a message, or a message_template{instead}."
    if not (supplied.front or there[piece.front]):
        found["front_image_url"] = NO_FRONT
    return found


def display_type(type_: str, size: str | None) -> str:
    return DISPLAY_TYPES[type_, size]
