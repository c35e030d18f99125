"""Encrypted columns, encrypted again under the current key in batches, while the service runs.

Rows are read and encrypted without a lock. A value is written only where the old bytes are still there, so a value that
changed meanwhile stays, and two runs at once do no harm. A run that was interrupted starts again, and skips what has
the current key's id.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

from quillpost.core.database.engine import Database, Tx
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import Unavailable

BATCH_SIZE = 1_000
LOCK_TIMEOUT = "5s"

FIND_ENCRYPTED_COLUMNS = sa.text(
    r"""select c.relname as table_name, a.attname as column_name
          from pg_class c join pg_attribute a on a.attrelid = c.oid
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
           and a.atttypid = 'bytea'::regtype and a.attname like '%\_sealed' and not a.attisdropped"""
)


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """`context` takes the values of `context_columns`."""

    table: sa.Table
    name: str
    context: Callable[..., str]
    context_columns: Sequence[str]
    condition: sa.ColumnElement[bool] | None = None  # which rows are sealed, where others hold the same column in clear

    @property
    def column(self) -> sa.Column[Any]:
        return self.table.c[self.name]

    @property
    def primary_key(self) -> list[sa.Column[Any]]:
        return list(self.table.primary_key.columns)

    @property
    def is_encrypted(self) -> sa.ColumnElement[bool]:
        """An empty value is not encrypted, and one byte names no key."""
        is_filled = sa.func.length(self.column) > 1
        return is_filled if self.condition is None else sa.and_(is_filled, self.condition)

    def __str__(self) -> str:
        return f"{self.table.name}.{self.name}"


@dataclass(slots=True)
class RotationCount:
    """Of the values that were under another key."""

    reencrypted: int = 0
    skipped: int = 0  # changed or locked by another transaction at that moment
    failed: int = 0  # opened by no key that we have, and left as they are


def count_by_key(tx: Tx, encrypted_column: EncryptedColumn) -> Mapping[str, int]:
    """By key id."""
    key_id = sa.func.substring(encrypted_column.column, 3, sa.func.get_byte(encrypted_column.column, 1)).label("named")
    rows = tx.execute(sa.select(key_id, sa.func.count()).where(encrypted_column.is_encrypted).group_by(key_id))
    return {bytes(key).decode("ascii", "replace"): count for key, count in rows}


def read_any_value(tx: Tx, encrypted_column: EncryptedColumn) -> tuple[str, bytes] | None:
    """With its context."""
    row = tx.execute(_select_values(encrypted_column).limit(1)).first()
    return None if row is None else (_build_context(encrypted_column, row), bytes(row.value))


def has_outdated_values(tx: Tx, encrypted_column: EncryptedColumn, key_prefix: bytes) -> bool:
    query = _select_values(encrypted_column).where(_has_other_key(encrypted_column, key_prefix))
    return tx.execute(query.limit(1)).first() is not None


def reencrypt(
    db: Database, encryptor: Encryptor, encrypted_column: EncryptedColumn, *, wait: bool = False
) -> Iterator[RotationCount]:
    """Every value under another key, in batches that skip locked rows; with `wait` one by one, waiting for each."""
    after: Sequence[Any] | None = None
    while True:
        query = _select_next(encrypted_column, encryptor.current_header, after).limit(1 if wait else BATCH_SIZE)
        with db.system_transaction() as tx:
            rows = tx.execute(query).all()
        if not rows:
            return
        yield _reencrypt_rows(db, encryptor, encrypted_column, rows, wait=wait)
        after = _get_primary_key(encrypted_column, rows[-1])


def has_encrypted_values(tx: Tx) -> bool:
    """Works with the schema of any release. Values kept for a day at most are not looked at."""
    checks = [
        f"exists (select from {row.table_name} where length({row.column_name}) > 1)"
        for row in tx.execute(FIND_ENCRYPTED_COLUMNS)
    ]
    return bool(checks) and bool(tx.scalar(sa.text(f"select {' or '.join(checks)}")))


def wait_for_writers(db: Database, table: sa.Table) -> bool:
    """Wait for everyone who has written to the table; False if one takes long."""
    try:
        with db.system_transaction() as tx:
            tx.execute(sa.text(f"set local lock_timeout = '{LOCK_TIMEOUT}'"))
            tx.execute(sa.text(f"lock table {table.name} in share mode"))
    except Unavailable:
        return False
    return True


def _reencrypt_rows(
    db: Database, encryptor: Encryptor, encrypted_column: EncryptedColumn, rows: Sequence[sa.Row[Any]], *, wait: bool
) -> RotationCount:
    count = RotationCount()
    keys: list[Sequence[Any]] = []
    old_values: list[bytes] = []
    new_values: list[bytes] = []
    for row in rows:
        context, value = _build_context(encrypted_column, row), bytes(row.value)
        try:
            new_values.append(encryptor.encrypt(encryptor.decrypt(value, context=context), context=context))
        except DecryptionFailed:
            count.failed += 1
            continue
        old_values.append(value)
        keys.append(_get_primary_key(encrypted_column, row))
    if keys:
        with db.system_transaction() as tx:
            columns = {f"key{n}": list(values) for n, values in enumerate(zip(*keys, strict=True))}
            result = tx.execute(
                _build_update(encrypted_column, wait=wait), columns | {"old": old_values, "new": new_values}
            )
        count.reencrypted = result.rowcount
        count.skipped = len(keys) - result.rowcount
    return count


def _select_values(encrypted_column: EncryptedColumn) -> sa.Select[Any]:
    """Each row has its primary key, the context columns and `value`."""
    keys = [column.label(f"key{n}") for n, column in enumerate(encrypted_column.primary_key)]
    context_columns = [
        encrypted_column.table.c[name].label(f"bound{n}") for n, name in enumerate(encrypted_column.context_columns)
    ]
    return sa.select(*keys, *context_columns, encrypted_column.column.label("value")).where(
        encrypted_column.is_encrypted
    )


def _select_next(encrypted_column: EncryptedColumn, key_prefix: bytes, after: Sequence[Any] | None) -> sa.Select[Any]:
    query = (
        _select_values(encrypted_column)
        .where(_has_other_key(encrypted_column, key_prefix))
        .order_by(*encrypted_column.primary_key)
    )
    if after is None:
        return query
    last_key = [
        sa.literal(value, column.type) for value, column in zip(after, encrypted_column.primary_key, strict=True)
    ]
    return query.where(sa.tuple_(*encrypted_column.primary_key) > sa.tuple_(*last_key))


def _has_other_key(encrypted_column: EncryptedColumn, key_prefix: bytes) -> sa.ColumnElement[bool]:
    return sa.func.substring(encrypted_column.column, 1, len(key_prefix)) != sa.literal(key_prefix, BYTEA())


def _build_update(encrypted_column: EncryptedColumn, *, wait: bool) -> sa.TextClause:
    """Rows are locked in key order, and locked ones are skipped: no deadlock."""
    names = [column.name for column in encrypted_column.primary_key]
    types = [column.type.compile() for column in encrypted_column.primary_key]
    arrays = ", ".join(f"cast(:key{n} as {type_name}[])" for n, type_name in enumerate(types))
    statement = f"""
        with given as (
            select * from unnest({arrays}, :old, :new) as g ({", ".join(names)}, old_value, new_value)),
        mine as (
            select g.* from {encrypted_column.table.name} t join given g using ({", ".join(names)})
             where t.{encrypted_column.name} = g.old_value
             order by {", ".join(f"t.{name}" for name in names)}
               for no key update of t{"" if wait else " skip locked"})
        update {encrypted_column.table.name} t set {encrypted_column.name} = m.new_value
          from mine m where {" and ".join(f"t.{name} = m.{name}" for name in names)}
    """
    bytes_array = ARRAY(BYTEA())
    return sa.text(statement).bindparams(sa.bindparam("old", type_=bytes_array), sa.bindparam("new", type_=bytes_array))


def _get_primary_key(encrypted_column: EncryptedColumn, row: sa.Row[Any]) -> Sequence[Any]:
    return tuple(row)[: len(encrypted_column.primary_key)]


def _build_context(encrypted_column: EncryptedColumn, row: sa.Row[Any]) -> str:
    return encrypted_column.context(*tuple(row)[len(encrypted_column.primary_key) : -1])
