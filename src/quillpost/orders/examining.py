"""Everything that can be wrong with a wish by itself, found all at once, before anyone is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from quillpost.audience.rules import Person, examine
from quillpost.composition.content import parse_colour
from quillpost.composition.words.variables import KNOWN, unknown_variables
from quillpost.kit.errors import Invalid
from quillpost.orders.rules import Wish

HANDS = {1: "Zeyada"}
"""The handwriting styles that can be asked for."""

Faults = dict[str, list[str]]


def examine_wish(
    wish: Wish, *, check_url: Callable[[str], str | None], known_faults: Mapping[str, Sequence[str]]
) -> tuple[Wish, list[Person]]:
    """The wish in its final form and its people; or `Invalid` with what was known and all that is found."""
    faults = {field: list(found) for field, found in known_faults.items()}
    _check_urls(wish, check_url, faults)
    _check_variables(wish, faults)
    if wish.style not in HANDS:
        known = ", ".join(f"{number} ({name})" for number, name in HANDS.items())
        faults["handwriting_style"] = [f"There is no handwriting style {wish.style}. Known: {known}."]
    colour = _colour(wish.handwriting_color, faults)
    people: list[Person] = []
    try:
        people = examine(wish.recipients)
    except Invalid as wrong:
        faults |= wrong.fields
    if faults:
        raise Invalid(faults)
    return replace(wish, handwriting_color=colour), people


def _check_urls(wish: Wish, check_url: Callable[[str], str | None], faults: Faults) -> None:
    for field, url in (
        ("front_image_url", wish.front_image_url),
        ("custom_background_image", wish.background_url),
        ("qrcode_url", wish.qrcode_url),
    ):
        wrong = check_url(url) if url else None
        if wrong is not None:
            faults.setdefault(field, []).append(wrong)


def _check_variables(wish: Wish, faults: Faults) -> None:
    for field, text in (("message", wish.message), ("qrcode_url", wish.qrcode_url or "")):
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
