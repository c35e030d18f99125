"""Held orders: released, or refused with a reason that the sender reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Response

from quillpost.core.errors import Conflict, Invalid, NotFound
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.review.service import list_paused_orders
from quillpost.fulfillment.service import draw_proof
from quillpost.orders.models import Order
from quillpost.orders.queries import read_order
from quillpost.web.api.print_room.schemas import Refusal, Release
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_page, read_body
from quillpost.web.dashboard.labels import TYPE_NAMES
from quillpost.web.dashboard.print_room.pages import PRINT_ROOM_PATH, render_room_page
from quillpost.web.dashboard.responses import OperatorContext, PathId, ReasonField, RequestContext
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import format_cents, pluralize, redirect

router = APIRouter(include_in_schema=False)

HELD_PATH = f"{PRINT_ROOM_PATH}/held"


@dataclass(frozen=True, slots=True)
class HoldDecision:
    verb: str
    past_verb: str
    consequences: Callable[[Order], Sequence[str]]
    reason_field: ReasonField
    body_class: type[Release | Refusal]
    apply: Callable[..., Order]
    is_harmless: bool = False


RELEASE_DECISION = HoldDecision(
    "Release",
    "released",
    lambda order: [
        f"{pluralize(order.pieces, 'piece')} for {format_cents(order.grand_total)}: it goes to the press,"
        " past the checks that held it.",
        *(f"Held because: {reason}" for reason in order.hold_reasons),
        "If its sender has changed it since, it is reviewed once more.",
    ],
    ReasonField("Why it may be printed all the same", "For operators alone. You may leave it empty."),
    Release,
    review_service.release_order,
    is_harmless=True,
)
REFUSE_DECISION = HoldDecision(
    "Refuse",
    "refused",
    lambda order: [
        f"Its {pluralize(order.pieces, 'piece')} will not be printed. This cannot be undone.",
        f"The sender has {format_cents(order.grand_total - order.leads_fee)} back."
        + (f" Its addresses stay billed, {format_cents(order.leads_fee)}." if order.leads_fee else ""),
    ],
    ReasonField(
        "Why it is not printed",
        "The sender reads it. Say what to do, such as: Send it again with your own picture.",
        is_required=True,
    ),
    Refusal,
    review_service.refuse_order,
)


@router.get(HELD_PATH)
def held_orders_page(context: OperatorContext, page: str = "") -> Response:
    return _render_held_orders(context, page=page)


@router.get(f"{HELD_PATH}/{{order_id}}/proof")
def show_proof(context: OperatorContext, order_id: PathId) -> Response:
    """The first items as they would be printed."""
    order = _find_order(context, order_id)
    pdf = draw_proof(context.container.production, order.id)
    headers = {"Content-Disposition": f'inline; filename="order-{order.id}-proof.pdf"', "Cache-Control": "no-store"}
    return Response(pdf, media_type="application/pdf", headers=headers)


def _add_decision_pages(decision: HoldDecision) -> None:
    path = f"{HELD_PATH}/{{order_id}}/{decision.verb.lower()}"

    @router.get(path)
    def decision_page(context: OperatorContext, order_id: PathId) -> Response:
        return _render_decision_page(context, decision, _find_order(context, order_id))

    @router.post(path)
    def decide(context: OperatorContext, order_id: PathId, form: PostedForm) -> Response:
        return _apply_decision(context, decision, _find_order(context, order_id), form)


_add_decision_pages(RELEASE_DECISION)
_add_decision_pages(REFUSE_DECISION)


def _render_decision_page(
    context: RequestContext, decision: HoldDecision, order: Order, form: FormState = EMPTY_FORM
) -> Response:
    return context.confirm(
        form,
        title=f"{decision.verb} order {order.id}?",
        consequences=decision.consequences(order),
        button_label=f"{decision.verb} it",
        back_url=HELD_PATH,
        reason=decision.reason_field,
        is_harmless=decision.is_harmless,
    )


def _apply_decision(context: RequestContext, decision: HoldDecision, order: Order, form: Form) -> Response:
    try:
        reason = read_body(decision.body_class, {"reason": form.text("reason", max_length=10_000)}).reason or ""
        with context.system_transaction() as tx:
            decision.apply(
                tx,
                context.container.environments[context.user.mode],
                order.id,
                operator_id=context.account_id,
                reason=reason,
                now=context.now(),
            )
            details = {"name": f"order {order.id}", "mode": order.mode, "reason": reason}
            context.audit(tx, f"order.{decision.past_verb}", details)
    except Invalid as error:
        return _render_decision_page(
            context, decision, order, FormState.from_error(form, error, default_field="reason")
        )
    except Conflict as error:
        return _render_held_orders(context, error_message=error.message)
    return redirect(HELD_PATH, flash=f"order_{decision.past_verb}")


def _find_order(context: RequestContext, order_id: int) -> Order:
    with context.system_transaction() as tx:
        order = read_order(tx, order_id)
    if order.mode != context.user.mode:
        raise NotFound
    return order


def _render_held_orders(context: RequestContext, *, page: str = "", error_message: str | None = None) -> Response:
    with context.system_transaction() as tx:
        held_orders = list_paused_orders(tx, context.user.mode, parse_page(page))
    status = 409 if error_message else None
    return render_room_page(
        context,
        "held_orders.html",
        page=held_orders,
        list_url=HELD_PATH,
        type_names=TYPE_NAMES,
        error_message=error_message,
        status=status,
    )
