"""Cards that nobody may claim any more: their value is the sender's credit again, in the same statement.

Only an unclaimed card can be void. What it is redeemed with was shown to nobody, so its issuer may take it
back: the job that tells them is woken here, and asks once for each.

Whoever makes a card void has a turn at its order, as has whoever issues one. A claim needs no turn: it waits
for the row of its card alone, and of a claim and a void at the same moment one wins. Whoever changes several
cards at once takes them in the order of their items' ids.
"""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost import jobs
from quillpost.database import Tx

GIVE_BACK = "giftcards.give_back"
"""The task that tells issuers which cards are void."""

PIECE_FAILED = "The piece failed"

# A card is void once, so the least of the ids that become void together is in no other entry.
VOID = sa.text(
    """
    with mine as (
        select item_id from giftcards
         where item_id = any(:items) and status = 'issued' and claimed_at is null
         order by item_id for no key update),
    void as (
        update giftcards g set status = 'void', voided_at = :now, void_reason = :why
          from mine where g.item_id = mine.item_id
        returning g.item_id, g.account_id, g.sub_account_id, g.mode, g.order_id, g.cents),
    piece as (
        update items i set giftcard_brand = null, gift_cents = 0, updated_at = :now
          from void v where i.id = v.item_id),
    money as (
        insert into ledger_moves (account_id, sub_account_id, mode, order_id, kind,
                                  source, target, cents, key, at)
        select account_id, sub_account_id, mode, order_id, 'return', 'gifts', 'credit', sum(cents),
               'return:order:' || order_id || ':items:' || min(item_id) || '-' || max(item_id)
                   || ':' || count(*),
               :now
          from void group by account_id, sub_account_id, mode, order_id),
    counted as (
        update orders o set gift_total = o.gift_total - v.cents, updated_at = :now
          from (select order_id, sum(cents) as cents from void group by order_id) v
         where o.id = v.order_id)
    select count(*) from void
    """
)


def void(tx: Tx, item_ids: Sequence[int], *, why: str | None, now: datetime) -> int:
    """How many of the pieces' cards this call made void; those that are claimed stay good."""
    made_void = int(tx.execute(VOID, {"items": list(item_ids), "why": why, "now": now}).scalar_one())
    if made_void:
        jobs.wake(tx, GIVE_BACK, at=now)
    return made_void
