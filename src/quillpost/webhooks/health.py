"""How subscriptions have fared lately: told from their newest deliveries, however many there were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Database

LATELY = 50
"""So many of the newest are looked at."""

# Each one's newest lie at the end of an index, which is closed to tenants.
_LATELY = sa.text(
    """
    select h.id as webhook_id, count(*) filter (where d.attempts > 0) as tried,
           count(*) filter (where d.attempts > 0 and d.status <> 'delivered') as not_arrived,
           max(d.created_at) filter (where d.attempts > 0) as last_at
      from unnest(cast(:hooks as bigint[])) as h (id)
     cross join lateral (select attempts, status, created_at from deliveries
                          where webhook_id = h.id order by id desc limit :most) d
     group by h.id
    """
)


@dataclass(frozen=True, slots=True)
class Lately:
    """Of the newest that were tried, how many have not arrived, or not yet."""

    tried: int = 0
    not_arrived: int = 0
    last_at: datetime | None = None

    @property
    def percent_failed(self) -> int:
        """Rounded up: where anything failed it is not 0."""
        return -(-100 * self.not_arrived // self.tried) if self.tried else 0


def lately(db: Database, webhook_ids: Sequence[int]) -> Mapping[int, Lately]:
    """Of each of them. Whose they are must be known already."""
    if not webhook_ids:
        return {}
    with db.work() as tx:
        rows = tx.execute(_LATELY, {"hooks": list(webhook_ids), "most": LATELY}).all()
    found = {row.webhook_id: Lately(row.tried, row.not_arrived, row.last_at) for row in rows}
    return {number: found.get(number, Lately()) for number in webhook_ids}
