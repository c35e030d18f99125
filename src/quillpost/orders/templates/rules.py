"""What a template may say."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from quillpost.core.errors import Invalid, Message
from quillpost.orders.templates.models import MessageTemplateValues
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.models import NO_CUSTOM_FIELDS, Addressee, SenderName, parse_color
from quillpost.rendering.text.variables import VARIABLE_NAMES, fill_url, find_unknown_variables, has_variables

CheckUrl = Callable[[str], str | None]

MAX_URL_LENGTH = 2_048

SAMPLE_SENDER = SenderName("Someone", "Someone")
"""To check the form of a URL."""

# The same for recipients. A digit fits wherever a word does, and in the place of a port as well.
SAMPLE_ADDRESSEE = Addressee(
    name="1", company="1", address="1", address2="1", city="1", province="1", postal_code="1", country="1",
    email="1", phone="1", dob="1", anniversary="1", custom=("1",) * len(NO_CUSTOM_FIELDS),
)  # fmt: skip

# In a URL %C3%A9 is a letter. %DATE% is a variable: its second sign starts no code.
_PERCENT_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}(?=[^%]*(?:%[0-9A-Fa-f]{2}|$))")


def unknown_variables_error(unknown_names: Sequence[str]) -> Message:
    unknown_list = ", ".join(f"%{name}%" for name in unknown_names)
    known_list = ", ".join(f"%{name}%" for name in VARIABLE_NAMES)
    message = f"Unknown variable {unknown_list}. Known variables: {known_list}."
    return Message("unknown_variable", message, names=list(unknown_names))


def url_variables_error(url: str) -> str | None:
    """In a URL a percent sign may also encode a character."""
    unknown_names = find_unknown_variables(_PERCENT_ENCODED.sub(" ", url))
    return unknown_variables_error(unknown_names) if unknown_names else None


def saved_url_error(url: str, check_url: CheckUrl) -> str | None:
    """For a URL that is filled later."""
    if len(url) > MAX_URL_LENGTH:
        return f"The URL is longer than {MAX_URL_LENGTH} characters."
    return url_variables_error(url) or check_url(
        fill_url(url, SAMPLE_ADDRESSEE, SAMPLE_SENDER) if has_variables(url) else url
    )


def unknown_style_error(number: int, styles: Mapping[int, Style]) -> str:
    style_list = ", ".join(f"{style.number} ({style.name})" for style in styles.values())
    return f"There is no handwriting style {number}. Known: {style_list}."


LETTER_TYPES = frozenset({"letter", "windowlessletter"})
CARD_TYPES = frozenset({"postcard", "postcard6x11", "notecard", "giftcard", "magnacard"})
GIFTCARD_TYPES = frozenset({"giftcard"})

FIELD_TYPES: Mapping[str, frozenset[str]] = {
    "additional_pages": LETTER_TYPES,
    "pdf_only_url": LETTER_TYPES,
    "custom_background_url": CARD_TYPES,
    "giftcard_brand_code": GIFTCARD_TYPES,
    "giftcard_amount": GIFTCARD_TYPES,
    "landing_page_url": GIFTCARD_TYPES,
}
"""Which types use a field; fields not named here are used by all."""

SHARED_URL_LABELS: Mapping[str, str] = {
    "additional_pages": "A PDF",
    "pdf_only_url": "A PDF",
    "landing_page_url": "A landing page",
}
"""URLs that are the same for everyone."""

URL_FIELDS = (*SHARED_URL_LABELS, "custom_background_url", "qrcode_url")

GIFT_REQUIRED: Mapping[str, Message] = {
    "giftcard_brand_code": Message("gift_brand_missing", "A gift card template needs giftcard_brand_code."),
    "giftcard_amount": Message("gift_amount_missing", "A gift card template needs giftcard_amount."),
}


def find_unused_fields(template: MessageTemplateValues) -> list[str]:
    return [
        name
        for name, types in FIELD_TYPES.items()
        if template.type not in types and getattr(template, name) is not None
    ]


def clear_unused_fields(template: MessageTemplateValues) -> MessageTemplateValues:
    return template.with_values(dict.fromkeys(find_unused_fields(template)))


def validate_template(
    template: MessageTemplateValues,
    *,
    styles: Mapping[int, Style],
    own_styles: Collection[int],
    check_url: CheckUrl,
    max_characters: int,
    known_errors: Mapping[str, str],
) -> None:
    """Raise `Invalid` with the known errors and all others."""
    messages = dict(known_errors) | {
        name: _url_error(name, url, check_url) for name in URL_FIELDS if (url := getattr(template, name)) is not None
    }
    messages["content"] = _content_error(template, max_characters)
    style = template.handwriting_style_id
    if style is not None and style not in styles and style not in own_styles:
        messages["handwriting_style_id"] = unknown_style_error(style, styles)
    if template.font_color is not None:
        messages["font_color"] = _color_error(template.font_color)
    if template.type in GIFTCARD_TYPES:
        messages |= {name: message for name, message in GIFT_REQUIRED.items() if getattr(template, name) is None}
    errors = {name: [message] for name, message in messages.items() if message is not None}
    if errors:
        raise Invalid(errors)


def _content_error(template: MessageTemplateValues, max_characters: int) -> str | None:
    if not template.content.strip():
        if template.skip_creative_generation or template.custom_background_url is not None:
            return None
        if template.type in LETTER_TYPES:
            return Message("content_or_pdf_missing", "Give the content, or a pdf_only_url.")
        return Message("content_or_background_missing", "Give the content, or a custom_background_url.")
    if len(template.content) > max_characters:
        return f"At most {max_characters:,} characters, please."
    unknown_names = find_unknown_variables(template.content)
    return unknown_variables_error(unknown_names) if unknown_names else None


def _url_error(name: str, url: str, check_url: CheckUrl) -> str | None:
    if name in SHARED_URL_LABELS and has_variables(url):
        return f"{SHARED_URL_LABELS[name]} is the same for everyone: its URL cannot hold variables."
    return saved_url_error(url, check_url)


def _color_error(text: str) -> str | None:
    try:
        parse_color(text)
    except ValueError as invalid_color:
        return str(invalid_color)
    return None
