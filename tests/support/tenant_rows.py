"""The least row that each table takes, so that who sees it can be tried for every table alike."""

import secrets
from datetime import UTC, date, datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, UUID

from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import people  # noqa: F401
from quillpost.core.database.tables.base import MessageList
from quillpost.core.database.tables.notifications import visits  # noqa: F401
from quillpost.core.database.tables.orders import giftcards  # noqa: F401
from quillpost.core.database.tables.recipients import lead_purchases

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)

metadata = lead_purchases.metadata
"""Of all tables; those of events come with it."""

TENANT_TABLES = (
    "accounts", "sub_accounts", "tokens", "mailing_lists", "recipients", "barred_digests", "files",
    "image_templates", "message_templates", "own_hands", "signatures", "orders", "items", "facts", "ledger_moves",
    "webhooks", "deliveries", "webhook_replays", "idempotency_keys", "order_counts", "stored_sends", "account_credit",
    "account_spending", "hourly_counts", "visits", "automations", "lead_purchases", "giftcards",
    "imports", "memberships", "invitations", "oauth_clients", "oauth_grants", "audit_log",
)  # fmt: skip
"""Parents before their children."""

KEPT_BY_TRIGGERS = {"order_counts"}
"""An order has brought its row here already."""

CHECKED: dict[str, dict[str, object]] = {
    "mailing_lists": {"suppress_by": "address"}, "barred_digests": {"kind": "address"},
    "imports": {"status": "waiting"},
    "orders": {"status": "reviewing", "mail_class": "first", "handwriting_manner": "natural"},
    "items": {"status": "Processing"}, "ledger_moves": {"kind": "authorise", "cents": 1},
    "webhooks": {"status": "active", "verb": "post"}, "deliveries": {"status": "pending"},
    "visits": {"kind": "person"}, "hourly_counts": {"what": "scans"}, "automations": {"trigger": "list_entry"},
    "lead_purchases": {"records": 1}, "giftcards": {"status": "asked", "cents": 1},
    "memberships": {"role": "member"}, "invitations": {"role": "member"},
    "oauth_clients": {"is_public": True, "redirect_uris": ["https://app.example.com/back"]},
}  # fmt: skip
"""Values for the columns that do not take just any."""

CHILDREN = {
    "orders": "order_id", "items": "item_id", "mailing_lists": "mailing_list_id", "webhooks": "webhook_id",
    "oauth_clients": "client_id",
}  # fmt: skip
"""The column under which other tables know a parent."""


def anything(kind: sa.types.TypeEngine[Any]) -> object:
    """Some value of the type, another one each time where types allow."""
    made: dict[type, object] = {
        sa.Text: secrets.token_hex(8), sa.BigInteger: 0, sa.Integer: 0, sa.Boolean: False,
        sa.DateTime: NOW, sa.Date: date(2026, 5, 4), BYTEA: secrets.token_bytes(8),
        JSONB: {}, UUID: uuid4(), ARRAY: [], MessageList: [],
    }  # fmt: skip
    return made[type(kind)]


def least_row(table: sa.Table, known: dict[str, object]) -> dict[str, object]:
    """What is known, and something in every other column that must be filled."""
    row = {}
    for column in table.columns:
        if column.identity is not None or column.computed is not None or column.server_default is not None:
            continue
        if column.name in known and not (known[column.name] is None and not column.nullable):
            row[column.name] = known[column.name]
        elif not column.nullable:
            row[column.name] = anything(column.type)
    return row | CHECKED.get(table.name, {})


def insert_least(tx: Tx, table: sa.Table, known: dict[str, object]) -> Any:
    """Insert it as whoever holds the transaction; the first column of its key."""
    made = tx.execute(sa.insert(table).values(**least_row(table, known)).returning(*table.primary_key))
    return made.one()[0]


def insert_one_of_each(
    tx: Tx, *, account_id: int, sub_account_id: int | None = None, mode: str = "test"
) -> dict[str, object]:
    """A row of theirs in every tenant table below accounts; what those that come after may point to."""
    person = insert_least(tx, metadata.tables["people"], {})
    known: dict[str, object] = {
        "account_id": account_id, "sub_account_id": sub_account_id, "mode": mode, "person_id": person
    }  # fmt: skip
    for name in TENANT_TABLES[1:]:
        if name in KEPT_BY_TRIGGERS or (name == "sub_accounts" and sub_account_id is not None):
            continue
        number = insert_least(tx, metadata.tables[name], known)
        if name in CHILDREN:
            known[CHILDREN[name]] = number
    # One whom nobody knows yet: in an account everybody is but once.
    return known | {"person_id": insert_least(tx, metadata.tables["people"], {})}


def account_column(table: sa.Table) -> sa.Column[Any]:
    return table.c.id if table.name == "accounts" else table.c.account_id
