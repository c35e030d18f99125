"""SQL of imports and their staging tables. The status changes by compare-and-swap, so of two that try one wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from quillpost.core.database import Tx, driver_connection, read_row
from quillpost.core.database.tables.recipients import import_rejects, imports
from quillpost.core.text import Clock
from quillpost.recipients.addresses.rules import UNDELIVERABLE
from quillpost.recipients.imports.models import ExaminedChunk, FileLayout, MappedColumn
from quillpost.recipients.lists.queries import update_list
from quillpost.recipients.models import CUSTOM_FIELDS, DERIVED_COLUMNS, MailingList
from quillpost.recipients.service import ALREADY_ON_LIST

UNFINISHED = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Import:
    id: int
    account_id: int
    sub_account_id: int | None
    mailing_list_id: int
    status: str
    file_name: str
    file_key: str | None
    file_bytes: int
    layout: FileLayout
    columns: Sequence[MappedColumn]
    rows_total: int | None
    rows_read: int
    bytes_read: int
    rows_imported: int
    rows_rejected: int
    duplicates: int
    error: str | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    @property
    def staged_count(self) -> int:
        return self.rows_read - self.rows_rejected

    @property
    def progress(self) -> float:
        """From 0 to 1. Reading is most of the work; the last tenth inserts everyone into the list."""
        if self.status == "done":
            return 1.0
        return round(0.9 * min(1.0, self.bytes_read / max(1, self.file_bytes)), 3)


_COLUMNS = [imports.c[field.name] for field in fields(Import)]


def _build_import(row: sa.Row[Any]) -> Import:
    values = dict(row._mapping)
    values["layout"] = FileLayout.from_dict(values["layout"])
    values["columns"] = [MappedColumn.from_stored(column) for column in values["columns"]]
    return Import(**values)


def insert_import(tx: Tx, values: Mapping[str, Any]) -> Import:
    return _build_import(tx.execute(sa.insert(imports).values(**values).returning(*_COLUMNS)).one())


def read_import(tx: Tx, import_id: int) -> Import:
    return _build_import(read_row(tx, sa.select(*_COLUMNS).where(imports.c.id == import_id)))


def list_recent_imports(tx: Tx, list_id: int, *, limit: int) -> list[Import]:
    rows = tx.execute(
        sa.select(*_COLUMNS).where(imports.c.mailing_list_id == list_id).order_by(imports.c.id.desc()).limit(limit)
    )
    return [_build_import(row) for row in rows]


@dataclass(frozen=True, slots=True)
class RejectedImportRow:
    index: int
    line: int
    reason: str


def list_rejects(tx: Tx, import_id: int, *, after: int = -1, limit: int) -> list[RejectedImportRow]:
    """In the order of the file, behind the row `after`. Takes the system transaction, and an import that its reader
    may see."""
    columns = import_rejects.c
    rows = tx.execute(
        sa.select(columns.place, columns.line, columns.reason)
        .where(columns.import_id == import_id, columns.place > after)
        .order_by(columns.place)
        .limit(limit)
    )
    return [RejectedImportRow(*row) for row in rows]


def start_import(tx: Tx, import_id: int, *, now: datetime) -> Import | None:
    """The import, started or continued; None if it has ended."""
    row = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
        .values(status="running", updated_at=now)
        .returning(*_COLUMNS)
    ).first()
    return None if row is None else _build_import(row)


def restart_import(tx: Tx, import_id: int, *, now: datetime) -> None:
    """Nothing of it is staged: start again with the first row."""
    tx.execute(sa.delete(import_rejects).where(import_rejects.c.import_id == import_id))
    tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id)
        .values(rows_read=0, rows_rejected=0, bytes_read=0, updated_at=now)
    )


def finish_import(tx: Tx, import_id: int, status: str, *, now: datetime, **values: Any) -> bool:
    """Whether it was this call that ended it."""
    result = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
        .values(status=status, finished_at=now, updated_at=now, **values)
    )
    return result.rowcount == 1


def store_chunk(tx: Tx, import_id: int, examined: ExaminedChunk, *, now: datetime) -> bool:
    """Stage a chunk and record the progress; False if the import has changed since."""
    chunk = examined.chunk
    # A crash of the server empties the staging table anyway, so there is no need to wait for the disk.
    tx.execute(sa.text("set local synchronous_commit = off"))
    result = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status == "running", imports.c.rows_read == chunk.first_row)
        .values(
            rows_read=chunk.first_row + chunk.row_count,
            rows_rejected=imports.c.rows_rejected + examined.rejected_count,
            bytes_read=chunk.bytes_read,
            updated_at=now,
        )
    )
    if result.rowcount == 0:
        return False
    copy_lines(tx, get_staging_name(import_id), examined.accepted_data)
    copy_lines(tx, import_rejects.name, examined.rejected_data)
    return True


def copy_lines(tx: Tx, table: str, lines: bytes) -> None:
    if not lines:
        return
    command = sql.SQL("copy {} from stdin").format(sql.Identifier(table))
    with driver_connection(tx).cursor() as cursor, cursor.copy(command) as copy:
        copy.write(lines)


def get_staging_name(import_id: int) -> str:
    return f"import_staging_{import_id}"


def create_staging(tx: Tx, import_id: int) -> int:
    """Ensure that there is a staging table; how many rows it has."""
    tx.execute(sa.text("select make_import_staging(:id)"), {"id": import_id})
    return int(tx.execute(sa.text(f"select count(*) from {get_staging_name(import_id)}")).scalar_one())


def truncate_staging(tx: Tx, import_id: int) -> None:
    tx.execute(sa.text(f"truncate {get_staging_name(import_id)}"))


def drop_staging(tx: Tx, import_id: int) -> None:
    tx.execute(sa.text("select drop_import_staging(:id)"), {"id": import_id})


def has_ended(tx: Tx, import_id: int) -> bool:
    """Whether it is done, failed, canceled or deleted."""
    unfinished = sa.select(imports.c.id).where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
    return tx.execute(unfinished).first() is None


SAME_ADDRESS = "address: Line %s of the file has the same address."
SAME_EMAIL = "email: Line %s of the file has the same e-mail."

UNDELIVERABLE_ON_LIST = (
    "address: This address is on this mailing list already, as one that nothing can be delivered to: correct"
    " or delete recipient %s, and import this row again."
)

EMAIL_ON_LIST = "email: This e-mail is already on this mailing list."

_PERSON_COLUMNS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email",
    "phone", "dob", "anniversary", *CUSTOM_FIELDS, *DERIVED_COLUMNS, "told_apart",
)  # fmt: skip

# Runs of rows that lie in order cost a sort next to nothing, and are compared in memory where there is some.
_SESSION_SETTINGS = ("set local work_mem = '64MB'", "set local jit = off")

_REJECT_FILE_DUPLICATES = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line, format(:reason, d.line)
      from {staging} s
      join (select {key} as key, told_apart,
                   coalesce(min(place) filter (where deliverability <> :undeliverable), min(place)) as place,
                   coalesce(min(line) filter (where deliverability <> :undeliverable), min(line)) as line
              from {staging} where {among} group by 1, 2 having count(*) > 1) d
        on {qualified} = d.key and s.told_apart = d.told_apart
     where {among} and s.place <> d.place
"""

_REJECT_ADDRESSES_ON_LIST = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line,
           case when r.deliverability = :undeliverable and s.deliverability <> :undeliverable
                then format(:reason_undeliverable, r.id) else :reason end
      from {staging} s
      join recipients r on r.mailing_list_id = :list and r.address_key = s.address_key
                       and r.told_apart = s.told_apart
    on conflict do nothing
"""

_REJECT_EMAILS_ON_LIST = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line, :reason from {staging} s
     where s.address_key is null
       and exists (select from recipients r
                    where r.account_id = :account and r.email_key = lower(s.email)
                      and r.mailing_list_id = :list and r.address_key is null)
    on conflict do nothing
"""

_DELETE_REJECTED = """
    delete from {staging} s using import_rejects x where x.import_id = :id and x.place = s.place
"""

# In the order of the file. They lie nearly so: a chunk may fill pages that one before it has left free.
_INSERT_STAGED = f"""
    insert into recipients (account_id, sub_account_id, mailing_list_id, {", ".join(_PERSON_COLUMNS)},
                            created_at, updated_at)
    select :account, cast(:sub_account as bigint), :list, {", ".join(_PERSON_COLUMNS)}, :now, :now from {{staging}}
     order by place
"""


class StagedRowsLost(Exception):
    """The database has crashed and lost staged rows: the file must be read again."""


def add_staged_recipients(tx: Tx, import_record: Import, mailing_list: MailingList, *, clock: Clock) -> None:
    """`mailing_list` is locked. Roll back on `StagedRowsLost`."""
    for setting in _SESSION_SETTINGS:
        tx.execute(sa.text(setting))
    now = clock()
    bind_values: dict[str, object] = {
        "id": import_record.id,
        "list": mailing_list.id,
        "account": mailing_list.account_id,
        "undeliverable": UNDELIVERABLE,
        "reason_undeliverable": UNDELIVERABLE_ON_LIST,
    }
    duplicates = _reject_duplicates(tx, import_record, bind_values, is_empty=mailing_list.total_recipients == 0)
    if duplicates:
        _run_staging_query(tx, import_record, _DELETE_REJECTED, bind_values)
    added_count = _run_staging_query(
        tx, import_record, _INSERT_STAGED, bind_values | {"sub_account": mailing_list.sub_account_id, "now": now}
    )
    if added_count + duplicates != import_record.staged_count:
        raise StagedRowsLost(f"Of {import_record.staged_count} people {added_count + duplicates} are staged.")
    is_first_fill = mailing_list.type == "manual" and mailing_list.total_recipients == 0 and added_count > 0
    update_list(
        tx, mailing_list.id, {"processed": True, "updated_at": now} | ({"type": "csv"} if is_first_fill else {})
    )
    finish_import(
        tx,
        import_record.id,
        "done",
        now=clock(),
        rows_total=import_record.rows_read,
        rows_imported=added_count,
        rows_rejected=import_record.rows_rejected + duplicates,
        duplicates=duplicates,
        bytes_read=import_record.file_bytes,
    )
    drop_staging(tx, import_record.id)


def _reject_duplicates(tx: Tx, import_record: Import, bind_values: dict[str, object], *, is_empty: bool) -> int:
    by_address = {"key": "address_key", "qualified": "s.address_key", "among": "address_key is not null"}
    by_email = {"key": "lower(email)", "qualified": "lower(s.email)", "among": "address_key is null"}
    duplicates = 0
    for names, message in ((by_address, SAME_ADDRESS), (by_email, SAME_EMAIL)):
        duplicates += _run_staging_query(
            tx, import_record, _REJECT_FILE_DUPLICATES, bind_values | {"reason": message}, **names
        )
    if not is_empty:
        for query, message in (
            (_REJECT_ADDRESSES_ON_LIST, f"address: {ALREADY_ON_LIST}"),
            (_REJECT_EMAILS_ON_LIST, EMAIL_ON_LIST),
        ):
            duplicates += _run_staging_query(tx, import_record, query, bind_values | {"reason": message})
    return duplicates


def _run_staging_query(tx: Tx, import_record: Import, query: str, values: Mapping[str, object], **names: str) -> int:
    text = query.format(staging=get_staging_name(import_record.id), **names)
    return tx.execute(sa.text(text), values).rowcount
