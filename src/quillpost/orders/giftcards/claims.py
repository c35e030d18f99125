"""What whoever holds a piece does with its card: look, visit the sender's page, have the code shown, report.

The claim is all that they show, and finds one card alone. Everything here takes the service's own
transaction, and asks first for the card: a claim that nobody has costs the same, whatever was wanted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.encryption import Sealer
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import GiftCard
from quillpost.orders.giftcards.rules import claim_digest

REPORTS: Mapping[str, str] = {
    "not_mine": "It is not mine",
    "lost": "It was lost or stolen",
    "broken": "The code does not work",
}
"""What can be wrong, by what a form calls it; the sentence is kept with the card."""


class State(StrEnum):
    """What can be done with a card now. One that was reported before its code was shown is `LOCKED`: nobody
    sees it any more, whoever it was that reported it."""

    NOT_YET = "not_yet"
    VISIT_FIRST = "visit_first"
    READY = "ready"
    CLAIMED = "claimed"
    LOCKED = "locked"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Held:
    """A piece's card as its page shows it, without either of its secrets."""

    item_id: int
    order_id: int
    mode: str
    title: str
    accent: str
    cents: int
    sender: str | None
    landing_page_url: str | None
    state: State
    report: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A card, and what it is redeemed with if its state allows that to be seen."""

    held: Held
    card: GiftCard | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reported:
    """`is_news`: by this report, and not by an earlier one."""

    held: Held
    is_news: bool


FIND = sa.text(
    """
    select g.item_id, g.order_id, g.mode, g.cents, g.status, g.opened_at, g.visited_at, g.claimed_at,
           g.reported_at, g.report, coalesce(o.giftcard_title, g.brand) as title,
           coalesce(o.giftcard_accent, '#1f4b99') as accent, o.landing_page_url,
           coalesce(nullif(o.sender_company, ''), nullif(o.sender_name, '')) as sender
      from giftcards g join orders o on o.id = g.order_id
     where g.claim_digest = :digest
    """
)
OPENED = sa.text("update giftcards set opened_at = :now where item_id = :item_id and opened_at is null")
VISITED = sa.text(
    """
    update giftcards set visited_at = :now, opened_at = coalesce(opened_at, :now)
     where item_id = :item_id and status = 'issued' and visited_at is null
    """
)
# Against voiding, which asks for a card that nobody has claimed, one wins: the row is the same.
CLAIMED = sa.text(
    """
    update giftcards
       set claimed_at = coalesce(claimed_at, :now), opened_at = coalesce(opened_at, :now)
     where item_id = :item_id and status = 'issued' and (claimed_at is not null or reported_at is null)
    returning card_sealed
    """
)
REPORTED = sa.text(
    """
    update giftcards set reported_at = :now, report = :report
     where item_id = :item_id and status = 'issued' and reported_at is null
    """
)


def look(tx: Tx, claim: str, *, notes: bool, now: datetime) -> Held | None:
    """The card of the piece that this claim is printed on; None if there is no such piece. That it was looked
    at is noted once."""
    row = _find(tx, claim)
    if row is None:
        return None
    if notes and row.opened_at is None and row.status == "issued":
        tx.execute(OPENED, {"item_id": row.item_id, "now": now})
    return _held(row)


def visit(tx: Tx, claim: str, *, now: datetime) -> Held | None:
    """They go to the sender's page: from now on the code may be shown."""
    row = _find(tx, claim)
    if row is None:
        return None
    if row.landing_page_url is not None and _state(row) is State.VISIT_FIRST:
        tx.execute(VISITED, {"item_id": row.item_id, "now": now})
    return _held(row)


def claim_card(tx: Tx, sealer: Sealer, claim: str, *, now: datetime) -> Shown | None:
    """Have the code shown, now and whenever it is asked for again. It is opened before the transaction ends:
    a card whose seal does not open is not claimed, and one that was claimed by a server that died before it
    could answer is shown the next time."""
    row = _find(tx, claim)
    if row is None:
        return None
    if _state(row) not in (State.READY, State.CLAIMED):
        return Shown(_held(row), None)
    sealed = tx.execute(CLAIMED, {"item_id": row.item_id, "now": now}).scalar()
    now_so = _find(tx, claim)
    assert now_so is not None
    if sealed is None:  # it was made void, or reported, meanwhile
        return Shown(_held(now_so), None)
    return Shown(_held(now_so), issuance.open_card(sealer, issuance.card_context(row.item_id), bytes(sealed)))


def report(tx: Tx, claim: str, said: str, *, now: datetime) -> Reported | None:
    """Something is wrong, as one of `REPORTS` says. The first report is kept."""
    row = _find(tx, claim)
    if row is None:
        return None
    noted = tx.execute(REPORTED, {"item_id": row.item_id, "report": REPORTS[said], "now": now}).rowcount
    now_so = _find(tx, claim)
    assert now_so is not None
    return Reported(_held(now_so), is_news=noted == 1)


def _find(tx: Tx, claim: str) -> sa.Row[Any] | None:
    return tx.execute(FIND, {"digest": claim_digest(claim)}).first()


def _held(row: sa.Row[Any]) -> Held:
    return Held(
        item_id=row.item_id,
        order_id=row.order_id,
        mode=row.mode,
        title=row.title,
        accent=row.accent,
        cents=row.cents,
        sender=row.sender,
        landing_page_url=row.landing_page_url,
        state=_state(row),
        report=row.report,
    )


def _state(row: sa.Row[Any]) -> State:
    if row.status == "void":
        return State.VOID
    if row.status != "issued":
        return State.NOT_YET
    if row.claimed_at is not None:
        return State.CLAIMED
    if row.reported_at is not None:
        return State.LOCKED
    is_gated = row.landing_page_url is not None and row.visited_at is None
    return State.VISIT_FIRST if is_gated else State.READY
