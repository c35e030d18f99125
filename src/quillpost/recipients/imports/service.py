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
from quillpost.recipients.imports.columns import FileLayout, MappedColumn, choose_columns, require_address_or_email
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.sniffer import sniff
from quillpost.recipients.imports.tasks import IMPORT_QUEUE, IMPORT_TASK, end_import
from quillpost.recipients.imports.workbooks import convert_to_csv, is_workbook
from quillpost.recipients.lists.queries import OPT_OUT_LIST_REFUSED, MailingList, lock_lists, update_list

LIST_BUSY = "This list is being filled already: wait until its `processed` is true, or cancel the import."
SCAN_LIST_REFUSED = "The service keeps whoever scanned a code on this list: import into a list of your own."
ALREADY_FINISHED = "This import is {} already."
MAX_FILE_NAME_LENGTH = 200
IMPORTS_FOLDER = "imports"


@dataclass(frozen=True, slots=True)
class InspectedImport:
    """A file that can be imported: as it is read from now on, and its first rows."""

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
    """What the file holds, or `Invalid`. The sheet of a workbook becomes a CSV file."""
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
    """Put the file into the store; its key. Done before a transaction opens: storage may be far away."""
    require_address_or_email(inspected.columns)
    key = f"{IMPORTS_FOLDER}/{now:%Y-%m-%d}/{uuid4()}"
    inspected.file.seek(0)
    files.put_file(key, inspected.file)
    return key


def create_import(
    tx: Tx, list_id: int, inspected: InspectedImport, key: str, *, clock: Clock, enqueue: bool = True
) -> Import:
    """Note the import; its work starts when this transaction commits, unless it is not `enqueue`."""
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
    """Lists that the service keeps hold who came there by themselves, and nobody else."""
    if mailing_list.kept_for is not None:
        raise Refused(OPT_OUT_LIST_REFUSED if mailing_list.is_opt_out_list else SCAN_LIST_REFUSED)


def cancel_import(tx: Tx, import_id: int, *, clock: Clock) -> Import:
    """Nobody of the file comes onto the list; whoever works on it finds out with the next chunk."""
    import_record = queries.read_import(tx, import_id)
    if not end_import(tx, import_record, "cancelled", clock=clock):
        raise Conflict(ALREADY_FINISHED.format(queries.read_import(tx, import_id).status))
    return queries.read_import(tx, import_id)


def _clean_file_name(name: str) -> str:
    """A file's name may be as long and as odd as its sender likes; what is kept of it may not."""
    printable = "".join(char if char.isprintable() else " " for char in name)
    return printable.replace("\\", "/").rpartition("/")[2].strip()[-MAX_FILE_NAME_LENGTH:] or "import"
