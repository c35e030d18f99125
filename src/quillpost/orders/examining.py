"""Everything that can be wrong with a wish by itself, found all at once, before anyone is asked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from quillpost.audience.rules import Person, examine
from quillpost.composition.content import parse_colour
from quillpost.composition.hands.catalogue import Style
from quillpost.composition.words.variables import holds_variable
from quillpost.creative.wording import (
    LONGEST_URL,
    SOMEONE,
    CheckUrl,
    wrong_style,
    wrong_variables,
    wrong_variables_of_url,
)
from quillpost.kit.errors import Invalid
from quillpost.orders import pictures
from quillpost.orders.calls import Faults
from quillpost.orders.wish import Source, Wish

MOST_OWN_PICTURES = 50


def examine_wish(
    wish: Wish,
    *,
    styles: Mapping[int, Style],
    check_url: CheckUrl,
    known_faults: Mapping[str, Sequence[str]],
) -> tuple[Wish, list[Person]]:
    """The wish in its final form and its people; or `Invalid` with what was known and all that is found."""
    faults = {field: list(found) for field, found in known_faults.items()}
    _check_variables(wish, faults)
    if unknown := wrong_style(wish.style, styles):
        faults["handwriting_style"] = [unknown]
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


def _sources(wish: Wish) -> Iterator[tuple[Source, str, bool]]:
    """What the wish names by address: with the address, and whether it is a picture."""
    for source, is_picture in (
        (wish.front, True),
        (wish.background, True),
        (wish.logo, False),
        (wish.pages, False),
        (wish.code, False),
        (wish.landing, False),
    ):
        if source is not None and source.url is not None and source.file is None:
            yield source, source.url, is_picture


def _check_urls(wish: Wish, people: Sequence[Person], check_url: CheckUrl, faults: Faults) -> None:
    """Each URL as it will be used. Where people are at fault, what would be filled with their words waits."""
    for source, url, is_picture in _sources(wish):
        wrong = _wrong_url(url, wish, people, check_url, is_picture=is_picture)
        if wrong is None and holds_variable(url) and source != wish.code:
            wrong = _not_for_everyone(wish, is_picture=is_picture)
        if wrong is not None:
            _blame(source, wrong, faults)


def _wrong_url(
    url: str, wish: Wish, people: Sequence[Person], check_url: CheckUrl, *, is_picture: bool
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
    if is_picture and len(filled) > MOST_OWN_PICTURES:
        return f"The URL names {len(filled):,} different pictures: at most {MOST_OWN_PICTURES} in one call."
    return None


def _not_for_everyone(wish: Wish, *, is_picture: bool) -> str | None:
    """What a recipient of their own may have is a picture, and it is fetched while the caller waits."""
    if not is_picture:
        return "It is the same for everyone: its URL takes no variables."
    if wish.radius is not None:
        return "With a radius_search the picture is the same for everyone: its URL takes no variables."
    if wish.mailing_list_ids:
        return "With mailing_list_ids the picture is the same for everyone: its URL takes no variables."
    return None


def _check_variables(wish: Wish, faults: Faults) -> None:
    found = [(Source(wish.message_field), wrong_variables(wish.message))]
    found += [(source, wrong_variables_of_url(url)) for source, url, _ in _sources(wish)]
    for source, wrong in found:
        if wrong is not None:
            _blame(source, wrong, faults)


def _blame(source: Source, wrong: str, faults: Faults) -> None:
    told = f"{wrong} ({source.part})" if source.part else wrong
    faults.setdefault(source.field, []).append(told)


def _colour(text: str, faults: Faults) -> str:
    try:
        return parse_colour(text).rgba_text
    except ValueError as unknown:
        faults["handwriting_color"] = [str(unknown)]
        return text
