"""The composer's end: the order. Live mail is told once more in plain numbers before it is on its way."""

from contextlib import suppress
from typing import Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused, Unpaid
from quillpost.orders import service as order_service
from quillpost.orders.create import OrderFiles
from quillpost.orders.drafts import OrderDraft
from quillpost.orders.models import Order
from quillpost.web import csrf
from quillpost.web.csrf import use_one_time_key
from quillpost.web.dashboard.compose.estimates import PriceEstimate, estimate_draft
from quillpost.web.dashboard.compose.forms import FORM_ERROR_KEY, compose_send, draft_composed_order, to_form_errors
from quillpost.web.dashboard.compose.pages import render_composer
from quillpost.web.dashboard.forms import parse_zone
from quillpost.web.dependencies import Services
from quillpost.web.forms import CSRF_FIELD, Form, PostedLargeForm
from quillpost.web.rendering import redirect, render_page
from quillpost.web.sessions import CurrentUser

router = APIRouter(include_in_schema=False)

AGREED_FIELD: Final = "agreed"
"""What a sender has seen on the page that asks whether they are sure: pieces and cents."""
ALREADY_SENT: Final = "Your order is there: see it under Orders."
NO_CREDIT: Final = "{} Nothing was sent. Credit is added under Money."
NO_RECIPIENTS: Final = "There is nobody left to mail to: see beside the price why."


class AgreementChanged(Exception):
    """What would be sent is not what its sender has agreed to."""


@router.post("/compose/send")
def send_order(request: Request, user: CurrentUser, form: PostedLargeForm, container: Services) -> Response:
    zone = parse_zone(request, form.fields)
    _require_unsent(user, form, container)
    try:
        order_draft = draft_composed_order(compose_send(form, container, zone), user.caller, container)
        estimate = estimate_draft(order_draft, user.caller, container)
        if estimate.pieces == 0:
            raise Invalid({FORM_ERROR_KEY: [NO_RECIPIENTS]})
        if not user.caller.is_testing and form.text(AGREED_FIELD) != _agreement(estimate):
            return _render_confirmation(request, user, form, container, order_draft, estimate, zone)
        try:
            files = order_service.store_files(container.orders, user.caller, order_draft)
            order = _create_order(user, form, container, order_draft, files, estimate)
        except AgreementChanged:
            estimate = estimate_draft(order_draft, user.caller, container)
            return _render_confirmation(request, user, form, container, order_draft, estimate, zone)
    except (Invalid, Refused) as error:
        form_error = error if isinstance(error, Invalid) else to_form_errors(error)
        return render_composer(request, user, container, form, errors=form_error.fields)
    except Unpaid as payment_error:
        errors = {FORM_ERROR_KEY: [NO_CREDIT.format(payment_error.message)]}
        return render_composer(request, user, container, form, errors=errors, status=402)
    return redirect(f"/orders/{order.id}", flash=_flash_name(user, order_draft))


class _CheckOnly(Exception):
    """Ends a transaction that was only to look."""


def _require_unsent(user: SignedInUser, form: Form, container: Container) -> None:
    """`DoneAlready` for a form that has made its order: all whom it is to have had it just now, and that
    would be told instead."""
    with suppress(_CheckOnly), container.db.transaction(build_tenant(user.caller)) as tx:
        _claim_form(tx, user, form)
        raise _CheckOnly


def _claim_form(tx: Tx, user: SignedInUser, form: Form) -> None:
    use_one_time_key(tx, user, form.text(csrf.ONE_TIME_FIELD), hint=ALREADY_SENT, result_path="/orders")


def _create_order(
    user: SignedInUser,
    form: Form,
    container: Container,
    order_draft: OrderDraft,
    files: OrderFiles,
    estimate: PriceEstimate,
) -> Order:
    """One form is one order, however often it is sent."""
    with container.db.transaction(build_tenant(user.caller)) as tx:
        _claim_form(tx, user, form)
        order, audience = order_service.create_order(container.orders, tx, user.caller, order_draft, files)
        if not user.caller.is_testing and audience.mailed_items != estimate.pieces:
            raise AgreementChanged
    return order


def _render_confirmation(
    request: Request,
    user: SignedInUser,
    form: Form,
    container: Container,
    order_draft: OrderDraft,
    estimate: PriceEstimate,
    zone: ZoneInfo,
) -> Response:
    """All that the form holds goes along unseen."""
    now = container.clock()
    due_at = order_service.compute_due_at(container.orders, user.caller, order_draft)
    hidden_fields: list[tuple[str, str]] = [
        (name, value)
        for name, values in form.fields.items()
        if name not in (AGREED_FIELD, CSRF_FIELD, "find")
        for value in values
    ]
    return render_page(
        request,
        "compose/confirm.html",
        user=user,
        price=estimate,
        agreement=_agreement(estimate),
        hidden_fields=hidden_fields,
        due_at=due_at,
        is_scheduled=order_draft.request.schedule_for is not None,
        zone=zone,
        now=now,
    )


def _agreement(estimate: PriceEstimate) -> str:
    return f"{estimate.pieces}:{estimate.total}"


def _flash_name(user: SignedInUser, order_draft: OrderDraft) -> str:
    action = "scheduled" if order_draft.request.schedule_for is not None else "sent"
    return f"composer_{action}_{user.mode}"
