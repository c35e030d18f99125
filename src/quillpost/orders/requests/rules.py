"""Everything that can be wrong with a request by itself, found all at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quillpost.core.errors import Invalid, Message, add_note
from quillpost.orders.giftcards.rules import (
    GiftcardBrand,
    amount_choices_text,
    amount_error,
    brand_choices_text,
    find_offered_brand,
    unknown_brand_error,
)
from quillpost.orders.models import ContentSource, FieldErrors, GiftcardChoice, OrderRequest, ResolvedRequest, name_part
from quillpost.orders.products import FRONT_REQUIRED, FieldRequirement, Product
from quillpost.orders.requests import files
from quillpost.orders.templates.models import MessageTemplate
from quillpost.orders.templates.rules import (
    MAX_URL_LENGTH,
    SAMPLE_SENDER,
    CheckUrl,
    unknown_style_error,
    unknown_variables_error,
    url_variables_error,
)
from quillpost.recipients.models import Person
from quillpost.recipients.rules import validate_recipients
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.models import parse_color
from quillpost.rendering.text.variables import find_unknown_variables, has_variables

MAX_PERSONAL_PICTURES = 50
MAX_SCHEDULE_AHEAD = timedelta(days=366)


def validate_request(
    request: ResolvedRequest,
    *,
    styles: Mapping[int, Style],
    check_url: CheckUrl,
    known_errors: Mapping[str, Sequence[str]],
) -> tuple[ResolvedRequest, list[Person]]:
    """The final request and its people; or `Invalid` with the known errors and all others."""
    errors = {field: list(messages) for field, messages in known_errors.items()}
    urls = [
        (source, source.url)
        for source in (
            request.front, request.background, request.logo, request.pages, request.qr_source, request.landing_source
        )
        if source is not None and source.url is not None and source.file is None
    ]  # fmt: skip
    if unknown_names := find_unknown_variables(request.message):
        _add_error(ContentSource(request.message_field), unknown_variables_error(unknown_names), errors)
    for source, url in urls:
        if message := url_variables_error(url):
            _add_error(source, message, errors)
    if request.style not in styles and request.own_handwriting.hand is None:
        errors["handwriting_style"] = [unknown_style_error(request.style, styles)]
    color, people = request.handwriting_color, list[Person]()
    try:
        color = parse_color(color).rgba_text
    except ValueError as invalid_color:
        errors["handwriting_color"] = [str(invalid_color)]
    try:
        people = validate_recipients(request.recipients)
    except Invalid as invalid:
        errors |= invalid.fields
    # Each URL as it will be used; those filled with people's values wait until the people are valid.
    for source, url in urls:
        if message := _url_error(source, url, request, people, check_url):
            _add_error(source, message, errors)
    if errors:
        raise Invalid(errors)
    return replace(request, handwriting_color=color), people


def check_schedule(at: datetime | None, errors: FieldErrors, *, now: datetime) -> None:
    if at is not None and not now <= at <= now + MAX_SCHEDULE_AHEAD:
        errors["schedule_for"] = ["This must lie in the future, at most a year ahead."]


def _url_error(
    source: ContentSource, url: str, request: ResolvedRequest, people: Sequence[Person], check_url: CheckUrl
) -> str | None:
    if not has_variables(url):
        return check_url(url)
    if len(url) > MAX_URL_LENGTH:
        return f"The URL is longer than {MAX_URL_LENGTH} characters."
    is_picture = source in (request.front, request.background)
    recipients_by_url = files.first_recipient_by_url(files.fill_urls(url, request, people, SAMPLE_SENDER))
    for filled_url, recipient_index in recipients_by_url.items():
        if message := check_url(filled_url):
            return f"{message} ({files.recipient_label(recipient_index)})"
    if is_picture and len(recipients_by_url) > MAX_PERSONAL_PICTURES:
        count = len(recipients_by_url)
        return f"The URL names {count:,} different pictures: at most {MAX_PERSONAL_PICTURES} in one call."
    return None if source == request.qr_source else _personal_url_error(request, is_picture=is_picture)


def _personal_url_error(request: ResolvedRequest, *, is_picture: bool) -> str | None:
    """Only pictures may differ by recipient: they are fetched while the caller waits."""
    if not is_picture:
        return "It is the same for everyone: its URL takes no variables."
    audience = "a radius_search" if request.radius_search is not None else "mailing_list_ids"
    if request.radius_search is None and not request.mailing_list_ids:
        return None
    text = f"With {audience} the picture is the same for everyone: its URL takes no variables."
    return Message("picture_not_personal", text, is_search=request.radius_search is not None)


def _add_error(source: ContentSource, message: str, errors: FieldErrors) -> None:
    errors.setdefault(source.field, []).append(add_note(message, source.part))


@dataclass(frozen=True, slots=True)
class SuppliedFields:
    """Which of the things that the matrix speaks of are there; `pdf_only` may come from a template."""

    audience: bool
    front: bool
    message: bool
    message_template: bool
    pdf_only: bool


def check_required_fields(product: Product, supplied: SuppliedFields) -> Mapping[str, Message]:
    """What the piece requires and the call lacks: the field, and what to do."""
    is_satisfied = {
        FieldRequirement.REQUIRED: False,
        FieldRequirement.UNLESS_MESSAGE: supplied.message,
        FieldRequirement.UNLESS_MESSAGE_OR_PDF: supplied.message or supplied.pdf_only,
        FieldRequirement.UNLESS_PDF: supplied.pdf_only,
    }
    messages = {}
    if not (supplied.audience or is_satisfied[product.audience]):
        messages["recipients"] = Message(
            "audience_missing", "Give at least one recipient, or mailing_list_ids, or a radius_search."
        )
    if not (supplied.message or supplied.message_template or is_satisfied[product.message]):
        messages["message"] = (
            Message("message_or_pdf_missing", "Give a message, or a message_template (or a pdf_only_url).")
            if product.is_letter
            else Message("message_missing", "Give a message, or a message_template.")
        )
    if not (supplied.front or is_satisfied[product.front]):
        messages["front_image_url"] = FRONT_REQUIRED
    return messages


BRAND_FIELD, AMOUNT_FIELD, LANDING_PAGE_FIELD, MESSAGE_TEMPLATE_FIELD = (
    "giftcard_brand", "giftcard_amount", "landing_page_url", "message_template",
)  # fmt: skip


def choose_giftcard(
    request: OrderRequest,
    template: MessageTemplate | None,
    offered_brands: list[GiftcardBrand],
    landing_source: ContentSource | None,
    errors: FieldErrors,
) -> GiftcardChoice | None:
    """The card as in the catalog; errors are added at the field that the caller can change."""
    code, brand = request.giftcard_brand or (template.giftcard_brand_code if template else None), None
    cents = request.giftcard_amount
    if cents is None and template is not None:
        cents = template.giftcard_amount
    if code is None:
        errors.setdefault(BRAND_FIELD, []).append(f"Say whose card it is. {brand_choices_text(offered_brands)}")
    else:
        brand = find_offered_brand(code, offered_brands)
    if code is not None and brand is None:
        source = ContentSource(BRAND_FIELD)
        if not request.giftcard_brand:
            source = ContentSource(MESSAGE_TEMPLATE_FIELD, part=name_part("giftcard_brand_code"))
        _add_error(source, unknown_brand_error(code, offered_brands), errors)
    if cents is None:
        message = f"Say what each card is worth, in cents. {amount_choices_text(brand) if brand else ''}".strip()
        errors.setdefault(AMOUNT_FIELD, []).append(message)
    if brand is None or cents is None:
        return None
    if amount_message := amount_error(cents, brand):
        source = ContentSource(AMOUNT_FIELD)
        if request.giftcard_amount is None:
            source = ContentSource(MESSAGE_TEMPLATE_FIELD, part=name_part(AMOUNT_FIELD))
        _add_error(source, amount_message, errors)
    return GiftcardChoice(brand.code, brand.title, brand.accent, cents, landing_source.url if landing_source else None)


def check_giftcard(gift: GiftcardChoice, offered_brands: list[GiftcardBrand]) -> FieldErrors:
    """What is wrong with a card chosen earlier, by today's catalog."""
    brand = find_offered_brand(gift.brand, offered_brands)
    if brand is None:
        return {BRAND_FIELD: [unknown_brand_error(gift.brand, offered_brands)]}
    amount_message = amount_error(gift.cents, brand)
    return {AMOUNT_FIELD: [amount_message]} if amount_message else {}
