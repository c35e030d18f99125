"""Many rows at once. COPY is refused under row-level security, so it goes through a temporary table."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from quillpost.core.database.engine import Tx, driver_connection

MAX_PLAIN_INSERTS = 50
"""Up to here plain inserts cost less than making the temporary table."""


def insert_rows(tx: Tx, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Insert them all, each checked by the table's policy."""
    if len(rows) <= MAX_PLAIN_INSERTS:
        if rows:
            tx.execute(sa.insert(table), [dict(zip(columns, row, strict=True)) for row in rows])
        return
    connection = driver_connection(tx)
    target, staging = sql.Identifier(table.name), sql.Identifier(f"incoming_{table.name}")
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    connection.execute(
        sql.SQL(
            "create temp table if not exists {staging} on commit drop as select {names} from {target} with no data"
        ).format(staging=staging, names=names, target=target)
    )
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("copy {staging} ({names}) from stdin").format(staging=staging, names=names)) as copy,
    ):
        for row in rows:
            copy.write_row(row)
    connection.execute(
        sql.SQL("insert into {target} ({names}) select {names} from {staging}").format(
            target=target, names=names, staging=staging
        )
    )
    connection.execute(sql.SQL("drop table {staging}").format(staging=staging))
