"""Orders: statistics, reading, canceling, changing, sending again."""

from dataclasses import replace
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import ConfigDict, Field

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.errors import Invalid
from quillpost.fulfillment.proofs import draw_proof
from quillpost.orders import create, items
from quillpost.orders import queries as order_queries
from quillpost.orders.changes import Changes, edit, new_words
from quillpost.orders.drafts import Draft
from quillpost.orders.models import Gift, Order
from quillpost.orders.replay import resolve_again
from quillpost.orders.requests import Faults
from quillpost.orders.rules import ItemStatus
from quillpost.orders.stats import add_up
from quillpost.web.api.bodies import Body, Switch, Text
from quillpost.web.api.dependencies import (
    AskedPage,
    InTx,
    OneUnit,
    Services,
    SubAccountFilter,
    Unit,
    id_in_path,
    may,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders import schemas as schemas
from quillpost.web.api.orders.filters import (
    METADATA_PARAMETER,
    AskedMoment,
    WantedOrders,
    moment,
    moment_after,
)
from quillpost.web.api.orders.responses import order_read_shape, order_shape, stats_shape, track_shape
from quillpost.web.api.orders.schemas import OrderRead
from quillpost.web.api.responses import answer, linked, unmeasured
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.endpoints import MaySend
from quillpost.web.api.send.requests import (
    LONGEST_TEXT,
    Metadata,
    Schedule,
    check_recipients,
    metadata_text,
    schedule,
)
from quillpost.web.api.send.schemas import InlineRecipients, SendResponse, ignored_in_recipients
from quillpost.web.api.send.service import carry_out, draft_resolved

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Orders"])

MayRead = Annotated[Caller, Depends(may("orders:read"))]
Start = Annotated[AskedMoment, Query(description="The first ISO 8601 date or date-time.")]
End = Annotated[AskedMoment, Query(description="The last ISO 8601 date or date-time, itself included.")]


@router.get(
    "/orders/stats",
    response_model=schemas.OrderStats,
    responses=errors(400, 422),
    summary="Add up orders",
)
def read_stats(
    who: MayRead, tx: InTx, sub_account_id: SubAccountFilter, start_date: Start = None, end_date: End = None
) -> Response:
    """How the pieces of all orders made in this time stand now, and what those orders cost."""
    faults: Faults = {}
    since = moment("start_date", start_date, faults)
    until = moment_after("end_date", end_date, faults)
    if since is not None and until is not None and since >= until:
        faults["end_date"] = ["The end must not be before the start."]
    if faults:
        raise Invalid(faults)
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    return answer(
        stats_shape(add_up(tx, tenant(who), since=since, until=until, sub_account_id=sub_account_id))
    )


MOST_IN_TROUBLE = 1_000
PDF = "application/pdf"
BY_METADATA = {"parameters": [METADATA_PARAMETER]}

MAY_READ = [Depends(may("orders:read"))]
MAY_WRITE = [Depends(may("orders:write"))]
OrderId = Annotated[str, Path(description="The order's id.", json_schema_extra={"type": "integer"})]


@router.get("/orders", include_in_schema=False, openapi_extra=BY_METADATA)
@router.get(
    "/orders/list",
    response_model=schemas.OrderPage,
    responses=errors(400, 422),
    summary="List orders, newest first",
    openapi_extra=BY_METADATA,
)
def list_orders(
    request: Request, who: MayRead, tx: InTx, parts: Services, asked: AskedPage, wanted: WantedOrders
) -> Response:
    """Filter by sub account, type, status, the time of creation, and by what is in the metadata. `search`
    finds orders by someone they go to (name, company, e-mail or address), or by their id.

    Also at `/orders`.
    """
    if wanted.sub_account_id is not None:
        require_sub_account(tx, wanted.sub_account_id)
    page = order_queries.list_orders(parts.db, tx, tenant(who), asked, wanted)
    return linked(request, page, lambda order: order_shape(request, parts, order))


@router.get(
    "/orders/{order_id}",
    response_model=schemas.OrderRead,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read an order",
)
def read_order(request: Request, order_id: OrderId, tx: InTx, parts: Services) -> Response:
    """The order, with `warnings` where something about it deserves a look."""
    order = items.read_order(tx, id_in_path(order_id))
    return answer(order_read_shape(request, parts, order))


@router.get(
    "/orders/{order_id}/track",
    response_model=schemas.TrackResponse,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Track an order",
)
def track_order(request: Request, order_id: OrderId, tx: InTx, parts: Services) -> Response:
    """How many pieces stand where, and those that failed or came back (the first thousand)."""
    order = items.read_order(tx, id_in_path(order_id))
    failed, returned = (
        order_queries.items_in_trouble(tx, order, status, most=MOST_IN_TROUBLE)
        for status in (ItemStatus.FAILED, ItemStatus.RETURNED_TO_SENDER)
    )
    return answer(track_shape(order_shape(request, parts, order), order, failed=failed, returned=returned))


def _require_order(who: Caller, order_id: str, parts: Services) -> int:
    """The id of an order that is the caller's; the transaction ends before anything is drawn."""
    with parts.db.transaction(tenant(who)) as tx:
        return items.read_order(tx, id_in_path(order_id)).id


@router.get(
    "/orders/{order_id}/proof",
    response_class=Response,
    responses={
        200: {
            "description": "The pages of the first pieces, then their envelopes.",
            "content": {PDF: {"schema": {"type": "string", "format": "binary"}}},
        },
        **errors(400, 404),
    },
    summary="Look at an order's first pieces",
)
def read_proof(order_id: OrderId, who: MayRead, parts: Services) -> Response:
    """A PDF of the first pieces as the press prints them, drawn anew at each call."""
    return Response(draw_proof(parts.press, _require_order(who, order_id, parts)), media_type=PDF)


@router.head("/orders/{order_id}/proof", include_in_schema=False)
def find_proof(order_id: OrderId, who: MayRead, parts: Services) -> Response:
    """Whether there is an order to look at; nothing is drawn that nobody sees."""
    _require_order(who, order_id, parts)
    return unmeasured(Response(media_type=PDF))


def _cancel(request: Request, order_id: OrderId, tx: InTx, parts: Services) -> Response:
    """Only while it is `cancellable`; what was authorised is given back.

    Also `PUT /order/{order_id}/cancel`.
    """
    order = create.cancel(tx, id_in_path(order_id), now=parts.clock())
    return answer({"order": order_shape(request, parts, order)})


_how: dict[str, Any] = {
    "response_model": schemas.CancelResponse,
    "responses": errors(400, 404, 409),
    "dependencies": MAY_WRITE,
}
for _method, _summary in {
    "put": "Cancel an order",
    "post": "Cancel an order (POST)",
    "delete": "Cancel an order (DELETE)",
}.items():
    router.api_route(
        "/orders/{order_id}/cancel",
        methods=[_method],
        operation_id=f"cancel_order_{_method}",
        summary=_summary,
        **_how,
    )(_cancel)
router.put("/order/{order_id}/cancel", include_in_schema=False, dependencies=MAY_WRITE)(_cancel)


MayChange = Annotated[Caller, Depends(may("orders:write"))]

CARD_STAYS = "The gift card that was chosen stays: cancel the order, and send another."


class ChangedOrder(Body):
    """What is to be different; what is not named stays."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"message": "See you soon!", "schedule_for": "2026-12-01T09:00:00Z"}]}
    )

    message: Text | None = Field(
        None, max_length=LONGEST_TEXT, description="Another text in the same hand; checked like a send's."
    )
    schedule_for: Schedule = None
    metadata: Metadata = None


class Replay(Body):
    """Whom to send it to, when, and with which metadata; all of it may be left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"schedule_for": "2026-12-01T09:00:00Z"}]})

    rows: ClassVar[str | None] = "recipients"

    recipients: InlineRecipients | None = Field(
        None, description="Instead of those whom the order went to, its lists included."
    )
    schedule_for: Schedule = None
    metadata: Metadata = None
    allow_duplicates: Switch = Field(
        True, description="False: addresses that had the same piece within 36 hours are left out."
    )

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        return super().ignored_in(sent) | ignored_in_recipients(sent)


@router.put(
    "/orders/{order_id}",
    response_model=OrderRead,
    responses=errors(402, 404, *BODY_ERRORS),
    summary="Change an order",
)
def change_order(
    request: Request, order_id: OrderId, body: ChangedOrder, who: MayChange, parts: Services, unit: OneUnit
) -> Response:
    """While it is `cancellable`: its message, schedule, metadata. Other words or times are priced again; a
    gift card stays as it was chosen."""
    order = changed(id_in_path(order_id), body, who, parts, unit)
    return answer(order_read_shape(request, parts, order))


def changed(order_id: int, body: ChangedOrder, who: Caller, parts: ServiceParts, unit: Unit) -> Order:
    """The order as it is from now on, in the request's transaction; laying out other words comes before."""
    now, faults = parts.clock(), Faults()
    given = body.given()
    with parts.db.transaction(tenant(who)) as tx:
        before = items.read_order(tx, order_id)
    may_be_blank = body.message is not None and before.has_background
    if "message" in given and not (body.message or "").strip() and not may_be_blank:
        faults["message"] = ["A message cannot be taken away: leave the field out, or write another."]
    elif len(body.message or "") > parts.limits.message_characters:
        faults["message"] = [f"At most {parts.limits.message_characters:,} characters, please."]
    changes = Changes(
        names=frozenset(given),
        schedule_for=schedule(body.schedule_for, faults, now=now),
        metadata=metadata_text(body.metadata, parts.limits, faults),
    )
    faults |= {name: [CARD_STAYS] for name in _other_card(before.gift, body)}
    if faults:
        raise Invalid(faults)
    world = parts.worlds[who.mode]
    if body.message is not None:
        indicia = world.indicia[before.mail_class]
        words = new_words(parts.db, tenant(who), before, body.message, studio=parts.studio, indicia=indicia)
        changes = replace(changes, words=words)
    return edit(
        unit.tx,
        before.id,
        changes,
        review=world.review,
        needs_credit=world.needs_credit,
        now=parts.clock(),
    )


def _other_card(gift: Gift | None, body: ChangedOrder) -> list[str]:
    """Fields with which the caller wants another gift card. None of them is ours here, but it is about money:
    that they are named as ignored would not do."""
    if gift is None:
        return []
    kept = {
        "giftcard_brand": gift.brand,
        "giftcard_brand_code": gift.brand,
        "giftcard_amount": gift.cents,
        "giftcard_amount_in_cents": gift.cents,
        "landing_page_url": gift.landing_page_url,
    }
    said = body.model_extra or {}
    return [
        name for name, value in kept.items() if said.get(name) is not None and str(said[name]) != str(value)
    ]


@router.post(
    "/orders/{order_id}/replay",
    response_model=SendResponse,
    responses=errors(402, 404, *BODY_ERRORS),
    summary="Send an order again",
)
def replay_order(
    request: Request,
    order_id: OrderId,
    who: MaySend,
    parts: Services,
    unit: OneUnit,
    body: Replay | None = None,
) -> Response:
    """A new order with the creative of one that was mailed; its metadata is copied unless other is given."""
    draft = draft_again(id_in_path(order_id), body or Replay(), who, parts)
    return carry_out(request, draft, who, parts, unit)


def draft_again(order_id: int, body: Replay, who: Caller, parts: ServiceParts) -> Draft:
    """The order once more, checked in every respect; nothing is stored."""
    now, faults = parts.clock(), Faults()
    check_recipients(body.recipients, parts.limits, faults)
    if body.recipients is not None and not body.recipients:
        faults["recipients"] = ["Give at least one recipient, or leave the field out."]
    with parts.db.transaction(tenant(who)) as tx:
        resolved = resolve_again(
            tx,
            who,
            order_id,
            recipients=body.recipients,  # type: ignore[arg-type]
            schedule_for=schedule(body.schedule_for, faults, now=now),
            metadata=metadata_text(body.metadata, parts.limits, faults),
            copies_metadata="metadata" not in body.given(),
            allow_duplicates=body.allow_duplicates,
            on=now.date(),
        )
    return draft_resolved(resolved, faults, who, parts)
