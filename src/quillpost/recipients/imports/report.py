"""The rows of a file that were not taken, as a CSV file: each with its line, the reason and all its cells."""

import csv
import io
from collections.abc import Iterator
from itertools import count
from typing import IO

import sqlalchemy as sa

from quillpost.core.database import Database
from quillpost.core.database.tables.recipients import import_rejects
from quillpost.core.errors import Refused
from quillpost.core.ports import FileMissing, FileStore
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.rows import read_records
from quillpost.recipients.imports.tasks import FILE_GONE
from quillpost.recipients.lists.export import escape_formula

ROWS_PER_QUERY = 5_000
CHUNK_BYTES = 64 * 1024


def stream_rejected_rows(db: Database, files: FileStore, import_record: Import) -> Iterator[bytes]:
    """What was in them is read from the file once more. A failure comes before the first piece does."""
    if import_record.file_key is None:
        raise Refused(
            "The file of this import was removed, and this report with it: after its time, or because"
            " somebody was erased."
        )
    try:
        source = files.open(import_record.file_key)
    except FileMissing:
        raise Refused(FILE_GONE) from None
    return _stream_report(db, source, import_record)


def _stream_report(db: Database, source: IO[bytes], import_record: Import) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["line", "reason", *map(escape_formula, import_record.layout.names)])
    with source:
        rows = zip(count(), read_records(source, import_record.layout), strict=False)
        for position, line, reason in _read_rejects(db, import_record.id):
            cells = next((row.cells for row_number, row in rows if row_number == position), [])
            writer.writerow([line, escape_formula(reason), *map(escape_formula, cells)])
            if text.tell() >= CHUNK_BYTES:
                yield text.getvalue().encode(errors="replace")
                text.seek(0)
                text.truncate()
    yield text.getvalue().encode(errors="replace")


def _read_rejects(db: Database, import_id: int) -> Iterator[tuple[int, int, str]]:
    """In the order of the file, a few thousand at a time: a slow reader holds no connection."""
    last_position = -1
    columns = import_rejects.c
    while True:
        with db.system_transaction() as tx:
            rows = tx.execute(
                sa.select(columns.place, columns.line, columns.reason)
                .where(columns.import_id == import_id, columns.place > last_position)
                .order_by(columns.place)
                .limit(ROWS_PER_QUERY)
            ).all()
        yield from map(tuple, rows)
        if len(rows) < ROWS_PER_QUERY:
            return
        last_position = rows[-1].place
