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
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Invalid, Refused
from quillpost.notifications.webhooks import leases, queries
from quillpost.notifications.webhooks.payloads import sample_type
from quillpost.notifications.webhooks.queries import require_room
from quillpost.notifications.webhooks.rules import EVERY_TYPE
from quillpost.recipients.lists.queries import UNKNOWN_LIST, read_lists

TWO_SECRETS = timedelta(hours=24)
"""How long the secret before this one signs too."""


class Sample(NamedTuple):
    """An event about nothing that is on its way."""

    event_id: str
    event_type: str
    delivery_id: int


def subscribe(
    tx: Tx,
    who: Caller,
    sealer: Sealer,
    *,
    url: str,
    type: str,  # noqa: A002
    verb: str = "post",
    description: str | None = None,
    sub_account_id: int | None = None,
    mailing_list_id: int | None = None,
    most: int | None = None,
    now: datetime,
) -> tuple[queries.Webhook, str]:
    """The subscription to events of the caller's own mode, and its secret in clear: this once. `most` is how
    many the account may have."""
    if most is not None:
        require_room(tx, who.account_id, most=most)
    home = sub_account_id if sub_account_id is not None else who.sub_account_id
    _require_own(tx, home, mailing_list_id)
    webhook_id = queries.insert_webhook(
        tx,
        {
            "account_id": who.account_id,
            "sub_account_id": home,
            "mailing_list_id": mailing_list_id,
            "mode": who.mode,
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
    secret, sealed = _new_secret(sealer, webhook_id)
    queries.set_secret(tx, webhook_id, sealed)
    return queries.read_webhook(tx, webhook_id), secret


def change(
    tx: Tx, who: Caller, webhook_id: int, changes: Mapping[str, Any], *, now: datetime
) -> queries.Webhook:
    """Write over what is named; the rest stays. What still waits goes out to the new address."""
    was = queries.read_webhook(tx, webhook_id, locked=True)
    wanted = {"sub_account_id": was.sub_account_id, "mailing_list_id": was.mailing_list_id, **changes}
    if wanted["sub_account_id"] is None:
        wanted["sub_account_id"] = who.sub_account_id
    audience = wanted["sub_account_id"], wanted["mailing_list_id"]
    if audience != (was.sub_account_id, was.mailing_list_id):
        _require_own(tx, *audience)
    webhook = queries.update_webhook(tx, webhook_id, {**wanted, "updated_at": now})
    if (webhook.verb, webhook.url) != (was.verb, was.url):
        queries.hurry(tx, webhook_id, now=now)
        leases.wake(tx, webhook_id, at=now, afresh=True)
    return webhook


def pause(tx: Tx, webhook_id: int, *, now: datetime) -> queries.Webhook:
    """What happens from now on waits in its lane. One that its receiver has disabled rests already, and stays
    so."""
    was = queries.read_webhook(tx, webhook_id, locked=True)
    if was.status not in ("active", "failing"):
        return was
    return queries.update_webhook(tx, webhook_id, {"status": "paused", "updated_at": now})


def resume(tx: Tx, webhook_id: int, *, now: datetime) -> queries.Webhook:
    """Tell it of everything again, first of what has waited. Whatever was wrong with it is forgotten."""
    webhook = queries.read_webhook(tx, webhook_id, locked=True)
    if webhook.status != "active":
        healthy = {"status": "active", "failing_since": None, "last_error": None, "updated_at": now}
        webhook = queries.update_webhook(tx, webhook_id, healthy)
    queries.hurry(tx, webhook_id, now=now)
    leases.wake(tx, webhook_id, at=now, afresh=True)
    return webhook


def send_sample(tx: Tx, webhook_id: int, wanted: str | None = None, *, now: datetime) -> Sample:
    """Send it an event about nothing, of the `wanted` type, the way of all others."""
    webhook = queries.read_webhook(tx, webhook_id, locked=True)
    require_awake(webhook)
    if wanted is not None and webhook.type not in (EVERY_TYPE, wanted):
        raise Invalid({"event_type": [f"This subscription is for {webhook.type} alone."]})
    event_type, event_id = sample_type(wanted or webhook.type), uuid4()
    delivery_id = queries.add_sample(tx, webhook_id, event_type=event_type, event_id=event_id, now=now)
    leases.wake(tx, webhook_id, at=now, afresh=True)
    return Sample(str(event_id), event_type, delivery_id)


def rotate_secret(
    tx: Tx, sealer: Sealer, webhook_id: int, *, now: datetime
) -> tuple[queries.Webhook, str, datetime]:
    """The subscription, its new secret in clear, and until when the one before signs too. The one before
    that, if it still did, signs no longer."""
    queries.read_webhook(tx, webhook_id, locked=True)
    secret, sealed = _new_secret(sealer, webhook_id)
    until = now + TWO_SECRETS
    changed = {
        "previous_secret_sealed": webhooks.c.secret_sealed,
        "previous_until": until,
        "secret_sealed": sealed,
        "updated_at": now,
    }
    return queries.update_webhook(tx, webhook_id, changed), secret, until


def require_awake(webhook: queries.Webhook) -> None:
    """Raise where nothing that is asked for now would go out."""
    if not webhook.is_awake:
        raise Refused(f"This subscription is {webhook.status}: resume it first.")


def _new_secret(sealer: Sealer, webhook_id: int) -> tuple[str, bytes]:
    """In clear and sealed."""
    secret = signatures.new_secret(secrets.token_bytes(32))
    return secret, sealer.seal(secret.encode(), context=secret_context(webhook_id))


def unseal(sealer: Sealer, webhook_id: int, sealed: bytes) -> str:
    return sealer.open(sealed, context=secret_context(webhook_id)).decode()


def secret_context(webhook_id: int) -> str:
    return f"webhooks:{webhook_id}:secret"


def _require_own(tx: Tx, sub_account_id: int | None, mailing_list_id: int | None) -> None:
    """Raise unless both are the caller's own, and the list one that the sub account's mail can go to."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if mailing_list_id is not None:
        [mailing_list] = read_lists(tx, [mailing_list_id], held=True)
        if None not in (sub_account_id, mailing_list.sub_account_id) and (
            mailing_list.sub_account_id != sub_account_id
        ):
            raise Refused(UNKNOWN_LIST)
