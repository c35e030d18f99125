"""The operator's own addresses, in the table that `quillpost leads import` fills."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.recipients import leads
from quillpost.core.text import Clock
from quillpost.recipients.leads import rules as lead_rules
from quillpost.recipients.leads.imports import ensure_sample
from quillpost.recipients.leads.ports import Lead, LeadQuery, Resident
from quillpost.recipients.leads.queries import LeadDensity, TagFilters, find_nearest, read_density
from quillpost.recipients.leads.rules import MAX_MILES, METERS_PER_MILE

DENSITY_LIFETIME = timedelta(minutes=5)
RESIDENT_COLUMNS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "address_key",
    "standard", "deliverability", "reasons",
)  # fmt: skip

_SELECT_LEADS = sa.select(
    leads.c.id, leads.c.owner, leads.c.latitude, leads.c.longitude, *(leads.c[name] for name in RESIDENT_COLUMNS)
)


class TableLeadProvider:
    """`samples` are for testing mode, which sees nothing else; live mode sees all but them."""

    needs_purchase_reports = False

    def __init__(self, db: Database, *, use_samples: bool, clock: Clock) -> None:
        self._db, self._uses_samples, self._clock = db, use_samples, clock
        self._cached_density: tuple[datetime, LeadDensity] | None = None
        self._has_sample = not use_samples

    def search(self, query: LeadQuery) -> Sequence[Lead]:
        if not self._has_sample:
            ensure_sample(self._db, now=self._clock())
            self._has_sample = True
        with self._db.anonymous_transaction() as tx:
            nearest_leads = find_nearest(
                tx,
                query.latitude,
                query.longitude,
                query.count,
                filters=self._build_filters(query),
                density=self._get_density(tx),
                max_meters=min(MAX_MILES, query.within_miles or MAX_MILES) * METERS_PER_MILE,
            )
            ids = nearest_leads.ids.tolist()
            rows = {row.id: row for row in tx.execute(_SELECT_LEADS.where(leads.c.id == sa.any_(sa.literal(ids))))}
        # A row that an import has just replaced is found by the next search.
        return [_build_lead(rows[id_]) for id_ in ids if id_ in rows]

    def confirm_purchase(self, reference: str, ids: Sequence[str], *, now: datetime) -> None:
        """There is no other party to report to."""

    def _build_filters(self, query: LeadQuery) -> TagFilters:
        none_of = 0 if query.include_condos else lead_rules.CONDO_TAG
        none_of |= 0 if query.include_businesses else lead_rules.BUSINESS_TAG
        return TagFilters(
            any_of=lead_rules.build_tag_mask(query.record_types),
            all_of=lead_rules.SAMPLE_TAG if self._uses_samples else 0,
            none_of=none_of if self._uses_samples else none_of | lead_rules.SAMPLE_TAG,
        )

    def _get_density(self, tx: Tx) -> LeadDensity:
        now = self._clock()
        if self._cached_density is None or not now - DENSITY_LIFETIME < self._cached_density[0] <= now:
            self._cached_density = now, read_density(tx)
        return self._cached_density[1]


def _build_lead(row: sa.Row[Any]) -> Lead:
    resident = Resident(**{name: getattr(row, name) for name in RESIDENT_COLUMNS})
    owner = Resident(**row.owner) if row.owner else None
    return Lead(str(row.id), resident, owner, (row.latitude, row.longitude))
