"""Counters that triggers keep, in shards, so that no page adds up a big table and no two senders wait for one
row."""

from typing import Any

import sqlalchemy as sa

from quillpost.core.database.tables.base import Big, Day, Int, Moment, Text, column, metadata


def counted_for() -> list[sa.Column[Any]]:
    """Whose they are; without a sub account it is 0."""
    return [
        sa.Column("account_id", Big, primary_key=True),
        sa.Column("mode", Text, primary_key=True),
        sa.Column("sub_account_id", Big, primary_key=True),
    ]


order_counts = sa.Table(
    "order_counts",
    metadata,
    *counted_for(),
    sa.Column("type", Text, primary_key=True),
    sa.Column("shard", Int, primary_key=True),
    column("n", Big),
)
"""Orders by whose and what they are."""

account_credit = sa.Table(
    "account_credit",
    metadata,
    *counted_for(),
    sa.Column("shard", Int, primary_key=True),
    column("cents", Big),
)
"""What accounts have in the ledger's book `credit`."""

account_spending = sa.Table(
    "account_spending",
    metadata,
    *counted_for(),
    sa.Column("month", Day, primary_key=True),
    sa.Column("shard", Int, primary_key=True),
    column("cents", Big),
)
"""What was captured in a month less what was given back."""

hourly_counts = sa.Table(
    "hourly_counts",
    metadata,
    *counted_for(),
    sa.Column("hour", Moment, primary_key=True),
    sa.Column("what", Text, primary_key=True),
    sa.Column("shard", Int, primary_key=True),
    column("n", Big),
)
"""How many pieces were sent, delivered and scanned in each hour."""
