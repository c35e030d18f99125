"""Sealed columns, sealed anew under the current key: a thousand rows at a time, while all else goes on.

Rows are read and sealed without a lock. A value is written only where the old bytes are still there, so that
one that was changed meanwhile is left alone, and two that do this at once do each other no harm. What is done
is seen by its key's name: whoever is interrupted starts again, and skips it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

from quillpost.core.database.engine import Database, Tx
from quillpost.core.encryption import SealBroken, Sealer
from quillpost.core.errors import Unavailable

AT_ONCE = 1_000
LONGEST_WAIT = "5s"

SEALED_COLUMNS = sa.text(
    r"""select c.relname as table_name, a.attname as column_name
          from pg_class c join pg_attribute a on a.attrelid = c.oid
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
           and a.atttypid = 'bytea'::regtype and a.attname like '%\_sealed' and not a.attisdropped"""
)


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """Where secrets lie sealed, and what each is bound to. `context` is told the values of `bound_to`."""

    table: sa.Table
    name: str
    context: Callable[..., str]
    bound_to: Sequence[str]
    only: sa.ColumnElement[bool] | None = None
    """Which rows are sealed, where others hold the same column in clear."""

    @property
    def column(self) -> sa.Column[Any]:
        return self.table.c[self.name]

    @property
    def keys(self) -> list[sa.Column[Any]]:
        return list(self.table.primary_key.columns)

    @property
    def is_sealed(self) -> sa.ColumnElement[bool]:
        """An empty value is none, and one byte names no key."""
        filled = sa.func.length(self.column) > 1
        return filled if self.only is None else sa.and_(filled, self.only)

    def __str__(self) -> str:
        return f"{self.table.name}.{self.name}"


@dataclass(slots=True)
class Done:
    """What became of the values that were met under another key."""

    renewed: int = 0
    passed_by: int = 0
    """Changed or held by somebody else at that moment."""
    broken: int = 0
    """Opened by no key that we have, and left as they are."""


def count_by_key(tx: Tx, sealed: SealedColumn) -> Mapping[str, int]:
    """How many values there are under each key, by its id."""
    named = sa.func.substring(sealed.column, 3, sa.func.get_byte(sealed.column, 1)).label("named")
    found = tx.execute(sa.select(named, sa.func.count()).where(sealed.is_sealed).group_by(named))
    return {bytes(key).decode("ascii", "replace"): count for key, count in found}


def any_value(tx: Tx, sealed: SealedColumn) -> tuple[str, bytes] | None:
    """One of the values, and its context."""
    row = tx.execute(_wanted(sealed).limit(1)).first()
    return None if row is None else (_context(sealed, row), bytes(row.value))


def is_any_left(tx: Tx, sealed: SealedColumn, mark: bytes) -> bool:
    """Whether a value does not begin with the mark of the current key."""
    return tx.execute(_wanted(sealed).where(_is_other(sealed, mark)).limit(1)).first() is not None


def reseal(db: Database, sealer: Sealer, sealed: SealedColumn) -> Iterator[Done]:
    """Every value that is under another key, from the first row to the last; what was done, a batch each."""
    after: Sequence[Any] | None = None
    while True:
        with db.work() as tx:
            rows = tx.execute(_next(sealed, sealer.mark, after)).all()
        if not rows:
            return
        yield _reseal(db, sealer, sealed, rows, waits=False)
        after = _key(sealed, rows[-1])


def reseal_held(db: Database, sealer: Sealer, sealed: SealedColumn) -> Iterator[Done]:
    """The same for those that others held: one by one, waiting for each."""
    after: Sequence[Any] | None = None
    while True:
        with db.work() as tx:
            row = tx.execute(_next(sealed, sealer.mark, after).limit(1)).first()
        if row is None:
            return
        yield _reseal(db, sealer, sealed, [row], waits=True)
        after = _key(sealed, row)


def is_anything_sealed(tx: Tx) -> bool:
    """Whether there are secrets that need a key, in a database of whichever release. What is kept for a day
    at most is not looked at."""
    looks = [
        f"exists (select from {row.table_name} where length({row.column_name}) > 1)"
        for row in tx.execute(SEALED_COLUMNS)
    ]
    return bool(looks) and bool(tx.scalar(sa.text(f"select {' or '.join(looks)}")))


def wait_for_writers(db: Database, table: sa.Table) -> bool:
    """Until everyone who has written to the table by now is done; False: somebody takes long."""
    try:
        with db.work() as tx:
            tx.execute(sa.text(f"set local lock_timeout = '{LONGEST_WAIT}'"))
            tx.execute(sa.text(f"lock table {table.name} in share mode"))
    except Unavailable:
        return False
    return True


def _reseal(
    db: Database, sealer: Sealer, sealed: SealedColumn, rows: Sequence[sa.Row[Any]], *, waits: bool
) -> Done:
    done = Done()
    keys: list[Sequence[Any]] = []
    old: list[bytes] = []
    new: list[bytes] = []
    for row in rows:
        context, value = _context(sealed, row), bytes(row.value)
        try:
            new.append(sealer.seal(sealer.open(value, context=context), context=context))
        except SealBroken:
            done.broken += 1
            continue
        old.append(value)
        keys.append(_key(sealed, row))
    if keys:
        with db.work() as tx:
            columns = {f"key{n}": list(values) for n, values in enumerate(zip(*keys, strict=True))}
            written = tx.execute(_swap(sealed, waits=waits), columns | {"old": old, "new": new})
        done.renewed = written.rowcount
        done.passed_by = len(keys) - written.rowcount
    return done


def _wanted(sealed: SealedColumn) -> sa.Select[Any]:
    """Rows: first their primary key, then what their seal is bound to, at last their `value`."""
    keys = [column.label(f"key{n}") for n, column in enumerate(sealed.keys)]
    bound = [sealed.table.c[name].label(f"bound{n}") for n, name in enumerate(sealed.bound_to)]
    return sa.select(*keys, *bound, sealed.column.label("value")).where(sealed.is_sealed)


def _next(sealed: SealedColumn, mark: bytes, after: Sequence[Any] | None) -> sa.Select[Any]:
    wanted = _wanted(sealed).where(_is_other(sealed, mark)).order_by(*sealed.keys).limit(AT_ONCE)
    if after is None:
        return wanted
    given = [sa.literal(value, column.type) for value, column in zip(after, sealed.keys, strict=True)]
    return wanted.where(sa.tuple_(*sealed.keys) > sa.tuple_(*given))


def _is_other(sealed: SealedColumn, mark: bytes) -> sa.ColumnElement[bool]:
    return sa.func.substring(sealed.column, 1, len(mark)) != sa.literal(mark, BYTEA())


def _swap(sealed: SealedColumn, *, waits: bool) -> sa.TextClause:
    """Rows are taken in the order of their keys, and those that others hold are passed by: nobody waits for
    us and we for them."""
    names = [column.name for column in sealed.keys]
    kinds = [column.type.compile() for column in sealed.keys]
    given = ", ".join(f"cast(:key{n} as {kind}[])" for n, kind in enumerate(kinds))
    statement = f"""
        with given as (
            select * from unnest({given}, :old, :new) as g ({", ".join(names)}, old_value, new_value)),
        mine as (
            select g.* from {sealed.table.name} t join given g using ({", ".join(names)})
             where t.{sealed.name} = g.old_value
             order by {", ".join(f"t.{name}" for name in names)}
               for no key update of t{"" if waits else " skip locked"})
        update {sealed.table.name} t set {sealed.name} = m.new_value
          from mine m where {" and ".join(f"t.{name} = m.{name}" for name in names)}
    """
    many = ARRAY(BYTEA())
    return sa.text(statement).bindparams(sa.bindparam("old", type_=many), sa.bindparam("new", type_=many))


def _key(sealed: SealedColumn, row: sa.Row[Any]) -> Sequence[Any]:
    return tuple(row)[: len(sealed.keys)]


def _context(sealed: SealedColumn, row: sa.Row[Any]) -> str:
    return sealed.context(*tuple(row)[len(sealed.keys) : -1])
