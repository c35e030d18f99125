"""Changing an order before it is made, and sending one again."""

from dataclasses import replace
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ConfigDict, Field

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.api.answers import answer
from quillpost.api.bodies import Body, Switch, Text
from quillpost.api.docs import BODY_ERRORS, errors
from quillpost.api.needs import OneUnit, Parts, Unit, id_in_path, may
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.inline_recipients import InlineRecipients, ignored_in_recipients
from quillpost.api.v2.orders import OrderId
from quillpost.api.v2.schemas.orders import OrderRead
from quillpost.api.v2.schemas.send import SendResponse
from quillpost.api.v2.send import MaySend
from quillpost.api.v2.send_body import (
    LONGEST_TEXT,
    Metadata,
    Schedule,
    check_recipients,
    metadata_text,
    schedule,
)
from quillpost.api.v2.sending import carry_out, draft_resolved
from quillpost.api.v2.shapes import order_read_shape
from quillpost.kit.errors import Invalid
from quillpost.orders import store
from quillpost.orders.calls import Faults
from quillpost.orders.editing import Changes, edit, new_words
from quillpost.orders.preparing import Draft
from quillpost.orders.records import Order
from quillpost.orders.replaying import resolve_again
from quillpost.orders.wish import Gift
from quillpost.parts import Parts as ServiceParts

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Orders"])

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
    request: Request, order_id: OrderId, body: ChangedOrder, who: MayChange, parts: Parts, unit: OneUnit
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
        before = store.read_order(tx, order_id)
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
    parts: Parts,
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
