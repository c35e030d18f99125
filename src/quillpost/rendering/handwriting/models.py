"""Handwriting styles and the typefaces beside them, read from `styles.toml`."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

StyleKind = Literal["AI", "Realistic", "Bold", "International"]
Engine = Literal["stroke", "outline"]


@dataclass(frozen=True, slots=True)
class FontFile:
    """A TrueType file in an npm package if its name starts with @, else in a Python package."""

    package: str
    path: str
    weight: int | None = None  # which weight to take from a variable font

    @property
    def is_from_npm(self) -> bool:
        return self.package.startswith("@")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceRecipe:
    """How to prepare a face. Without an engine it has no takes, only its true shapes."""

    face: str  # the typeface by its own name
    source: FontFile
    engine: Engine | None = None
    amplitude: float = 1.0  # how far takes differ; 1 is a calm adult hand
    joined: bool = False
    """Whether letters run into each other, so that takes must leave entries and exits in their place."""
    all_letters: bool = False  # whether letters beyond the Latin ones are kept as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Style(FaceRecipe):
    """A hand that users choose by its number, which never changes."""

    number: int
    name: str
    kind: StyleKind
    scale: float  # what to multiply a font size with, so that all hands look equally large
    leading: float  # from line to line, in multiples of the scaled size
    word_gap: float  # between two words, likewise; the faces' own spaces are too different to rely on
    figure_gap: int = 0  # thousandths of an em between two figures, where the face sets them too tight to be told apart


def _read_face(table: dict[str, Any]) -> dict[str, Any]:
    return table | {"source": FontFile(**table["source"])}


_TABLES = tomllib.loads(files(__package__).joinpath("styles.toml").read_text("utf-8"))
STYLES = tuple(Style(**_read_face(table)) for table in _TABLES["styles"])
DEFAULT_STYLE = STYLES[0]
PLAIN_FACE = FaceRecipe(**_read_face(_TABLES["plain"]))
HELPER_FACE = FaceRecipe(**_read_face(_TABLES["helper"]))
FALLBACK_FACES = tuple(FaceRecipe(**_read_face(table)) for table in _TABLES["fallbacks"])
