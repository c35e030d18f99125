"""The composer: one page with one form, and beside it the picture of what would be sent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from fastapi import APIRouter, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, NotFound, Refused, Unpaid
from quillpost.orders import service as order_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.service import find_due_at
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.handwriting.queries import read_hand
from quillpost.orders.models import Order
from quillpost.orders.queries import read_order
from quillpost.orders.service import OrderFiles
from quillpost.orders.templates.service import IMAGE_TEMPLATES, MESSAGE_TEMPLATES
from quillpost.recipients.lists.queries import find_lists
from quillpost.rendering.models import DEFAULT_MANNER
from quillpost.web.dashboard.compose import forms, recipients
from quillpost.web.dashboard.compose.estimates import PriceEstimate, estimate_draft, estimate_form
from quillpost.web.dashboard.compose.forms import (
    FORM_ERROR_KEY,
    FORM_FIELDS,
    PRODUCT_CHOICES,
    compose_send,
    draft_composed_order,
    to_form_errors,
)
from quillpost.web.dashboard.compose.previews import ComposePreview, preview_or_errors
from quillpost.web.dashboard.compose.recipients import search_radius
from quillpost.web.dashboard.forms import FormState, parse_zone
from quillpost.web.dashboard.labels import CUSTOM_INK, FONT_SIZES, INK_NAMES, MANNER_CHOICES, TYPE_NAMES, ink_fields
from quillpost.web.dashboard.previews import draw_latest
from quillpost.web.dashboard.responses import RequestContext, UserContext
from quillpost.web.dashboard.styles import list_signature_choices, list_style_groups
from quillpost.web.dependencies import parse_path_id
from quillpost.web.forms import CSRF_FIELD, Form, PostedLargeForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

FIND_FIELD: Final = "find"
"""The button with which a browser without scripts asks for lists, a radius search or the price."""


def page_values(context: RequestContext, form: Form) -> dict[str, Any]:
    """For the templates `compose/audience.html`, `compose/price.html` and `compose/schedule.html`."""
    caller, container, zone = context.user.caller, context.container, parse_zone(context.request, form.fields)
    requested_sections = form.fields.get(FIND_FIELD, ())
    return {
        **recipients.audience_context(form, caller, container),
        **forms.schedule_context(form, caller, container, zone),
        "radius_search": search_radius(form, caller, container) if "radius" in requested_sections else None,
        "price": estimate_form(form, caller, container, zone) if "price" in requested_sections else None,
        "base_path": "/compose",
        "is_testing": caller.mode == "test",
    }


MAX_IMAGES: Final = 120
MAX_TEMPLATES: Final = 200

VARIABLES: Final = (
    ("FIRST_NAME", "First name"),
    ("LAST_NAME", "Last name"),
    ("FULL_NAME", "Full name"),
    ("COMPANY", "Their company"),
    ("ADDRESS", "Street address"),
    ("CITY", "City"),
    ("STATE", "State"),
    ("ZIP", "ZIP code"),
    ("YOUR_NAME", "Your name"),
    ("YOUR_COMPANY", "Your company"),
    *((f"CUSTOM{n}", f"Custom field {n}") for n in range(1, 11)),
)


def design_context(caller: Caller, container: Container) -> dict[str, Any]:
    with container.db.transaction(build_tenant(caller)) as tx:
        images = IMAGE_TEMPLATES.list_newest(tx, limit=MAX_IMAGES)
        messages = MESSAGE_TEMPLATES.list_newest(tx, limit=MAX_TEMPLATES)
        brands = giftcard_queries.list_offered_brands(tx)
        style_groups = list_style_groups(container, tx)
        signature_choices = list_signature_choices(tx)
    return {
        "product_choices": PRODUCT_CHOICES,
        "custom_ink": CUSTOM_INK,
        "style_groups": style_groups,
        "signature_choices": signature_choices,
        "manners": MANNER_CHOICES,
        "inks": INK_NAMES,
        "sizes": FONT_SIZES,
        "variables": VARIABLES,
        "images": [(each, container.storage.permanent_path(each.image_file_id)) for each in images],
        "messages": [(each.id, f"{each.name} ({TYPE_NAMES.get(each.type, each.type)})") for each in messages],
        "brands": brands,
        "amounts": sorted({cents for brand in brands for cents in brand.amounts}),
        "max_characters": container.limits.message_characters,
    }


FormFields = dict[str, list[str]]
FormErrors = Mapping[str, Sequence[str]]

DESIGN_DEFAULTS: Final[Mapping[str, Sequence[str]]] = {
    "piece": [forms.DEFAULT_PRODUCT],
    "style": ["1"],
    "color": ["blue"],
    "color_own": ["#7a3b12"],
    "manner": [DEFAULT_MANNER],
    "font_size": ["auto"],
    "image": ["none"],
    "pdf_is": ["after"],
}


def default_fields() -> FormFields:
    return {
        name: list(values)
        for name, values in {**DESIGN_DEFAULTS, **recipients.AUDIENCE_DEFAULTS, **forms.SCHEDULE_DEFAULTS}.items()
    }


def start_from_image(tx: Tx, template_id: int, fields: FormFields) -> FormFields:
    image = IMAGE_TEMPLATES.read(tx, template_id)
    matching = [name for name, each in PRODUCT_CHOICES.items() if each.image_type == image.type]
    image_fields = {"image": ["template"], "image_template_id": [str(image.id)]}
    return fields | image_fields | _choose_product(matching, fields)


def start_from_style(tx: Tx, style_id: int, fields: FormFields) -> FormFields:
    """With a style of the account's own."""
    return fields | {"style": [str(read_hand(tx, style_id).id)]}


def start_from_list(tx: Tx, list_id: int, fields: FormFields) -> FormFields:
    if not find_lists(tx, [list_id]):
        raise NotFound
    return fields | {"audience": [recipients.LISTS], "mailing_list_ids": [str(list_id)]}


def start_from_template(tx: Tx, template_id: int, fields: FormFields) -> FormFields:
    """With a saved message and its design settings."""
    template = MESSAGE_TEMPLATES.read(tx, template_id)
    settings = {
        "style": template.handwriting_style_id,
        "manner": template.stated_manner,
        "signature_id": template.signature_id,
        "font_size": template.font_size,
        "qrcode_url": template.qrcode_url,
        "giftcard_brand": template.giftcard_brand_code,
        "giftcard_amount": template.giftcard_amount,
        "landing_page_url": template.landing_page_url,
    }
    values = {name: [str(value)] for name, value in settings.items() if value is not None}
    values |= {"message": [template.content], "message_template_id": [str(template.id)]}
    if template.font_color is not None:
        values |= ink_fields("color", template.font_color)
    return (
        fields
        | values
        | _choose_product([n for n, each in PRODUCT_CHOICES.items() if each.type == template.type], fields)
    )


def start_from_order(tx: Tx, order_id: int, fields: FormFields) -> FormFields:
    """With the design of an earlier order. Its recipients are not taken over."""
    order = read_order(tx, order_id)
    texts = {
        "message": order.message,
        "style": order.style,
        "manner": order.handwriting_manner,
        "signature_id": order.signature_id,
        "font_size": order.font_size,
        "qrcode_url": order.qrcode_url,
        "message_template_id": order.message_template_id,
        "background_url": order.background_url,
        "pdf_url": order.pages_url,
        "front_image_url": order.front_image_url,
        "image_template_id": order.image_template_id,
        "giftcard_brand": order.gift and order.gift.brand,
        "giftcard_amount": order.gift and order.gift.cents,
        "landing_page_url": order.gift and order.gift.landing_page_url,
    }
    values = {name: [str(value)] for name, value in texts.items() if value not in (None, "")}
    name = next(name for name, each in PRODUCT_CHOICES.items() if (each.type, each.size) == (order.type, order.size))
    front = "url" if order.front_image_url else "template" if order.image_template_id else "none"
    return fields | values | ink_fields("color", order.handwriting_color) | {
        "piece": [name],
        "image": [front],
        "pdf_is": ["whole" if order.pdf_only else "after"],
    }  # fmt: skip


def _choose_product(matching: Sequence[str], fields: FormFields) -> FormFields:
    """The first that matches, unless the form has chosen one of them already."""
    chosen = fields.get("piece", [])
    return {} if not matching or set(chosen) & set(matching) else {"piece": [matching[0]]}


router = APIRouter(include_in_schema=False)

STARTING_POINTS: Final[Mapping[str, Callable[[Tx, int, FormFields], FormFields]]] = {
    "order": start_from_order,
    "template": start_from_template,
    "image": start_from_image,
    "style": start_from_style,
    "list": start_from_list,
}
"""What the page's address may name to start from; each wins over those before it."""

TEMPLATE_BUTTON = "template"
"""Takes over a saved message."""


@router.get("/compose")
def compose_page(context: UserContext) -> Response:
    fields = default_fields()
    with context.transaction() as tx:
        for name, start in STARTING_POINTS.items():
            if (number := context.request.query_params.get(name)) is not None:
                fields = start(tx, parse_path_id(number), fields)
    return render_composer(context, Form(fields))


@router.post("/compose")
def refresh_composer(context: UserContext, form: PostedLargeForm) -> Response:
    """The page with what is in its form, and the preview: nothing is sent."""
    if form.text(FIND_FIELD) == TEMPLATE_BUTTON and (number := form.number("message_template_id")) is not None:
        with context.transaction() as tx:
            fields = {name: list(values) for name, values in form.fields.items()}
            form = Form(start_from_template(tx, number, fields), form.page_context)

    def respond() -> Response:
        zone = parse_zone(context.request, form.fields)
        preview, errors = preview_or_errors(form, context.user.caller, context.container, zone)
        return render_composer(context, form, errors=errors, preview=preview)

    return draw_latest(context.user.person_id, respond)


def render_composer(
    context: RequestContext,
    form: Form,
    *,
    errors: FormErrors | None = None,
    status: int | None = None,
    preview: ComposePreview | None = None,
) -> Response:
    """Errors are shown beside their fields; the status is then 422, or the given one."""
    form, errors = forms.reveal_return_address(form, errors or {})
    return context.render(
        "compose/page.html",
        FormState(form.fields, errors),
        status=status,
        has_inline_images=True,
        can_upload=True,
        **composer_context(context.user.caller, context.container, errors, preview),
        **page_values(context, form),
    )


def composer_context(
    caller: Caller,
    container: Container,
    errors: FormErrors | None,
    preview: ComposePreview | None,
    *,
    fields: Iterable[str] = (*FORM_FIELDS.values(), forms.RETURN_CHOICE_FIELD),
) -> dict[str, Any]:
    """The choices of the form, the picture beside it, and the errors above it, which belong to no field."""
    return {
        **design_context(caller, container),
        "general_errors": list_general_errors(errors or {}, fields),
        "preview": preview,
        "seen_digests": (),
        "now": container.clock(),
    }


def list_general_errors(errors: FormErrors, fields: Iterable[str]) -> list[str]:
    known_fields = {*fields, "piece", "audience"}
    return [
        message
        for name, messages in errors.items()
        if name not in known_fields and not name.startswith(("to_", "radius_"))
        for message in messages
    ]


AGREED_FIELD: Final = "agreed"
"""Pieces and cents that the confirmation page showed."""
ALREADY_SENT: Final = "Your order is there: see it under Orders."
NO_CREDIT: Final = "{} Nothing was sent. Credit is added under Money."
NO_RECIPIENTS: Final = "There is nobody left to mail to: see beside the price why."


class AgreementChanged(Exception):
    """What would be sent is not what the sender confirmed."""


@router.post("/compose/send")
def send_order(context: UserContext, form: PostedLargeForm) -> Response:
    caller, container = context.user.caller, context.container
    _require_unsent(context, form)
    try:
        send = compose_send(form, container, parse_zone(context.request, form.fields))
        order_draft = draft_composed_order(send, caller, container)
        estimate = estimate_draft(order_draft, caller, container)
        if estimate.pieces == 0:
            raise Invalid({FORM_ERROR_KEY: [NO_RECIPIENTS]})
        if caller.mode != "test" and form.text(AGREED_FIELD) != estimate.agreement:
            return _render_confirmation(context, form, order_draft, estimate)
        try:
            files = order_service.store_files(container.orders, caller, order_draft)
            order = _create_order(context, form, order_draft, files, estimate)
        except AgreementChanged:
            return _render_confirmation(context, form, order_draft, estimate_draft(order_draft, caller, container))
    except (Invalid, Refused) as error:
        form_error = error if isinstance(error, Invalid) else to_form_errors(error)
        return render_composer(context, form, errors=form_error.fields)
    except Unpaid as payment_error:
        errors = {FORM_ERROR_KEY: [NO_CREDIT.format(payment_error.message)]}
        return render_composer(context, form, errors=errors, status=402)
    action = "scheduled" if order_draft.request.schedule_for is not None else "sent"
    return redirect(f"/orders/{order.id}", flash=f"composer_{action}_{caller.mode}")


class _CheckOnly(Exception):
    """Ends a transaction that only looks."""


def _require_unsent(context: RequestContext, form: Form) -> None:
    """`DuplicateSubmission` for a form that has made its order: otherwise everyone would be a recent recipient."""
    with suppress(_CheckOnly), context.transaction() as tx:
        _claim_form(tx, context, form)
        raise _CheckOnly


def _claim_form(tx: Tx, context: RequestContext, form: Form) -> None:
    use_one_time_key(tx, context.user, form.one_time_key, hint=ALREADY_SENT, result_path="/orders")


def _create_order(
    context: RequestContext, form: Form, order_draft: OrderDraft, files: OrderFiles, estimate: PriceEstimate
) -> Order:
    """One form makes one order, however often it is sent."""
    caller, orders = context.user.caller, context.container.orders
    with context.transaction() as tx:
        _claim_form(tx, context, form)
        order, audience = order_service.create_order(orders, tx, caller, order_draft, files)
        if caller.mode != "test" and audience.mailed_items != estimate.pieces:
            raise AgreementChanged
    return order


def _render_confirmation(
    context: RequestContext, form: Form, order_draft: OrderDraft, estimate: PriceEstimate
) -> Response:
    """The whole form is in hidden fields."""
    hidden_fields: list[tuple[str, str]] = [
        (name, value)
        for name, values in form.fields.items()
        if name not in (AGREED_FIELD, CSRF_FIELD, "find")
        for value in values
    ]
    return context.render(
        "compose/confirm.html",
        price=estimate,
        agreement=estimate.agreement,
        hidden_fields=hidden_fields,
        due_at=find_due_at(context.container.orders, context.user.caller, order_draft.request),
        is_scheduled=order_draft.request.schedule_for is not None,
        zone=parse_zone(context.request, form.fields),
    )
