"""The rows of a file that were not taken, as a CSV file: each with its line, the reason and all its cells."""

import csv
import io
from collections.abc import Iterator
from itertools import count
from typing import IO

import sqlalchemy as sa

from quillpost.core.database import Database
from quillpost.core.database.tables.imports import import_rejects
from quillpost.core.errors import Refused
from quillpost.core.ports import FileMissing, FileStore
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.rows import records
from quillpost.recipients.imports.tasks import GONE
from quillpost.recipients.lists.export import harmless

AT_ONCE = 5_000
PIECE = 64 * 1024


def rejected_rows(db: Database, files: FileStore, work: Import) -> Iterator[bytes]:
    """What was in them is read from the file once more. A failure comes before the first piece does."""
    if work.file_key is None:
        raise Refused(
            "The file of this import was removed, and this report with it: after its time, or because"
            " somebody was erased."
        )
    try:
        source = files.open(work.file_key)
    except FileMissing:
        raise Refused(GONE) from None
    return _pieces(db, source, work)


def _pieces(db: Database, source: IO[bytes], work: Import) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["line", "reason", *map(harmless, work.layout.names)])
    with source:
        rows = zip(count(), records(source, work.layout), strict=False)
        for place, line, reason in _rejects(db, work.id):
            cells = next((row.cells for at, row in rows if at == place), [])
            writer.writerow([line, harmless(reason), *map(harmless, cells)])
            if text.tell() >= PIECE:
                yield text.getvalue().encode(errors="replace")
                text.seek(0)
                text.truncate()
    yield text.getvalue().encode(errors="replace")


def _rejects(db: Database, import_id: int) -> Iterator[tuple[int, int, str]]:
    """In the order of the file, a few thousand at a time: a slow reader holds no connection."""
    last = -1
    columns = import_rejects.c
    while True:
        with db.work() as tx:
            found = tx.execute(
                sa.select(columns.place, columns.line, columns.reason)
                .where(columns.import_id == import_id, columns.place > last)
                .order_by(columns.place)
                .limit(AT_ONCE)
            ).all()
        yield from map(tuple, found)
        if len(found) < AT_ONCE:
            return
        last = found[-1].place
