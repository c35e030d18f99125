"""Everything that can be wrong with a request by itself, found all at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Message, add_note
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import (
    GiftcardBrand,
    amount_choices_text,
    amount_error,
    brand_choices_text,
    find_offered_brand,
    unknown_brand_error,
)
from quillpost.orders.models import ContentSource, FieldErrors, GiftcardChoice, OrderRequest, ResolvedRequest, name_part
from quillpost.orders.products import GIFTCARD
from quillpost.orders.requests import files
from quillpost.orders.templates.models import MessageTemplate
from quillpost.orders.templates.rules import (
    MAX_URL_LENGTH,
    SAMPLE_SENDER,
    CheckUrl,
    style_error,
    url_variables_error,
    variables_error,
)
from quillpost.recipients.models import Person
from quillpost.recipients.rules import validate_recipients
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.models import parse_color
from quillpost.rendering.text.variables import has_variables

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
    _check_variables(request, errors)
    if style_message := style_error(request.style, styles):
        errors["handwriting_style"] = [style_message]
    color = _parse_color(request.handwriting_color, errors)
    people: list[Person] = []
    try:
        people = validate_recipients(request.recipients)
    except Invalid as invalid:
        errors |= invalid.fields
    _check_urls(request, people, check_url, errors)
    if errors:
        raise Invalid(errors)
    return replace(request, handwriting_color=color), people


def check_schedule(at: datetime | None, errors: FieldErrors, *, now: datetime) -> None:
    if at is not None and not now <= at <= now + MAX_SCHEDULE_AHEAD:
        errors["schedule_for"] = ["This must lie in the future, at most a year ahead."]


def _list_sources(request: ResolvedRequest) -> Iterator[tuple[ContentSource, str, bool]]:
    """The sources with a URL, and whether each is a picture."""
    for source, is_picture in (
        (request.front, True),
        (request.background, True),
        (request.logo, False),
        (request.pages, False),
        (request.qr_source, False),
        (request.landing_source, False),
    ):
        if source is not None and source.url is not None and source.file is None:
            yield source, source.url, is_picture


def _check_urls(request: ResolvedRequest, people: Sequence[Person], check_url: CheckUrl, errors: FieldErrors) -> None:
    """Checks each URL as it will be used; those filled with people's values wait until the people are valid."""
    for source, url, is_picture in _list_sources(request):
        message = _url_error(url, request, people, check_url, is_picture=is_picture)
        if message is None and has_variables(url) and source != request.qr_source:
            message = _personal_url_error(request, is_picture=is_picture)
        if message is not None:
            _add_error(source, message, errors)


def _url_error(
    url: str, request: ResolvedRequest, people: Sequence[Person], check_url: CheckUrl, *, is_picture: bool
) -> str | None:
    if not has_variables(url):
        return check_url(url)
    if len(url) > MAX_URL_LENGTH:
        return f"The URL is longer than {MAX_URL_LENGTH} characters."
    recipients_by_url = files.first_recipient_by_url(files.fill_urls(url, request, people, SAMPLE_SENDER))
    for filled_url, recipient_index in recipients_by_url.items():
        message = check_url(filled_url)
        if message is not None:
            return f"{message} ({files.recipient_label(recipient_index)})"
    if is_picture and len(recipients_by_url) > MAX_PERSONAL_PICTURES:
        return (
            f"The URL names {len(recipients_by_url):,} different pictures: at most {MAX_PERSONAL_PICTURES} in one call."
        )
    return None


def _personal_url_error(request: ResolvedRequest, *, is_picture: bool) -> str | None:
    """Only pictures may differ by recipient: they are fetched while the caller waits."""
    if not is_picture:
        return "It is the same for everyone: its URL takes no variables."
    audience = "a radius_search" if request.radius_search is not None else "mailing_list_ids"
    if request.radius_search is None and not request.mailing_list_ids:
        return None
    text = f"With {audience} the picture is the same for everyone: its URL takes no variables."
    return Message("picture_not_personal", text, is_search=request.radius_search is not None)


def _check_variables(request: ResolvedRequest, errors: FieldErrors) -> None:
    checks: list[tuple[ContentSource, str | None]] = [
        (ContentSource(request.message_field), variables_error(request.message)),
        *((source, url_variables_error(url)) for source, url, _ in _list_sources(request)),
    ]
    for source, message in checks:
        if message is not None:
            _add_error(source, message, errors)


def _add_error(source: ContentSource, message: str, errors: FieldErrors) -> None:
    errors.setdefault(source.field, []).append(add_note(message, source.part))


def _parse_color(text: str, errors: FieldErrors) -> str:
    try:
        return parse_color(text).rgba_text
    except ValueError as invalid_color:
        errors["handwriting_color"] = [str(invalid_color)]
        return text


BRAND_FIELD, AMOUNT_FIELD, LANDING_PAGE_FIELD, MESSAGE_TEMPLATE_FIELD = (
    "giftcard_brand", "giftcard_amount", "landing_page_url", "message_template",
)  # fmt: skip


def choose_giftcard(
    tx: Tx, request: OrderRequest, message_template: MessageTemplate | None, errors: FieldErrors
) -> GiftcardChoice | None:
    """The card as in the catalog; errors are added."""
    if request.product != GIFTCARD:
        return None
    offered_brands = giftcard_queries.list_offered_brands(tx)
    brand, cents = (
        _choose_brand(request, message_template, offered_brands, errors),
        _choose_amount(request, message_template),
    )
    if cents is None:
        message = f"Say what each card is worth, in cents. {amount_choices_text(brand) if brand else ''}".strip()
        errors.setdefault(AMOUNT_FIELD, []).append(message)
    if brand is None or cents is None:
        return None
    if amount_message := amount_error(cents, brand):
        is_from_request = request.giftcard_amount is not None
        _add_giftcard_error(
            AMOUNT_FIELD if is_from_request else MESSAGE_TEMPLATE_FIELD,
            amount_message,
            "" if is_from_request else AMOUNT_FIELD,
            errors,
        )
    landing_source = landing_page_source(request, message_template)
    return GiftcardChoice(brand.code, brand.title, brand.accent, cents, landing_source.url if landing_source else None)


def landing_page_source(request: OrderRequest, message_template: MessageTemplate | None) -> ContentSource | None:
    """The page to visit before the card is shown."""
    if request.product != GIFTCARD:
        return None
    if request.landing_page_url:
        return ContentSource(LANDING_PAGE_FIELD, request.landing_page_url)
    if message_template is not None and message_template.landing_page_url:
        return ContentSource(
            MESSAGE_TEMPLATE_FIELD, message_template.landing_page_url, part=name_part(LANDING_PAGE_FIELD)
        )
    return None


def check_giftcard(tx: Tx, gift: GiftcardChoice) -> FieldErrors:
    """What is wrong with a card chosen earlier, by today's catalog."""
    offered_brands = giftcard_queries.list_offered_brands(tx)
    brand = find_offered_brand(gift.brand, offered_brands)
    if brand is None:
        return {BRAND_FIELD: [unknown_brand_error(gift.brand, offered_brands)]}
    amount_message = amount_error(gift.cents, brand)
    return {AMOUNT_FIELD: [amount_message]} if amount_message else {}


def _choose_brand(
    request: OrderRequest,
    message_template: MessageTemplate | None,
    offered_brands: list[GiftcardBrand],
    errors: FieldErrors,
) -> GiftcardBrand | None:
    template_code = message_template.giftcard_brand_code if message_template is not None else None
    code = request.giftcard_brand or template_code
    if code is None:
        errors.setdefault(BRAND_FIELD, []).append(f"Say whose card it is. {brand_choices_text(offered_brands)}")
        return None
    brand = find_offered_brand(code, offered_brands)
    if brand is None and request.giftcard_brand:
        _add_giftcard_error(BRAND_FIELD, unknown_brand_error(code, offered_brands), "", errors)
    elif brand is None:
        _add_giftcard_error(
            MESSAGE_TEMPLATE_FIELD, unknown_brand_error(code, offered_brands), "giftcard_brand_code", errors
        )
    return brand


def _choose_amount(request: OrderRequest, message_template: MessageTemplate | None) -> int | None:
    if request.giftcard_amount is not None:
        return request.giftcard_amount
    return message_template.giftcard_amount if message_template is not None else None


def _add_giftcard_error(field: str, message: str, part: str, errors: FieldErrors) -> None:
    """At the field that the caller can change."""
    errors.setdefault(field, []).append(add_note(message, name_part(part) if part else ""))
