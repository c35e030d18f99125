"""Issuers are told which of their cards are void: nobody has seen them, so they may be given once more.

A card that was asked for and whose piece ended before the answer came may have been issued: it counts as
void as soon as nobody composes its batch any more.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.database import Database
from quillpost.giftcards.voiding import PIECE_FAILED
from quillpost.ports.giftcards import GiftcardIssuer, IssuerDown

log = structlog.get_logger(__name__)

AT_ONCE = 100
MOST_FAILURES = 3
"""So many in a row, and the issuer is down; fewer, and it is at odds with those cards alone."""

# Whoever composes the batch may be waiting for the answer; they, or whoever comes after them, take out what
# has ended. The orders' turns are not taken: no piece that has ended comes back.
VOID_OF_ENDED = sa.text(
    """
    with ended as (
        select g.item_id from giftcards g join items i on i.id = g.item_id
         where g.status = 'asked' and i.status <> 'Processing'
           and not exists (select 1 from prints p join batches b on b.id = p.batch_id
                            where p.item_id = g.item_id and b.status = 'new')
         order by g.item_id for no key update of g skip locked)
    update giftcards g set status = 'void', voided_at = :now, void_reason = :why
      from ended where g.item_id = ended.item_id
    """
)

TO_GIVE_BACK = sa.text(
    """
    select item_id, reference, voided_at from giftcards
     where status = 'void' and issuer is not null and given_back_at is null
       and mode = :mode and issuer = :issuer and item_id > :after
     order by item_id limit :most
    """
)

OF_OTHERS = sa.text(
    """
    select issuer, count(*) as cards from giftcards
     where status = 'void' and issuer is not null and given_back_at is null
       and mode = :mode and issuer <> :issuer
     group by issuer
    """
)

# A card that came late made its row void once more: that one is told again. What the issuer has taken back is
# somebody else's card from now on.
GIVEN_BACK = sa.text(
    """
    with told as (
        select g.item_id, b.is_taken from giftcards g
          join unnest(cast(:items as bigint[]), cast(:voided as timestamptz[]), cast(:taken as boolean[]))
               as b (item_id, voided_at, is_taken) on b.item_id = g.item_id
         where g.status = 'void' and g.voided_at = b.voided_at and g.given_back_at is null
         order by g.item_id for no key update of g)
    update giftcards g
       set given_back_at = :now, card_sealed = case when told.is_taken then null else g.card_sealed end
      from told where g.item_id = told.item_id
    """
)


class Returns:
    """Tells the issuers, by mode. Of cards that another issued it says so once, and leaves them alone."""

    def __init__(self, db: Database, issuers: Mapping[str, GiftcardIssuer]) -> None:
        self._db, self._issuers = db, issuers
        self._told_of: set[tuple[str, str]] = set()
        self._came_to: dict[str, int] = {}

    def give_back(self, *, now: datetime) -> None:
        """Every void card that its issuer has not heard of. One who is down hears of it later."""
        with self._db.work() as tx:
            tx.execute(VOID_OF_ENDED, {"why": PIECE_FAILED, "now": now})
        for mode, issuer in self._issuers.items():
            self._tell_all(mode, issuer, now=now)
            self._leave_alone(mode, issuer)

    def _tell_all(self, mode: str, issuer: GiftcardIssuer, *, now: datetime) -> None:
        """One that fails is passed by; where it ends early, the next run begins behind that, so that cards
        which always fail are in nobody's way."""
        asked = {"mode": mode, "issuer": issuer.name, "most": AT_ONCE}
        after, failures = self._came_to.pop(mode, 0), 0
        while failures < MOST_FAILURES:
            with self._db.work() as tx:
                rows = tx.execute(TO_GIVE_BACK, asked | {"after": after}).all()
            if not rows:
                return
            told: dict[sa.Row[Any], bool] = {}
            for row in rows:
                after = row.item_id
                try:
                    told[row] = issuer.give_back(str(row.reference), now=now)
                    failures = 0
                except IssuerDown as down:
                    log.warning("giftcards.issuer_down", issuer=issuer.name, trouble=str(down))
                    failures += 1
                    if failures == MOST_FAILURES:
                        self._came_to[mode] = after
                        break
            self._note(told, issuer=issuer.name, now=now)

    def _note(self, told: Mapping[sa.Row[Any], bool], *, issuer: str, now: datetime) -> None:
        if not told:
            return
        values = {
            "items": [row.item_id for row in told],
            "voided": [row.voided_at for row in told],
            "taken": list(told.values()),
        }
        with self._db.work() as tx:
            tx.execute(GIVEN_BACK, values | {"now": now})
        log.info("giftcards.given_back", issuer=issuer, cards=len(told), taken=sum(told.values()))

    def _leave_alone(self, mode: str, issuer: GiftcardIssuer) -> None:
        with self._db.work() as tx:
            others = tx.execute(OF_OTHERS, {"mode": mode, "issuer": issuer.name}).all()
        for row in others:
            if (mode, row.issuer) not in self._told_of:
                self._told_of.add((mode, row.issuer))
                log.warning("giftcards.of_another_issuer", mode=mode, issuer=row.issuer, cards=row.cards)
