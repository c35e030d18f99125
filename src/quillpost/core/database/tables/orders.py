"""Tables of gift cards, and counters that triggers keep."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, UUID

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Date,
    Integer,
    Text,
    Timestamp,
    define_table,
    id_column,
    nullable_columns,
    owner_columns,
    required_column,
    required_columns,
)

giftcard_brands = define_table(
    "giftcard_brands",
    sa.Column("code", Text, primary_key=True),
    *required_columns("title", "section"),
    required_column("amounts", ARRAY(sa.Integer())),
    required_column("accent", Text),
    *nullable_columns("issuer_code"),
    required_column("position", Integer),
    required_column("is_offered", Boolean),
    required_column("updated_at", Timestamp),
)

giftcards = define_table(
    "giftcards",
    sa.Column("item_id", BigInt, primary_key=True),
    *owner_columns(),
    required_column("mode", Text),
    required_column("order_id", BigInt),
    required_column("brand", Text),
    required_column("cents", Integer),
    required_column("status", Text),
    required_column("reference", UUID(as_uuid=True)),
    *nullable_columns("issuer"),
    *nullable_columns("claim_digest", "claim_sealed", "card_sealed", type_=BYTEA()),
    required_column("asked_at", Timestamp),
    *nullable_columns("issued_at", "opened_at", "visited_at", "claimed_at", "reported_at", type_=Timestamp),
    *nullable_columns("report"),
    *nullable_columns("voided_at", type_=Timestamp),
    *nullable_columns("void_reason"),
    *nullable_columns("given_back_at", type_=Timestamp),
    *nullable_columns("reissued_as", type_=BigInt),
)

giftcard_stock = define_table(
    "giftcard_stock",
    id_column(),
    *required_columns("mode", "brand"),
    required_column("cents", Integer),
    required_column("card_sealed", BYTEA()),
    *nullable_columns("expires_on", type_=sa.Date()),
    required_column("source", Text),
    required_column("loaded_at", Timestamp),
    *nullable_columns("taken_by", type_=UUID(as_uuid=True)),
    *nullable_columns("taken_at", "set_aside_at", type_=Timestamp),
)


def counter_key_columns() -> list[sa.Column[Any]]:
    """Without a sub account it is 0."""
    return [
        sa.Column("account_id", BigInt, primary_key=True),
        sa.Column("mode", Text, primary_key=True),
        sa.Column("sub_account_id", BigInt, primary_key=True),
    ]


order_counts = define_table(
    "order_counts",
    *counter_key_columns(),
    sa.Column("type", Text, primary_key=True),
    sa.Column("shard", Integer, primary_key=True),
    required_column("n", BigInt),
)
"""Orders by whose and what they are."""

account_credit = define_table(
    "account_credit",
    *counter_key_columns(),
    sa.Column("shard", Integer, primary_key=True),
    required_column("cents", BigInt),
)
"""What accounts have in the ledger's book `credit`."""

account_spending = define_table(
    "account_spending",
    *counter_key_columns(),
    sa.Column("month", Date, primary_key=True),
    sa.Column("shard", Integer, primary_key=True),
    required_column("cents", BigInt),
)
"""What was captured in a month less what was given back."""

hourly_counts = define_table(
    "hourly_counts",
    *counter_key_columns(),
    sa.Column("hour", Timestamp, primary_key=True),
    sa.Column("what", Text, primary_key=True),
    sa.Column("shard", Integer, primary_key=True),
    required_column("n", BigInt),
)
"""How many pieces were sent, delivered and scanned in each hour."""
