"""The operator's own addresses, in the table that `quillpost leads import` fills."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.leads import leads
from quillpost.recipients.leads import rules as lead_rules
from quillpost.recipients.leads.ports import Lead, LeadsAsked, Resident
from quillpost.recipients.leads.queries import Density, Filters, density_of, nearest
from quillpost.recipients.leads.rules import FARTHEST_MILES, METRES_A_MILE
from quillpost.recipients.leads.sample import ensure_sample

KNOWN_FOR = timedelta(minutes=5)
"""How long a count of who lives where is good enough to guess from."""

FIELDS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "address_key",
    "standard", "deliverability", "reasons",
)  # fmt: skip

_BY_ID = sa.select(
    leads.c.id, leads.c.owner, leads.c.latitude, leads.c.longitude, *(leads.c[name] for name in FIELDS)
)


class TableLeads:
    """`samples` are for testing mode, which sees nothing else; live mode sees all but them."""

    is_told = False

    def __init__(self, db: Database, *, samples: bool, clock: Clock) -> None:
        self._db, self._samples, self._clock = db, samples, clock
        self._counted: tuple[datetime, Density] | None = None
        self._is_filled = not samples

    def search(self, asked: LeadsAsked) -> Sequence[Lead]:
        if not self._is_filled:
            ensure_sample(self._db, now=self._clock())
            self._is_filled = True
        with self._db.anonymous() as tx:
            found = nearest(
                tx,
                asked.latitude,
                asked.longitude,
                asked.count,
                filters=self._filters(asked),
                density=self._density(tx),
                farthest=min(FARTHEST_MILES, asked.within_miles or FARTHEST_MILES) * METRES_A_MILE,
            )
            ids = found.ids.tolist()
            rows = {row.id: row for row in tx.execute(_BY_ID.where(leads.c.id == sa.any_(sa.literal(ids))))}
        # A row that an import has replaced just now is found by the next search.
        return [_lead(rows[id_]) for id_ in ids if id_ in rows]

    def bought(self, reference: str, ids: Sequence[str], *, now: datetime) -> None:
        """Nobody else need know."""

    def _filters(self, asked: LeadsAsked) -> Filters:
        none_of = 0 if asked.include_condos else lead_rules.CONDO
        none_of |= 0 if asked.include_businesses else lead_rules.BUSINESS
        return Filters(
            any_of=lead_rules.mask(asked.record_types),
            all_of=lead_rules.SAMPLE if self._samples else 0,
            none_of=none_of if self._samples else none_of | lead_rules.SAMPLE,
        )

    def _density(self, tx: Tx) -> Density:
        now = self._clock()
        if self._counted is None or not now - KNOWN_FOR < self._counted[0] <= now:
            self._counted = now, density_of(tx)
        return self._counted[1]


def _lead(row: sa.Row[Any]) -> Lead:
    resident = Resident(**{name: getattr(row, name) for name in FIELDS})
    owner = Resident(**row.owner) if row.owner else None
    return Lead(str(row.id), resident, owner, (row.latitude, row.longitude))
