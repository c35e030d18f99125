"""The form of an automation, and what it does in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quillpost.core import exact_json
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.automations.queries import Automation
from quillpost.orders.products import NO_FRONT
from quillpost.web.api.automations.schemas import BY_PATH
from quillpost.web.dashboard.compose import forms as compose_forms
from quillpost.web.dashboard.compose.forms import CHOICES, GONE, IN_OUR_WORDS, WHOSE_REFUSAL, Choice
from quillpost.web.dashboard.labels import TYPE_NAMES
from quillpost.web.forms import Form

TRIGGERS: Final[Mapping[str, tuple[str, str]]] = {
    "list_entry": ("Somebody joins a list", "Whoever comes onto the list after it is switched on."),
    "scan": ("Somebody scans a QR code", "Of mail to the list or, without a list, of any mail of yours."),
    "date": ("It is somebody's day", "A birthday or an anniversary of those on the list, every year."),
}
"""What starts one, with a sentence on it."""

DATES: Final[Mapping[str, str]] = {"dob": "birthday", "anniversary": "anniversary"}


def describe(automation: Automation, list_name: str | None) -> str:
    """`7 days before somebody on Customers has their birthday: a notecard.`"""
    return f"{_when(automation, list_name)}: {piece_words(automation)}."


def piece_words(automation: Automation) -> str:
    offer = BY_PATH.get(automation.piece)
    return f"a {TYPE_NAMES[offer.piece.name].lower()}" if offer else automation.piece


def choice_key(piece: object, size: object) -> str | None:
    """Which piece of the form it is, by its names in a send."""
    return next((key for key, each in CHOICES.items() if _is(each, piece, size)), None)


def _when(automation: Automation, list_name: str | None) -> str:
    if automation.trigger == "list_entry":
        return f"When somebody joins {list_name}"
    if automation.trigger == "scan":
        whose = f"mail to {list_name}" if list_name else "any of your mail"
        return f"When somebody scans the QR code of {whose}"
    day = f"somebody on {list_name} has their {DATES.get(automation.date_field or '', 'day')}"
    days = abs(automation.days_offset)
    if not days:
        return f"On the day that {day}"
    side = "before" if automation.days_offset < 0 else "after"
    return f"{days} day{'' if days == 1 else 's'} {side} {day}"


def _is(choice: Choice, piece: object, size: object) -> bool:
    return piece in choice.offer.piece.paths and (choice.size is None or choice.size == (size or "4x6"))


FORM: Final = "form"
"""Where faults are told whose field the form does not have."""

OWN_FIELDS: Final = (
    "name", "trigger", "mailing_list_id", "date_field", "days_offset", "daily_limit", "enabled",
)  # fmt: skip
FORMS_ALONE: Final = ("piece", "sub_account_id", "days", "image")
"""What the form tells of by its own names."""
WHOLE_DAYS: Final = "Give a whole number of days."
LIST_FIRST: Final = "Choose the list whose people are mailed. Only mail after a scan can do without."
OUR_WORDS: Final[Mapping[str, str]] = {
    "Give the list whose people are mailed: only an automation on scans may go without.": LIST_FIRST,
    "Choose dob or anniversary: it is the date that is mailed for.": "Choose which day it is.",
    **IN_OUR_WORDS,
}


def body_of(form: Form, *, before: Automation | None = None) -> dict[str, Any]:
    """As the API would be told it. What a former send says beyond this form stays as it is."""
    is_date = form.text("trigger") == "date"
    return {
        "name": form.text("name"),
        "trigger": form.text("trigger"),
        "mailing_list_id": form.number("mailing_list_id"),
        "date_field": (form.text("date_field") or None) if is_date else None,
        "days_offset": _offset(form) if is_date else 0,
        "daily_limit": form.text("daily_limit") or None,
        "send": _send(form, before),
    }


def typed_of(automation: Automation) -> dict[str, Sequence[str]]:
    """What stands in the form of one that is kept."""
    send = exact_json.read(automation.send.encode())
    known = BY_PATH[automation.piece].body.model_fields
    given = {name: send[spelled[0]] for name in known if (spelled := _spelled(send, name))}
    typed: dict[str, object] = {
        "name": automation.name,
        "trigger": automation.trigger,
        "mailing_list_id": automation.mailing_list_id,
        "date_field": automation.date_field,
        "days": abs(automation.days_offset) or None,
        "side": "before" if automation.days_offset < 0 else "after",
        "daily_limit": automation.daily_limit,
        "sub_account_id": automation.sub_account_id,
        **{
            field: given.get(name)
            for name, field in compose_forms.DESIGN_FORM_FIELDS.items()
            if given.get(name) is not None
        },
        "piece": choice_key(automation.piece, given.get("size")),
        "realism": None if given.get("handwriting_realism") is False else "on",
        "image": "template" if given.get("image_template") else "url" if given.get("front_image_url") else "",
        "pdf_is": "whole" if given.get("pdf_only_url") else "more",
    }
    return {name: [str(value)] for name, value in typed.items() if value is not None}


def in_form_terms(wrong: Invalid | Refused) -> Invalid:
    """The same faults beside the fields of the form, in words for whoever fills it in."""
    if isinstance(wrong, Refused):
        field = WHOSE_REFUSAL.get(wrong.message, FORM).replace("mailing_list_ids", "mailing_list_id")
        return Invalid({field: [wrong.message if field == FORM else GONE]})
    faults: dict[str, list[str]] = {}
    lacks_message = "send.message" in wrong.fields
    for path, sentences in wrong.fields.items():
        field = _field(path)
        if sentences == [NO_FRONT]:
            if lacks_message:
                continue  # with a message it needs no picture: one thing is missing, and told
            field = "image"
        about = f"{path.removeprefix('send.').replace('_', ' ').capitalize()}: " if field == FORM else ""
        told = faults.setdefault(field, [])
        told += [about + OUR_WORDS.get(sentence, sentence) for sentence in sentences]
    return Invalid(faults)


def _field(path: str) -> str:
    if path in OWN_FIELDS:
        return "days" if path == "days_offset" else path
    name = path.removeprefix("send.")
    if name in FORMS_ALONE or name in compose_forms.DESIGN_FORM_FIELDS.values():
        return name
    return compose_forms.DESIGN_FORM_FIELDS.get(name, FORM)


def _offset(form: Form) -> int:
    days = form.text("days") or "0"
    if not (days.isascii() and days.isdigit() and len(days) < 5):
        raise Invalid({"days": [WHOLE_DAYS]})
    return -int(days) if form.text("side") == "before" else int(days)


def _send(form: Form, before: Automation | None) -> dict[str, Any]:
    choice = compose_forms.choice_of(form)
    kept = {} if before is None else _beyond_the_form(before)
    home = form.number("sub_account_id")
    named = {} if home is None else {"sub_account_id": home}
    return {"piece": choice.offer.piece.paths[0], **kept, **compose_forms.design_fields(form), **named}


def _beyond_the_form(before: Automation) -> dict[str, Any]:
    send: dict[str, Any] = exact_json.read(before.send.encode())
    shown = {"piece"} | {
        spelled
        for name in (*compose_forms.DESIGN_FORM_FIELDS, "sub_account_id")
        for spelled in _spelled(send, name)
    }
    return {name: value for name, value in send.items() if name not in shown}


def _spelled(send: Mapping[str, Any], name: str) -> list[str]:
    """All spellings of a field that are in the send, the one that counts first."""
    return [spelling for spelling in ALSO.get(name, (name,)) if spelling in send]


ALSO: Final[Mapping[str, Sequence[str]]] = {
    "message_template": ("message_template", "message_template_id"),
    "image_template": ("image_template", "image_template_id"),
    "handwriting_style": ("handwriting_style", "handwriting_style_id"),
    "additional_pages_url": ("additional_pages_url", "additional_pages"),
    "giftcard_brand": ("giftcard_brand", "giftcard_brand_code"),
    "giftcard_amount": ("giftcard_amount", "giftcard_amount_in_cents"),
    "sub_account_id": ("sub_account_id", "sub_account"),
}
