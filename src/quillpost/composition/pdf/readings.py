"""What each glyph of a face reads as, ligatures and alternates included."""

import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from fontTools import agl
from fontTools.ttLib import TTFont

from quillpost.composition.hands.prepared import Prepared

_SINGLE, _ALTERNATE, _LIGATURE, _EXTENSION, _REVERSE = 1, 3, 4, 7, 8


@lru_cache(maxsize=64)
def readings(prepared: Prepared) -> dict[int, str]:
    """Base glyph to letter, for glyphs that a letter stands for by itself.

    Of several letters with one shape the first code point is meant.
    """
    found: dict[int, str] = {}
    for letter in sorted(prepared.letters):
        found.setdefault(prepared.letters[letter], letter)
    return found


@lru_cache(maxsize=32)
def shaped_readings(prepared: Prepared) -> dict[int, str]:
    """The same, and what shaping makes of letters: a ligature reads as the letters that it joins."""
    font = TTFont(io.BytesIO(prepared.source), lazy=True)
    known = {font.getGlyphName(prepared.source_numbers[b]): text for b, text in readings(prepared).items()}
    rules = list(_rules(font)) if "GSUB" in font else []
    grown = True
    while grown:
        before = len(known)
        for result, parts in rules:
            if result not in known and all(part in known for part in parts):
                known[result] = "".join(known[part] for part in parts)
        grown = len(known) > before
    names = map(font.getGlyphName, prepared.source_numbers)
    # Marks that only ever come with a letter have no code, but they have telling names.
    texts = (known.get(name) or agl.toUnicode(name) for name in names)
    return {base: text for base, text in enumerate(texts) if text}


def _rules(font: TTFont) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every substitution as its result and what it replaces, whatever its context."""
    lookups = font["GSUB"].table.LookupList
    for lookup in lookups.Lookup if lookups else ():
        for table in lookup.SubTable:
            if lookup.LookupType == _EXTENSION:
                yield from _substitutions(table.ExtensionLookupType, table.ExtSubTable)
            else:
                yield from _substitutions(lookup.LookupType, table)


def _substitutions(kind: int, table: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    if kind == _SINGLE:
        for replaced, result in table.mapping.items():
            yield result, (replaced,)
    elif kind == _ALTERNATE:
        for replaced, results in table.alternates.items():
            for result in results:
                yield result, (replaced,)
    elif kind == _LIGATURE:
        for first, ligatures in table.ligatures.items():
            for ligature in ligatures:
                yield ligature.LigGlyph, (first, *ligature.Component)
    elif kind == _REVERSE:
        for replaced, result in zip(table.Coverage.glyphs, table.Substitute, strict=True):
            yield result, (replaced,)
