"""The composer's form: from its fields to the body that the API takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from quillpost.accounts.models import Caller
from quillpost.accounts.service import sender_of, tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.drafts import Draft
from quillpost.orders.models import CARD_BUILDER
from quillpost.orders.products import Supplied, missing
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.web.api.bodies import read_body
from quillpost.web.api.send.endpoints import OFFERS, Offer
from quillpost.web.api.send.requests import LONGEST_TEXT, SendBody
from quillpost.web.api.send.service import draft_of
from quillpost.web.dashboard.compose import recipients
from quillpost.web.dashboard.forms import typed_moment, when_values
from quillpost.web.dashboard.labels import PIECE_NAMES, ink_in
from quillpost.web.forms import Form
from quillpost.web.rendering import plainly

CHOOSE_A_PIECE = "Choose what to send."
NOT_A_NUMBER = "Choose one that is on the list."


class Choice(NamedTuple):
    """A piece that can be chosen: its words on the page, and what the API has for it. `drawn_as` names its
    template in composition, `image_type` the saved images that suit it, `type` an order of it."""

    title: str
    about: str
    offer: Offer
    size: str | None
    drawn_as: str
    image_type: str
    type: str

    @property
    def is_letter(self) -> bool:
        return self.offer.piece.is_letter

    @property
    def is_gift(self) -> bool:
        return self.offer.piece.name == "giftcard"

    @property
    def has_background(self) -> bool:
        return "custom_background_image" in self.offer.body.model_fields


def _choice(name: str, about: str, size: str | None = None) -> Choice:
    offer = next(offer for offer in OFFERS if offer.piece.name == name)
    image_type, drawn_as = "postcard" if name == "magnacard" else name, offer.piece.drawn_as(size)
    return Choice(PIECE_NAMES[drawn_as], about, offer, size, drawn_as, image_type, offer.piece.type(size))


CHOICES: Final[Mapping[str, Choice]] = {
    "postcard-4x6": _choice("postcard", "Small and quick to read", "4x6"),
    "postcard-6x9": _choice("postcard", "Room for a picture", "6x9"),
    "postcard-6x11": _choice("postcard", "The largest in the mailbox", "6x11"),
    "letter": _choice("letter", "In an envelope with a window"),
    "windowless-letter": _choice("windowlessletter", "Its envelope is written by hand"),
    "notecard": _choice("notecard", "Folded, in an envelope"),
    "giftcard": _choice("giftcard", "A folded card that brings a gift"),
    "magnacard": _choice("magnacard", "Stays on the refrigerator"),
}
"""Every piece by its name in the form."""

USUAL: Final = "postcard-4x6"

DESIGN_FORM_FIELDS: Final[Mapping[str, str]] = {
    "size": "piece",
    "message": "message",
    "message_template": "message_template_id",
    "image_template": "image_template_id",
    "front_image_url": "front_image_url",
    "custom_background_image": "background_url",
    "handwriting_style": "style",
    "handwriting_color": "color",
    "handwriting_realism": "realism",
    "font_size": "font_size",
    "qrcode_url": "qrcode_url",
    "giftcard_brand": "giftcard_brand",
    "giftcard_amount": "giftcard_amount",
    "landing_page_url": "landing_page_url",
    "pdf_only_url": "pdf_url",
    "additional_pages_url": "pdf_url",
}
"""Where the form shows what is wrong with a field of the API."""


def choice_of(form: Form) -> Choice:
    """The piece that the form is about; `Invalid` for none of ours."""
    found = CHOICES.get(form.text("piece"))
    if found is None:
        raise Invalid({"piece": [CHOOSE_A_PIECE]})
    return found


def design_fields(form: Form, *, is_finished: bool = True) -> dict[str, Any]:
    """The look in the API's words. What the piece has no use for is left out, whatever stands in the form:
    whoever changes their mind about the piece need not empty its fields. While it is not finished nobody is
    told that a picture is still to be chosen."""
    choice = choice_of(form)
    fields: dict[str, Any] = {
        "message": message_of(form),
        "message_template": form.number("message_template_id"),
        "handwriting_style": form.number("style"),
        "handwriting_color": ink_in(form, "color"),
        "handwriting_realism": form.text("realism") == "on",
        "font_size": form.text("font_size") or None,
        "qrcode_url": _url(form, "qrcode_url"),
        **_front(form, is_finished=is_finished),
    }
    if choice.size is not None:
        fields["size"] = choice.size
    if choice.has_background:
        fields["custom_background_image"] = _url(form, "background_url")
    if choice.is_letter:
        is_whole = form.text("pdf_is") == "whole"
        fields["pdf_only_url" if is_whole else "additional_pages_url"] = _url(form, "pdf_url")
    if choice.is_gift:
        fields["giftcard_brand"] = form.text("giftcard_brand") or None
        fields["giftcard_amount"] = form.number("giftcard_amount")
        fields["landing_page_url"] = _url(form, "landing_page_url")
    return {name: value for name, value in fields.items() if value is not None}


def message_of(form: Form) -> str:
    """What is to be written; browsers end each line of a form with two signs."""
    return form.text("message", most=LONGEST_TEXT).replace("\r\n", "\n")


def _front(form: Form, *, is_finished: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    match form.text("image"):
        case "template":
            found = {"image_template": form.number("image_template_id")}
            wrong = {"image_template_id": ["Choose one of your images, or upload one."]}
        case "url":
            found = {"front_image_url": _url(form, "front_image_url")}
            wrong = {"front_image_url": ["Paste the link of a PNG or JPEG."]}
    if is_finished and None in found.values():
        raise Invalid(wrong)
    return found


def _url(form: Form, name: str) -> str | None:
    return form.text(name, most=LONGEST_URL) or None


RETURN: Final = ("name", "address", "address2", "city", "state", "postal_code")
SWITCHES: Final = ("send_standard_mail", "append_or_current_resident", "allow_duplicates")
SCHEDULE_FORM_FIELDS: Final[Mapping[str, str]] = {
    "schedule_for": "send_on",
    "sub_account_id": "sub_account_id",
    "notification_emails": "notification_emails",
    **{f"return_{part}": f"return_{part}" for part in RETURN},
    **{name: name for name in SWITCHES},
}
STARTING: Final[Mapping[str, Sequence[str]]] = {"when": ["now"], "returns": ["own"]}
RETURNS: Final = "returns"
"""Which return address it is; what is wrong with the one that is not typed here is told beside the choice."""
MOST_NOTIFIED = 2_000


def schedule_fields(form: Form, zone: ZoneInfo) -> dict[str, Any]:
    """`schedule_for` (UTC), `sub_account_id`, `return_*`, `notification_emails` and switches, as the API has
    them; `Invalid` by form field."""
    fields: dict[str, Any] = {name: True for name in SWITCHES if form.text(name) == "on"}
    if (branch := form.number("sub_account_id")) is not None:
        fields["sub_account_id"] = branch
    if told := form.text("notification_emails", most=MOST_NOTIFIED):
        fields["notification_emails"] = ", ".join(told.split("\n"))
    if form.text("returns") == "other":
        given = {f"return_{part}": form.text(f"return_{part}") for part in RETURN}
        fields |= {name: words for name, words in given.items() if words}
    if form.text("when") == "later":
        at = typed_moment(form, "send_on", zone)
        fields["schedule_for"] = at.isoformat().replace("+00:00", "Z")
    return fields


def opened(form: Form, faults: Mapping[str, Sequence[str]]) -> tuple[Form, Mapping[str, Sequence[str]]]:
    """With the fields of another return address in sight where the one that is chosen will not do."""
    fields = {f"return_{part}" for part in RETURN} & faults.keys()
    if not fields or form.text(RETURNS) == "other":
        return form, faults
    others = {name: told for name, told in faults.items() if name not in fields}
    told = dict.fromkeys(sentence for name in sorted(fields) for sentence in faults[name])
    return replace(form, fields={**form.fields, RETURNS: ["other"]}), {**others, RETURNS: list(told)}


def page_values(form: Form, who: Caller, parts: Parts, zone: ZoneInfo) -> dict[str, Any]:
    """What the template needs beside what is typed."""
    branch = who.sub_account_id
    if branch is None:
        branch = _chosen_branch(form)
    with parts.db.transaction(tenant(who)) as tx:
        titles = titles_of(list_sub_accounts(tx)) if who.sub_account_id is None else {}
        branch = branch if who.sub_account_id is not None or branch in titles else None
        home = sender_of(tx, who, branch)
    return {"titles": titles, "home": _home(home), **when_values(zone, now=parts.clock())}


def _home(home: Any) -> list[str]:
    """The return address, line by line; none where there is none."""
    if home.return_address is None:
        return []
    town = f"{home.return_city or ''}, {home.return_province or ''} {home.return_postal_code or ''}"
    lines = (home.return_name, home.return_address, home.return_address2, town.strip(" ,"))
    return [line for line in lines if line]


def _chosen_branch(form: Form) -> int | None:
    try:
        return form.number("sub_account_id")
    except Invalid:
        return None


FORM: Final = "form"
"""Where faults are told whose field the form does not have: above it."""

FORM_FIELDS: Final[Mapping[str, str]] = {
    **DESIGN_FORM_FIELDS,
    **recipients.AUDIENCE_FORM_FIELDS,
    **SCHEDULE_FORM_FIELDS,
}
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
    choice = choice_of(form)
    sent = _together(
        lambda: design_fields(form),
        lambda: recipients.audience_fields(form, parts),
        lambda: schedule_fields(form, zone),
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
        wrong = recipients.place_faults(form, wrong)
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
        choice, fields = choice_of(form), design_fields(form)
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
