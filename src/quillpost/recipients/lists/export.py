"""A mailing list as a CSV file: a million people take no more memory than a thousand."""

import re
from collections.abc import Generator
from tempfile import SpooledTemporaryFile
from typing import IO

from psycopg import sql

from quillpost.core.database import Tx, driver_connection
from quillpost.recipients.queries import PERSON_COLUMNS
from quillpost.recipients.rules import CUSTOM_FIELDS, TEXT_FIELDS

EXPORT_COLUMNS = ("id", *PERSON_COLUMNS, *CUSTOM_FIELDS, "created_at", "updated_at")
CHUNK_BYTES = 64 * 1024
MAX_MEMORY_BYTES = 1_000_000
"""Longer files wait for their reader on disk."""

# A spreadsheet must not take a name for a formula. One more quote is put before those that a value begins
# with: whoever takes one away, as an import does, has what was there.
FORMULA_PATTERN = "'*[-=+@\t\r\n＝＋－＠]"
_FORMULA_START = re.compile(FORMULA_PATTERN)
_TEXT_EXPRESSION = "case when {column} ~ {formula} then '''' || {column} else {column} end as {column}"
_TIMESTAMP_EXPRESSION = "to_char({column} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as {column}"
_EXPORT = sql.SQL(
    "copy (select {columns} from recipients where mailing_list_id = {list_id} order by id)"
    " to stdout with (format csv, header true)"
)


def write_csv_file(tx: Tx, list_id: int) -> IO[bytes]:
    """A line of field names, then everyone in the order in which they were added.

    Written before anybody reads it: a slow reader holds no connection.
    """
    columns = sql.SQL(", ").join(map(_column_expression, EXPORT_COLUMNS))
    query = _EXPORT.format(columns=columns, list_id=sql.Literal(list_id))
    file: IO[bytes] = SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES)  # noqa: SIM115 (its reader closes it)
    with driver_connection(tx).cursor() as cursor, cursor.copy(query) as copy:
        for chunk in copy:
            file.write(chunk)
    file.seek(0)
    return file


def read_chunks(file: IO[bytes]) -> Generator[bytes, None, None]:
    """The file in pieces; it is gone when it is read, or nobody wants the rest."""
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def escape_formula(text: str) -> str:
    """A text that a spreadsheet takes for no formula."""
    return f"'{text}" if _FORMULA_START.match(text) else text


def _column_expression(name: str) -> sql.Composable:
    expression = (
        _TEXT_EXPRESSION if name in TEXT_FIELDS else _TIMESTAMP_EXPRESSION if name.endswith("_at") else "{column}"
    )
    return sql.SQL(expression).format(column=sql.Identifier(name), formula=sql.Literal(f"^{FORMULA_PATTERN}"))
