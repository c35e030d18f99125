"""Hands made by recipe: forms of traced faces, in the order in which they are preferred."""

import string
from collections.abc import Callable, Iterator

import numpy as np

from quillpost.rendering.handwriting.letterforms import HandForms, Letterform

from .forms import borrow_form, own_form
from .recipes import FaceSource, Recipe, Recipes
from .signs import COMPOSED_CHARS, compose_sign, draw_sign, drawn_signs
from .trace import TracedFace

FURTHER_CHARS = "“”‘’–—…•·°©®™€£¥¢§¿¡«»ßæÆœŒøØðÐþÞđĐłŁı×÷№½¼¾²³¹"
HAND_CHARS = "".join(map(chr, range(33, 127))) + FURTHER_CHARS
_CYRILLIC = "".join(map(chr, range(0x400, 0x460))) + "Ґґ"
_GREEK = "".join(chr(code) for code in range(0x386, 0x3CF) if code not in (0x387, 0x38B, 0x38D, 0x3A2))
_FURTHER_LATIN = "ĦħŊŋŦŧĸſªºƏəȷµ"
HELPER_CHARS = _CYRILLIC + _GREEK + _FURTHER_LATIN

_FIGURES_AND_LETTERS = frozenset(string.ascii_letters + string.digits + "&")
_MAX_FORMS_OF_SMALL, _MAX_FORMS = 4, 3
# What is in more pieces frays when it is bent.
_MAX_LINES_OF_SMALL, _MAX_LINES = 4, 5
TraceFace = Callable[[str], TracedFace]


def make_hand(recipe: Recipe, recipes: Recipes, trace: TraceFace) -> HandForms:
    host = trace(recipe.host)
    forms: dict[str, tuple[Letterform, ...]] = {}
    for char in HAND_CHARS:
        if char in _FIGURES_AND_LETTERS or char not in COMPOSED_CHARS:
            found = tuple(_find_forms(char, recipe, recipes, trace))
            if not found:
                raise LookupError(f"{recipe.name} has no {char}")
            forms[char] = found[: _MAX_FORMS_OF_SMALL if char.islower() else _MAX_FORMS]
    for char in HAND_CHARS:
        if char not in forms:
            forms[char] = (compose_sign(char, forms, host.slant),)
    return HandForms(forms, host.pen, host.slant)


def make_helper(recipes: Recipes, trace: TraceFace) -> HandForms:
    recipe = recipes.helper
    host = trace(recipe.host)
    forms: dict[str, tuple[Letterform, ...]] = {}
    for char in (*string.ascii_letters, *string.digits, *HELPER_CHARS):
        found = tuple(_fill_gap(char, recipe, recipes, trace))
        if found:
            forms[char] = found[:1]
    top = _capital_top(host)
    for char in sorted(drawn_signs()):
        forms[char] = tuple(draw_sign(char, host.slant, top))
    for char in sorted(COMPOSED_CHARS):
        if char not in forms:
            forms[char] = (compose_sign(char, forms, host.slant),)
    return HandForms({char: forms[char] for char in forms if char not in _FIGURES_AND_LETTERS}, host.pen, host.slant)


def _find_forms(char: str, recipe: Recipe, recipes: Recipes, trace: TraceFace) -> Iterator[Letterform]:
    host = trace(recipe.host)
    if char in recipes.drawn + recipe.drawn:
        yield from draw_sign(char, host.slant, _capital_top(host))
    elif char not in _FIGURES_AND_LETTERS:
        yield from _fill_gap(char, recipe, recipes, trace)
    else:
        found = list(_own_and_lent(char, recipe, recipes, trace))
        if char == "&":
            found += draw_sign(char, host.slant, _capital_top(host))
        yield from found or _fill_gap(char, recipe, recipes, trace)


def _own_and_lent(char: str, recipe: Recipe, recipes: Recipes, trace: TraceFace) -> Iterator[Letterform]:
    host = trace(recipe.host)
    if char not in recipe.without and _is_fit(char, host, recipes.faces[recipe.host]):
        yield own_form(char, host)
    for name, chars in recipe.lenders.items():
        lender = trace(name)
        if char in chars and _is_fit(char, lender, recipes.faces[name]):
            yield borrow_form(char, lender, host)


def _fill_gap(char: str, recipe: Recipe, recipes: Recipes, trace: TraceFace) -> Iterator[Letterform]:
    """A form of the first face that has one; else strokes of our own."""
    host = trace(recipe.host)
    if char not in recipe.without and _is_fit(char, host, recipes.faces[recipe.host]):
        yield own_form(char, host)
        return
    for name in (*recipe.kin, *recipe.lenders, *recipes.helper.faces):
        lender = trace(name)
        if _is_fit(char, lender, recipes.faces[name]):
            yield borrow_form(char, lender, host)
            return
    if char in drawn_signs():
        yield from draw_sign(char, host.slant, _capital_top(host))


def _is_fit(char: str, face: TracedFace, source: FaceSource) -> bool:
    letter = face.letters.get(char)
    if letter is None or char in source.unfit:
        return False
    return len(letter.lines) <= (_MAX_LINES_OF_SMALL if char.islower() else _MAX_LINES)


def _capital_top(face: TracedFace) -> float:
    tops = [face.letters[char].points[:, 1].max() for char in "EHMNT" if char in face.letters]
    return float(np.clip(np.median(tops), 1.3, 2.6))
