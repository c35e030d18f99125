"""Messages that wait to be sent: stored in the transaction of what they tell, claimed and sent after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core.database import Tx
from quillpost.core.database.tables.notifications import notices

Channel = Literal["mail", "text"]

SCANS_KIND = "scans"  # its recipients may unsubscribe
PEOPLE_KIND = "people"  # about signing in
GIFTCARDS_KIND = "giftcards"  # about a reported gift card
TEXT_SUFFIX = "@sms"

RETRY_DELAYS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 3 * 60, 6 * 60, 12 * 60, 24 * 60))
GIVE_UP_AFTER = timedelta(days=3)  # for a server that is down: a later message would confuse more than it tells
DELETE_AFTER = timedelta(days=30)

MIN_BACKOFF, MAX_BACKOFF = timedelta(seconds=5), timedelta(minutes=5)
MAX_REQUESTED_DELAY = timedelta(days=1)


def channel_for_address(address: str) -> Channel:
    return "text" if address.endswith(TEXT_SUFFIX) else "mail"


def next_attempt_at(attempts: int, *, now: datetime, jitter: float, retry_after_seconds: int | None) -> datetime | None:
    """None after the last attempt. `jitter` (0 to 1) spreads those that failed together over a tenth of the wait. A
    longer wait that the other side asks for is respected."""
    if attempts > len(RETRY_DELAYS):
        return None
    wait = RETRY_DELAYS[attempts - 1] * (1 + jitter / 10)
    if retry_after_seconds is not None:
        wait = max(wait, min(timedelta(seconds=retry_after_seconds), MAX_REQUESTED_DELAY))
    return now + wait


def backoff_delay(failures: int) -> timedelta:
    """How long a server that was down so many times in a row gets no request."""
    multiplier: int = 2 ** min(failures - 1, 10)
    return min(MIN_BACKOFF * multiplier, MAX_BACKOFF)


MAX_ERROR_LENGTH = 500
NOT_REACHED_MESSAGE = "It could not be sent for days."
TOO_LATE_MESSAGE = "It could not be sent before the link in it was over."

# The lease and the back-off are one column: a process that dies leaves its messages to the next. A message to a
# recipient who has unsubscribed meanwhile is not sent, nor is one past its end.
CLAIM_DUE_NOTIFICATIONS = sa.text(
    """
    with due as (
        select n.id,
               case when n.kind = :scans and exists (
                        select 1 from notice_refusals r
                         where r.account_id = n.account_id and r.address = lower(n.address)) then 'unwanted'
                    when n.ends_at <= :now then 'failed'
                    else 'pending' end as becomes
          from notices n
         where n.status = 'pending' and n.channel = :channel and n.next_at <= :now
         order by n.next_at, n.id limit :most
           for update skip locked)
    update notices n
       set status = d.becomes,
           next_at = case when d.becomes = 'pending' then cast(:lease as timestamptz) end,
           attempts = n.attempts + case when d.becomes = 'pending' then 1 else 0 end,
           secret_sealed = case when d.becomes = 'pending' then n.secret_sealed end,
           error = case when d.becomes = 'failed' then :too_late else n.error end
      from due d join notices m on m.id = d.id join accounts a on a.id = m.account_id
     where n.id = d.id
    returning n.id, n.status, n.attempts, n.account_id, a.name as account_name, n.mode, n.key, n.kind,
              n.channel, n.address, n.subject, n.words, n.secret_sealed
    """
)
GIVE_UP_OLD_NOTIFICATIONS = sa.text(
    """
    update notices
       set status = 'failed', next_at = null, error = coalesce(error, :error), secret_sealed = null
     where status = 'pending' and created_at < :before
    """
)


@dataclass(frozen=True, slots=True)
class ClaimedNotification:
    """`attempts` includes this one. `secret_sealed` replaces `{link}`."""

    id: int
    attempts: int
    account_id: int
    account_name: str
    mode: str
    key: str
    kind: str
    channel: Channel
    address: str
    subject: str
    words: str
    secret_sealed: bytes | None = None


def enqueue_notification(
    tx: Tx,
    *,
    key: str,
    kind: str,
    account_id: int,
    sub_account_id: int | None,
    mode: str,
    address: str,
    subject: str,
    text: str,
    now: datetime,
) -> None:
    """Sent once this transaction commits; nothing happens if the key exists. The text has paragraphs with empty lines
    between them; lines that begin with `- ` are a list."""
    notification = {
        "key": key,
        "kind": kind,
        "account_id": account_id,
        "sub_account_id": sub_account_id,
        "mode": mode,
        "address": address,
        "subject": subject,
        "words": text,
    }
    enqueue_notifications(tx, [notification], now=now)


def enqueue_notifications(tx: Tx, notifications: Sequence[dict[str, Any]], *, now: datetime) -> None:
    if notifications:
        state = _pending_state(now)
        rows = [{**each, "channel": channel_for_address(each["address"]), **state} for each in notifications]
        tx.execute(insert(notices).values(rows).on_conflict_do_nothing(index_elements=["key"]))


def enqueue_person_notification(
    tx: Tx,
    recipient_query: sa.Select[tuple[int, str]],
    *,
    key: str,
    subject: str,
    text: str,
    secret_sealed: bytes | None = None,
    ends_at: datetime | None = None,
    now: datetime,
) -> None:
    """An email about signing in: `recipient_query` finds the account through which we know the person, and their
    address. Without a result nothing is sent, with as much work. The secret, encrypted for
    `encryption_context(key)`, is deleted once the email is sent, or at `ends_at`, when it is no longer sent."""
    recipient = recipient_query.limit(1).subquery()
    values_by_column = {
        "mode": "live",
        "key": key,
        "kind": PEOPLE_KIND,
        "channel": "mail",
        "subject": subject,
        "words": text,
        "secret_sealed": secret_sealed,
        "ends_at": ends_at,
        **_pending_state(now),
    }
    values = [sa.literal(value, notices.c[name].type) for name, value in values_by_column.items()]
    tx.execute(
        insert(notices)
        .from_select(["account_id", "address", *values_by_column], sa.select(*recipient.c, *values))
        .on_conflict_do_nothing(index_elements=["key"])
    )


def _pending_state(now: datetime) -> dict[str, Any]:
    return {"status": "pending", "attempts": 0, "next_at": now, "created_at": now}


def encryption_context(key: str) -> str:
    return f"notices:{key}:secret"


def claim_due_notifications(
    tx: Tx, channel: Channel, *, limit: int, leased_until: datetime, now: datetime
) -> list[ClaimedNotification]:
    """The oldest first, leased to us."""
    params = {
        "channel": channel,
        "most": limit,
        "lease": leased_until,
        "now": now,
        "scans": SCANS_KIND,
        "too_late": TOO_LATE_MESSAGE,
    }
    rows = [row._asdict() for row in tx.execute(CLAIM_DUE_NOTIFICATIONS, params)]
    pending = [row for row in rows if row.pop("status") == "pending"]
    return sorted((ClaimedNotification(**row) for row in pending), key=lambda each: each.id)


def record_sent(tx: Tx, notification: ClaimedNotification, *, now: datetime) -> None:
    _update_if_claimed(tx, notification, status="sent", sent_at=now, next_at=None, error=None, secret_sealed=None)


def record_failure(tx: Tx, notification: ClaimedNotification, *, error: str, next_at: datetime | None) -> None:
    """Without `next_at` it has failed for good."""
    # The secret of one that is tried again is not written back: its seal may have been renewed meanwhile.
    cleared_secret = {} if next_at else {"secret_sealed": None}
    _update_if_claimed(
        tx,
        notification,
        status="pending" if next_at else "failed",
        next_at=next_at,
        error=error[:MAX_ERROR_LENGTH],
        **cleared_secret,
    )


def release_notification(tx: Tx, notification: ClaimedNotification, *, error: str, next_at: datetime | None) -> None:
    """Nothing was sent, as no server answered: the attempt does not count."""
    _update_if_claimed(
        tx, notification, attempts=notification.attempts - 1, next_at=next_at, error=error[:MAX_ERROR_LENGTH]
    )


def give_up_old_notifications(tx: Tx, *, now: datetime) -> int:
    before = now - GIVE_UP_AFTER
    return tx.execute(GIVE_UP_OLD_NOTIFICATIONS, {"before": before, "error": NOT_REACHED_MESSAGE}).rowcount


def _update_if_claimed(tx: Tx, notification: ClaimedNotification, **values: object) -> None:
    """Unless the lease ran out, and another process has taken it."""
    still_claimed = (
        notices.c.id == notification.id,
        notices.c.status == "pending",
        notices.c.attempts == notification.attempts,
    )
    tx.execute(sa.update(notices).where(*still_claimed).values(**values))
