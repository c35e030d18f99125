"""Imports as callers use them: inspect a file, create an import, cancel it, report what was rejected."""

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import IO, Any
from uuid import uuid4

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.errors import Conflict, NotFound, Refused
from quillpost.core.ports import FileMissing, FileStore
from quillpost.core.text import Clock
from quillpost.recipients.imports import queries
from quillpost.recipients.imports.files import convert_to_csv, is_workbook, read_records, sniff
from quillpost.recipients.imports.models import FileLayout, MappedColumn
from quillpost.recipients.imports.queries import Import, RejectedImportRow
from quillpost.recipients.imports.rules import choose_columns, require_address_or_email
from quillpost.recipients.imports.tasks import FILE_GONE, IMPORT_QUEUE, IMPORT_TASK, IMPORTS_FOLDER, end_import
from quillpost.recipients.lists.queries import OPT_OUT_LIST_REFUSED, escape_formula, lock_lists, update_list
from quillpost.recipients.models import MailingList

LIST_BUSY = "This list is being filled already: wait until its `processed` is true, or cancel the import."
SCAN_LIST_REFUSED = "The service keeps whoever scanned a code on this list: import into a list of your own."
ALREADY_FINISHED = "This import is {} already."
MAX_FILE_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class InspectedImport:
    """A file that can be imported, and its first rows."""

    file: IO[bytes]
    name: str
    layout: FileLayout
    columns: Sequence[MappedColumn]
    rows: Sequence[Sequence[str]]

    @property
    def size(self) -> int:
        return self.file.seek(0, os.SEEK_END)


def inspect_file(
    file: IO[bytes], *, name: str, mapping: Mapping[str, Any] | None, has_header: bool | None
) -> InspectedImport:
    """`Invalid` if it cannot be imported. The sheet of a workbook becomes a CSV file."""
    workbook = is_workbook(file)
    readable = convert_to_csv(file) if workbook else file
    try:
        sniffed = sniff(readable, has_header=has_header, is_workbook=workbook)
        columns = choose_columns(sniffed.layout, sniffed.rows, mapping)
    except BaseException:
        if workbook:
            readable.close()
        raise
    return InspectedImport(readable, _clean_file_name(name), sniffed.layout, columns, sniffed.rows)


def store_file(files: FileStore, inspected: InspectedImport, *, now: datetime) -> str:
    """The key of the stored file. Call it before a transaction: storage may be slow."""
    require_address_or_email(inspected.columns)
    key = f"{IMPORTS_FOLDER}/{now:%Y-%m-%d}/{uuid4()}"
    inspected.file.seek(0)
    files.put_file(key, inspected.file)
    return key


def create_import(
    tx: Tx, list_id: int, inspected: InspectedImport, key: str, *, clock: Clock, enqueue: bool = True
) -> Import:
    """Record the import; its job starts when this transaction commits, unless `enqueue` is False."""
    mailing_list = lock_lists(tx, [list_id]).get(list_id)
    if mailing_list is None:
        raise NotFound
    require_own_list(mailing_list)
    if not mailing_list.processed:
        raise Conflict(LIST_BUSY)
    now = clock()
    update_list(tx, list_id, {"processed": False, "updated_at": now})
    new_import = queries.insert_import(
        tx,
        {
            "account_id": mailing_list.account_id,
            "sub_account_id": mailing_list.sub_account_id,
            "mailing_list_id": list_id,
            "status": "waiting",
            "file_name": inspected.name,
            "file_key": key,
            "file_bytes": inspected.size,
            "layout": inspected.layout.to_dict(),
            "columns": [column.to_stored() for column in inspected.columns],
            "created_at": now,
            "updated_at": now,
        },
    )
    if enqueue:
        jobs.enqueue(tx, IMPORT_TASK, queue=IMPORT_QUEUE, import_id=new_import.id)
    return new_import


def require_own_list(mailing_list: MailingList) -> None:
    """`Refused` for lists that the service fills."""
    if mailing_list.kept_for is not None:
        raise Refused(OPT_OUT_LIST_REFUSED if mailing_list.is_opt_out_list else SCAN_LIST_REFUSED)


def cancel_import(tx: Tx, import_id: int, *, clock: Clock) -> Import:
    """No one of the file is added; a running job stops at its next chunk."""
    import_record = queries.read_import(tx, import_id)
    if not end_import(tx, import_record, "cancelled", clock=clock):
        raise Conflict(ALREADY_FINISHED.format(queries.read_import(tx, import_id).status))
    return queries.read_import(tx, import_id)


def _clean_file_name(name: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in name)
    return printable.replace("\\", "/").rpartition("/")[2].strip()[-MAX_FILE_NAME_LENGTH:] or "import"


ROWS_PER_QUERY = 5_000
CHUNK_BYTES = 64 * 1024


def stream_rejected_rows(db: Database, files: FileStore, import_record: Import) -> Iterator[bytes]:
    """A CSV of rejected rows: line, reason, and the cells, which are read from the file again. Errors are raised
    before the first chunk."""
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
        for reject in _read_rejects(db, import_record.id):
            cells = next((row.cells for index, row in rows if index == reject.index), [])
            writer.writerow([reject.line, escape_formula(reject.reason), *map(escape_formula, cells)])
            if text.tell() >= CHUNK_BYTES:
                yield text.getvalue().encode(errors="replace")
                text.seek(0)
                text.truncate()
    yield text.getvalue().encode(errors="replace")


def _read_rejects(db: Database, import_id: int) -> Iterator[RejectedImportRow]:
    """In the order of the file, a few thousand at a time: a slow reader holds no connection."""
    last_index = -1
    while True:
        with db.system_transaction() as tx:
            rejects = queries.list_rejects(tx, import_id, after=last_index, limit=ROWS_PER_QUERY)
        yield from rejects
        if len(rejects) < ROWS_PER_QUERY:
            return
        last_index = rejects[-1].index
