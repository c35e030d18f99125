"""What products, inks and sizes are called on pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quillpost.rendering.models import PEN_COLORS, parse_color
from quillpost.web.forms import Form

INK_NAMES: Final[Sequence[str]] = tuple(PEN_COLORS)
CUSTOM_INK: Final = "own"
"""The ink that is none of the named ones: the field beside it, with `_own` to its name, says which."""
FONT_SIZES: Final[Sequence[tuple[str, str]]] = (
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
    def parse(cls, text: str) -> "Ink":
        """However it is written; ValueError where that is no color."""
        color = parse_color(text)
        name = next((name for name, each in PEN_COLORS.items() if each == color), None)
        return cls(name, "#" + "".join(f"{round(channel * 255):02x}" for channel in color.ink))

    @property
    def label(self) -> str:
        return self.name.capitalize() if self.name else self.hex


def read_ink(form: Form, name: str) -> str | None:
    """What is chosen in the form's field of this name."""
    return form.text(f"{name}_own" if form.text(name) == CUSTOM_INK else name) or None


def ink_fields(name: str, text: str) -> dict[str, list[str]]:
    """What stands in the form for this ink; nothing, where it is none that we know."""
    try:
        ink = Ink.parse(text)
    except ValueError:
        return {}
    return {name: [ink.name]} if ink.name else {name: [CUSTOM_INK], f"{name}_own": [ink.hex]}


PRODUCT_NAMES: Final[Mapping[str, str]] = {
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
    "postcard6x11": PRODUCT_NAMES["postcard-6x11"],
    **{name: words for name, words in PRODUCT_NAMES.items() if "-" not in name},
}
"""By the type of an order or a template, of which two sizes of postcards are one."""


def product_name(type_: str, size: str | None) -> str:
    """Of an order or a price; what this release does not know is called as it is."""
    layout_name = f"postcard-{size}" if type_.startswith("postcard") else type_
    return PRODUCT_NAMES.get(layout_name, f"{type_} {size or ''}".strip())
