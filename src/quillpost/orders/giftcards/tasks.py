"""Voids unclaimed cards, which is credit again, and returns them to their issuer. Orders are locked first, then cards
by item id; a claim locks only its card."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.orders.giftcards.ports import GiftcardIssuer, IssuerDown

RETURN_CARDS_TASK = "giftcards.return_void_cards"

ITEM_FAILED = "The piece failed"

# A card is void once, so the least of the ids that become void together is in no other entry.
VOID_CARDS = sa.text("""
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
""")


def void_cards(tx: Tx, item_ids: Sequence[int], *, reason: str | None, now: datetime) -> int:
    """How many became void; claimed cards stay valid."""
    voided_count = int(tx.execute(VOID_CARDS, {"items": list(item_ids), "why": reason, "now": now}).scalar_one())
    if voided_count:
        jobs.enqueue_unique(tx, RETURN_CARDS_TASK, at=now)
    return voided_count


log = structlog.get_logger(__name__)

CARDS_PER_QUERY = 100
MAX_FAILURES = 3
"""In a row: then the issuer is down."""

# A job that composes the batch may be waiting for the issuer; that job, or the next one, takes out what has
# ended. The orders are not locked: no item that has ended comes back.
VOID_ENDED_ITEMS = sa.text("""
    with ended as (
        select g.item_id from giftcards g join items i on i.id = g.item_id
         where g.status = 'asked' and i.status <> 'Processing'
           and not exists (select 1 from prints p join batches b on b.id = p.batch_id
                            where p.item_id = g.item_id and b.status = 'new')
         order by g.item_id for no key update of g skip locked)
    update giftcards g set status = 'void', voided_at = :now, void_reason = :why
      from ended where g.item_id = ended.item_id
""")

SELECT_TO_RETURN = sa.text("""
    select item_id, reference, voided_at from giftcards
     where status = 'void' and issuer is not null and given_back_at is null
       and mode = :mode and issuer = :issuer and item_id > :after
     order by item_id limit :most
""")

COUNT_OTHER_ISSUERS = sa.text("""
    select issuer, count(*) as cards from giftcards
     where status = 'void' and issuer is not null and given_back_at is null
       and mode = :mode and issuer <> :issuer
     group by issuer
""")

# A card that came late made its row void once more: that one is returned again. What the issuer has taken back
# is the card of another customer from now on.
SET_RETURNED = sa.text("""
    with returned as (
        select g.item_id, b.is_taken from giftcards g
          join unnest(cast(:items as bigint[]), cast(:voided as timestamptz[]), cast(:taken as boolean[]))
               as b (item_id, voided_at, is_taken) on b.item_id = g.item_id
         where g.status = 'void' and g.voided_at = b.voided_at and g.given_back_at is null
         order by g.item_id for no key update of g)
    update giftcards g
       set given_back_at = :now, card_sealed = case when returned.is_taken then null else g.card_sealed end
      from returned where g.item_id = returned.item_id
""")


class CardReturns:
    """Returns void cards by mode; cards of another issuer are logged once."""

    def __init__(self, db: Database, issuers: Mapping[str, GiftcardIssuer]) -> None:
        self._db, self._issuers = db, issuers
        self._logged_issuers: set[tuple[str, str]] = set()
        self._resume_after: dict[str, int] = {}

    def return_cards(self, *, now: datetime) -> None:
        """Every void card that was not returned to its issuer yet."""
        with self._db.system_transaction() as tx:
            tx.execute(VOID_ENDED_ITEMS, {"why": ITEM_FAILED, "now": now})
        for mode, issuer in self._issuers.items():
            self._return_to_issuer(mode, issuer, now=now)
            self._log_other_issuers(mode, issuer)

    def _return_to_issuer(self, mode: str, issuer: GiftcardIssuer, *, now: datetime) -> None:
        """Failing cards are skipped; the next run resumes after them."""
        query_params = {"mode": mode, "issuer": issuer.name, "most": CARDS_PER_QUERY}
        last_item_id, failures = self._resume_after.pop(mode, 0), 0
        while failures < MAX_FAILURES:
            with self._db.system_transaction() as tx:
                rows = tx.execute(SELECT_TO_RETURN, query_params | {"after": last_item_id}).all()
            if not rows:
                return
            accepted_by_row: dict[sa.Row[Any], bool] = {}
            for row in rows:
                last_item_id = row.item_id
                try:
                    accepted_by_row[row] = issuer.return_card(str(row.reference), now=now)
                    failures = 0
                except IssuerDown as down:
                    log.warning("giftcards.issuer_unavailable", issuer=issuer.name, error=str(down))
                    failures += 1
                    if failures == MAX_FAILURES:
                        self._resume_after[mode] = last_item_id
                        break
            self._record_returned(accepted_by_row, issuer=issuer.name, now=now)

    def _record_returned(self, accepted_by_row: Mapping[sa.Row[Any], bool], *, issuer: str, now: datetime) -> None:
        if not accepted_by_row:
            return
        values = {
            "items": [row.item_id for row in accepted_by_row],
            "voided": [row.voided_at for row in accepted_by_row],
            "taken": list(accepted_by_row.values()),
        }
        with self._db.system_transaction() as tx:
            tx.execute(SET_RETURNED, values | {"now": now})
        log.info(
            "giftcards.returned", issuer=issuer, cards=len(accepted_by_row), accepted=sum(accepted_by_row.values())
        )

    def _log_other_issuers(self, mode: str, issuer: GiftcardIssuer) -> None:
        with self._db.system_transaction() as tx:
            others = tx.execute(COUNT_OTHER_ISSUERS, {"mode": mode, "issuer": issuer.name}).all()
        for row in others:
            if (mode, row.issuer) not in self._logged_issuers:
                self._logged_issuers.add((mode, row.issuer))
                log.warning("giftcards.issuer_not_configured", mode=mode, issuer=row.issuer, cards=row.cards)
