"""Inks and sizes of handwriting, on every page that asks for them or tells them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quillpost.composition.content import BALLPOINTS, parse_colour
from quillpost.reception.forms import Form

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
