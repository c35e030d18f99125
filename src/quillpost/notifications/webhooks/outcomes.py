"""What came of attempts: judged one by one, written down many at once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from quillpost.core.database import Tx, driver
from quillpost.notifications.ports import PostOutcome
from quillpost.notifications.webhooks import failures as failing
from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks.leases import Health
from quillpost.notifications.webhooks.payloads import Due, Unspeakable

QUOTED_CHARACTERS = 200
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

# All subscriptions before all lanes, in the order of their ids: as whoever changes or deletes them does. One
# that somebody changes now is not waited for: that may take long, and what others' receivers said waits too.
LOCK = sa.text(
    "select id, verb, url from webhooks where id = any(:hooks) order by id for no key update skip locked"
)
OURS = "select webhook_id from webhook_lanes where webhook_id = any(:hooks) and leased_by = :pump"
IS_OURS = sa.text(OURS)
LOCK_LANES = sa.text(f"{OURS} order by webhook_id for no key update")
# In binary: as text, every quotation mark of every event would be escaped by itself.
RECORD = """
    update deliveries d
       set status = o.status, attempts = d.attempts + o.attempts, body = o.words, next_at = o.next_at,
           response_status = o.response_status, response_body = o.response_body, error = o.error,
           delivered_at = case when o.status = 'delivered' then %(now)b::timestamptz end
      from unnest(%(ids)b::bigint[], %(created)b::timestamptz[], %(statuses)b::text[],
                  %(attempts)b::integer[], %(words)b::text[], %(next_at)b::timestamptz[],
                  %(response_statuses)b::integer[], %(response_bodies)b::text[], %(errors)b::text[])
           as o (id, created_at, status, attempts, words, next_at, response_status, response_body, error)
     where d.id = o.id and d.created_at = o.created_at and d.status = 'pending'
    returning d.id
"""
COUNT = sa.text(
    """
    update webhooks w
       set invoke_count = w.invoke_count + n.delivered, last_error = n.error,
           status = case when w.status = 'failing' and n.delivered > 0 then 'active' else w.status end,
           failing_since = case when n.delivered > 0 and w.status in ('active', 'failing') then null
                                else w.failing_since end
      from unnest(cast(:hooks as bigint[]), cast(:delivered as bigint[]), cast(:errors as text[]))
           as n (id, delivered, error)
     where w.id = n.id
    """
)
NOTE = sa.text(
    """
    update webhook_lanes l
       set failures = n.failures, troubled_since = n.troubled_since, resting_until = n.resting_until
      from unnest(cast(:hooks as bigint[]), cast(:failures as integer[]), cast(:troubled as timestamptz[]),
                  cast(:resting as timestamptz[])) as n (webhook_id, failures, troubled_since, resting_until)
     where l.webhook_id = n.webhook_id and l.leased_by = :pump
    """
)

# A receiver that was left alone answers again: what waits for another try need not wait any longer.
PULL = sa.text(
    """
    update deliveries d set next_at = :now, extra_tries = d.extra_tries + 1
      from webhook_lanes l
     where l.webhook_id = any(:hooks) and l.leased_by = :pump and l.failures >= :broken
       and d.webhook_id = l.webhook_id and d.status = 'pending' and d.next_at > :now
    """
)


class Outcome(NamedTuple):
    """What came of one attempt, or of one that cannot be made, and what follows."""

    due: Due | Unspeakable
    status: str
    response_status: int | None = None
    response_body: str = ""
    error: str | None = None
    next_at: datetime | None = None
    rest: int | None = None
    """For how many seconds the receiver asked to be left alone."""

    @property
    def is_delivered(self) -> bool:
        return self.status == "delivered"

    @property
    def is_over(self) -> bool:
        return self.status != "pending"

    @property
    def is_gone(self) -> bool:
        return self.response_status == HTTPStatus.GONE

    @property
    def complaint(self) -> str | None:
        """What is wrong, in a sentence for the subscription's owner."""
        if self.is_delivered or self.error or self.response_status is None:
            return self.error
        said = " ".join(self.response_body.split())[:QUOTED_CHARACTERS]
        return f"The receiver answered {self.response_status}" + (f": {said}" if said else ".")


def judge(due: Due, answer: PostOutcome, *, jitter: float, now: datetime) -> Outcome:
    """Any 2xx is a success, and 410 the end of the subscription; all else is tried again in its time."""
    delivered = answer.status is not None and 200 <= answer.status < 300
    next_at = None
    if not delivered and answer.status != HTTPStatus.GONE:
        # A try beside the schedule comes in addition to it: what is left of it stays.
        failures = max(1, due.attempts + 1 - due.extra_tries)
        next_at = rules.next_attempt(failures, now=now, jitter=jitter, asked=answer.retry_after)
    return Outcome(
        due=due,
        status="delivered" if delivered else "pending" if next_at else "failed",
        response_status=answer.status,
        response_body=answer.body,
        error=answer.error,
        next_at=next_at,
        rest=answer.retry_after if answer.status in BUSY else None,
    )


def give_up(due: Unspeakable) -> Outcome:
    return Outcome(due, "failed", error=due.error)


class Recorded(NamedTuple):
    news: list[Outcome]
    put_off: set[int]
    """The subscriptions that somebody else has in hand: nothing was written down, and is to be told again."""


def record(
    tx: Tx, pump: UUID, outcomes: Sequence[Outcome], healths: Mapping[int, Health], *, now: datetime
) -> Recorded:
    """Keep what came of attempts, and how their receivers do; which of them were news.

    What another has settled already stays as it is, and so does all that is in a lane which is not this
    pump's any more: whoever has it then sends that again.
    """
    hooks = sorted({each.due.webhook_id for each in outcomes} | set(healths))
    ours, put_off = _lock(tx, pump, hooks)
    held = [each for each in outcomes if each.due.webhook_id in ours]
    new: set[int] = set()
    if held:
        recorded = driver(tx).execute(RECORD, _columns(held, ours) | {"now": now}, prepare=True)
        new = {number for (number,) in recorded}
    news = [each for each in held if each.due.id in new]
    noted = {hook: health for hook, health in healths.items() if hook in ours}
    if noted:
        _note(tx, pump, noted, now=now)
    if news:
        _count(tx, news, now=now)
    return Recorded(news, put_off)


def _lock(tx: Tx, pump: UUID, hooks: Sequence[int]) -> tuple[dict[int, tuple[str, str]], set[int]]:
    """The subscriptions that are in hand now, with where they lead, and those that somebody else has. Of
    both, those whose lanes are this pump's."""
    locked = {row.id: (row.verb, row.url) for row in tx.execute(LOCK, {"hooks": hooks})}
    lanes = tx.execute(LOCK_LANES, {"hooks": list(locked), "pump": pump}).scalars()
    ours = {hook: locked[hook] for hook in lanes}
    missing = [hook for hook in hooks if hook not in locked]
    if not missing:
        return ours, set()
    return ours, set(tx.execute(IS_OURS, {"hooks": missing, "pump": pump}).scalars())


def _columns(outcomes: Sequence[Outcome], addresses: Mapping[int, tuple[str, str]]) -> dict[str, object]:
    return {
        "ids": [each.due.id for each in outcomes],
        "created": [each.due.created_at for each in outcomes],
        "statuses": [each.status for each in outcomes],
        "attempts": [int(isinstance(each.due, Due)) for each in outcomes],
        "words": [_kept_words(each, addresses) for each in outcomes],
        "next_at": [each.next_at for each in outcomes],
        "response_statuses": [each.response_status for each in outcomes],
        "response_bodies": [each.response_body for each in outcomes],
        "errors": [each.error for each in outcomes],
    }


def _kept_words(outcome: Outcome, addresses: Mapping[int, tuple[str, str]]) -> str | None:
    """What goes out again goes to where the subscription leads now: words for elsewhere are of no use."""
    due = outcome.due
    if isinstance(due, Unspeakable):
        return None
    is_moved = addresses[due.webhook_id] != (due.verb, due.url)
    return None if is_moved and not outcome.is_over else due.words


def _note(tx: Tx, pump: UUID, healths: Mapping[int, Health], *, now: datetime) -> None:
    healthy = [hook for hook, health in healths.items() if health.failures == 0]
    if healthy:
        tx.execute(PULL, {"hooks": healthy, "pump": pump, "broken": rules.BREAKS_AFTER, "now": now})
    tx.execute(
        NOTE,
        {
            "pump": pump,
            "hooks": list(healths),
            "failures": [each.failures for each in healths.values()],
            "troubled": [each.troubled_since for each in healths.values()],
            "resting": [each.resting_until for each in healths.values()],
        },
    )


def _count(tx: Tx, news: Sequence[Outcome], *, now: datetime) -> None:
    """A success counts for the subscription and heals it; after a failure for good it is failing."""
    delivered: dict[int, int] = {}
    complaints: dict[int, str | None] = {}
    failed: dict[int, tuple[str | None, datetime]] = {}
    gone: set[int] = set()
    for each in news:
        if isinstance(each.due, Unspeakable):  # its receiver is not to blame
            continue
        hook = each.due.webhook_id
        delivered[hook] = delivered.get(hook, 0) + each.is_delivered
        complaints[hook] = each.complaint
        if each.is_gone:
            gone.add(hook)
        if each.is_delivered:
            failed.pop(hook, None)
        elif each.is_over:
            oldest = min(each.due.created_at, failed[hook][1] if hook in failed else each.due.created_at)
            failed[hook] = each.complaint, oldest
    tx.execute(
        COUNT,
        {
            "hooks": list(delivered),
            "delivered": list(delivered.values()),
            "errors": [complaints[hook] for hook in delivered],
        },
    )
    for hook in sorted(gone | set(failed)):
        if hook in gone:
            failing.disable(tx, hook, why=failing.GONE, now=now)
        else:
            error, since = failed[hook]
            failing.mark_failing(tx, hook, error=error, since=since, now=now)
