"""Canceling, changing and repeating an order."""

from collections.abc import Iterator
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Conflict, Invalid, Refused, Unpaid
from quillpost.orders import changes as order_changes
from quillpost.orders import queries as order_queries
from quillpost.orders import service as order_service
from quillpost.orders.changes import OrderEdit
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.models import FieldErrors, Order, ReplayRequest
from quillpost.orders.requests.rules import check_schedule
from quillpost.web import security
from quillpost.web.dashboard.compose.estimates import estimate_draft
from quillpost.web.dashboard.forms import (
    EMPTY_FORM,
    FormState,
    format_local_time,
    parse_moment,
    parse_zone,
    send_time_context,
)
from quillpost.web.dashboard.orders.labels import product_label
from quillpost.web.dashboard.responses import render_confirmation, render_form_page
from quillpost.web.dependencies import Services, UnitOfWork, parse_path_id
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import format_cents, redirect
from quillpost.web.security import get_zone, use_one_time_key
from quillpost.web.sessions import CurrentUser

router = APIRouter(include_in_schema=False)

GENERAL_ERROR_FIELD: Final = "order"
"""Errors that belong to no field of the form."""
LARGE_ORDER_ITEMS: Final = 50_000


@router.get("/orders/{order_id}/cancel")
def cancel_page(request: Request, order_id: str, user: CurrentUser, container: Services) -> Response:
    order = _read_order(order_id, user, container)
    if not order.is_cancellable:
        return redirect(f"/orders/{order.id}", flash="order_not_cancellable")
    return _render_cancel_page(request, user, order)


@router.post("/orders/{order_id}/cancel")
def cancel_order(
    request: Request, order_id: str, user: CurrentUser, _form: PostedForm, container: Services
) -> Response:
    number = parse_path_id(order_id)
    try:
        with container.db.transaction(build_tenant(user.caller)) as tx:
            order_changes.cancel_order(tx, number, now=container.clock())
    except Refused as error:
        return _render_cancel_page(request, user, _read_order(order_id, user, container), error_message=error.message)
    return redirect(f"/orders/{number}", flash="order_cancelled")


@router.get("/orders/{order_id}/change")
def change_page(request: Request, order_id: str, user: CurrentUser, container: Services) -> Response:
    order, zone = _read_order(order_id, user, container), get_zone(request)
    if not order.is_cancellable:
        return redirect(f"/orders/{order.id}", flash="order_not_changeable")
    scheduled_time = format_local_time(order.schedule_for, zone) if order.schedule_for else ""
    defaults = {
        "message": [order.message],
        "when": ["later" if scheduled_time else "soon"],
        "send_on": [scheduled_time],
    }
    return _render_change_page(request, user, container, order, FormState(defaults))


@router.post("/orders/{order_id}/change")
def change_order(request: Request, order_id: str, user: CurrentUser, form: PostedForm, container: Services) -> Response:
    order, zone = _read_order(order_id, user, container), parse_zone(request, form.fields)
    try:
        changes, errors = _read_changes(form, order, zone), FieldErrors()
        if not changes.changed_fields:
            return redirect(f"/orders/{order.id}", flash="order_as_it_was")
        check_schedule(changes.schedule_for, errors, now=container.clock())
        with UnitOfWork(lambda: container.db.transaction(build_tenant(user.caller))) as unit_of_work:
            order_changes.change_order(
                container.orders,
                user.caller,
                order.id,
                changes,
                errors,
                max_characters=container.limits.message_characters,
                get_tx=lambda: unit_of_work.tx,
            )
    except (Invalid, Refused, Unpaid, Conflict) as error:
        fields = error.fields if isinstance(error, Invalid) else {GENERAL_ERROR_FIELD: [error.message]}
        form_errors = {"send_on" if name == "schedule_for" else name: messages for name, messages in fields.items()}
        return _render_change_page(request, user, container, order, FormState(form.fields, form_errors))
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


def _render_cancel_page(
    request: Request, user: SignedInUser, order: Order, *, error_message: str | None = None
) -> Response:
    item_count = order.pieces
    not_printed_note = f"None of its {item_count:,} pieces is printed" if item_count > 1 else "It is not printed"
    consequences = [*_cancellation_cost_notes(order, not_printed_note)]
    consequences += ["It cannot be begun again. To mail it after all, send it anew."]
    consequences += ["It has many pieces: this may take a minute."] if item_count > LARGE_ORDER_ITEMS else []
    return render_confirmation(
        request,
        user,
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


def _render_change_page(
    request: Request, user: SignedInUser, container: Container, order: Order, form: FormState = EMPTY_FORM
) -> Response:
    return render_form_page(
        request,
        "orders/change.html",
        user,
        form,
        order=order,
        general_errors=form.list_errors_outside(("message", "send_on", GENERAL_ERROR_FIELD)),
        **send_time_context(parse_zone(request, form.fields), now=container.clock()),
    )


ALREADY_SENT = "Your new order is the first under Orders."
AGREED_FIELD = "agreed"
"""Pieces and cents that the page showed."""
PRICE_CHANGED = "Meanwhile it has another price, or reaches others: look at it once more, and then send it."
NO_RECIPIENTS = "There is nobody left to mail to."
MAX_RECIPIENTS_PRICED_ON_OPEN = 1_000
"""A larger order is priced on request: it takes a while."""


@router.get("/orders/{order_id}/again")
def resend_page(request: Request, order_id: str, user: CurrentUser, container: Services) -> Response:
    order = _read_order(order_id, user, container)
    defaults = FormState({"when": ["soon"], "repeats": ["on"]})
    return _render_resend_page(
        request, user, container, order, defaults, is_priced=order.recipient_count <= MAX_RECIPIENTS_PRICED_ON_OPEN
    )


@router.post("/orders/{order_id}/again")
def resend_order(request: Request, order_id: str, user: CurrentUser, form: PostedForm, container: Services) -> Response:
    order = _read_order(order_id, user, container)
    if form.text("price") == "anew":
        return _render_resend_page(request, user, container, order, FormState(form.fields))
    try:
        draft = _draft_replay(request, form, order, user, container)
        price = estimate_draft(draft, user.caller, container)
        if not price.pieces:
            raise Refused(NO_RECIPIENTS)
        if form.text(AGREED_FIELD) != price.agreement:
            raise Refused(PRICE_CHANGED)
        files = order_service.store_files(container.orders, user.caller, draft)
        with UnitOfWork(lambda: container.db.transaction(build_tenant(user.caller))) as unit_of_work:
            use_one_time_key(
                unit_of_work.tx, user, form.text(security.ONE_TIME_FIELD), hint=ALREADY_SENT, result_path="/orders"
            )
            new_order, _ = order_service.create_order(container.orders, unit_of_work.tx, user.caller, draft, files)
    except (Invalid, Refused, Unpaid) as error:
        return _render_resend_page(
            request,
            user,
            container,
            order,
            FormState.from_error(form, _to_form_errors(error), default_field=GENERAL_ERROR_FIELD),
        )
    return redirect(f"/orders/{new_order.id}", flash="order_sent_again")


def _draft_replay(request: Request, form: Form, order: Order, user: SignedInUser, container: Container) -> OrderDraft:
    is_later, errors = form.text("when") == "later", FieldErrors()
    replay = ReplayRequest(
        order_id=order.id,
        schedule_for=parse_moment(form, "send_on", parse_zone(request, form.fields)) if is_later else None,
        copy_metadata=True,
        allows_repeats=form.text("repeats") == "on",
    )
    check_schedule(replay.schedule_for, errors, now=container.clock())
    return draft_service.draft_replay(container.orders, user.caller, replay, errors)


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


def _render_resend_page(
    request: Request, user: SignedInUser, container: Container, order: Order, form: FormState, *, is_priced: bool = True
) -> Response:
    price = None
    try:
        sent_form = Form({name: list(values) for name, values in form.fields.items()})
        if is_priced:
            price = estimate_draft(_draft_replay(request, sent_form, order, user, container), user.caller, container)
    except (Invalid, Refused) as error:
        form = FormState(form.fields, form.errors or _to_form_errors(error).fields)
    return render_form_page(
        request,
        "orders/resend.html",
        user,
        form,
        order=order,
        product=product_label(order),
        price=price,
        is_priced=is_priced,
        agreement=price.agreement if price else "",
        **send_time_context(parse_zone(request, form.fields), now=container.clock()),
    )


def _read_order(order_id: str, user: SignedInUser, container: Container) -> Order:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        return order_queries.read_order(tx, parse_path_id(order_id))
