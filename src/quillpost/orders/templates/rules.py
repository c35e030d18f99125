"""What a template may say."""

import re
from collections.abc import Callable, Mapping

from quillpost.core.errors import Invalid
from quillpost.orders.templates.service import MessageDraft
from quillpost.rendering.handwriting.catalog import Style
from quillpost.rendering.models import NO_CUSTOM, Addressee, Sender, parse_colour
from quillpost.rendering.text.variables import KNOWN, fill_url, holds_variable, unknown_variables

CheckUrl = Callable[[str], str | None]

LONGEST_URL = 2_048

SOMEONE = Sender("Someone", "Someone")
"""For the form of a URL any sender's name will do."""

# The same for recipients. A digit fits wherever a word does, and in the place of a port as well.
ANYONE = Addressee(
    name="1", company="1", address="1", address2="1", city="1", province="1", postal_code="1", country="1",
    email="1", phone="1", dob="1", anniversary="1", custom=("1",) * len(NO_CUSTOM),
)  # fmt: skip

# In a URL %C3%A9 is a letter. %DATE% is none: its second sign starts no code.
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}(?=[^%]*(?:%[0-9A-Fa-f]{2}|$))")


def wrong_variables(text: str) -> str | None:
    """What is wrong with the variables in a text that is written."""
    unknown = unknown_variables(text)
    if not unknown:
        return None
    names = ", ".join(f"%{name}%" for name in unknown)
    known = ", ".join(f"%{name}%" for name in KNOWN)
    return f"Unknown variable {names}. Known variables: {known}."


def wrong_variables_of_url(url: str) -> str | None:
    """The same for a URL, where a percent sign may also stand for a letter."""
    return wrong_variables(_ENCODED.sub(" ", url))


def wrong_saved_url(url: str, check_url: CheckUrl) -> str | None:
    """What is wrong with a URL that is filled later, for people who are not known yet."""
    if len(url) > LONGEST_URL:
        return f"The URL is longer than {LONGEST_URL} characters."
    return wrong_variables_of_url(url) or check_url(
        fill_url(url, ANYONE, SOMEONE) if holds_variable(url) else url
    )


def wrong_style(number: int, styles: Mapping[int, Style]) -> str | None:
    """What is wrong with a handwriting style's number."""
    if number in styles:
        return None
    known = ", ".join(f"{style.number} ({style.name})" for style in styles.values())
    return f"There is no handwriting style {number}. Known: {known}."


LETTERS = frozenset({"letter", "windowlessletter"})
CARDS = frozenset({"postcard", "postcard6x11", "notecard", "giftcard", "magnacard"})
GIFTCARD = frozenset({"giftcard"})

USED_BY: Mapping[str, frozenset[str]] = {
    "additional_pages": LETTERS,
    "pdf_only_url": LETTERS,
    "custom_background_url": CARDS,
    "giftcard_brand_code": GIFTCARD,
    "giftcard_amount": GIFTCARD,
    "landing_page_url": GIFTCARD,
}
"""The types that have a use for a field; all the others are of use to each."""

ONE_FOR_ALL: Mapping[str, str] = {
    "additional_pages": "A PDF",
    "pdf_only_url": "A PDF",
    "landing_page_url": "A landing page",
}
"""What is the same for everyone, whoever they are."""

URLS = (*ONE_FOR_ALL, "custom_background_url", "qrcode_url")


def unused_fields(draft: MessageDraft) -> list[str]:
    """What is set although the type has no use for it."""
    return [
        name
        for name, types in USED_BY.items()
        if draft.type not in types and getattr(draft, name) is not None
    ]


def without_unused(draft: MessageDraft) -> MessageDraft:
    return draft.changed(dict.fromkeys(unused_fields(draft)))


def examine_draft(
    draft: MessageDraft,
    *,
    styles: Mapping[int, Style],
    check_url: CheckUrl,
    most_characters: int,
    known_faults: Mapping[str, str],
) -> None:
    """Raise `Invalid` with what was known and everything that is found."""
    found = dict(known_faults) | {
        name: _wrong_url(name, url, check_url) for name in URLS if (url := getattr(draft, name)) is not None
    }
    found["content"] = _wrong_content(draft, most_characters)
    if draft.handwriting_style_id is not None:
        found["handwriting_style_id"] = wrong_style(draft.handwriting_style_id, styles)
    if draft.font_color is not None:
        found["font_color"] = _wrong_colour(draft.font_color)
    if draft.type in GIFTCARD:
        found |= {
            name: f"A gift card template needs {name}."
            for name in ("giftcard_brand_code", "giftcard_amount")
            if getattr(draft, name) is None
        }
    faults = {name: [wrong] for name, wrong in found.items() if wrong is not None}
    if faults:
        raise Invalid(faults)


def _wrong_content(draft: MessageDraft, most_characters: int) -> str | None:
    if not draft.content.strip():
        instead = "a pdf_only_url" if draft.type in LETTERS else "a custom_background_url"
        is_drawn_elsewhere = draft.skip_creative_generation or draft.custom_background_url is not None
        return None if is_drawn_elsewhere else f"Give the content, or {instead}."
    if len(draft.content) > most_characters:
        return f"At most {most_characters:,} characters, please."
    return wrong_variables(draft.content)


def _wrong_url(name: str, url: str, check_url: CheckUrl) -> str | None:
    if name in ONE_FOR_ALL and holds_variable(url):
        return f"{ONE_FOR_ALL[name]} is the same for everyone: its URL cannot hold variables."
    return wrong_saved_url(url, check_url)


def _wrong_colour(text: str) -> str | None:
    try:
        parse_colour(text)
    except ValueError as unknown:
        return str(unknown)
    return None
