"""From a font file to a face that is ready to write with, and the file that stores it."""

import hashlib
import io
import json
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from quillpost.rendering.handwriting import fonts, outlines, strokes
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM, Glyph, Typeface, font_chars, subset_font
from quillpost.rendering.handwriting.models import FaceRecipe
from quillpost.rendering.handwriting.outlines import Shape

_SOURCE, _PROGRAM, _FACE_DATA = "source.ttf", "program.ttf", "facts.json"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


class InvalidPreparedFace(ValueError):
    """The bytes are no prepared face: cut short, changed, or of another version."""


@dataclass(frozen=True, eq=False)
class PreparedFace:
    """A face ready to write with. All measures are thousandths of an em: set HarfBuzz's scale to 1000."""

    name: str
    source: bytes  # TrueType, static, with its layout tables: what HarfBuzz shapes with
    program: bytes  # TrueType for embedding: 1000 units an em, every take of every glyph, no layout tables, no hints
    takes: int  # how many shapes each glyph has beside its true one
    source_numbers: tuple[int, ...]  # for each base glyph its glyph number in `source`
    advances: tuple[int, ...]  # for each base glyph; the same for all of its takes
    boxes: tuple[tuple[int, int, int, int], ...]
    """For each base glyph the left, bottom, right and top of the source's ink; zeros when empty."""
    letters: dict[str, int]  # character to base glyph: letters that have ink, and the space
    x_height: int
    cap_height: int

    def glyph_number(self, base: int, take: int) -> int:
        """The glyph in `program`; the take numbered `takes` is the source's own true shape."""
        return 1 + base * (self.takes + 1) + take

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


ENGINE_VERSION = 3  # part of every recipe: raise it when the same recipe gives other shapes than before
TAKES_PER_GLYPH = 8

ProgressCallback = Callable[[int, int], None]

_ENGINES = {"stroke": strokes.make_takes, "outline": outlines.make_takes}

_LATIN_CHARS = frozenset(
    chr(code)
    for first, last in [(0x20, 0x7E), (0xA1, 0x24F), (0x1E00, 0x1EFF), (0x2010, 0x203A)]
    for code in range(first, last + 1)
) | frozenset("€₤№™−←→♥★☺")

_LATIN_FEATURES = ("calt", "liga", "clig", "ccmp", "kern", "mark", "mkmk", "locl")
# Without these, syllables of Indian scripts fall apart.
_SYLLABLE_FEATURES = (
    *("akhn", "rphf", "rkrf", "pref", "blwf", "abvf", "half", "pstf", "vatu", "cjct", "cfar", "nukt"),
    *("init", "pres", "abvs", "blws", "psts", "haln", "dist", "abvm", "blwm", "rlig", "rclt"),
)

_FLAT_LOWERCASE = "acemnorsuvwxz"
_FLAT_CAPITALS = "BDEHIKLMNPRTX"
_EXCLUDED_CATEGORIES = frozenset({"Cf", "Co"})  # format characters, and those that every font uses as it likes


def recipe_key(face: FaceRecipe, font_bytes: bytes) -> str:
    """A digest of everything that decides how the face comes out."""
    recipe = {field.name: getattr(face, field.name) for field in fields(FaceRecipe)}
    recipe_json = json.dumps([ENGINE_VERSION, TAKES_PER_GLYPH, recipe], default=repr, sort_keys=True)
    return hashlib.sha256(recipe_json.encode() + b"\0" + font_bytes).hexdigest()


def prepare_face(face: FaceRecipe, font_bytes: bytes, on_progress: ProgressCallback | None = None) -> PreparedFace:
    """The face with all its letters and takes; `on_progress` gets the count done and the total."""
    available_chars = font_chars(font_bytes)
    return _prepare(
        face, font_bytes, available_chars if face.all_letters else available_chars & _LATIN_CHARS, on_progress
    )


def prepare_chars(face: FaceRecipe, font_bytes: bytes, chars: Iterable[str]) -> PreparedFace:
    return _prepare(face, font_bytes, chars, None)


def _prepare(
    face: FaceRecipe, font_bytes: bytes, chars: Iterable[str], on_progress: ProgressCallback | None
) -> PreparedFace:
    features = _LATIN_FEATURES + (_SYLLABLE_FEATURES if face.all_letters else ())
    typeface = subset_font(font_bytes, {*chars, " "}, features, face.source.weight)
    base_glyphs = typeface.glyphs[1:]
    takes = _make_takes(face, base_glyphs, on_progress)
    boxes = [_ink_box(glyph.shape) for glyph in base_glyphs]
    x_height, cap_height = _measure_heights(face, font_bytes, typeface)
    return PreparedFace(
        name="".join(char for char in face.face if char.isalnum()),
        source=typeface.data,
        program=_font_program(typeface, takes),
        takes=TAKES_PER_GLYPH if face.engine else 0,
        source_numbers=tuple(range(1, len(typeface.glyphs))),
        advances=tuple(glyph.advance for glyph in base_glyphs),
        boxes=tuple(boxes),
        letters=_visible_chars(typeface),
        x_height=x_height,
        cap_height=cap_height,
    )


def _make_takes(face: FaceRecipe, glyphs: list[Glyph], on_progress: ProgressCallback | None) -> list[list[Shape]]:
    if face.engine is None:
        return [[] for _ in glyphs]
    takes_by_name = _ENGINES[face.engine](
        {glyph.name: glyph.shape for glyph in glyphs if glyph.shape},
        {glyph.name: float(glyph.advance) for glyph in glyphs if glyph.shape},
        count=TAKES_PER_GLYPH,
        amplitude=face.amplitude,
        joined=face.joined,
        seed=zlib.crc32(face.face.encode()),
        on_progress=on_progress,
    )
    empty_takes: list[Shape] = [[] for _ in range(TAKES_PER_GLYPH)]
    return [takes_by_name.get(glyph.name, empty_takes) for glyph in glyphs]


def _font_program(typeface: Typeface, takes: list[list[Shape]]) -> bytes:
    shapes, advances = [typeface.glyphs[0].shape], [typeface.glyphs[0].advance]
    for glyph, glyph_takes in zip(typeface.glyphs[1:], takes, strict=True):
        shapes += [*glyph_takes, glyph.shape]
        advances += [glyph.advance] * (len(glyph_takes) + 1)
    return fonts.write_font(UNITS_PER_EM, advances, shapes)


def _visible_chars(typeface: Typeface) -> dict[str, int]:
    """Letters with ink by base glyph; a letter with an empty glyph does not count."""
    return {
        char: number - 1
        for char, number in typeface.glyphs_by_char.items()
        if char == " " or (typeface.glyphs[number].shape and unicodedata.category(char) not in _EXCLUDED_CATEGORIES)
    }


def _ink_box(shape: Shape) -> tuple[int, int, int, int]:
    """The box of the ink, with the extremes of its curves."""
    if not shape:
        return 0, 0, 0, 0
    start, control, end = np.moveaxis(np.concatenate(shape), 1, 0)
    bend = start - 2 * control + end
    with np.errstate(divide="ignore", invalid="ignore"):
        extreme = np.nan_to_num(np.clip((start - control) / bend, 0.0, 1.0))
    extreme_points = (1 - extreme) ** 2 * start + 2 * (1 - extreme) * extreme * control + extreme**2 * end
    all_points = np.concatenate([start, extreme_points])
    low, high = np.rint(all_points.min(axis=0)), np.rint(all_points.max(axis=0))
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def _measure_heights(face: FaceRecipe, font_bytes: bytes, typeface: Typeface) -> tuple[int, int]:
    """Median heights of small letters and capitals, from the whole font."""
    flat_chars = set(_FLAT_LOWERCASE + _FLAT_CAPITALS)
    if not flat_chars <= typeface.glyphs_by_char.keys():
        flat_typeface = subset_font(font_bytes, flat_chars, (), face.source.weight)
        typeface = flat_typeface if flat_typeface.glyphs_by_char else typeface
    tops = {char: _ink_box(typeface.glyphs[number].shape)[3] for char, number in typeface.glyphs_by_char.items()}
    return _median_top(tops, _FLAT_LOWERCASE), _median_top(tops, _FLAT_CAPITALS)


def _median_top(tops: dict[str, int], chars: str) -> int:
    """The median top of these letters; of all where the face has none of them, as with emoji."""
    char_tops = [tops[char] for char in chars if char in tops] or list(tops.values()) or [0]
    return int(np.median(char_tops))
