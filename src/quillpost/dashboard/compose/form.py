"""The composer's one form: from what is typed into it to the body that the API takes, and what is wrong with
it back to the fields of the form."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from quillpost.accounts.rules import Caller
from quillpost.api.bodies import read_body
from quillpost.api.v2.send import Offer
from quillpost.api.v2.send_body import SendBody
from quillpost.api.v2.sending import draft_of
from quillpost.dashboard.compose import audience, look, when
from quillpost.kit.errors import Invalid, Refused
from quillpost.orders.pieces import Supplied, missing
from quillpost.orders.preparing import Draft
from quillpost.orders.wish import CARD_BUILDER
from quillpost.pages.plain_words import plainly
from quillpost.parts import Parts
from quillpost.reception.forms import Form

FORM: Final = "form"
"""Where faults are told whose field the form does not have: above it."""

FORM_FIELDS: Final[Mapping[str, str]] = {**look.FORM_FIELDS, **audience.FORM_FIELDS, **when.FORM_FIELDS}
"""By a field of the API, the field of the form. `recipients` stands for `recipients.3.address` as well."""

IN_OUR_WORDS: Final[Mapping[str, str]] = {
    "Give a message, or a message_template.": "Write a message.",
    "Give a message, or a message_template (or a pdf_only_url).": "Write a message, or give a PDF.",
    "Give a front_image_url or an image_template: only a call with its own message may go without.": (
        "Choose an image, or write a message of your own."
    ),
    "Give at least one recipient, or mailing_list_ids, or a radius_search.": "Choose who gets it.",
    "Live mail needs a return address: in the call or in the account.": (
        "Live mail needs a return address. Give one here, or in the settings."
    ),
}
"""Sentences for programmers, as they are told to people who fill in a form."""

WHOSE_REFUSAL: Final[Mapping[str, str]] = {
    "Message Template does not exist": "message_template_id",
    "Image Template does not exist": "image_template_id",
    "Mailing List Does Not Exist": "mailing_list_ids",
}
HELD: Final = (
    "A picture has too few pixels to print well: sent like this, the order is held until somebody has looked"
    " at it."
)
HELD_INK: Final = (
    "The handwriting can hardly be seen: sent like this, the order is held until somebody has looked at it."
    " Choose another color."
)
GONE: Final = "This is not there any more. Choose another."


@dataclass(frozen=True, slots=True)
class Composed:
    """What the form asks for: which piece, the API's body for it, and the same as it would be sent; and the
    form, by whose lines people are told of."""

    offer: Offer
    body: SendBody
    sent: dict[str, Any]
    form: Form | None = None


def composed(form: Form, parts: Parts, zone: ZoneInfo) -> Composed:
    """The whole form; `Invalid` names all fields of the form that are at fault so far."""
    choice = look.choice_of(form)
    sent = _together(
        lambda: look.fields_of(form),
        lambda: audience.fields_of(form, parts),
        lambda: when.fields_of(form, zone),
    )
    return read(choice.offer, sent, form)


def read(offer: Offer, sent: dict[str, Any], form: Form | None = None) -> Composed:
    """These fields by the rules of the API."""
    try:
        return Composed(offer, read_body(offer.body, sent), sent, form)
    except Invalid as wrong:
        raise in_form_terms(wrong, form) from None


def draft(made: Composed, who: Caller, parts: Parts) -> Draft:
    """Checked in every respect, by the same rules as a call of the API; faults are the form's."""
    try:
        return draft_of(made.offer.piece, made.body, who, parts, method=CARD_BUILDER)
    except (Invalid, Refused) as wrong:
        raise in_form_terms(wrong, made.form) from None


def warnings_of(drafted: Draft, parts: Parts) -> list[str]:
    """What deserves a look before it is sent; most of all, that it would not go by itself."""
    review = parts.press.review
    held = [HELD] if review.is_too_soft(drafted.lowest_dpi) else []
    if review.is_too_faint(drafted.lowest_contrast) and drafted.wish.message.strip():
        held.append(HELD_INK)
    return held + drafted.warnings


def in_form_terms(wrong: Invalid | Refused, form: Form | None = None) -> Invalid:
    """The same faults beside the fields of the form, in words for whoever fills it in."""
    if isinstance(wrong, Refused):
        field = WHOSE_REFUSAL.get(wrong.message, FORM)
        return Invalid({field: [wrong.message if field == FORM else GONE]})
    if form is not None:
        wrong = audience.place_faults(form, wrong)
    faults: dict[str, list[str]] = {}
    for path, sentences in wrong.fields.items():
        told = faults.setdefault(form_field(path), [])
        told += [own for own in (_own_words(path, each) for each in sentences) if own not in told]
    return Invalid(faults)


def form_field(path: str) -> str:
    """Which field of the form a path of the API is about."""
    while path not in FORM_FIELDS and "." in path:
        path = path.rpartition(".")[0]
    return FORM_FIELDS.get(path, FORM)


def unfinished(form: Form) -> Mapping[str, Sequence[str]]:
    """What the piece must have and the form does not say yet."""
    try:
        choice, fields = look.choice_of(form), look.fields_of(form)
    except Invalid as wrong:
        return wrong.fields
    supplied = Supplied(
        audience=True,
        message=bool(fields.get("message")),
        front="front_image_url" in fields or "image_template" in fields,
        message_template="message_template" in fields,
        pdf_only="pdf_only_url" in fields,
    )
    lacks = missing(choice.offer.piece, supplied)
    return in_form_terms(Invalid({field: [told] for field, told in lacks.items()})).fields


def _own_words(path: str, sentence: str) -> str:
    told = IN_OUR_WORDS.get(sentence) or plainly(sentence)
    if form_field(path) == FORM:
        return f"{path.replace('_', ' ').replace('.', ' ').capitalize()}: {told}"
    _, is_row, place = path.partition("recipients.")
    number = place.partition(".")[0]
    return f"Person {int(number) + 1}: {told}" if is_row and number.isdigit() else told


def _together(*parts: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """What all of them read; or what is wrong with any, together."""
    found: dict[str, Any] = {}
    faults: dict[str, list[str]] = {}
    for each in parts:
        try:
            found |= each()
        except Invalid as wrong:
            _add(faults, wrong.fields.items())
    if faults:
        raise Invalid(faults)
    return found


def _add(faults: dict[str, list[str]], more: Iterable[tuple[str, list[str]]]) -> None:
    for name, told in more:
        faults.setdefault(name, []).extend(told)
