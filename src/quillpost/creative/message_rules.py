"""What a message template may say, by its type."""

from collections.abc import Mapping

from quillpost.composition.content import parse_colour
from quillpost.composition.hands.catalogue import Style
from quillpost.composition.words.variables import holds_variable
from quillpost.creative.templates import MessageDraft
from quillpost.creative.wording import CheckUrl, wrong_saved_url, wrong_style, wrong_variables
from quillpost.kit.errors import Invalid

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
