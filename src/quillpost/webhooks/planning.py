"""How the outbox is read: row by row, from its indexes."""

import sqlalchemy as sa

from quillpost.database import Tx

_AVOIDED = ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "material", "sort", "incremental_sort")
_BY_INDEX = sa.text(
    "select set_config('plan_cache_mode', 'force_generic_plan', true), "
    + ", ".join(f"set_config('enable_{way}', 'off', true)" for way in _AVOIDED)
)


def by_index(tx: Tx) -> None:
    """For the rest of the transaction. What waits is many now and few a moment later, so what the planner
    knows of it is never so, and it would read all of that for a handful of rows. A plan is made once: making
    one for as many tables as there are days takes longer than the work."""
    tx.execute(_BY_INDEX)
