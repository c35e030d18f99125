"""Counters that triggers keep, in shards, so that no page adds up a big table and no two senders wait for one
row."""

from typing import Any

import sqlalchemy as sa

from quillpost.core.database.tables.base import BigInt, Date, Integer, Text, Timestamp, metadata, required_column


def counter_key_columns() -> list[sa.Column[Any]]:
    """Whose they are; without a sub account it is 0."""
    return [
        sa.Column("account_id", BigInt, primary_key=True),
        sa.Column("mode", Text, primary_key=True),
        sa.Column("sub_account_id", BigInt, primary_key=True),
    ]


order_counts = sa.Table(
    "order_counts",
    metadata,
    *counter_key_columns(),
    sa.Column("type", Text, primary_key=True),
    sa.Column("shard", Integer, primary_key=True),
    required_column("n", BigInt),
)
"""Orders by whose and what they are."""

account_credit = sa.Table(
    "account_credit",
    metadata,
    *counter_key_columns(),
    sa.Column("shard", Integer, primary_key=True),
    required_column("cents", BigInt),
)
"""What accounts have in the ledger's book `credit`."""

account_spending = sa.Table(
    "account_spending",
    metadata,
    *counter_key_columns(),
    sa.Column("month", Date, primary_key=True),
    sa.Column("shard", Integer, primary_key=True),
    required_column("cents", BigInt),
)
"""What was captured in a month less what was given back."""

hourly_counts = sa.Table(
    "hourly_counts",
    metadata,
    *counter_key_columns(),
    sa.Column("hour", Timestamp, primary_key=True),
    sa.Column("what", Text, primary_key=True),
    sa.Column("shard", Integer, primary_key=True),
    required_column("n", BigInt),
)
"""How many pieces were sent, delivered and scanned in each hour."""
