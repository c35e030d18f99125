"""Claims and voids gift cards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.rules import format_dollars
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.database import Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Refused
from quillpost.orders import queries as order_queries
from quillpost.orders import service as order_service
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.giftcards import issuance, tasks
from quillpost.orders.giftcards.ports import CardSecret
from quillpost.orders.giftcards.queries import ItemGiftcard, read_card, record_reissue
from quillpost.orders.giftcards.rules import claim_digest
from quillpost.orders.items import queries as item_queries
from quillpost.orders.items.models import Item
from quillpost.orders.models import FieldErrors, Order, ReplayRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.requests import queries as request_queries
from quillpost.orders.rules import ItemStatus
from quillpost.orders.service import OrderFiles

REPORT_REASONS: Mapping[str, str] = {
    "not_mine": "It is not mine",
    "lost": "It was lost or stolen",
    "broken": "The code does not work",
}
"""By the value of the form; the sentence is stored with the card."""


class ClaimState(StrEnum):
    """What can be done with a card. `LOCKED`: reported before its code was shown, so it is not shown any more."""

    NOT_YET = "not_yet"
    VISIT_FIRST = "visit_first"
    READY = "ready"
    CLAIMED = "claimed"
    LOCKED = "locked"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A card as its page shows it, without its secrets."""

    item_id: int
    order_id: int
    mode: str
    title: str
    accent: str
    cents: int
    sender: str | None
    landing_page_url: str | None
    state: ClaimState
    report: str | None


VIEW_COLUMNS = [field.name for field in fields(ClaimView) if field.name != "state"]


@dataclass(frozen=True, slots=True)
class RevealedCard:
    """A card, with its secret if its state allows."""

    view: ClaimView
    card: CardSecret | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class CardReport:
    view: ClaimView
    is_new: bool


SELECT_BY_CLAIM = sa.text("""
    select g.item_id, g.order_id, g.mode, g.cents, g.status, g.opened_at, g.visited_at, g.claimed_at,
           g.reported_at, g.report, coalesce(o.giftcard_title, g.brand) as title,
           coalesce(o.giftcard_accent, '#1f4b99') as accent, o.landing_page_url,
           coalesce(nullif(o.sender_company, ''), nullif(o.sender_name, '')) as sender
      from giftcards g join orders o on o.id = g.order_id
     where g.claim_digest = :digest
""")
SET_OPENED = sa.text("update giftcards set opened_at = :now where item_id = :item_id and opened_at is null")
SET_VISITED = sa.text("""
    update giftcards set visited_at = :now, opened_at = coalesce(opened_at, :now)
     where item_id = :item_id and status = 'issued' and visited_at is null
""")
# Against voiding, which takes only a card that is not claimed, one wins: the row is the same.
SET_CLAIMED = sa.text("""
    update giftcards
       set claimed_at = coalesce(claimed_at, :now), opened_at = coalesce(opened_at, :now)
     where item_id = :item_id and status = 'issued' and (claimed_at is not null or reported_at is null)
    returning card_sealed
""")
SET_REPORTED = sa.text("""
    update giftcards set reported_at = :now, report = :report
     where item_id = :item_id and status = 'issued' and reported_at is null
""")


def open_claim_page(tx: Tx, claim: str, *, records_opening: bool, now: datetime) -> ClaimView | None:
    """The card with this claim, or None; the first opening is recorded."""
    row = _find_row(tx, claim)
    if row is None:
        return None
    if records_opening and row.opened_at is None and row.status == "issued":
        tx.execute(SET_OPENED, {"item_id": row.item_id, "now": now})
    return _build_view(row)


def visit_landing_page(tx: Tx, claim: str, *, now: datetime) -> ClaimView | None:
    """Record the visit: from now on the code may be shown."""
    row = _find_row(tx, claim)
    if row is None:
        return None
    if row.landing_page_url is not None and _claim_state(row) is ClaimState.VISIT_FIRST:
        tx.execute(SET_VISITED, {"item_id": row.item_id, "now": now})
    return _build_view(row)


def claim_card(tx: Tx, encryptor: Encryptor, claim: str, *, now: datetime) -> RevealedCard | None:
    """Reveal the code, now and later. It is decrypted before the transaction ends: a card that cannot be decrypted is
    not claimed."""
    row, encrypted_card = _find_row(tx, claim), None
    if row is not None and _claim_state(row) in (ClaimState.READY, ClaimState.CLAIMED):
        # None where it was made void, or reported, meanwhile.
        encrypted_card = tx.execute(SET_CLAIMED, {"item_id": row.item_id, "now": now}).scalar()
        row = _find_row(tx, claim)
    if row is None:
        return None
    if encrypted_card is None:
        return RevealedCard(_build_view(row), None)
    card = issuance.decrypt_card(encryptor, issuance.card_context(row.item_id), bytes(encrypted_card))
    return RevealedCard(_build_view(row), card)


def report_card(tx: Tx, claim: str, report_reason: str, *, now: datetime) -> CardReport | None:
    """The first report, one of `REPORT_REASONS`, is stored."""
    row = _find_row(tx, claim)
    if row is None:
        return None
    updated_count = tx.execute(
        SET_REPORTED, {"item_id": row.item_id, "report": REPORT_REASONS[report_reason], "now": now}
    ).rowcount
    updated_row = _find_row(tx, claim)
    assert updated_row is not None
    return CardReport(_build_view(updated_row), is_new=updated_count == 1)


def _find_row(tx: Tx, claim: str) -> sa.Row[Any] | None:
    return tx.execute(SELECT_BY_CLAIM, {"digest": claim_digest(claim)}).first()


def _build_view(row: sa.Row[Any]) -> ClaimView:
    values = {name: row._mapping[name] for name in VIEW_COLUMNS}
    return ClaimView(**values, state=_claim_state(row))


def _claim_state(row: sa.Row[Any]) -> ClaimState:
    if row.status == "void":
        return ClaimState.VOID
    if row.status != "issued":
        return ClaimState.NOT_YET
    if row.claimed_at is not None:
        return ClaimState.CLAIMED
    if row.reported_at is not None:
        return ClaimState.LOCKED
    needs_visit = row.landing_page_url is not None and row.visited_at is None
    return ClaimState.VISIT_FIRST if needs_visit else ClaimState.READY


NO_CARD = "This piece brings no gift card."
NOT_ISSUED = "The gift card of this piece is not issued yet: cancel the order instead, while it can be."
NEVER_ISSUED = "This piece has no gift card: it was not mailed, and nothing is charged for it."
RECIPIENT_ERASED = "The recipient of this piece is not known any more: there is nobody to send another card to."
MAX_REASON_LENGTH = 500
NOT_PRINTED_YET = "Another card can be sent once the order is printed; without reissue the card is taken back now."


@dataclass(frozen=True, slots=True)
class VoidableCard:
    card: ItemGiftcard
    item: Item
    order: Order


def find_voidable_card(tx: Tx, item_id: int, *, locked: bool = False) -> VoidableCard:
    """The item's card if it is or can be void; `Refused` says why not. `locked`, it is not issued, claimed, failed or
    voided before this transaction ends."""
    item = item_queries.read_item(tx, item_id)
    order = order_queries.read_order(tx, item.order_id, locked=locked)
    card = read_card(tx, item_id, locked=locked)
    if locked:
        item = item_queries.read_item(tx, item_id)
    if order.gift is None:
        raise Refused(NO_CARD)
    if card is None or card.issued_at is None:
        raise Refused(NEVER_ISSUED if item.status is ItemStatus.FAILED else NOT_ISSUED)
    if card.claimed_at is not None:
        raise Refused(
            f"This gift card was claimed on {card.claimed_at:%Y-%m-%d at %H:%M} UTC: it can no longer be taken back."
        )
    return VoidableCard(card, item, order)


def prepare_reissue(context: OrderContext, caller: Caller, item_id: int) -> tuple[OrderDraft, OrderFiles] | None:
    """The order that brings the same recipient another card, checked before anything is locked; None where it was
    sent."""
    caller.require("send:write")
    with context.db.transaction(build_tenant(caller)) as tx:
        voidable = find_voidable_card(tx, item_id)
        if voidable.card.reissued_as is not None:
            return None
        if voidable.item.address is None:
            raise Refused(RECIPIENT_ERASED)
        if request_queries.is_unmailed(voidable.order):
            raise Refused(NOT_PRINTED_YET)
        reissue = ReplayRequest.for_one(voidable.order.id, request_queries.recipient_row(voidable.item))
        resolved = request_queries.resolve_replay(tx, caller, reissue, price_date=context.clock().date())
    draft = draft_service.draft_resolved_order(context, caller, resolved, FieldErrors())
    return draft, order_service.store_files(context, caller, draft)


def take_back_card(
    context: OrderContext,
    tx: Tx,
    caller: Caller,
    item_id: int,
    *,
    reason: str | None,
    reissue: tuple[OrderDraft, OrderFiles] | None,
    record_audit: Callable[..., None],
) -> int | None:
    """Void the card and send the order that brings another, if there is one: that order's id."""
    voidable = find_voidable_card(tx, item_id, locked=True)
    # What else wants the account's money waits from here on: the returned value is for the other card first.
    if reissue is not None and context.environments[caller.mode].needs_credit:
        billing_service.lock_credit(tx, caller.account_id, caller.mode)
    is_changed = tasks.void_cards(tx, [item_id], reason=reason, now=context.clock()) == 1
    reissued_as = voidable.card.reissued_as
    if reissue is not None and reissued_as is None:
        order, audience = order_service.create_order(context, tx, caller, *reissue)
        if not audience.mailed_items:
            refusals = " ".join(person.refusal for person in audience.people if person.refusal)
            raise Refused(f"Another card cannot be sent to this recipient: {refusals}")
        record_reissue(tx, item_id, order.id)
        reissued_as, is_changed = order.id, True
    if is_changed:
        # The reason may name a person, who may be erased: the log is never changed.
        details: dict[str, Any] = {
            "name": f"item {item_id}",
            "amount": format_dollars(voidable.card.cents),
            "mode": caller.mode,
            "reissued_as": reissued_as,
        }
        record_audit(tx, "giftcard.invalidated", details, sub_account_id=voidable.order.sub_account_id)
    return reissued_as
