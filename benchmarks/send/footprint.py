"""How many rows a call leaves in which tables, as the server itself counts them."""

from collections import Counter
from collections.abc import Callable

import psycopg

from benchmarks.send.service import Service

_COUNTS = "select relname, n_tup_ins + n_tup_upd + n_tup_del from pg_stat_user_tables"
_OTHERS = """
    select count(*) from pg_stat_activity
     where backend_type = 'client backend' and datname = current_database() and pid <> pg_backend_pid()
"""


def footprint(service: Service, call: Callable[[], object]) -> dict[str, int]:
    """Rows that one call inserts, updates or deletes, by table."""
    before = _counts(service)
    call()
    after = _counts(service)
    after.subtract(before)
    return {table: rows for table, rows in sorted(after.items()) if rows}


def _counts(service: Service) -> Counter[str]:
    """Connections hand in their counts when they end: so all are closed, and opened anew when needed."""
    service.parts.db.close()
    with psycopg.connect(service.conninfo, autocommit=True) as connection:
        while connection.execute(_OTHERS).fetchone() != (0,):
            pass
        return Counter(dict(connection.execute(_COUNTS).fetchall()))
