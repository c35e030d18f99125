"""Orders that are held, and an operator's verdict on each: it goes on, or it ends."""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, ConfigDict, Field

from quillpost.core.clock import iso
from quillpost.fulfillment import review
from quillpost.fulfillment.review import LONGEST_REASON, HeldOrder, list_held
from quillpost.web.api.bodies import NOT_BLANK, Body, Text, said
from quillpost.web.api.dependencies import (
    AskedPage,
    InServiceTx,
    Log,
    MayDecide,
    MayLook,
    Services,
    id_in_path,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders.endpoints import OrderId
from quillpost.web.api.orders.responses import order_read_shape
from quillpost.web.api.orders.schemas import OrderRead
from quillpost.web.api.print_room.schemas import HeldPage
from quillpost.web.api.responses import answer, linked
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Print room"])


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("Give a reason: the sender reads it.")
    return text.strip()


Reason = Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_not_blank)]


class Release(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The sender likes it soft."}]})

    reason: Annotated[Text | None, AfterValidator(said)] = Field(
        None, max_length=LONGEST_REASON, description="Why it may be printed all the same; kept for operators."
    )


class Refusal(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "The picture is not yours to print."}]}
    )

    reason: Reason = Field(
        max_length=LONGEST_REASON, description="Why it is not printed; the sender reads it."
    )


@router.get(
    "/print/held",
    response_model=HeldPage,
    responses=errors(422),
    summary="List paused orders, oldest first",
)
def list_held_orders(request: Request, who: MayLook, tx: InServiceTx, asked: AskedPage) -> Response:
    """For operators: those of the token's mode, whosever they are, each with what it is held for."""
    return linked(request, list_held(tx, who.mode, asked), held_shape)


@router.post(
    "/orders/{order_id}/release",
    response_model=OrderRead,
    responses=errors(404, *BODY_ERRORS),
    summary="Release a paused order",
)
def release_order(
    request: Request,
    order_id: OrderId,
    who: MayDecide,
    tx: InServiceTx,
    parts: Services,
    log: Log,
    body: Release | None = None,
) -> Response:
    """For operators, of whichever account the order is: it goes to the press, past the checks that held it.
    One that its sender has put off, or whose message they have changed since, is reviewed once more.

    409 unless it is paused, and while anything is missing that live mail needs.
    """
    reason = (body.reason if body else None) or ""
    order = review.release(
        tx,
        parts.worlds[who.mode],
        id_in_path(order_id),
        operator_id=who.account_id,
        reason=reason,
        now=parts.clock(),
    )
    log.note(tx, "order.released", {"name": f"order {order.id}", "mode": order.mode, "reason": reason})
    return answer(order_read_shape(request, parts, order))


@router.post(
    "/orders/{order_id}/refuse",
    response_model=OrderRead,
    responses=errors(404, *BODY_ERRORS),
    summary="Refuse an order",
)
def refuse_order(
    request: Request,
    order_id: OrderId,
    body: Refusal,
    who: MayDecide,
    tx: InServiceTx,
    parts: Services,
    log: Log,
) -> Response:
    """For operators, while it is paused or under review: its pieces fail with the reason, and the sender has
    the money back."""
    order = review.refuse(
        tx,
        parts.worlds[who.mode],
        id_in_path(order_id),
        operator_id=who.account_id,
        reason=body.reason,
        now=parts.clock(),
    )
    log.note(tx, "order.refused", {"name": f"order {order.id}", "mode": order.mode, "reason": body.reason})
    return answer(order_read_shape(request, parts, order))


def held_shape(order: HeldOrder) -> dict[str, Any]:
    return {
        "id": order.id,
        "account_id": order.account_id,
        "account_email": order.account_email,
        "sub_account_id": order.sub_account_id,
        "type": order.type,
        "recipient_count": order.recipient_count,
        "pieces": order.pieces,
        "grand_total": order.grand_total,
        "created_at": iso(order.created_at),
        "paused_at": iso(order.paused_at),
        "reasons": order.reasons,
    }
