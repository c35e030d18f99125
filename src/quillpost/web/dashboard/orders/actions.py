"""Canceling, changing and repeating an order."""

from collections.abc import Iterator
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Response

from quillpost.core.errors import Conflict, Invalid, Refused, Unpaid
from quillpost.orders import changes as order_changes
from quillpost.orders import queries as order_queries
from quillpost.orders import service as order_service
from quillpost.orders.changes import OrderEdit
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.models import FieldErrors, Order, ReplayRequest
from quillpost.orders.requests.rules import check_schedule
from quillpost.web.dashboard.compose.estimates import estimate_draft
from quillpost.web.dashboard.forms import FormState, format_local_time, parse_moment, parse_zone, send_time_context
from quillpost.web.dashboard.orders.labels import product_label
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dependencies import UnitOfWork
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import format_cents, redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

GENERAL_ERROR_FIELD: Final = "order"
"""Errors that belong to no field of the form."""
LARGE_ORDER_ITEMS: Final = 50_000


@router.get("/orders/{order_id}/cancel")
def cancel_page(context: UserContext, order_id: PathId) -> Response:
    order = _read_order(context, order_id)
    if not order.is_cancellable:
        return redirect(f"/orders/{order.id}", flash="order_not_cancellable")
    return _render_cancel_page(context, order)


@router.post("/orders/{order_id}/cancel")
def cancel_order(context: UserContext, order_id: PathId, _form: PostedForm) -> Response:
    try:
        with context.transaction() as tx:
            order_changes.cancel_order(tx, order_id, now=context.now())
    except Refused as error:
        return _render_cancel_page(context, _read_order(context, order_id), error_message=error.message)
    return redirect(f"/orders/{order_id}", flash="order_cancelled")


@router.get("/orders/{order_id}/change")
def change_page(context: UserContext, order_id: PathId) -> Response:
    order = _read_order(context, order_id)
    if not order.is_cancellable:
        return redirect(f"/orders/{order.id}", flash="order_not_changeable")
    scheduled_time = format_local_time(order.schedule_for, context.zone) if order.schedule_for else ""
    defaults = {
        "message": [order.message],
        "when": ["later" if scheduled_time else "soon"],
        "send_on": [scheduled_time],
    }
    return _render_change_page(context, order, FormState(defaults))


@router.post("/orders/{order_id}/change")
def change_order(context: UserContext, order_id: PathId, form: PostedForm) -> Response:
    order, zone = _read_order(context, order_id), parse_zone(context.request, form.fields)
    try:
        changes, errors = _read_changes(form, order, zone), FieldErrors()
        if not changes.changed_fields:
            return redirect(f"/orders/{order.id}", flash="order_as_it_was")
        check_schedule(changes.schedule_for, errors, now=context.now())
        with UnitOfWork(context.transaction) as unit_of_work:
            order_changes.change_order(
                context.container.orders,
                context.user.caller,
                order.id,
                changes,
                errors,
                max_characters=context.container.limits.message_characters,
                get_tx=lambda: unit_of_work.tx,
            )
    except (Invalid, Refused, Unpaid, Conflict) as error:
        fields = error.fields if isinstance(error, Invalid) else {GENERAL_ERROR_FIELD: [error.message]}
        form_errors = {"send_on" if name == "schedule_for" else name: messages for name, messages in fields.items()}
        return _render_change_page(context, order, FormState(form.fields, form_errors))
    return redirect(f"/orders/{order.id}", flash="order_changed")


def _read_changes(form: Form, order: Order, zone: ZoneInfo) -> OrderEdit:
    """What is different: what stays is not priced or laid out again."""
    changes: dict[str, Any] = {}
    message = form.text("message", max_length=10_000).replace("\r\n", "\n")
    if not order.pdf_only and message != order.message.replace("\r\n", "\n").strip():
        changes["message"] = message
    send_at = parse_moment(form, "send_on", zone) if form.text("when") == "later" else None
    current_send_at = order.schedule_for.replace(second=0, microsecond=0) if order.schedule_for else None
    if send_at != current_send_at:
        changes["schedule_for"] = send_at
    return OrderEdit(changed_fields=frozenset(changes), **changes)


def _render_cancel_page(context: RequestContext, order: Order, *, error_message: str | None = None) -> Response:
    item_count = order.pieces
    not_printed_note = f"None of its {item_count:,} pieces is printed" if item_count > 1 else "It is not printed"
    consequences = [*_cancellation_cost_notes(order, not_printed_note)]
    consequences += ["It cannot be begun again. To mail it after all, send it anew."]
    consequences += ["It has many pieces: this may take a minute."] if item_count > LARGE_ORDER_ITEMS else []
    return context.confirm(
        title=f"Cancel order {order.id}?",
        consequences=consequences,
        button_label="Cancel the order",
        back_url=f"/orders/{order.id}",
        breadcrumbs=[("/orders", "Orders"), (f"/orders/{order.id}", f"Order {order.id}")],
        error_message=error_message,
    )


def _cancellation_cost_notes(order: Order, not_printed_note: str) -> Iterator[str]:
    """Pieces cost nothing then; leads that were bought stay bought."""
    fee = format_cents(order.leads_fee)
    if order.mode == "test":
        yield f"{not_printed_note}. It is a test: nothing is billed."
        if order.leads_fee:
            yield f"Its addresses stay on their list. In live mode their {fee} would stay billed."
    elif order.leads_fee:
        yield f"{not_printed_note} or billed: what was held for that is credit again."
        yield f"Its addresses stay billed, {fee}. They stay on their list, to mail to for no further fee."
    else:
        yield f"{not_printed_note}, and nothing is billed: what was held for it is credit again."


def _render_change_page(context: RequestContext, order: Order, form: FormState) -> Response:
    return context.render(
        "orders/change.html",
        form,
        order=order,
        general_errors=form.list_errors_outside(("message", "send_on", GENERAL_ERROR_FIELD)),
        **send_time_context(parse_zone(context.request, form.fields), now=context.now()),
    )


ALREADY_SENT = "Your new order is the first under Orders."
AGREED_FIELD = "agreed"
"""Pieces and cents that the page showed."""
PRICE_CHANGED = "Meanwhile it has another price, or reaches others: look at it once more, and then send it."
NO_RECIPIENTS = "There is nobody left to mail to."
MAX_RECIPIENTS_PRICED_ON_OPEN = 1_000
"""A larger order is priced on request: it takes a while."""


@router.get("/orders/{order_id}/again")
def resend_page(context: UserContext, order_id: PathId) -> Response:
    order = _read_order(context, order_id)
    defaults = FormState({"when": ["soon"], "repeats": ["on"]})
    is_priced = order.recipient_count <= MAX_RECIPIENTS_PRICED_ON_OPEN
    return _render_resend_page(context, order, defaults, is_priced=is_priced)


@router.post("/orders/{order_id}/again")
def resend_order(context: UserContext, order_id: PathId, form: PostedForm) -> Response:
    order, orders, caller = _read_order(context, order_id), context.container.orders, context.user.caller
    if form.text("price") == "anew":
        return _render_resend_page(context, order, FormState(form.fields))
    try:
        draft = _draft_replay(context, form, order)
        price = estimate_draft(draft, caller, context.container)
        if not price.pieces:
            raise Refused(NO_RECIPIENTS)
        if form.text(AGREED_FIELD) != price.agreement:
            raise Refused(PRICE_CHANGED)
        files = order_service.store_files(orders, caller, draft)
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint=ALREADY_SENT, result_path="/orders")
            new_order, _ = order_service.create_order(orders, tx, caller, draft, files)
    except (Invalid, Refused, Unpaid) as error:
        return _render_resend_page(context, order, FormState(form.fields, _to_form_errors(error).fields))
    return redirect(f"/orders/{new_order.id}", flash="order_sent_again")


def _draft_replay(context: RequestContext, form: Form, order: Order) -> OrderDraft:
    is_later, errors = form.text("when") == "later", FieldErrors()
    replay = ReplayRequest(
        order_id=order.id,
        schedule_for=parse_moment(form, "send_on", parse_zone(context.request, form.fields)) if is_later else None,
        copy_metadata=True,
        allows_repeats=form.text("repeats") == "on",
    )
    check_schedule(replay.schedule_for, errors, now=context.now())
    return draft_service.draft_replay(context.container.orders, context.user.caller, replay, errors)


def _to_form_errors(error: Invalid | Refused | Unpaid) -> Invalid:
    if not isinstance(error, Invalid):
        return Invalid({GENERAL_ERROR_FIELD: [error.message]})
    if "send_on" in error.fields:
        return error
    form_fields = {"schedule_for": "send_on"}
    messages_by_field: dict[str, list[str]] = {}
    for name, errors in error.fields.items():
        messages_by_field.setdefault(form_fields.get(name, GENERAL_ERROR_FIELD), []).extend(errors)
    return Invalid(messages_by_field)


def _render_resend_page(context: RequestContext, order: Order, form: FormState, *, is_priced: bool = True) -> Response:
    price = None
    try:
        if is_priced:
            draft = _draft_replay(context, Form(form.fields), order)
            price = estimate_draft(draft, context.user.caller, context.container)
    except (Invalid, Refused) as error:
        form = FormState(form.fields, form.errors or _to_form_errors(error).fields)
    return context.render(
        "orders/resend.html",
        form,
        order=order,
        product=product_label(order),
        price=price,
        is_priced=is_priced,
        agreement=price.agreement if price else "",
        **send_time_context(parse_zone(context.request, form.fields), now=context.now()),
    )


def _read_order(context: RequestContext, order_id: int) -> Order:
    with context.transaction() as tx:
        return order_queries.read_order(tx, order_id)
