"""A mailing list as a CSV file, in a stream: a million people take no more memory than one."""

from collections.abc import Generator

from psycopg import sql

from quillpost.audience.recipients import PERSON
from quillpost.audience.rules import CUSTOM, TEXTS
from quillpost.database import Database, Tenant, driver

COLUMNS = ("id", *PERSON, *CUSTOM, "created_at", "updated_at")
CHUNK_BYTES = 64 * 1024

# A spreadsheet must not take a name for a formula.
_TEXT = r"case when {column} ~ '^[-=+@\t\r]' then '''' || {column} else {column} end as {column}"
_MOMENT = "to_char({column} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as {column}"
_EXPORT = sql.SQL(
    "copy (select {columns} from recipients where mailing_list_id = {list_id} order by id)"
    " to stdout with (format csv, header true)"
)


def csv_chunks(db: Database, who: Tenant, list_id: int) -> Generator[bytes, None, None]:
    """A line of field names, then everyone in the order in which they were added."""
    columns = sql.SQL(", ").join(map(_shown, COLUMNS))
    query = _EXPORT.format(columns=columns, list_id=sql.Literal(list_id))
    with db.transaction(who) as tx, driver(tx).cursor() as cursor, cursor.copy(query) as copy:
        chunk = bytearray()
        for line in copy:
            chunk += line
            if len(chunk) >= CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
        yield bytes(chunk)


def _shown(name: str) -> sql.Composable:
    form = _TEXT if name in TEXTS else _MOMENT if name.endswith("_at") else "{column}"
    return sql.SQL(form).format(column=sql.Identifier(name))
