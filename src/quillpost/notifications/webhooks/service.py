"""Creates, changes and disables subscriptions, and notifies owners of failing ones."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import signatures
from quillpost.core import outbox
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, Refused
from quillpost.core.text import format_time
from quillpost.notifications.webhooks import queries, rules
from quillpost.notifications.webhooks.payloads import sample_event_type
from quillpost.notifications.webhooks.queries import force_index_plans, require_webhook_quota
from quillpost.notifications.webhooks.rules import ALL_EVENT_TYPES
from quillpost.orders.templates.rules import CheckUrl
from quillpost.recipients.lists.queries import UNKNOWN_LIST, read_lists

PREVIOUS_SECRET_VALID_FOR = timedelta(hours=24)


class SampleEvent(NamedTuple):
    event_id: str
    event_type: str
    delivery_id: int


def create_webhook(
    tx: Tx,
    caller: Caller,
    encryptor: Encryptor,
    *,
    url: str,
    type: str,  # noqa: A002
    verb: str = "post",
    description: str | None = None,
    sub_account_id: int | None = None,
    mailing_list_id: int | None = None,
    mode: str | None = None,
    check_url: CheckUrl | None = None,
    max_webhooks: int | None = None,
    now: datetime,
) -> tuple[queries.WebhookSubscription, str]:
    """The subscription to events of the caller's mode, and its secret, which is shown only once."""
    errors = {"url": [error]} if check_url is not None and (error := check_url(url)) else {}
    if mode not in (None, caller.mode):
        errors["mode"] = [f"Use a {mode} token to subscribe to {mode} events."]
    if errors:
        raise Invalid(errors)
    if max_webhooks is not None:
        require_webhook_quota(tx, caller.account_id, limit=max_webhooks)
    owner_sub_account_id = sub_account_id if sub_account_id is not None else caller.sub_account_id
    _require_own_audience(tx, owner_sub_account_id, mailing_list_id)
    webhook_id = queries.insert_webhook(
        tx,
        {
            "account_id": caller.account_id,
            "sub_account_id": owner_sub_account_id,
            "mailing_list_id": mailing_list_id,
            "mode": caller.mode,
            "url": url,
            "type": type,
            "verb": verb,
            "description": description,
            "secret_sealed": b"",
            "status": "active",
            "invoke_count": 0,
            "created_at": now,
            "updated_at": now,
        },
    )
    secret, encrypted = _new_secret(encryptor, webhook_id)
    return queries.update_webhook(tx, webhook_id, {"secret_sealed": encrypted}), secret


def update_webhook(
    tx: Tx,
    caller: Caller,
    webhook_id: int,
    changes: Mapping[str, Any],
    *,
    check_url: CheckUrl | None = None,
    now: datetime,
) -> queries.WebhookSubscription:
    """Change the given values, of which `mode` must be what it is. Pending deliveries go to the new URL."""
    previous = queries.read_webhook(tx, webhook_id, locked=True)
    values = {"sub_account_id": previous.sub_account_id, "mailing_list_id": previous.mailing_list_id, **changes}
    errors = (
        {"url": [error]} if check_url is not None and "url" in changes and (error := check_url(values["url"])) else {}
    )
    if (mode := values.pop("mode", None)) not in (None, previous.mode):
        errors["mode"] = [f"This subscription stays {previous.mode}: make another with a {mode} token."]
    if errors:
        raise Invalid(errors)
    if values["sub_account_id"] is None:
        values["sub_account_id"] = caller.sub_account_id
    audience = values["sub_account_id"], values["mailing_list_id"]
    if audience != (previous.sub_account_id, previous.mailing_list_id):
        _require_own_audience(tx, *audience)
    webhook = queries.update_webhook(tx, webhook_id, {**values, "updated_at": now})
    if (webhook.verb, webhook.url) != (previous.verb, previous.url):
        queries.retry_waiting_now(tx, webhook_id, now=now)
        queries.schedule_queue(tx, webhook_id, at=now, reset_backoff=True)
    return webhook


def pause_webhook(tx: Tx, webhook_id: int, *, now: datetime) -> queries.WebhookSubscription:
    """Deliveries wait from now on. A disabled one stays disabled."""
    previous = queries.read_webhook(tx, webhook_id, locked=True)
    if previous.status not in ("active", "failing"):
        return previous
    return queries.update_webhook(tx, webhook_id, {"status": "paused", "updated_at": now})


def resume_webhook(tx: Tx, webhook_id: int, *, now: datetime) -> queries.WebhookSubscription:
    """Send everything that waited. Failures so far are forgotten."""
    webhook = queries.read_webhook(tx, webhook_id, locked=True)
    if webhook.status != "active":
        healthy = {"status": "active", "failing_since": None, "last_error": None, "updated_at": now}
        webhook = queries.update_webhook(tx, webhook_id, healthy)
    queries.retry_waiting_now(tx, webhook_id, now=now)
    queries.schedule_queue(tx, webhook_id, at=now, reset_backoff=True)
    return webhook


def send_sample_event(tx: Tx, webhook_id: int, requested_type: str | None = None, *, now: datetime) -> SampleEvent:
    """Send a sample event of the requested type, the way of all others."""
    webhook = queries.read_webhook(tx, webhook_id, locked=True)
    require_active(webhook)
    if requested_type is not None and webhook.type not in (ALL_EVENT_TYPES, requested_type):
        raise Invalid({"event_type": [f"This subscription is for {webhook.type} alone."]})
    event_type, event_id = sample_event_type(requested_type or webhook.type), uuid4()
    delivery_id = queries.insert_sample(tx, webhook_id, event_type=event_type, event_id=event_id, now=now)
    queries.schedule_queue(tx, webhook_id, at=now, reset_backoff=True)
    return SampleEvent(str(event_id), event_type, delivery_id)


def rotate_secret(
    tx: Tx, encryptor: Encryptor, webhook_id: int, *, now: datetime
) -> tuple[queries.WebhookSubscription, str, datetime]:
    """The subscription, its new secret, and until when the previous one signs too. An older one no longer signs."""
    queries.read_webhook(tx, webhook_id, locked=True)
    secret, encrypted = _new_secret(encryptor, webhook_id)
    until = now + PREVIOUS_SECRET_VALID_FOR
    values = {
        "previous_secret_sealed": webhooks.c.secret_sealed,
        "previous_until": until,
        "secret_sealed": encrypted,
        "updated_at": now,
    }
    return queries.update_webhook(tx, webhook_id, values), secret, until


def require_active(webhook: queries.WebhookSubscription) -> None:
    if not webhook.is_awake:
        raise Refused(f"This subscription is {webhook.status}: resume it first.")


def _new_secret(encryptor: Encryptor, webhook_id: int) -> tuple[str, bytes]:
    """In clear and encrypted."""
    secret = signatures.new_secret(secrets.token_bytes(32))
    return secret, encryptor.encrypt(secret.encode(), context=secret_context(webhook_id))


def decrypt_secret(encryptor: Encryptor, webhook_id: int, encrypted: bytes) -> str:
    return encryptor.decrypt(encrypted, context=secret_context(webhook_id)).decode()


def secret_context(webhook_id: int) -> str:
    return f"webhooks:{webhook_id}:secret"


def _require_own_audience(tx: Tx, sub_account_id: int | None, mailing_list_id: int | None) -> None:
    """Raise unless both are the caller's own, and fit together."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if mailing_list_id is not None:
        [mailing_list] = read_lists(tx, [mailing_list_id], lock=True)
        if None not in (sub_account_id, mailing_list.sub_account_id) and (
            mailing_list.sub_account_id != sub_account_id
        ):
            raise Refused(UNKNOWN_LIST)


DELIVERIES_PER_TRANSACTION = 10_000
RETRIES_EXHAUSTED_ERROR = "The receiver failed all the time that this was to be delivered in, so it was given up."
GONE_ERROR = "The receiver said that it is gone (410), so nothing more is delivered to it."

FAIL_WAITING = sa.text("""
    with given_up as materialized (
        select id, created_at from deliveries
         where webhook_id = :webhook_id and status = 'pending'
           and created_at < coalesce(cast(:before as timestamptz), 'infinity')
         order by next_at, id limit :most)
    update deliveries d set status = 'failed', error = :error, next_at = null
      from given_up g where d.id = g.id and d.created_at = g.created_at and d.status = 'pending'
""")
FIND_OLDEST_WAITING = sa.text("""select min(created_at) from deliveries
        where webhook_id = :webhook_id and status = 'pending' and created_at < :before""")
FIND_LONG_FAILING = sa.text("select webhook_id from webhook_lanes where troubled_since < :before order by webhook_id")
FIND_NEWLY_FAILING = sa.text("""select w.id from webhook_lanes l join webhooks w on w.id = l.webhook_id
        where l.troubled_since < :before and w.status = 'active' order by w.id""")
MARK_QUEUE_FAILING = sa.text("""
    with held as materialized (
        select id from webhooks where id = :webhook_id and status = 'active' for no key update skip locked)
    update webhooks w set status = 'failing', updated_at = :now, failing_since = l.troubled_since
      from held h join webhook_lanes l on l.webhook_id = h.id
     where w.id = h.id and l.troubled_since < :before
""")
MARK_FAILING = sa.text("""
    update webhooks w
       set status = 'failing', last_error = coalesce(:error, w.last_error),
           updated_at = case when w.status = 'active' then :now else w.updated_at end,
           failing_since = least(case when w.status = 'failing' then w.failing_since end, :since,
                                 (select l.troubled_since from webhook_lanes l where l.webhook_id = w.id))
     where w.id = :webhook_id and w.status in ('active', 'failing')
    returning w.failing_since
""")
READ_OWNER = sa.text("""select w.url, w.account_id, w.sub_account_id, w.mode, a.email, w.last_error,
              coalesce(w.failing_since, :now) as since
         from webhooks w join accounts a on a.id = w.account_id where w.id = :webhook_id""")


def mark_failing(tx: Tx, webhook_id: int, *, error: str | None, since: datetime, now: datetime) -> None:
    """A delivery of that time has failed for good: notify the owner, once until the endpoint answers again and at most
    once a day. A paused subscription keeps its status. A replay since `failing_since` includes that delivery."""
    params = {"webhook_id": webhook_id, "error": error, "since": since, "now": now}
    failing_since = tx.execute(MARK_FAILING, params).scalar()
    if failing_since is not None:
        _notify_owner(
            tx,
            webhook_id,
            f"webhook-given-up:{webhook_id}:{failing_since.date()}",
            subject="Events for a webhook of yours were given up",
            summary="Deliveries to {url} have failed since {since} UTC, and at least one was given up.",
            advice="Events go on being sent to it, and it counts as working again with the first that arrives. "
            "Once it answers, have what it missed sent again: replay the time since then, or retry "
            "single deliveries. Pause the subscription to keep events until you resume it.",
            now=now,
        )


def disable_webhook(tx: Tx, webhook_id: int, *, reason: str, now: datetime) -> None:
    """Fail all pending deliveries, and accept no more."""
    disabled = tx.execute(
        sa.update(webhooks)
        .where(webhooks.c.id == webhook_id, webhooks.c.status != "disabled")
        .values(
            status="disabled",
            updated_at=now,
            last_error=reason,
            failing_since=sa.func.coalesce(webhooks.c.failing_since, now),
        )
    )
    fail_waiting_deliveries(tx, webhook_id, reason=reason)
    if disabled.rowcount:
        _notify_owner(
            tx,
            webhook_id,
            f"webhook-gone:{webhook_id}:{now.date()}",
            subject="A webhook of yours was switched off",
            summary="The receiver at {url} said that it is gone: nothing more is sent to it since {since} UTC.",
            advice="If that was a mistake, resume the subscription, and replay the time since then to have "
            "what it missed sent again. Otherwise delete it.",
            now=now,
        )


def fail_waiting_deliveries(tx: Tx, webhook_id: int, *, reason: str, before: datetime | None = None) -> bool:
    """Fail pending deliveries, those before a time if given; whether more are left. The subscription is
    locked already."""
    force_index_plans(tx)
    params = {"webhook_id": webhook_id, "error": reason, "before": before, "most": DELIVERIES_PER_TRANSACTION}
    return tx.execute(FAIL_WAITING, params).rowcount == DELIVERIES_PER_TRANSACTION


def fail_disabled_deliveries(tx: Tx, webhook_id: int) -> bool:
    """Fail what is left of a disabled subscription; whether there is more."""
    lock_query = sa.select(webhooks.c.id).where(webhooks.c.id == webhook_id, webhooks.c.status == "disabled")
    if tx.execute(lock_query.with_for_update(key_share=True, skip_locked=True)).first() is None:
        return True
    return fail_waiting_deliveries(tx, webhook_id, reason=GONE_ERROR)


def give_up_failing(db: Database, *, now: datetime) -> None:
    """A job: notify owners of failing endpoints while there is time to fix them, and fail deliveries that waited all
    the retry time; many were never attempted, because of the backoff."""
    _notify_newly_failing(db, now=now)
    before = now - rules.MAX_RETRY_TIME
    with db.system_transaction() as tx:
        failing_ids = list(tx.execute(FIND_LONG_FAILING, {"before": before}).scalars())
    for webhook_id in failing_ids:
        while _give_up_batch(db, webhook_id, before=before, now=now):
            pass


def _notify_newly_failing(db: Database, *, now: datetime) -> None:
    """At most once a day for each. A locked one is notified the next time."""
    before = now - rules.FAILING_NOTICE_AFTER
    with db.system_transaction() as tx:
        failing_ids = list(tx.execute(FIND_NEWLY_FAILING, {"before": before}).scalars())
    for webhook_id in failing_ids:
        with db.system_transaction() as tx:
            params = {"webhook_id": webhook_id, "before": before, "now": now}
            if tx.execute(MARK_QUEUE_FAILING, params).rowcount:
                _notify_owner(
                    tx,
                    webhook_id,
                    f"webhook-failing:{webhook_id}:{now.date()}",
                    subject="A webhook of yours cannot be reached",
                    summary="Deliveries to {url} have failed since {since} UTC. Nothing is lost yet: each is "
                    "tried again for about three days before it is given up.",
                    advice="The subscription counts as working again with the first delivery that arrives. "
                    "Once you have mended the receiver, resume the subscription to have all that waits sent "
                    "at once. Pause it to keep events until you resume it.",
                    now=now,
                )


def _give_up_batch(db: Database, webhook_id: int, *, before: datetime, now: datetime) -> bool:
    """Whether there is more."""
    with db.system_transaction() as tx:
        lock_query = sa.select(webhooks.c.id).where(webhooks.c.id == webhook_id, webhooks.c.status != "paused")
        if tx.execute(lock_query.with_for_update(key_share=True, skip_locked=True)).first() is None:
            return False  # one that another transaction has locked comes the next time
        oldest = tx.execute(FIND_OLDEST_WAITING, {"webhook_id": webhook_id, "before": before}).scalar()
        if oldest is None:
            return False
        mark_failing(tx, webhook_id, error=None, since=oldest, now=now)
        return fail_waiting_deliveries(tx, webhook_id, reason=RETRIES_EXHAUSTED_ERROR, before=before)


def _notify_owner(tx: Tx, webhook_id: int, key: str, *, subject: str, summary: str, advice: str, now: datetime) -> None:
    owner = tx.execute(READ_OWNER, {"webhook_id": webhook_id, "now": now}).one()
    last_error_text = f"What we heard last: {owner.last_error}\n\n" if owner.last_error else ""
    outbox.enqueue_notification(
        tx,
        key=key,
        kind="webhook",
        account_id=owner.account_id,
        sub_account_id=owner.sub_account_id,
        mode=owner.mode,
        address=owner.email,
        subject=subject,
        text=f"{summary.format(url=owner.url, since=format_time(owner.since))}\n\n{last_error_text}{advice}",
        now=now,
    )
