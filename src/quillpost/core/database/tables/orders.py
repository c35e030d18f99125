"""Tables of gift cards, and counters that triggers keep."""

from typing import Any

import sqlalchemy as sa

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Bytes,
    Date,
    Integer,
    IntegerArray,
    Text,
    Timestamp,
    Uuid,
    columns,
    define_table,
    id_column,
    key_columns,
    owner_columns,
)

giftcard_brands = define_table(
    "giftcard_brands",
    *key_columns(Text, "code"),
    *columns(Text, "title", "section", "accent", "issuer_code?"),
    *columns(IntegerArray, "amounts"),
    *columns(Integer, "position"),
    *columns(Boolean, "is_offered"),
    *columns(Timestamp, "updated_at"),
)

giftcards = define_table(
    "giftcards",
    *key_columns(BigInt, "item_id"),
    *owner_columns(),
    *columns(Text, "mode", "brand", "status", "issuer?"),
    *columns(BigInt, "order_id", "reissued_as?"),
    *columns(Integer, "cents"),
    *columns(Uuid, "reference"),
    *columns(Bytes, "claim_digest?", "claim_sealed?", "card_sealed?"),
    *columns(Timestamp, "asked_at", "issued_at?", "opened_at?", "visited_at?", "claimed_at?"),
    *columns(Timestamp, "reported_at?", "voided_at?", "given_back_at?"),
    *columns(Text, "report?", "void_reason?"),
)

giftcard_stock = define_table(
    "giftcard_stock",
    id_column(),
    *columns(Text, "mode", "brand", "source"),
    *columns(Integer, "cents"),
    *columns(Bytes, "card_sealed"),
    *columns(Date, "expires_on?"),
    *columns(Timestamp, "loaded_at", "taken_at?", "set_aside_at?"),
    *columns(Uuid, "taken_by?"),
)


def counter_key_columns() -> list[sa.Column[Any]]:
    """Without a sub account it is 0."""
    return [*key_columns(BigInt, "account_id"), *key_columns(Text, "mode"), *key_columns(BigInt, "sub_account_id")]


order_counts = define_table(
    "order_counts",
    *counter_key_columns(),
    *key_columns(Text, "type"),
    *key_columns(Integer, "shard"),
    *columns(BigInt, "n"),
)
"""Orders by whose and what they are."""

account_credit = define_table(
    "account_credit", *counter_key_columns(), *key_columns(Integer, "shard"), *columns(BigInt, "cents")
)
"""What accounts have in the ledger's book `credit`."""

account_spending = define_table(
    "account_spending",
    *counter_key_columns(),
    *key_columns(Date, "month"),
    *key_columns(Integer, "shard"),
    *columns(BigInt, "cents"),
)
"""What was captured in a month less what was given back."""

hourly_counts = define_table(
    "hourly_counts",
    *counter_key_columns(),
    *key_columns(Timestamp, "hour"),
    *key_columns(Text, "what"),
    *key_columns(Integer, "shard"),
    *columns(BigInt, "n"),
)
"""How many pieces were sent, delivered and scanned in each hour."""
