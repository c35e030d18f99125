"""From a font file to a face that is ready to write with."""

import hashlib
import json
import unicodedata
import zlib
from collections.abc import Callable, Iterable
from dataclasses import fields

import numpy as np

from quillpost.rendering.handwriting import outlines, strokes, truetype
from quillpost.rendering.handwriting.catalog import Face
from quillpost.rendering.handwriting.faces import Prepared
from quillpost.rendering.handwriting.outlines import Shape
from quillpost.rendering.handwriting.typeface import UNITS, Glyph, Typeface, cut, letters_of

# Part of every recipe: raise it when the same recipe gives other shapes than before.
ENGINE_VERSION = 3

TAKES = 8

Tell = Callable[[int, int], None]

_ENGINES = {"stroke": strokes.rewrite, "outline": outlines.rewrite}

_LATIN = frozenset(
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

_LEVEL_SMALL_LETTERS = "acemnorsuvwxz"
_LEVEL_CAPITALS = "BDEHIKLMNPRTX"

# Format characters, and those that every font uses as it likes.
_NO_LETTERS = frozenset({"Cf", "Co"})


def recipe_key(face: Face, raw: bytes) -> str:
    """A digest of all that decides how the face comes out: another recipe has another key."""
    recipe = {field.name: getattr(face, field.name) for field in fields(Face)}
    told = json.dumps([ENGINE_VERSION, TAKES, recipe], default=repr, sort_keys=True)
    return hashlib.sha256(told.encode() + b"\0" + raw).hexdigest()


def prepare(face: Face, raw: bytes, tell: Tell | None = None) -> Prepared:
    """The face with all letters that it is to have, and its takes if it has an engine.

    `tell` is called now and then with what is done and how much there is in all.
    """
    present = letters_of(raw)
    return _prepared(face, raw, present if face.all_letters else present & _LATIN, tell)


def prepare_letters(face: Face, raw: bytes, letters: Iterable[str]) -> Prepared:
    """The face with these letters only, so far as it has them: for faces too big to prepare whole."""
    return _prepared(face, raw, letters, None)


def _prepared(face: Face, raw: bytes, letters: Iterable[str], tell: Tell | None) -> Prepared:
    features = _LATIN_FEATURES + (_SYLLABLE_FEATURES if face.all_letters else ())
    typeface = cut(raw, {*letters, " "}, features, face.source.weight)
    bases = typeface.glyphs[1:]
    takes = _takes_of(face, bases, tell)
    boxes = [_box_of(glyph.shape) for glyph in bases]
    x_height, cap_height = _heights(face, raw, typeface)
    return Prepared(
        name="".join(letter for letter in face.face if letter.isalnum()),
        source=typeface.data,
        program=_program(typeface, takes),
        takes=TAKES if face.engine else 0,
        source_numbers=tuple(range(1, len(typeface.glyphs))),
        advances=tuple(glyph.advance for glyph in bases),
        boxes=tuple(boxes),
        letters=_visible(typeface),
        x_height=x_height,
        cap_height=cap_height,
    )


def _takes_of(face: Face, glyphs: list[Glyph], tell: Tell | None) -> list[list[Shape]]:
    """For each glyph its takes; none where the face has no engine."""
    if face.engine is None:
        return [[] for _ in glyphs]
    rewritten = _ENGINES[face.engine](
        {glyph.name: glyph.shape for glyph in glyphs if glyph.shape},
        {glyph.name: float(glyph.advance) for glyph in glyphs if glyph.shape},
        count=TAKES,
        amplitude=face.amplitude,
        joined=face.joined,
        seed=zlib.crc32(face.face.encode()),
        tell=tell,
    )
    nothing: list[Shape] = [[] for _ in range(TAKES)]
    return [rewritten.get(glyph.name, nothing) for glyph in glyphs]


def _program(typeface: Typeface, takes: list[list[Shape]]) -> bytes:
    shapes, advances = [typeface.glyphs[0].shape], [typeface.glyphs[0].advance]
    for glyph, its_takes in zip(typeface.glyphs[1:], takes, strict=True):
        shapes += [*its_takes, glyph.shape]
        advances += [glyph.advance] * (len(its_takes) + 1)
    return truetype.write(UNITS, advances, shapes)


def _visible(typeface: Typeface) -> dict[str, int]:
    """Letters with ink, by base glyph; what a font maps to an empty glyph it does not have."""
    return {
        letter: number - 1
        for letter, number in typeface.letters.items()
        if letter == " "
        or (typeface.glyphs[number].shape and unicodedata.category(letter) not in _NO_LETTERS)
    }


def _box_of(shape: Shape) -> tuple[int, int, int, int]:
    """The extent of the ink, which curves may reach between their ends."""
    if not shape:
        return 0, 0, 0, 0
    start, control, end = np.moveaxis(np.concatenate(shape), 1, 0)
    bend = start - 2 * control + end
    with np.errstate(divide="ignore", invalid="ignore"):
        turning = np.nan_to_num(np.clip((start - control) / bend, 0.0, 1.0))
    middle = (1 - turning) ** 2 * start + 2 * (1 - turning) * turning * control + turning**2 * end
    every = np.concatenate([start, middle])
    low, high = np.rint(every.min(axis=0)), np.rint(every.max(axis=0))
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def _heights(face: Face, raw: bytes, typeface: Typeface) -> tuple[int, int]:
    """How tall small letters and capitals are, measured on the face itself whatever was cut from it."""
    level = set(_LEVEL_SMALL_LETTERS + _LEVEL_CAPITALS)
    if not level <= typeface.letters.keys():
        with_level_letters = cut(raw, level, (), face.source.weight)
        typeface = with_level_letters if with_level_letters.letters else typeface
    tops = {letter: _box_of(typeface.glyphs[number].shape)[3] for letter, number in typeface.letters.items()}
    return _median(tops, _LEVEL_SMALL_LETTERS), _median(tops, _LEVEL_CAPITALS)


def _median(tops: dict[str, int], letters: str) -> int:
    """The middle one of the tops; of all letters where the face has none of these, as with emoji."""
    found = [tops[letter] for letter in letters if letter in tops] or list(tops.values()) or [0]
    return int(np.median(found))
