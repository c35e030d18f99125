"""Receivers that fail: what becomes of what waits for them, and how their owners hear of it."""

from datetime import datetime

import sqlalchemy as sa

from quillpost.core import outbox as notices
from quillpost.core.clock import plain_time
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks.queries import by_index

AT_ONCE = 10_000
NEVER_ANSWERED = "The receiver failed all the time that this was to be delivered in, so it was given up."
GONE = "The receiver said that it is gone (410), so nothing more is delivered to it."

FAIL = sa.text(
    """
    with given_up as materialized (
        select id, created_at from deliveries
         where webhook_id = :webhook_id and status = 'pending'
           and created_at < coalesce(cast(:before as timestamptz), 'infinity')
         order by next_at, id limit :most)
    update deliveries d set status = 'failed', error = :error, next_at = null
      from given_up g where d.id = g.id and d.created_at = g.created_at and d.status = 'pending'
    """
)
OLDEST = sa.text(
    """select min(created_at) from deliveries
        where webhook_id = :webhook_id and status = 'pending' and created_at < :before"""
)
TROUBLED = sa.text("select webhook_id from webhook_lanes where troubled_since < :before order by webhook_id")
IN_TROUBLE = sa.text(
    """select w.id from webhook_lanes l join webhooks w on w.id = l.webhook_id
        where l.troubled_since < :before and w.status = 'active' order by w.id"""
)
MARK_TROUBLED = sa.text(
    """
    with held as materialized (
        select id from webhooks where id = :webhook_id and status = 'active' for no key update skip locked)
    update webhooks w set status = 'failing', updated_at = :now, failing_since = l.troubled_since
      from held h join webhook_lanes l on l.webhook_id = h.id
     where w.id = h.id and l.troubled_since < :before
    """
)
MARK = sa.text(
    """
    update webhooks w
       set status = 'failing', last_error = coalesce(:error, w.last_error),
           updated_at = case when w.status = 'active' then :now else w.updated_at end,
           failing_since = least(case when w.status = 'failing' then w.failing_since end, :since,
                                 (select l.troubled_since from webhook_lanes l where l.webhook_id = w.id))
     where w.id = :webhook_id and w.status in ('active', 'failing')
    returning w.failing_since
    """
)
OWNER = sa.text(
    """select w.url, w.account_id, w.sub_account_id, w.mode, a.email, w.last_error,
              coalesce(w.failing_since, :now) as since
         from webhooks w join accounts a on a.id = w.account_id where w.id = :webhook_id"""
)


def mark_failing(tx: Tx, webhook_id: int, *, error: str | None, since: datetime, now: datetime) -> None:
    """A delivery of that time has failed for good: its owner is told, once until the receiver answers again,
    and at most once a day. Others go on; a subscription that rests keeps its status. Whoever replays the time
    since it fails has that delivery too."""
    asked = {"webhook_id": webhook_id, "error": error, "since": since, "now": now}
    failing_since = tx.execute(MARK, asked).scalar()
    if failing_since is not None:
        _tell_owner(
            tx,
            webhook_id,
            f"webhook-given-up:{webhook_id}:{failing_since.date()}",
            subject="Events for a webhook of yours were given up",
            what="Deliveries to {url} have failed since {since} UTC, and at least one was given up.",
            then="Events go on being sent to it, and it counts as working again with the first that arrives. "
            "Once it answers, have what it missed sent again: replay the time since then, or retry "
            "single deliveries. Pause the subscription to keep events until you resume it.",
            now=now,
        )


def disable(tx: Tx, webhook_id: int, *, why: str, now: datetime) -> None:
    """Deliver nothing more to it: what waits has failed."""
    disabled = tx.execute(
        sa.update(webhooks)
        .where(webhooks.c.id == webhook_id, webhooks.c.status != "disabled")
        .values(
            status="disabled",
            updated_at=now,
            last_error=why,
            failing_since=sa.func.coalesce(webhooks.c.failing_since, now),
        )
    )
    fail_waiting(tx, webhook_id, why=why)
    if disabled.rowcount:
        _tell_owner(
            tx,
            webhook_id,
            f"webhook-gone:{webhook_id}:{now.date()}",
            subject="A webhook of yours was switched off",
            what="The receiver at {url} said that it is gone: nothing more is sent to it since {since} UTC.",
            then="If that was a mistake, resume the subscription, and replay the time since then to have "
            "what it missed sent again. Otherwise delete it.",
            now=now,
        )


def fail_waiting(tx: Tx, webhook_id: int, *, why: str, before: datetime | None = None) -> bool:
    """What waits, since before that time if one is given, has failed; whether anything is left, as so many
    are not written at once. The subscription is locked already."""
    by_index(tx)
    asked = {"webhook_id": webhook_id, "error": why, "before": before, "most": AT_ONCE}
    return tx.execute(FAIL, asked).rowcount == AT_ONCE


def clear_disabled(tx: Tx, webhook_id: int) -> bool:
    """What is left in the lane of a subscription that was disabled has failed; whether there is more."""
    locked = sa.select(webhooks.c.id).where(webhooks.c.id == webhook_id, webhooks.c.status == "disabled")
    if tx.execute(locked.with_for_update(key_share=True, skip_locked=True)).first() is None:
        return True
    return fail_waiting(tx, webhook_id, why=GONE)


def give_up(db: Database, *, now: datetime) -> None:
    """A job: the owners of receivers that fail hear of it, while there is time to mend them, and what has
    waited in vain there all the time has failed. Many deliveries there were never tried, as a receiver that
    fails is left alone."""
    _tell_of_trouble(db, now=now)
    before = now - rules.LONGEST_WAIT
    with db.work() as tx:
        troubled = list(tx.execute(TROUBLED, {"before": before}).scalars())
    for webhook_id in troubled:
        while _give_up_some(db, webhook_id, before=before, now=now):
            pass


def _tell_of_trouble(db: Database, *, now: datetime) -> None:
    """At most once a day of each. One that somebody has in hand is told of the next time."""
    before = now - rules.TOLD_AFTER
    with db.work() as tx:
        troubled = list(tx.execute(IN_TROUBLE, {"before": before}).scalars())
    for webhook_id in troubled:
        with db.work() as tx:
            asked = {"webhook_id": webhook_id, "before": before, "now": now}
            if tx.execute(MARK_TROUBLED, asked).rowcount:
                _tell_owner(
                    tx,
                    webhook_id,
                    f"webhook-failing:{webhook_id}:{now.date()}",
                    subject="A webhook of yours cannot be reached",
                    what="Deliveries to {url} have failed since {since} UTC. Nothing is lost yet: each is "
                    "tried again for about three days before it is given up.",
                    then="The subscription counts as working again with the first delivery that arrives. "
                    "Once you have mended the receiver, resume the subscription to have all that waits sent "
                    "at once. Pause it to keep events until you resume it.",
                    now=now,
                )


def _give_up_some(db: Database, webhook_id: int, *, before: datetime, now: datetime) -> bool:
    """Whether there is more."""
    with db.work() as tx:
        locked = sa.select(webhooks.c.id).where(webhooks.c.id == webhook_id, webhooks.c.status != "paused")
        if tx.execute(locked.with_for_update(key_share=True, skip_locked=True)).first() is None:
            return False  # one that somebody has in hand comes the next time
        oldest = tx.execute(OLDEST, {"webhook_id": webhook_id, "before": before}).scalar()
        if oldest is None:
            return False
        mark_failing(tx, webhook_id, error=None, since=oldest, now=now)
        return fail_waiting(tx, webhook_id, why=NEVER_ANSWERED, before=before)


def _tell_owner(
    tx: Tx, webhook_id: int, key: str, *, subject: str, what: str, then: str, now: datetime
) -> None:
    owner = tx.execute(OWNER, {"webhook_id": webhook_id, "now": now}).one()
    said = f"What we heard last: {owner.last_error}\n\n" if owner.last_error else ""
    notices.post(
        tx,
        key=key,
        kind="webhook",
        account_id=owner.account_id,
        sub_account_id=owner.sub_account_id,
        mode=owner.mode,
        address=owner.email,
        subject=subject,
        words=f"{what.format(url=owner.url, since=plain_time(owner.since))}\n\n{said}{then}",
        now=now,
    )
