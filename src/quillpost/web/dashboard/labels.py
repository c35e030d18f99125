"""What products, inks and sizes are called on pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quillpost.rendering.models import BALLPOINTS, parse_colour
from quillpost.web.forms import Form

INKS: Final[Sequence[str]] = tuple(BALLPOINTS)
OWN: Final = "own"
"""The ink that is none of the named ones: the field beside it, with `_own` to its name, says which."""
SIZES: Final[Sequence[tuple[str, str]]] = (
    ("auto", "As large as it fits"),
    ("large", "Large"),
    ("medium", "Medium"),
    ("small", "Small"),
)


@dataclass(frozen=True, slots=True)
class Ink:
    """`name`: of a ballpoint, where it is one."""

    name: str | None
    hex: str

    @classmethod
    def of(cls, written: str) -> "Ink":
        """However it is written; ValueError where that is no color."""
        colour = parse_colour(written)
        name = next((name for name, each in BALLPOINTS.items() if each == colour), None)
        return cls(name, "#" + "".join(f"{round(part * 255):02x}" for part in colour.ink))

    @property
    def words(self) -> str:
        return self.name.capitalize() if self.name else self.hex


def ink_in(form: Form, name: str) -> str | None:
    """What is chosen in the form's field of this name."""
    return form.text(f"{name}_own" if form.text(name) == OWN else name) or None


def ink_typed(name: str, written: str) -> dict[str, list[str]]:
    """What stands in the form for this ink; nothing, where it is none that we know."""
    try:
        ink = Ink.of(written)
    except ValueError:
        return {}
    return {name: [ink.name]} if ink.name else {name: [OWN], f"{name}_own": [ink.hex]}


PIECE_NAMES: Final[Mapping[str, str]] = {
    "postcard-4x6": "Postcard 4 × 6",
    "postcard-6x9": "Postcard 6 × 9",
    "postcard-6x11": "Postcard 6 × 11",
    "letter": "Windowed letter",
    "windowlessletter": "Windowless letter",
    "notecard": "Notecard",
    "giftcard": "Gift card",
    "magnacard": "Magnacard",
}
"""By the name that composition has for it, and that orders and batches carry."""

TYPE_NAMES: Final[Mapping[str, str]] = {
    "postcard": "Postcard",
    "postcard6x11": PIECE_NAMES["postcard-6x11"],
    **{name: words for name, words in PIECE_NAMES.items() if "-" not in name},
}
"""By the type of an order or a template, of which two sizes of postcards are one."""


def piece_name(type_: str, size: str | None) -> str:
    """Of an order or a price; what this release does not know is called as it is."""
    drawn_as = f"postcard-{size}" if type_.startswith("postcard") else type_
    return PIECE_NAMES.get(drawn_as, f"{type_} {size or ''}".strip())
