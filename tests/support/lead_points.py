"""Points in the table of addresses, and the nearest of them found the slow way."""

import numpy as np
import sqlalchemy as sa

from quillpost.core.database import Database, driver_connection
from quillpost.core.database.tables.recipients import lead_sources
from quillpost.recipients.leads.imports import _recount_density
from quillpost.recipients.leads.queries import NearestLeads, TagFilters
from quillpost.recipients.leads.rules import Floats, Integers, compute_distances, find_cells

COLUMNS = "id, source_id, grid, latitude, longitude, tags, address_key, address, country, deliverability, reasons"


def store_points(db: Database, latitudes: Floats, longitudes: Floats, tags: Integers) -> None:
    """Their ids are their places, from 1 on."""
    grid = find_cells(latitudes, longitudes)
    with db.system_transaction() as tx:
        made = sa.insert(lead_sources).values(name="points", is_sample=False, records=0, updated_at=sa.func.now())
        source = tx.execute(made.returning(lead_sources.c.id)).scalar_one()
        driver_connection(tx).execute(
            f"create temp table points on commit drop as select {COLUMNS} from leads with no data"
        )
        with driver_connection(tx).cursor() as cursor, cursor.copy(f"copy points ({COLUMNS}) from stdin") as copy:
            for n, (cell, lat, lng, tag) in enumerate(zip(grid, latitudes, longitudes, tags, strict=True)):
                copy.write_row(
                    (n + 1, source, int(cell), float(lat), float(lng), int(tag), str(n), "1 Main St", "US",
                     "deliverable", [])
                )  # fmt: skip
        driver_connection(tx).execute(
            f"insert into leads ({COLUMNS}) overriding system value select {COLUMNS} from points order by grid"
        )
        _recount_density(tx)


def brute_force(
    latitude: float, longitude: float, count: int, points: tuple[Floats, Floats, Integers], filters: TagFilters
) -> NearestLeads:
    latitudes, longitudes, tags = points
    is_match = ((tags & filters.any_of) != 0) | (filters.any_of == 0)
    is_match &= ((tags & filters.all_of) == filters.all_of) & ((tags & filters.none_of) == 0)
    ids = np.arange(1, len(tags) + 1)[is_match]
    far = compute_distances(latitude, longitude, latitudes[is_match], longitudes[is_match])
    order = np.lexsort((ids, far))[:count]
    return NearestLeads(ids[order], far[order], np.inf)
