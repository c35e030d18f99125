"""Subscribing, changing, resting and trying subscriptions; making, changing and unsealing what signs."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.client import signatures
from quillpost.core.database import Tx
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, Refused
from quillpost.notifications.webhooks import leases, queries
from quillpost.notifications.webhooks.payloads import sample_event_type
from quillpost.notifications.webhooks.queries import require_webhook_quota
from quillpost.notifications.webhooks.rules import ALL_EVENT_TYPES
from quillpost.recipients.lists.queries import UNKNOWN_LIST, read_lists

PREVIOUS_SECRET_VALID_FOR = timedelta(hours=24)
"""How long the secret before this one signs too."""


class SampleEvent(NamedTuple):
    """An event about nothing that is on its way."""

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
    max_webhooks: int | None = None,
    now: datetime,
) -> tuple[queries.WebhookSubscription, str]:
    """The subscription to events of the caller's own mode, and its secret in clear: this once. `max_webhooks` is how
    many the account may have."""
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
    queries.set_secret(tx, webhook_id, encrypted)
    return queries.read_webhook(tx, webhook_id), secret


def update_webhook(
    tx: Tx, caller: Caller, webhook_id: int, changes: Mapping[str, Any], *, now: datetime
) -> queries.WebhookSubscription:
    """Write over what is named; the rest stays. What still waits goes out to the new address."""
    previous = queries.read_webhook(tx, webhook_id, locked=True)
    values = {"sub_account_id": previous.sub_account_id, "mailing_list_id": previous.mailing_list_id, **changes}
    if values["sub_account_id"] is None:
        values["sub_account_id"] = caller.sub_account_id
    audience = values["sub_account_id"], values["mailing_list_id"]
    if audience != (previous.sub_account_id, previous.mailing_list_id):
        _require_own_audience(tx, *audience)
    webhook = queries.update_webhook(tx, webhook_id, {**values, "updated_at": now})
    if (webhook.verb, webhook.url) != (previous.verb, previous.url):
        queries.retry_waiting_now(tx, webhook_id, now=now)
        leases.schedule_queue(tx, webhook_id, at=now, reset_backoff=True)
    return webhook


def pause_webhook(tx: Tx, webhook_id: int, *, now: datetime) -> queries.WebhookSubscription:
    """What happens from now on waits in its lane. One that its receiver has disabled rests already, and stays
    so."""
    previous = queries.read_webhook(tx, webhook_id, locked=True)
    if previous.status not in ("active", "failing"):
        return previous
    return queries.update_webhook(tx, webhook_id, {"status": "paused", "updated_at": now})


def resume_webhook(tx: Tx, webhook_id: int, *, now: datetime) -> queries.WebhookSubscription:
    """Tell it of everything again, first of what has waited. Whatever was wrong with it is forgotten."""
    webhook = queries.read_webhook(tx, webhook_id, locked=True)
    if webhook.status != "active":
        healthy = {"status": "active", "failing_since": None, "last_error": None, "updated_at": now}
        webhook = queries.update_webhook(tx, webhook_id, healthy)
    queries.retry_waiting_now(tx, webhook_id, now=now)
    leases.schedule_queue(tx, webhook_id, at=now, reset_backoff=True)
    return webhook


def send_sample_event(tx: Tx, webhook_id: int, requested_type: str | None = None, *, now: datetime) -> SampleEvent:
    """Send it an event about nothing, of the `requested_type` type, the way of all others."""
    webhook = queries.read_webhook(tx, webhook_id, locked=True)
    require_active(webhook)
    if requested_type is not None and webhook.type not in (ALL_EVENT_TYPES, requested_type):
        raise Invalid({"event_type": [f"This subscription is for {webhook.type} alone."]})
    event_type, event_id = sample_event_type(requested_type or webhook.type), uuid4()
    delivery_id = queries.insert_sample(tx, webhook_id, event_type=event_type, event_id=event_id, now=now)
    leases.schedule_queue(tx, webhook_id, at=now, reset_backoff=True)
    return SampleEvent(str(event_id), event_type, delivery_id)


def rotate_secret(
    tx: Tx, encryptor: Encryptor, webhook_id: int, *, now: datetime
) -> tuple[queries.WebhookSubscription, str, datetime]:
    """The subscription, its new secret in clear, and until when the one before signs too. The one before
    that, if it still did, signs no longer."""
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
    """Raise where nothing that is asked for now would go out."""
    if not webhook.is_awake:
        raise Refused(f"This subscription is {webhook.status}: resume it first.")


def _new_secret(encryptor: Encryptor, webhook_id: int) -> tuple[str, bytes]:
    """In clear and sealed."""
    secret = signatures.new_secret(secrets.token_bytes(32))
    return secret, encryptor.encrypt(secret.encode(), context=secret_context(webhook_id))


def decrypt_secret(encryptor: Encryptor, webhook_id: int, encrypted: bytes) -> str:
    return encryptor.decrypt(encrypted, context=secret_context(webhook_id)).decode()


def secret_context(webhook_id: int) -> str:
    return f"webhooks:{webhook_id}:secret"


def _require_own_audience(tx: Tx, sub_account_id: int | None, mailing_list_id: int | None) -> None:
    """Raise unless both are the caller's own, and the list one that the sub account's mail can go to."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if mailing_list_id is not None:
        [mailing_list] = read_lists(tx, [mailing_list_id], lock=True)
        if None not in (sub_account_id, mailing_list.sub_account_id) and (
            mailing_list.sub_account_id != sub_account_id
        ):
            raise Refused(UNKNOWN_LIST)
