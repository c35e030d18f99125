"""The form of a message template."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from quillpost.client.templates import ImageTemplateType, MessageTemplateType
from quillpost.core.errors import Invalid
from quillpost.orders.models import MANNER_FIELD, REALISM_FIELD
from quillpost.orders.templates.models import MessageTemplate
from quillpost.orders.templates.rules import GIFT_REQUIRED, MAX_URL_LENGTH
from quillpost.rendering.handwriting.models import MANNER_NAMES
from quillpost.web.api.templates.schemas import MAX_CONTENT_LENGTH
from quillpost.web.dashboard.labels import TYPE_NAMES, ink_fields, read_ink
from quillpost.web.forms import INVALID_CHOICE, Form

URL_FIELDS: Final = (
    "qrcode_url", "custom_background_url", "additional_pages", "pdf_only_url", "landing_page_url",
)  # fmt: skip

FORM_FIELDS: Final[Mapping[str, str]] = {"giftcard_brand_code": "gift", "giftcard_amount": "gift"}
"""By a field of the API, a field of the form with another name."""


def read_template_fields(form: Form) -> dict[str, Any]:
    """As the API takes them: empty is null, and clears. Without a field for it, the sub account stays."""
    brand, amount = _parse_gift(form.text("gift"))
    manner = form.text(MANNER_FIELD)
    if manner not in ("", *MANNER_NAMES):
        raise Invalid({MANNER_FIELD: [INVALID_CHOICE]})
    return {
        "type": form.text("type"),
        "name": form.text("name"),
        "content": form.text("content", max_length=MAX_CONTENT_LENGTH).replace("\r\n", "\n"),
        "handwriting_style_id": form.number("handwriting_style_id"),
        "font_size": form.text("font_size") or None,
        "font_color": read_ink(form, "font_color"),
        REALISM_FIELD: None,
        MANNER_FIELD: manner or None,
        "signature_id": form.number("signature_id"),
        "cc_emails": form.text("cc_emails", max_length=5_000),
        "giftcard_brand_code": brand,
        "giftcard_amount": amount,
        **({"sub_account_id": form.number("sub_account_id")} if "sub_account_id" in form.fields else {}),
        **{name: form.text(name, max_length=MAX_URL_LENGTH) or None for name in URL_FIELDS},
    }


def template_form_fields(template: MessageTemplate) -> dict[str, list[str]]:
    values: dict[str, object] = {
        "type": template.type,
        "name": template.name,
        "content": template.content,
        "handwriting_style_id": template.handwriting_style_id,
        "font_size": template.font_size,
        MANNER_FIELD: template.stated_manner,
        "signature_id": template.signature_id,
        "cc_emails": ", ".join(template.cc_emails),
        "gift": gift_value(template.giftcard_brand_code, template.giftcard_amount),
        "sub_account_id": template.sub_account_id,
        **{name: getattr(template, name) for name in URL_FIELDS},
    }
    ink = ink_fields("font_color", template.font_color) if template.font_color else {}
    return {name: [] if value is None else [str(value)] for name, value in values.items()} | ink


def to_form_errors(error: Invalid) -> Invalid:
    errors: dict[str, list[str]] = {}
    for name, api_messages in error.fields.items():
        field = FORM_FIELDS.get(name, name.partition(".")[0])
        # One choice stands for the card and its amount: only the card is missing.
        if messages := [message for message in api_messages if message != GIFT_REQUIRED["giftcard_amount"]]:
            errors.setdefault(field, []).extend(messages)
    return Invalid(errors)


def gift_value(brand: str | None, cents: int | None) -> str | None:
    """One choice stands for the card and its amount."""
    return None if brand is None else f"{brand}:{cents or ''}"


def _parse_gift(value: str) -> tuple[str | None, int | None]:
    brand, _, cents = value.partition(":")
    if not brand:
        return None, None
    if not (cents.isascii() and cents.isdigit() and len(cents) < 10):
        raise Invalid({"gift": [INVALID_CHOICE]})
    return brand, int(cents)


MESSAGE_TYPES: Final = [(name, TYPE_NAMES[name]) for name in get_args(MessageTemplateType)]
IMAGE_TYPES: Final = [(name, TYPE_NAMES[name]) for name in get_args(ImageTemplateType)]
