"""A mailing list as a CSV file: a million people take no more memory than a thousand."""

import re
from collections.abc import Generator
from tempfile import SpooledTemporaryFile
from typing import IO

from psycopg import sql

from quillpost.core.database import Tx, driver
from quillpost.recipients.queries import PERSON
from quillpost.recipients.rules import CUSTOM, TEXTS

COLUMNS = ("id", *PERSON, *CUSTOM, "created_at", "updated_at")
CHUNK_BYTES = 64 * 1024
IN_MEMORY = 1_000_000
"""Longer files wait for their reader on disk."""

# A spreadsheet must not take a name for a formula. One more quote is put before those that a value begins
# with: whoever takes one away, as an import does, has what was there.
FORMULA = "'*[-=+@\t\r\n＝＋－＠]"
_FORMULA = re.compile(FORMULA)
_TEXT = "case when {column} ~ {formula} then '''' || {column} else {column} end as {column}"
_MOMENT = "to_char({column} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as {column}"
_EXPORT = sql.SQL(
    "copy (select {columns} from recipients where mailing_list_id = {list_id} order by id)"
    " to stdout with (format csv, header true)"
)


def csv_file(tx: Tx, list_id: int) -> IO[bytes]:
    """A line of field names, then everyone in the order in which they were added.

    Written before anybody reads it: a slow reader holds no connection.
    """
    columns = sql.SQL(", ").join(map(_shown, COLUMNS))
    query = _EXPORT.format(columns=columns, list_id=sql.Literal(list_id))
    written: IO[bytes] = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (its reader closes it)
    with driver(tx).cursor() as cursor, cursor.copy(query) as copy:
        for line in copy:
            written.write(line)
    written.seek(0)
    return written


def chunks(file: IO[bytes]) -> Generator[bytes, None, None]:
    """The file in pieces; it is gone when it is read, or nobody wants the rest."""
    with file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def harmless(text: str) -> str:
    """A text that a spreadsheet takes for no formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _shown(name: str) -> sql.Composable:
    form = _TEXT if name in TEXTS else _MOMENT if name.endswith("_at") else "{column}"
    return sql.SQL(form).format(column=sql.Identifier(name), formula=sql.Literal(f"^{FORMULA}"))
