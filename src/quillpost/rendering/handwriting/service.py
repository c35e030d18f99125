"""The installed handwriting styles, prepared from their font files on first use."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cached_property, partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Condition
from typing import Protocol

import numpy as np
from cachetools import LRUCache, cached

from quillpost.rendering.handwriting import fonts
from quillpost.rendering.handwriting.alphabet import Alphabet
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM, Typeface, font_chars, subset_font
from quillpost.rendering.handwriting.letterforms import HELPER_FORMS, HandForms, read_forms
from quillpost.rendering.handwriting.models import (
    FALLBACK_FACES,
    HELPER_FACE,
    PLAIN_FACE,
    STYLES,
    FaceRecipe,
    InvalidPreparedFace,
    PreparedFace,
    Style,
)
from quillpost.rendering.handwriting.outlines import Shape
from quillpost.rendering.handwriting.own_hands import OwnHand
from quillpost.rendering.handwriting.text import FALLBACK_FONTS, HELPER_FONT, PLAIN_FONT, LetteringHand, PlainFace
from quillpost.rendering.handwriting.words import NaturalHand
from quillpost.rendering.models import HandChoice

ENGINE_VERSION = 4  # part of every recipe: raise it when the same recipe gives other shapes than before

_CACHED_OWN_HANDS = 8

Hand = LetteringHand | NaturalHand

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
    recipe_json = json.dumps([ENGINE_VERSION, recipe], default=repr, sort_keys=True)
    return hashlib.sha256(recipe_json.encode() + b"\0" + font_bytes).hexdigest()


def prepare_face(face: FaceRecipe, font_bytes: bytes, *, only_chars: Iterable[str] | None = None) -> PreparedFace:
    chars = font_chars(font_bytes) if only_chars is None else set(only_chars)
    if only_chars is None and not face.all_letters:
        chars = chars & _LATIN_CHARS
    features = _LATIN_FEATURES + (_SYLLABLE_FEATURES if face.all_letters else ())
    typeface = subset_font(font_bytes, {*chars, " "}, features, face.source.weight)
    base_glyphs = typeface.glyphs[1:]
    x_height, cap_height = _measure_heights(face, font_bytes, typeface)
    shapes = [glyph.shape for glyph in typeface.glyphs]
    return PreparedFace(
        name="".join(char for char in face.face if char.isalnum()),
        source=typeface.data,
        program=fonts.write_font(UNITS_PER_EM, [glyph.advance for glyph in typeface.glyphs], shapes),
        source_numbers=tuple(range(1, len(typeface.glyphs))),
        advances=tuple(glyph.advance for glyph in base_glyphs),
        boxes=tuple(_ink_box(glyph.shape) for glyph in base_glyphs),
        letters=_visible_chars(typeface),
        x_height=x_height,
        cap_height=cap_height,
    )


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


class FontSources:
    """Font files of Python packages, and of npm packages in `node_modules`."""

    def __init__(self, node_modules: Path | None) -> None:
        self._node_modules = node_modules

    def read_font(self, face: FaceRecipe) -> bytes | None:
        """None where the package is not installed."""
        file = self._font_file(face)
        return file.read_bytes() if file else None

    def installed(self) -> tuple[Style, ...]:
        return tuple(style for style in STYLES if style.lettering is None or self._font_file(style.lettering))

    def _font_file(self, face: FaceRecipe) -> Traversable | None:
        package: Traversable | None = None
        if not face.source.is_from_npm:
            with suppress(ModuleNotFoundError):
                package = resources.files(face.source.package)
        elif self._node_modules:
            package = self._node_modules / face.source.package
        file = package / face.source.path if package else None
        return file if file and file.is_file() else None


class FaceStore(Protocol):
    def has(self, key: str) -> bool: ...

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...


class Hands:
    """Handwriting styles by number. Thread-safe."""

    def __init__(self, sources: FontSources, store: FaceStore) -> None:
        self._sources = sources
        self._store = store
        self._prepare_once = cached({}, key=lambda face: face.face, condition=Condition())(self._load_or_prepare)
        self._hands: dict[int, Hand] = {}
        own_hands: LRUCache[HandChoice, NaturalHand] = LRUCache(_CACHED_OWN_HANDS)
        self._own_hand_once = cached(own_hands, key=lambda choice: choice, condition=Condition())(self._make_own_hand)

    @cached_property
    def styles(self) -> Mapping[int, Style]:
        return {style.number: style for style in self._sources.installed()}

    @cached_property
    def _helper_forms(self) -> HandForms:
        return read_forms(HELPER_FORMS)

    @cached_property
    def plain(self) -> PlainFace:
        return PlainFace(partial(self.prepare_face, PLAIN_FACE))

    def hand_for(self, choice: HandChoice) -> Hand:
        """The first call may take some seconds. Raises InvalidOwnHand if a private style is none."""
        if choice.own_hand is None:
            return self.hand(choice.number)
        return self._own_hand_once(choice)

    def style_for(self, choice: HandChoice) -> Style:
        return self.styles[choice.number] if choice.own_hand is None else self.hand_for(choice).style

    def _make_own_hand(self, choice: HandChoice) -> NaturalHand:
        assert choice.own_hand is not None
        own = OwnHand.from_bytes(choice.own_hand)
        return self._make_natural_hand(own.to_style(choice.number), own.forms, own.spacing)

    def hand(self, number: int) -> Hand:
        """The first call may take some seconds."""
        if number not in self._hands:
            style = self.styles.get(number)
            if style is None:
                raise LookupError(f"The handwriting style {number} is not installed.")
            self._hands[number] = self._make_hand(style)
        return self._hands[number]

    def _make_hand(self, style: Style) -> Hand:
        if style.lettering is not None:
            return LetteringHand(style, self.prepare_face(style.lettering), self._fallback_faces)
        assert style.movement is not None
        return self._make_natural_hand(style, read_forms(style.movement.forms), style.movement.spacing)

    def _make_natural_hand(self, style: Style, forms: HandForms, spacing: float) -> NaturalHand:
        alphabet = Alphabet(forms, self._helper_forms, spacing)
        without_helper = {font: face for font, face in self._fallback_faces.items() if font != HELPER_FONT}
        return NaturalHand(style, alphabet, without_helper)

    def prepare_face(self, face: FaceRecipe) -> PreparedFace:
        """From memory, from the store, or made now; concurrent callers wait for one preparation."""
        return self._prepare_once(face)

    def installed_faces(self) -> list[FaceRecipe]:
        """Those needed first come first."""
        lettering = [style.lettering for style in self.styles.values() if style.lettering is not None]
        faces = [PLAIN_FACE, *lettering, HELPER_FACE, *FALLBACK_FACES]
        return [face for face in faces if self._sources.read_font(face) is not None]

    def unprepared_faces(self) -> list[FaceRecipe]:
        keys = [(face, recipe_key(face, self._font_bytes(face))) for face in self.installed_faces()]
        return [face for face, key in keys if not self._store.has(key)]

    @cached_property
    def _fallback_faces(self) -> Mapping[bytes, PlainFace]:
        """In the order in which letters are borrowed; big faces are read only when needed."""
        fallbacks = [face for face in FALLBACK_FACES if self._sources.read_font(face) is not None]
        fallback_faces = {
            font: PlainFace(partial(self.prepare_face, face))
            for font, face in zip(FALLBACK_FONTS, fallbacks, strict=False)
        }
        helper = PlainFace(partial(self.prepare_face, HELPER_FACE), has_marks=False)
        return {HELPER_FONT: helper, PLAIN_FONT: self.plain, **fallback_faces}

    def _font_bytes(self, face: FaceRecipe) -> bytes:
        data = self._sources.read_font(face)
        if data is None:
            raise LookupError(f"The font of {face.face} is not installed.")
        return data

    def _load_or_prepare(self, face: FaceRecipe) -> PreparedFace:
        font_bytes = self._font_bytes(face)
        key = recipe_key(face, font_bytes)
        stored = self._store.get(key)
        if stored is not None:
            try:
                return PreparedFace.from_bytes(stored)
            except InvalidPreparedFace:
                pass  # cut short by a full disk, say: it is made again
        prepared = prepare_face(face, font_bytes)
        self._store.put(key, prepared.to_bytes())
        return prepared
