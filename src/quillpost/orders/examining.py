"""Everything that can be wrong with a wish by itself, found all at once, before anyone is asked."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from quillpost.audience.rules import Person, examine
from quillpost.composition.content import Sender, parse_colour
from quillpost.composition.hands.catalogue import Style
from quillpost.composition.words.variables import KNOWN, holds_variable, unknown_variables
from quillpost.kit.errors import Invalid
from quillpost.orders import pictures
from quillpost.orders.rules import Wish

Faults = dict[str, list[str]]

MOST_OWN_PICTURES = 50
LONGEST_URL = 2_048

# Who sends is looked up later: for the form of a URL any name will do.
SOMEONE = Sender("Someone", "Someone")

# In a URL %C3%A9 is a letter. %DATE% is none: its second sign starts no code.
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}(?=[^%]*(?:%[0-9A-Fa-f]{2}|$))")


def examine_wish(
    wish: Wish,
    *,
    styles: Mapping[int, Style],
    check_url: Callable[[str], str | None],
    known_faults: Mapping[str, Sequence[str]],
) -> tuple[Wish, list[Person]]:
    """The wish in its final form and its people; or `Invalid` with what was known and all that is found."""
    faults = {field: list(found) for field, found in known_faults.items()}
    _check_variables(wish, faults)
    if wish.style not in styles:
        known = ", ".join(f"{style.number} ({style.name})" for style in styles.values())
        faults["handwriting_style"] = [f"There is no handwriting style {wish.style}. Known: {known}."]
    colour = _colour(wish.handwriting_color, faults)
    people: list[Person] = []
    try:
        people = examine(wish.recipients)
    except Invalid as wrong:
        faults |= wrong.fields
    _check_urls(wish, people, check_url, faults)
    if faults:
        raise Invalid(faults)
    return replace(wish, handwriting_color=colour), people


def _urls(wish: Wish) -> dict[str, str]:
    named = {
        pictures.FRONT: wish.front_image_url,
        pictures.BACKGROUND: wish.background_url,
        "qrcode_url": wish.qrcode_url,
    }
    return {field: url for field, url in named.items() if url}


def _check_urls(
    wish: Wish, people: Sequence[Person], check_url: Callable[[str], str | None], faults: Faults
) -> None:
    """Each URL as it will be used. Where people are at fault, what would be filled with their words waits."""
    for field, url in _urls(wish).items():
        wrong = _wrong_url(url, field, wish, people, check_url)
        if wrong is not None:
            faults.setdefault(field, []).append(wrong)


def _wrong_url(
    url: str, field: str, wish: Wish, people: Sequence[Person], check_url: Callable[[str], str | None]
) -> str | None:
    if not holds_variable(url):
        return check_url(url)
    if len(url) > LONGEST_URL:
        return f"The URL is longer than {LONGEST_URL} characters."
    filled = pictures.first_places(pictures.filled_urls(url, wish, people, SOMEONE))
    for own, place in filled.items():
        wrong = check_url(own)
        if wrong is not None:
            return f"{wrong} ({pictures.whose(place)})"
    if field != "qrcode_url" and len(filled) > MOST_OWN_PICTURES:
        return f"The URL names {len(filled):,} different pictures: at most {MOST_OWN_PICTURES} in one call."
    return None


def _check_variables(wish: Wish, faults: Faults) -> None:
    urls = {field: _ENCODED.sub(" ", url) for field, url in _urls(wish).items()}
    for field, text in ({"message": wish.message} | urls).items():
        unknown = unknown_variables(text)
        if unknown:
            names = ", ".join(f"%{name}%" for name in unknown)
            known = ", ".join(f"%{name}%" for name in KNOWN)
            faults.setdefault(field, []).append(f"Unknown variable {names}. Known variables: {known}.")


def _colour(text: str, faults: Faults) -> str:
    try:
        return parse_colour(text).rgba_text
    except ValueError as unknown:
        faults["handwriting_color"] = [str(unknown)]
        return text
