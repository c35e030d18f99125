"""The form of an automation, and what it does in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quillpost.core import exact_json
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.automations.queries import Automation
from quillpost.orders.models import MANNER_FIELD, REALISM_FIELD, HandwritingOptions
from quillpost.orders.products import FRONT_REQUIRED
from quillpost.web.api.automations.schemas import PRODUCTS_BY_PATH
from quillpost.web.dashboard.compose import forms as compose_forms
from quillpost.web.dashboard.compose.forms import PRODUCT_CHOICES, TEMPLATE_GONE, ProductChoice
from quillpost.web.dashboard.labels import TYPE_NAMES
from quillpost.web.forms import Form
from quillpost.web.messages import page_text

TRIGGER_LABELS: Final[Mapping[str, tuple[str, str]]] = {
    "list_entry": ("Somebody joins a list", "Whoever comes onto the list after it is switched on."),
    "scan": ("Somebody scans a QR code", "Of mail to the list or, without a list, of any mail of yours."),
    "date": ("It is somebody's day", "A birthday or an anniversary of those on the list, every year."),
}

DATE_LABELS: Final[Mapping[str, str]] = {"dob": "birthday", "anniversary": "anniversary"}


def describe_automation(automation: Automation, list_name: str | None) -> str:
    """`7 days before somebody on Customers has their birthday: a notecard.`"""
    return f"{_describe_trigger(automation, list_name)}: {product_phrase(automation)}."


def product_phrase(automation: Automation) -> str:
    offer = PRODUCTS_BY_PATH.get(automation.piece)
    return f"a {TYPE_NAMES[offer.product.name].lower()}" if offer else automation.piece


def find_choice_key(product_path: object, size: object) -> str | None:
    return next((key for key, each in PRODUCT_CHOICES.items() if _matches_choice(each, product_path, size)), None)


def _describe_trigger(automation: Automation, list_name: str | None) -> str:
    if automation.trigger == "list_entry":
        return f"When somebody joins {list_name}"
    if automation.trigger == "scan":
        mail_label = f"mail to {list_name}" if list_name else "any of your mail"
        return f"When somebody scans the QR code of {mail_label}"
    day = f"somebody on {list_name} has their {DATE_LABELS.get(automation.date_field or '', 'day')}"
    days = abs(automation.days_offset)
    if not days:
        return f"On the day that {day}"
    direction = "before" if automation.days_offset < 0 else "after"
    return f"{days} day{'' if days == 1 else 's'} {direction} {day}"


def _matches_choice(choice: ProductChoice, product_path: object, size: object) -> bool:
    return product_path in choice.offer.product.paths and (choice.size is None or choice.size == (size or "4x6"))


FORM_ERROR_KEY: Final = "form"
"""Errors of fields that the form does not have."""

AUTOMATION_FIELDS: Final = (
    "name", "trigger", "mailing_list_id", "date_field", "days_offset", "daily_limit", "enabled",
)  # fmt: skip
FORM_ONLY_FIELDS: Final = ("piece", "sub_account_id", "days", "image")
"""Errors that already name a field of the form."""
INVALID_DAYS: Final = "Give a whole number of days."
REFUSED_FIELDS: Final[Mapping[str | None, str]] = {**compose_forms.REFUSED_FIELDS, "list_unknown": "mailing_list_id"}


def read_automation_fields(form: Form, *, current: Automation | None = None) -> dict[str, Any]:
    """As the API has them. What the former send has beyond this form stays."""
    is_date = form.text("trigger") == "date"
    return {
        "name": form.text("name"),
        "trigger": form.text("trigger"),
        "mailing_list_id": form.number("mailing_list_id"),
        "date_field": (form.text("date_field") or None) if is_date else None,
        "days_offset": _read_offset(form) if is_date else 0,
        "daily_limit": form.text("daily_limit") or None,
        "send": _read_send(form, current),
    }


def automation_form_fields(automation: Automation) -> dict[str, Sequence[str]]:
    send = exact_json.parse_json(automation.send.encode())
    body_fields = PRODUCTS_BY_PATH[automation.piece].body.model_fields
    send_fields = {name: send[spellings[0]] for name in body_fields if (spellings := _find_spellings(send, name))}
    values: dict[str, object] = {
        "name": automation.name,
        "trigger": automation.trigger,
        "mailing_list_id": automation.mailing_list_id,
        "date_field": automation.date_field,
        "days": abs(automation.days_offset) or None,
        "side": "before" if automation.days_offset < 0 else "after",
        "daily_limit": automation.daily_limit,
        "sub_account_id": automation.sub_account_id,
        **{
            field: send_fields.get(name)
            for name, field in compose_forms.DESIGN_FORM_FIELDS.items()
            if send_fields.get(name) is not None
        },
        "piece": find_choice_key(automation.piece, send_fields.get("size")),
        "manner": _find_manner(send_fields),
        "image": "template"
        if send_fields.get("image_template")
        else "url"
        if send_fields.get("front_image_url")
        else "",
        "pdf_is": "whole" if send_fields.get("pdf_only_url") else "more",
    }
    return {name: [str(value)] for name, value in values.items() if value is not None}


def _find_manner(send_fields: Mapping[str, Any]) -> str | None:
    options = HandwritingOptions(
        handwriting_realism=send_fields.get(REALISM_FIELD), handwriting_manner=send_fields.get(MANNER_FIELD)
    )
    return options.stated_manner


def to_form_errors(error: Invalid | Refused) -> Invalid:
    """The errors by the fields of the form, in the sentences of the page."""
    if isinstance(error, Refused):
        refused_field = REFUSED_FIELDS.get(error.code)
        return Invalid({refused_field: [TEMPLATE_GONE]} if refused_field else {FORM_ERROR_KEY: [error.message]})
    errors: dict[str, list[str]] = {}
    lacks_message = "send.message" in error.fields
    for path, api_messages in error.fields.items():
        field = _find_form_field(path)
        if FRONT_REQUIRED in api_messages:
            if lacks_message:
                continue  # with a message it needs no picture: only one of them is reported missing
            field = "image"
        prefix = f"{path.removeprefix('send.').replace('_', ' ').capitalize()}: " if field == FORM_ERROR_KEY else ""
        messages = errors.setdefault(field, [])
        messages += [prefix + page_text(message) for message in api_messages]
    return Invalid(errors)


def _find_form_field(path: str) -> str:
    if path in AUTOMATION_FIELDS:
        return "days" if path == "days_offset" else path
    name = path.removeprefix("send.")
    if name in FORM_ONLY_FIELDS or name in compose_forms.DESIGN_FORM_FIELDS.values():
        return name
    return compose_forms.DESIGN_FORM_FIELDS.get(name, FORM_ERROR_KEY)


def _read_offset(form: Form) -> int:
    days = form.text("days") or "0"
    if not (days.isascii() and days.isdigit() and len(days) < 5):
        raise Invalid({"days": [INVALID_DAYS]})
    return -int(days) if form.text("side") == "before" else int(days)


def _read_send(form: Form, current: Automation | None) -> dict[str, Any]:
    choice = compose_forms.read_choice(form)
    other_fields = {} if current is None else _fields_outside_form(current)
    sub_account_id = form.number("sub_account_id")
    sub_account_fields = {} if sub_account_id is None else {"sub_account_id": sub_account_id}
    return {
        "piece": choice.offer.product.paths[0],
        **other_fields,
        **compose_forms.design_fields(form),
        **sub_account_fields,
    }


def _fields_outside_form(current: Automation) -> dict[str, Any]:
    send: dict[str, Any] = exact_json.parse_json(current.send.encode())
    form_spellings = {"piece"} | {
        spelled
        for name in (*compose_forms.DESIGN_FORM_FIELDS, REALISM_FIELD, "sub_account_id")
        for spelled in _find_spellings(send, name)
    }
    return {name: value for name, value in send.items() if name not in form_spellings}


def _find_spellings(send: Mapping[str, Any], name: str) -> list[str]:
    """All spellings of a field that are in the send, the one that counts first."""
    return [spelling for spelling in FIELD_SPELLINGS.get(name, (name,)) if spelling in send]


FIELD_SPELLINGS: Final[Mapping[str, Sequence[str]]] = {
    "message_template": ("message_template", "message_template_id"),
    "image_template": ("image_template", "image_template_id"),
    "handwriting_style": ("handwriting_style", "handwriting_style_id"),
    "additional_pages_url": ("additional_pages_url", "additional_pages"),
    "giftcard_brand": ("giftcard_brand", "giftcard_brand_code"),
    "giftcard_amount": ("giftcard_amount", "giftcard_amount_in_cents"),
    "sub_account_id": ("sub_account_id", "sub_account"),
}
