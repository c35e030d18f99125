"""Handwriting styles and the typefaces beside them, read from `styles.toml`, and faces ready to write with."""

import io
import json
import tomllib
import zipfile
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, Literal, Self

StyleKind = Literal["AI", "Realistic", "Bold", "International"]
MANNER_NAMES = ("neat", "natural", "lively")
FIRST_PRIVATE_STYLE = 1000
"""From this number on styles are private: senders' own hands."""


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
    """How to prepare a face."""

    face: str  # the typeface by its own name
    source: FontFile
    all_letters: bool = False  # whether letters beyond the Latin ones are kept as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Lettering(FaceRecipe):
    """Set from a typeface, each letter always in its one shape."""

    figure_gap: int = 0  # thousandths of an em between two figures, where the face sets them too tight to be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Written by movements of a pen: `forms` names the file of its letters.

    `joining` is the share of letters that run on into the next, `hurry` how quick the pen is and `tremor` how unsteady.
    """

    forms: str
    joining: float
    spacing: float = 0.0
    pen: str = "ballpoint"
    hurry: float = 1.0
    tremor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """A hand that users choose by its number, which never changes: natural handwriting, or lettering."""

    number: int
    name: str
    kind: StyleKind
    scale: float  # what to multiply a font size with, so that all hands look equally large
    leading: float  # from line to line, in multiples of the scaled size
    word_gap: float  # between two words, likewise
    movement: Movement | None = None
    lettering: Lettering | None = None


_SOURCE, _PROGRAM, _FACE_DATA = "source.ttf", "program.ttf", "facts.json"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


class InvalidPreparedFace(ValueError):
    """The bytes are no prepared face: cut short, changed, or of another version."""


@dataclass(frozen=True, eq=False)
class PreparedFace:
    """A face ready to write with. All measures are thousandths of an em: set HarfBuzz's scale to 1000."""

    name: str
    source: bytes  # TrueType, static, with its layout tables: what HarfBuzz shapes with
    program: bytes  # TrueType for embedding: 1000 units an em, no layout tables, no hints
    source_numbers: tuple[int, ...]  # for each base glyph its glyph number in `source`
    advances: tuple[int, ...]  # for each base glyph
    boxes: tuple[tuple[int, int, int, int], ...]
    """For each base glyph the left, bottom, right and top of the source's ink; zeros when empty."""
    letters: dict[str, int]  # character to base glyph: letters that have ink, and the space
    x_height: int
    cap_height: int

    def glyph_number(self, base: int) -> int:
        """The glyph in `program`."""
        return 1 + base

    def to_bytes(self) -> bytes:
        names = [field.name for field in fields(self) if field.name not in ("source", "program")]
        face_data = {name: getattr(self, name) for name in names} | {"letters": dict(sorted(self.letters.items()))}
        face_json = json.dumps(face_data, separators=(",", ":")).encode()
        members = {_SOURCE: self.source, _PROGRAM: self.program, _FACE_DATA: face_json}
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name, _FIXED_DATE), content)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                source, program, face_data = (archive.read(name) for name in (_SOURCE, _PROGRAM, _FACE_DATA))
            values = json.loads(face_data)
            # JSON lists back as tuples.
            values |= {name: tuple(values[name]) for name in ("source_numbers", "advances")}
            values["boxes"] = tuple(map(tuple, values["boxes"]))
            return cls(source=source, program=program, **values)
        except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError) as error:
            raise InvalidPreparedFace(str(error)) from error


def _read_face(table: dict[str, Any]) -> dict[str, Any]:
    return table | {"source": FontFile(**table["source"])}


def read_style(table: dict[str, Any]) -> Style:
    values = dict(table)
    if "movement" in values:
        values["movement"] = Movement(**values["movement"])
    if "lettering" in values:
        values["lettering"] = Lettering(**_read_face(values["lettering"]))
    style = Style(**values)
    if style.number >= FIRST_PRIVATE_STYLE:
        raise ValueError(f"The number of {style.name} must be below {FIRST_PRIVATE_STYLE}: those above are private.")
    return style


_TABLES = tomllib.loads(files(__package__).joinpath("styles.toml").read_text("utf-8"))
STYLES = tuple(sorted(map(read_style, _TABLES["styles"]), key=lambda style: style.number))
DEFAULT_STYLE = STYLES[0]
PLAIN_FACE = FaceRecipe(**_read_face(_TABLES["plain"]))
HELPER_FACE = FaceRecipe(**_read_face(_TABLES["helper"]))
FALLBACK_FACES = tuple(FaceRecipe(**_read_face(table)) for table in _TABLES["fallbacks"])
