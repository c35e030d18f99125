"""Subscribing, and unsealing what signs."""

import secrets
from datetime import datetime

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import require_sub_account
from quillpost.database import Tx
from quillpost.kit import standard_webhooks
from quillpost.kit.sealing import Sealer
from quillpost.webhooks import store


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
    now: datetime,
) -> tuple[store.Webhook, str]:
    """The subscription to events of the caller's own mode, and its secret in clear: this once."""
    home = sub_account_id if sub_account_id is not None else who.sub_account_id
    if home is not None:
        require_sub_account(tx, home)
    webhook_id = store.insert_webhook(
        tx,
        {
            "account_id": who.account_id,
            "sub_account_id": home,
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


def unseal(sealer: Sealer, webhook_id: int, sealed: bytes) -> str:
    return sealer.open(sealed, context=_context(webhook_id)).decode()


def _context(webhook_id: int) -> str:
    return f"webhooks:{webhook_id}:secret"
