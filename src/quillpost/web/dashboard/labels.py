"""Names of products, inks, sizes and handwriting styles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.models import PEN_COLORS, parse_color
from quillpost.web.forms import Form

INK_NAMES: Final[Sequence[str]] = tuple(PEN_COLORS)
CUSTOM_INK: Final = "own"  # the field with `_own` in its name says which
FONT_SIZES: Final[Sequence[tuple[str, str]]] = (
    ("auto", "As large as it fits"),
    ("large", "Large"),
    ("medium", "Medium"),
    ("small", "Small"),
)


MANNER_CHOICES: Final[Sequence[tuple[str, str, str]]] = (
    ("neat", "Neat", "Letters vary a little, on straight lines."),
    ("natural", "Natural", "Letters vary and lines wander, as in most notes."),
    ("lively", "Lively", "Quick and uneven, as to a friend."),
)
"""Each with what it looks like."""


def group_styles(styles: Iterable[Style]) -> list[tuple[str, list[Style]]]:
    """What writes naturally, and what is set from a typeface, each with its title."""
    listed = list(styles)
    groups = [
        ("Natural handwriting", [style for style in listed if not style.lettering]),
        ("Lettering", [style for style in listed if style.lettering]),
    ]
    return [(title, styles_of_group) for title, styles_of_group in groups if styles_of_group]


def style_label(style: Style) -> str:
    return f"{style.name} (lettering)" if style.lettering else style.name


@dataclass(frozen=True, slots=True)
class Ink:
    """`name`: if it is one of the named inks."""

    name: str | None
    hex: str

    @classmethod
    def parse(cls, text: str) -> "Ink":
        """ValueError if it is no color."""
        color = parse_color(text)
        name = next((name for name, each in PEN_COLORS.items() if each == color), None)
        return cls(name, "#" + "".join(f"{round(channel * 255):02x}" for channel in color.ink))

    @property
    def label(self) -> str:
        return self.name.capitalize() if self.name else self.hex


def read_ink(form: Form, name: str) -> str | None:
    return form.text(f"{name}_own" if form.text(name) == CUSTOM_INK else name) or None


def ink_fields(name: str, text: str) -> dict[str, list[str]]:
    """Empty for an unknown ink."""
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
"""By the layout's name, which orders and batches have."""

TYPE_NAMES: Final[Mapping[str, str]] = {
    "postcard": "Postcard",
    "postcard6x11": PRODUCT_NAMES["postcard-6x11"],
    **{name: words for name, words in PRODUCT_NAMES.items() if "-" not in name},
}
"""By the type of an order or a template; two sizes of postcards share one."""


def product_name(type_: str, size: str | None) -> str:
    """An unknown product has the name of its type."""
    layout_name = f"postcard-{size}" if type_.startswith("postcard") else type_
    return PRODUCT_NAMES.get(layout_name, f"{type_} {size or ''}".strip())
