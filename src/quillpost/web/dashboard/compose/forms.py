"""The composer's form: from its fields to the body that the API takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant, read_sender
from quillpost.accounts.sub_accounts.queries import label_sub_accounts, list_sub_accounts
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.models import CARD_BUILDER_METHOD, MANNER_FIELD, OrderRequest
from quillpost.orders.requests.rules import SuppliedFields, check_required_fields
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.web.api.schemas import validate_body
from quillpost.web.api.send.requests import MAX_TEXT_LENGTH, SENDABLE_PRODUCTS, SendableProduct, SendBody
from quillpost.web.dashboard.compose import recipients
from quillpost.web.dashboard.forms import parse_moment, send_time_context
from quillpost.web.dashboard.labels import PRODUCT_NAMES, read_ink
from quillpost.web.forms import Form
from quillpost.web.messages import page_text

PRODUCT_MISSING = "Choose what to send."
INVALID_CHOICE = "Choose one that is on the list."


class ProductChoice(NamedTuple):
    """A product of the form. `layout_name` names its layout, `image_type` the images that fit, `type` its orders."""

    title: str
    about: str
    offer: SendableProduct
    size: str | None
    layout_name: str
    image_type: str
    type: str

    @property
    def is_letter(self) -> bool:
        return self.offer.product.is_letter

    @property
    def is_gift(self) -> bool:
        return self.offer.product.name == "giftcard"

    @property
    def has_background(self) -> bool:
        return "custom_background_image" in self.offer.body.model_fields


def _product_choice(name: str, about: str, size: str | None = None) -> ProductChoice:
    offer = next(offer for offer in SENDABLE_PRODUCTS if offer.product.name == name)
    image_type, request = "postcard" if name == "magnacard" else name, OrderRequest(product=offer.product, size=size)
    return ProductChoice(PRODUCT_NAMES[request.piece], about, offer, size, request.piece, image_type, request.type)


PRODUCT_CHOICES: Final[Mapping[str, ProductChoice]] = {
    "postcard-4x6": _product_choice("postcard", "Small and quick to read", "4x6"),
    "postcard-6x9": _product_choice("postcard", "Room for a picture", "6x9"),
    "postcard-6x11": _product_choice("postcard", "The largest in the mailbox", "6x11"),
    "letter": _product_choice("letter", "In an envelope with a window"),
    "windowless-letter": _product_choice("windowlessletter", "Its envelope is written by hand"),
    "notecard": _product_choice("notecard", "Folded, in an envelope"),
    "giftcard": _product_choice("giftcard", "A folded card that brings a gift"),
    "magnacard": _product_choice("magnacard", "Stays on the refrigerator"),
}

DEFAULT_PRODUCT: Final = "postcard-4x6"

DESIGN_FORM_FIELDS: Final[Mapping[str, str]] = {
    "size": "piece",
    "message": "message",
    "message_template": "message_template_id",
    "image_template": "image_template_id",
    "front_image_url": "front_image_url",
    "custom_background_image": "background_url",
    "handwriting_style": "style",
    "handwriting_color": "color",
    MANNER_FIELD: "manner",
    "signature": "signature_id",
    "font_size": "font_size",
    "qrcode_url": "qrcode_url",
    "giftcard_brand": "giftcard_brand",
    "giftcard_amount": "giftcard_amount",
    "landing_page_url": "landing_page_url",
    "pdf_only_url": "pdf_url",
    "additional_pages_url": "pdf_url",
}
"""By a field of the API, the field of the form that shows its errors."""


def read_choice(form: Form) -> ProductChoice:
    choice = PRODUCT_CHOICES.get(form.text("piece"))
    if choice is None:
        raise Invalid({"piece": [PRODUCT_MISSING]})
    return choice


def design_fields(form: Form, *, is_finished: bool = True) -> dict[str, Any]:
    """The design in the API's fields, without those that the product does not use. Not `is_finished`, a picture that is
    still to be chosen is no error."""
    choice = read_choice(form)
    fields: dict[str, Any] = {
        "message": read_message(form),
        "message_template": form.number("message_template_id"),
        "handwriting_style": form.number("style"),
        "handwriting_color": read_ink(form, "color"),
        MANNER_FIELD: form.text("manner") or None,
        "signature": form.number("signature_id"),
        "font_size": form.text("font_size") or None,
        "qrcode_url": _read_url(form, "qrcode_url"),
        **_front_fields(form, is_finished=is_finished),
    }
    if choice.size is not None:
        fields["size"] = choice.size
    if choice.has_background:
        fields["custom_background_image"] = _read_url(form, "background_url")
    if choice.is_letter:
        is_pdf_only = form.text("pdf_is") == "whole"
        fields["pdf_only_url" if is_pdf_only else "additional_pages_url"] = _read_url(form, "pdf_url")
    if choice.is_gift:
        fields["giftcard_brand"] = form.text("giftcard_brand") or None
        fields["giftcard_amount"] = form.number("giftcard_amount")
        fields["landing_page_url"] = _read_url(form, "landing_page_url")
    return {name: value for name, value in fields.items() if value is not None}


def read_message(form: Form) -> str:
    """Browsers end the lines of a form with two characters."""
    return form.text("message", max_length=MAX_TEXT_LENGTH).replace("\r\n", "\n")


def _front_fields(form: Form, *, is_finished: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    match form.text("image"):
        case "template":
            fields = {"image_template": form.number("image_template_id")}
            missing_errors = {"image_template_id": ["Choose one of your images, or upload one."]}
        case "url":
            fields = {"front_image_url": _read_url(form, "front_image_url")}
            missing_errors = {"front_image_url": ["Paste the link of a PNG or JPEG."]}
    if is_finished and None in fields.values():
        raise Invalid(missing_errors)
    return fields


def _read_url(form: Form, name: str) -> str | None:
    return form.text(name, max_length=MAX_URL_LENGTH) or None


RETURN_ADDRESS_PARTS: Final = ("name", "address", "address2", "city", "state", "postal_code")
PRINTED_SWITCHES: Final = ("send_standard_mail", "append_or_current_resident")
REPEAT_SWITCH: Final = "allow_duplicates"
SWITCH_FIELDS: Final = (*PRINTED_SWITCHES, REPEAT_SWITCH)
SCHEDULE_FORM_FIELDS: Final[Mapping[str, str]] = {
    "schedule_for": "send_on",
    "sub_account_id": "sub_account_id",
    "notification_emails": "notification_emails",
    **{f"return_{part}": f"return_{part}" for part in RETURN_ADDRESS_PARTS},
    **{name: name for name in SWITCH_FIELDS},
}
SCHEDULE_DEFAULTS: Final[Mapping[str, Sequence[str]]] = {"when": ["now"], "returns": ["own"]}
RETURN_CHOICE_FIELD: Final = "returns"
"""Which return address; errors of one that is not typed in the form are shown here."""
MAX_NOTIFICATION_EMAILS_LENGTH = 2_000


def schedule_fields(form: Form, zone: ZoneInfo) -> dict[str, Any]:
    """`schedule_for` (UTC), sub account, return address and switches as the API has them; `Invalid` by form field."""
    fields: dict[str, Any] = {name: True for name in SWITCH_FIELDS if form.text(name) == "on"}
    if (sub_account_id := form.number("sub_account_id")) is not None:
        fields["sub_account_id"] = sub_account_id
    if emails := form.text("notification_emails", max_length=MAX_NOTIFICATION_EMAILS_LENGTH):
        fields["notification_emails"] = ", ".join(emails.split("\n"))
    if form.text("returns") == "other":
        return_fields = {f"return_{part}": form.text(f"return_{part}") for part in RETURN_ADDRESS_PARTS}
        fields |= {name: value for name, value in return_fields.items() if value}
    if form.text("when") == "later":
        send_at = parse_moment(form, "send_on", zone)
        fields["schedule_for"] = send_at.isoformat().replace("+00:00", "Z")
    return fields


def reveal_return_address(form: Form, errors: Mapping[str, Sequence[str]]) -> tuple[Form, Mapping[str, Sequence[str]]]:
    """Opens the fields of another return address where the chosen one is wrong."""
    return_fields = {f"return_{part}" for part in RETURN_ADDRESS_PARTS} & errors.keys()
    if not return_fields or form.text(RETURN_CHOICE_FIELD) == "other":
        return form, errors
    other_errors = {name: messages for name, messages in errors.items() if name not in return_fields}
    messages = dict.fromkeys(sentence for name in sorted(return_fields) for sentence in errors[name])
    return replace(form, fields={**form.fields, RETURN_CHOICE_FIELD: ["other"]}), {
        **other_errors,
        RETURN_CHOICE_FIELD: list(messages),
    }


def schedule_context(form: Form, caller: Caller, container: Container, zone: ZoneInfo) -> dict[str, Any]:
    sub_account_id = caller.sub_account_id
    if sub_account_id is None:
        sub_account_id = _chosen_sub_account_id(form)
    with container.db.transaction(build_tenant(caller)) as tx:
        titles = label_sub_accounts(list_sub_accounts(tx)) if caller.sub_account_id is None else {}
        sub_account_id = sub_account_id if caller.sub_account_id is not None or sub_account_id in titles else None
        sender = read_sender(tx, caller, sub_account_id)
    return {
        "titles": titles,
        "return_address": _return_address_lines(sender),
        **send_time_context(zone, now=container.clock()),
    }


def _return_address_lines(sender: Any) -> list[str]:
    if sender.return_address is None:
        return []
    town = f"{sender.return_city or ''}, {sender.return_province or ''} {sender.return_postal_code or ''}"
    lines = (sender.return_name, sender.return_address, sender.return_address2, town.strip(" ,"))
    return [line for line in lines if line]


def _chosen_sub_account_id(form: Form) -> int | None:
    try:
        return form.number("sub_account_id")
    except Invalid:
        return None


FORM_ERROR_KEY: Final = "form"
"""Errors of fields that the form does not have."""

FORM_FIELDS: Final[Mapping[str, str]] = {
    **DESIGN_FORM_FIELDS,
    **recipients.AUDIENCE_FORM_FIELDS,
    **SCHEDULE_FORM_FIELDS,
}
"""By a field of the API, the field of the form. `recipients` stands for `recipients.3.address` as well."""

REFUSED_FIELDS: Final[Mapping[str | None, str]] = {
    "message_template_unknown": "message_template_id",
    "image_template_unknown": "image_template_id",
    "list_unknown": "mailing_list_ids",
}
"""By code, the field of the form that names what is gone."""
LOW_RESOLUTION_WARNING: Final = (
    "A picture has too few pixels to print well: sent like this, the order is held until somebody has looked at it."
)
FAINT_INK_WARNING: Final = (
    "The handwriting can hardly be seen: sent like this, the order is held until somebody has looked at it."
    " Choose another ink, or a calmer picture."
)
TEMPLATE_GONE: Final = "This is not there any more. Choose another."


@dataclass(frozen=True, slots=True)
class ComposedSend:
    """The product, the API's body for it, and that body as it would be sent."""

    offer: SendableProduct
    body: SendBody
    payload: dict[str, Any]
    form: Form | None = None


def compose_send(form: Form, container: Container, zone: ZoneInfo) -> ComposedSend:
    """The whole form; `Invalid` names every field with an error."""
    choice = read_choice(form)
    payload = _merge_fields(
        lambda: design_fields(form),
        lambda: recipients.audience_fields(form, container),
        lambda: schedule_fields(form, zone),
    )
    return validate_send(choice.offer, payload, form)


def validate_send(offer: SendableProduct, payload: dict[str, Any], form: Form | None = None) -> ComposedSend:
    try:
        return ComposedSend(offer, validate_body(offer.body, payload), payload, form)
    except Invalid as error:
        raise to_form_errors(error, form) from None


def draft_composed_order(composed_send: ComposedSend, caller: Caller, container: Container) -> OrderDraft:
    """Checked by the rules of the API; errors are those of the form."""
    try:
        product, body = composed_send.offer.product, composed_send.body
        request, errors = body.to_order_request(product, container.limits, now=container.clock())
        return draft_service.draft_order(container.orders, caller, replace(request, method=CARD_BUILDER_METHOD), errors)
    except (Invalid, Refused) as error:
        raise to_form_errors(error, composed_send.form) from None


def list_warnings(order_draft: OrderDraft, container: Container) -> list[str]:
    """What to look at before it is sent; most of all, that it would be held."""
    review = container.production.review_limits
    warnings = [LOW_RESOLUTION_WARNING] if review.is_resolution_too_low(order_draft.lowest_dpi) else []
    if review.is_contrast_too_low(order_draft.lowest_contrast) and order_draft.request.message.strip():
        warnings.append(FAINT_INK_WARNING)
    return warnings + [page_text(warning) for warning in order_draft.warnings]


def to_form_errors(error: Invalid | Refused, form: Form | None = None) -> Invalid:
    """The errors by the fields of the form, in the sentences of the page."""
    if isinstance(error, Refused):
        field = REFUSED_FIELDS.get(error.code)
        return Invalid({field: [TEMPLATE_GONE]} if field else {FORM_ERROR_KEY: [page_text(error.message)]})
    if form is not None:
        error = recipients.locate_errors(form, error)
    errors: dict[str, list[str]] = {}
    for path, sentences in error.fields.items():
        messages = errors.setdefault(find_form_field(path), [])
        messages += [
            message for message in (_form_message(path, each) for each in sentences) if message not in messages
        ]
    return Invalid(errors)


def find_form_field(path: str) -> str:
    while path not in FORM_FIELDS and "." in path:
        path = path.rpartition(".")[0]
    return FORM_FIELDS.get(path, FORM_ERROR_KEY)


def find_missing_design_fields(form: Form) -> Mapping[str, Sequence[str]]:
    """What the product requires and the form does not have yet."""
    try:
        choice, fields = read_choice(form), design_fields(form)
    except Invalid as error:
        return error.fields
    supplied = SuppliedFields(
        audience=True,
        message=bool(fields.get("message")),
        front="front_image_url" in fields or "image_template" in fields,
        message_template="message_template" in fields,
        pdf_only="pdf_only_url" in fields,
    )
    missing_errors = check_required_fields(choice.offer.product, supplied)
    return to_form_errors(Invalid({field: [message] for field, message in missing_errors.items()})).fields


def _form_message(path: str, api_message: str) -> str:
    message = page_text(api_message)
    if find_form_field(path) == FORM_ERROR_KEY:
        return f"{path.replace('_', ' ').replace('.', ' ').capitalize()}: {message}"
    _, is_recipient, position = path.partition("recipients.")
    number = position.partition(".")[0]
    return f"Person {int(number) + 1}: {message}" if is_recipient and number.isdigit() else message


def _merge_fields(*parts: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """What all of them read; or the errors of all."""
    fields: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    for read_fields in parts:
        try:
            fields |= read_fields()
        except Invalid as error:
            _add_errors(errors, error.fields.items())
    if errors:
        raise Invalid(errors)
    return fields


def _add_errors(errors: dict[str, list[str]], new_errors: Iterable[tuple[str, list[str]]]) -> None:
    for name, messages in new_errors:
        errors.setdefault(name, []).extend(messages)
