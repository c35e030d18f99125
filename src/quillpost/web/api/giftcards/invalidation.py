"""Gift cards that their sender takes back, and sends anew if wanted."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from pydantic import ConfigDict, Field

from quillpost.accounts.billing import credit
from quillpost.accounts.billing.rules import dollars
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.errors import Refused
from quillpost.orders import queries as order_queries
from quillpost.orders.drafts import Draft
from quillpost.orders.giftcards import invalidation
from quillpost.orders.giftcards.invalidation import Taken
from quillpost.orders.giftcards.queries import note_reissue
from quillpost.orders.requests import Faults
from quillpost.orders.service import Files
from quillpost.web.api.bodies import Body, Switch, Text
from quillpost.web.api.dependencies import Log, OneUnit, Pen, Services, Unit, id_in_path, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.order_items.endpoints import ItemId
from quillpost.web.api.orders.responses import item_read_shape
from quillpost.web.api.orders.schemas import ItemInvalidated
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.service import draft_resolved, keep_files, place

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Order items"])

LONGEST_REASON = 500
MayChange = Annotated[Caller, Depends(may("orders:write"))]


class Invalidation(Body):
    """Whether another card is sent in its place, and why; all of it may be left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "Lost in the mail"}]})

    reissue: Switch = Field(
        False,
        description="Send another to the same recipient: a new order, which the returned value helps to pay "
        "for. Needs the scope send:write as well.",
    )
    reason: Text | None = Field(
        None, max_length=LONGEST_REASON, description="Shown in the item's `events`, and to nobody else."
    )


def _invalidate(
    item_id: ItemId,
    who: MayChange,
    parts: Services,
    unit: OneUnit,
    log: Log,
    body: Invalidation | None = None,
) -> Response:
    """While nobody has claimed it: the card is void, its value is credit again, and `giftcard` is null. With
    `reissue` another is sent to the same recipient, as a replay of the order to them alone, and `reissued_as`
    is that order; if it cannot be sent the card stays good. Once void it stays void: a repeated call answers
    the same, returns no money and sends nothing a second time. The piece itself goes on its way."""
    number, asked = id_in_path(item_id), body or Invalidation()
    another = prepare_another(number, who, parts) if asked.reissue else None
    taken = take_card_back(number, who, parts, unit, log, why=asked.reason or None, another=another)
    item = order_queries.read_item(unit.tx, number)
    shown = item_read_shape(item, order_queries.history(unit.tx, item))
    return answer(shown | {"reissued_as": taken})


def prepare_another(item_id: int, who: Caller, parts: ServiceParts) -> tuple[Draft, Files] | None:
    """The order to be sent in its place, checked before anything is locked; None where it was sent."""
    who.require("send:write")
    with parts.db.transaction(tenant(who)) as tx:
        taken = invalidation.find(tx, item_id)
        if taken.card.reissued_as is not None:
            return None
        resolved = invalidation.resolve_another(tx, who, taken, on=parts.clock().date())
    draft = draft_resolved(resolved, Faults(), who, parts)
    return draft, keep_files(draft, who, parts)


def take_card_back(
    item_id: int,
    who: Caller,
    parts: ServiceParts,
    unit: Unit,
    log: Pen,
    *,
    why: str | None,
    another: tuple[Draft, Files] | None,
) -> int | None:
    """All of it in the request's transaction; the order that brings another card, if one does."""
    tx, now = unit.tx, parts.clock()
    taken = invalidation.find(tx, item_id, locked=True)
    # What else wants the account's money waits from here on: the returned value is for the other card first.
    if another is not None and parts.worlds[who.mode].needs_credit:
        credit.take_turns(tx, who.account_id, who.mode)
    is_changed = invalidation.take_back(tx, taken, why=why, now=now)
    reissued_as = taken.card.reissued_as
    if another is not None and reissued_as is None:
        reissued_as = _send_another(taken, *another, who, parts, unit)
        is_changed = True
    if is_changed:
        # The reason may name somebody, who may be erased: the log is never changed.
        about: dict[str, Any] = {
            "name": f"item {item_id}",
            "amount": dollars(taken.card.cents),
            "mode": who.mode,
            "reissued_as": reissued_as,
        }
        log.note(tx, "giftcard.invalidated", about, sub_account_id=taken.order.sub_account_id)
    return reissued_as


def _send_another(
    taken: Taken, draft: Draft, files: Files, who: Caller, parts: ServiceParts, unit: Unit
) -> int:
    order, found = place(draft, files, who, parts, unit)
    if not found.pieces:
        told = " ".join(person.refusal for person in found.people if person.refusal)
        raise Refused(f"Another card cannot be sent to this recipient: {told}")
    note_reissue(unit.tx, taken.card.item_id, order.id)
    return order.id


_how: dict[str, Any] = {
    "response_model": ItemInvalidated,
    "responses": errors(402, 404, *BODY_ERRORS),
}
for _method, _summary in {"put": "Take a gift card back", "patch": "Take a gift card back (PATCH)"}.items():
    router.api_route(
        "/order-items/{item_id}/invalidate-giftcard",
        methods=[_method],
        operation_id=f"invalidate_giftcard_{_method}",
        summary=_summary,
        **_how,
    )(_invalidate)
