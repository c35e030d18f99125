"""A file as it is handed in: looked at, kept in the file store, and noted as an import of its list."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any
from uuid import uuid4

from quillpost.core import jobs
from quillpost.core.clock import Clock
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, NotFound, Refused
from quillpost.core.ports import FileStore
from quillpost.recipients.imports import queries
from quillpost.recipients.imports.columns import Column, Layout, chosen_columns, require_someone
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.sniffer import sniff
from quillpost.recipients.imports.tasks import FILL, QUEUE, end
from quillpost.recipients.imports.workbooks import is_workbook, unfolded
from quillpost.recipients.lists.queries import REQUESTS_ALONE, MailingList, lock_lists, update_list

BUSY = "This list is being filled already: wait until its `processed` is true, or cancel the import."
SCANS_ALONE = "The service keeps whoever scanned a code on this list: import into a list of your own."
OVER = "This import is {} already."
LONGEST_NAME = 200
FOLDER = "imports"


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that can be imported: as it is read from now on, and its first rows."""

    file: IO[bytes]
    name: str
    layout: Layout
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    @property
    def size(self) -> int:
        return self.file.seek(0, os.SEEK_END)


def look(file: IO[bytes], *, name: str, mapping: Mapping[str, Any] | None, has_header: bool | None) -> Looked:
    """What the file holds, or `Invalid`. The sheet of a workbook becomes a CSV file."""
    workbook = is_workbook(file)
    read = unfolded(file) if workbook else file
    try:
        found = sniff(read, has_header=has_header, is_workbook=workbook)
        columns = chosen_columns(found.layout, found.rows, mapping)
    except BaseException:
        if workbook:
            read.close()
        raise
    return Looked(read, _name(name), found.layout, columns, found.rows)


def keep(files: FileStore, looked: Looked, *, now: datetime) -> str:
    """Put the file into the store; its key. Done before a transaction opens: storage may be far away."""
    require_someone(looked.columns)
    key = f"{FOLDER}/{now:%Y-%m-%d}/{uuid4()}"
    looked.file.seek(0)
    files.put_file(key, looked.file)
    return key


def place(tx: Tx, list_id: int, looked: Looked, key: str, *, clock: Clock, booked: bool = True) -> Import:
    """Note the import; its work starts when this transaction commits, unless it is not `booked`."""
    into = lock_lists(tx, [list_id]).get(list_id)
    if into is None:
        raise NotFound
    require_own(into)
    if not into.processed:
        raise Conflict(BUSY)
    now = clock()
    update_list(tx, list_id, {"processed": False, "updated_at": now})
    made = queries.insert_import(
        tx,
        {
            "account_id": into.account_id,
            "sub_account_id": into.sub_account_id,
            "mailing_list_id": list_id,
            "status": "waiting",
            "file_name": looked.name,
            "file_key": key,
            "file_bytes": looked.size,
            "layout": looked.layout.written(),
            "columns": [column.stored() for column in looked.columns],
            "created_at": now,
            "updated_at": now,
        },
    )
    if booked:
        jobs.defer(tx, FILL, queue=QUEUE, import_id=made.id)
    return made


def require_own(into: MailingList) -> None:
    """Lists that the service keeps hold who came there by themselves, and nobody else."""
    if into.kept_for is not None:
        raise Refused(REQUESTS_ALONE if into.keeps_requests else SCANS_ALONE)


def cancel(tx: Tx, import_id: int, *, clock: Clock) -> Import:
    """Nobody of the file comes onto the list; whoever works on it finds out with the next chunk."""
    work = queries.read_import(tx, import_id)
    if not end(tx, work, "cancelled", clock=clock):
        raise Conflict(OVER.format(queries.read_import(tx, import_id).status))
    return queries.read_import(tx, import_id)


def _name(given: str) -> str:
    """A file's name may be as long and as odd as its sender likes; what is kept of it may not."""
    plain = "".join(sign if sign.isprintable() else " " for sign in given)
    return plain.replace("\\", "/").rpartition("/")[2].strip()[-LONGEST_NAME:] or "import"
