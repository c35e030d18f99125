"""The form of a message template."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from quillpost.core.errors import Invalid
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.orders.templates.service import MessageTemplate
from quillpost.web.api.image_templates.schemas import ImageType
from quillpost.web.api.message_templates.schemas import LONGEST_CONTENT, MessageType
from quillpost.web.dashboard.labels import TYPE_NAMES, ink_in, ink_typed
from quillpost.web.forms import NO_CHOICE, Form

URLS: Final = (
    "qrcode_url", "custom_background_url", "additional_pages", "pdf_only_url", "landing_page_url",
)  # fmt: skip
REALISM: Final[Mapping[str, bool]] = {"on": True, "off": False}

SHOWN_AT: Final[Mapping[str, str]] = {"giftcard_brand_code": "gift", "giftcard_amount": "gift"}
"""Where the form has another field than the API."""
PLAINLY: Final[Mapping[str, str]] = {
    "A gift card template needs giftcard_brand_code.": "Choose the gift card that it brings.",
    "A gift card template needs giftcard_amount.": "",
    "Give the content, or a custom_background_url.": "Write the message, or give a background image.",
    "Give the content, or a pdf_only_url.": "Write the message, or give the address of a PDF.",
}
"""Sentences for programs, as people are told."""


def values_of(form: Form) -> dict[str, Any]:
    """All fields as the API takes them: what is empty is null, and clears. Where the form has no place for
    a sub account, it stays."""
    brand, amount = _gift(form.text("gift"))
    realism = form.text("handwriting_realism")
    if realism not in ("", *REALISM):
        raise Invalid({"handwriting_realism": [NO_CHOICE]})
    return {
        "type": form.text("type"),
        "name": form.text("name"),
        "content": form.text("content", most=LONGEST_CONTENT).replace("\r\n", "\n"),
        "handwriting_style_id": form.number("handwriting_style_id"),
        "font_size": form.text("font_size") or None,
        "font_color": ink_in(form, "font_color"),
        "handwriting_realism": REALISM.get(realism),
        "cc_emails": form.text("cc_emails", most=5_000),
        "giftcard_brand_code": brand,
        "giftcard_amount": amount,
        **({"sub_account_id": form.number("sub_account_id")} if "sub_account_id" in form.fields else {}),
        **{name: form.text(name, most=LONGEST_URL) or None for name in URLS},
    }


def typed_of(template: MessageTemplate) -> dict[str, list[str]]:
    """What stands in the form of a template that there is."""
    realism = template.handwriting_realism
    shown: dict[str, object] = {
        "type": template.type,
        "name": template.name,
        "content": template.content,
        "handwriting_style_id": template.handwriting_style_id,
        "font_size": template.font_size,
        "handwriting_realism": None if realism is None else "on" if realism else "off",
        "cc_emails": ", ".join(template.cc_emails),
        "gift": gift_value(template.giftcard_brand_code, template.giftcard_amount),
        "sub_account_id": template.sub_account_id,
        **{name: getattr(template, name) for name in URLS},
    }
    ink = ink_typed("font_color", template.font_color) if template.font_color else {}
    return {name: [] if value is None else [str(value)] for name, value in shown.items()} | ink


def as_told(refused: Invalid) -> Invalid:
    """The same faults at the fields that the form has, in people's words."""
    faults: dict[str, list[str]] = {}
    for name, sentences in refused.fields.items():
        place = SHOWN_AT.get(name, name.partition(".")[0])
        told = [PLAINLY.get(sentence, sentence) for sentence in sentences]
        if told := [sentence for sentence in told if sentence]:
            faults.setdefault(place, []).extend(told)
    return Invalid(faults)


def gift_value(brand: str | None, cents: int | None) -> str | None:
    """One choice stands for both: the card and what it is worth."""
    return None if brand is None else f"{brand}:{cents or ''}"


def _gift(chosen: str) -> tuple[str | None, int | None]:
    brand, _, cents = chosen.partition(":")
    if not brand:
        return None, None
    if not (cents.isascii() and cents.isdigit() and len(cents) < 10):
        raise Invalid({"gift": [NO_CHOICE]})
    return brand, int(cents)


MESSAGE_TYPES: Final = [(name, TYPE_NAMES[name]) for name in get_args(MessageType)]
IMAGE_TYPES: Final = [(name, TYPE_NAMES[name]) for name in get_args(ImageType)]
