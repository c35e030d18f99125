"""Subscribing, changing, resting and trying subscriptions, and unsealing what signs."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from quillpost.accounts.rules import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.audience.lists import UNKNOWN_LIST, read_lists
from quillpost.database import Tx
from quillpost.kit import standard_webhooks
from quillpost.kit.errors import Refused
from quillpost.kit.sealing import Sealer
from quillpost.webhooks import store
from quillpost.webhooks.samples import sample_type


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
    now: datetime,
) -> tuple[store.Webhook, str]:
    """The subscription to events of the caller's own mode, and its secret in clear: this once."""
    home = sub_account_id if sub_account_id is not None else who.sub_account_id
    _require_own(tx, home, mailing_list_id)
    webhook_id = store.insert_webhook(
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
    secret = standard_webhooks.new_secret(secrets.token_bytes(32))
    store.set_secret(tx, webhook_id, sealer.seal(secret.encode(), context=_context(webhook_id)))
    return store.read_webhook(tx, webhook_id), secret


def change(
    tx: Tx, who: Caller, webhook_id: int, changes: Mapping[str, Any], *, now: datetime
) -> store.Webhook:
    """Write over what is named; the rest stays. What still waits goes out to the new address."""
    was = store.read_webhook(tx, webhook_id, locked=True)
    wanted = {"sub_account_id": was.sub_account_id, "mailing_list_id": was.mailing_list_id, **changes}
    if wanted["sub_account_id"] is None:
        wanted["sub_account_id"] = who.sub_account_id
    audience = wanted["sub_account_id"], wanted["mailing_list_id"]
    if audience != (was.sub_account_id, was.mailing_list_id):
        _require_own(tx, *audience)
    webhook = store.update_webhook(tx, webhook_id, {**wanted, "updated_at": now})
    if (webhook.verb, webhook.url) != (was.verb, was.url):
        store.forget_words(tx, webhook_id)
    return webhook


def pause(tx: Tx, webhook_id: int, *, now: datetime) -> store.Webhook:
    """What happens from now on waits. One that its receiver has disabled rests already, and stays so."""
    was = store.read_webhook(tx, webhook_id, locked=True)
    if was.status not in ("active", "failing"):
        return was
    store.hold_back(tx, webhook_id, now=now)
    return store.update_webhook(tx, webhook_id, {"status": "paused", "updated_at": now})


def resume(tx: Tx, webhook_id: int, *, now: datetime) -> store.Webhook:
    """Tell it of everything again, first of what has waited."""
    was = store.read_webhook(tx, webhook_id, locked=True)
    if was.status == "active":
        return was
    store.let_go(tx, webhook_id, now=now)
    return store.update_webhook(tx, webhook_id, {"status": "active", "updated_at": now})


def send_sample(tx: Tx, webhook_id: int, *, now: datetime) -> tuple[str, str]:
    """Send it an event about nothing, the way of all others; the event's id and type."""
    webhook = store.read_webhook(tx, webhook_id, locked=True)
    if webhook.status in ("paused", "disabled"):
        raise Refused(f"This subscription is {webhook.status}: resume it first.")
    event_type, event_id = sample_type(webhook.type), uuid4()
    store.add_sample(tx, webhook_id, event_type=event_type, event_id=event_id, now=now)
    return str(event_id), event_type


def unseal(sealer: Sealer, webhook_id: int, sealed: bytes) -> str:
    return sealer.open(sealed, context=_context(webhook_id)).decode()


def _context(webhook_id: int) -> str:
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
