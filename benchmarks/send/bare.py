"""The least that a send could be: a call that is let in alike and commits the same rows, ready made."""

from dataclasses import dataclass
from typing import Annotated, Any

import psycopg
from fastapi import Depends, Response
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from benchmarks.send.service import Service
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.database.engine import driver_connection
from quillpost.orders.service import new_short_code
from quillpost.web.api.dependencies import get_caller
from quillpost.web.dependencies import Services

PATH = "/bench/bare"

# Which rows are an order's, in the order in which they are written; triggers write the others.
_ROWS = {
    "orders": "id = %(order)s",
    "items": "order_id = %(order)s",
    "ledger_moves": "order_id = %(order)s",
    "facts": "order_id = %(order)s",
    "fact_queue": "fact_id in (select id from facts where order_id = %(order)s)",
    "procrastinate_jobs": "id = (select max(id) from procrastinate_jobs)",
}
_REFERENCES = {"order_id": "orders", "item_id": "items", "fact_id": "facts"}
_LEFT_TO_THE_DATABASE = {"id", "event_id"}

_COLUMNS = """
    select column_name, data_type from information_schema.columns
     where table_schema = 'public' and table_name = %s and is_generated = 'NEVER'
     order by ordinal_position
"""


@dataclass(frozen=True, slots=True)
class _Row:
    table: str
    old_id: int | None
    statement: sql.Composed
    values: dict[str, Any]


class Twin:
    """All rows of one order, to be written again under new numbers."""

    def __init__(self, conninfo: str, order_id: int) -> None:
        self._order_id = order_id
        with psycopg.connect(conninfo, row_factory=dict_row) as connection:
            self._rows = [row for table in _ROWS for row in self._read(connection, table)]

    def write(self, connection: psycopg.Connection) -> None:
        """One prepared statement a row."""
        new: dict[tuple[str, Any], Any] = {}
        for row in self._rows:
            values = {
                column: new[_REFERENCES[column], value] if column in _REFERENCES and value else value
                for column, value in row.values.items()
            }
            if row.table == "ledger_moves":
                values["key"] = f"{row.values['key']}:{values['order_id']}"
            if values.get("code"):  # on every piece another one
                values["code"] = new_short_code()
            written = connection.execute(row.statement, values, prepare=True)
            if row.old_id is not None:
                (new[row.table, row.old_id],) = written.fetchone() or (None,)

    def _read(self, connection: psycopg.Connection[dict[str, Any]], table: str) -> list[_Row]:
        columns = {str(found["column_name"]): found["data_type"] for found in connection.execute(_COLUMNS, (table,))}
        names = [column for column in columns if column not in _LEFT_TO_THE_DATABASE]
        insert = sql.SQL("insert into {} ({}) values ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join(map(sql.Placeholder, names)),
        )
        if "id" in columns:
            insert += sql.SQL(" returning id")
        found = connection.execute(
            sql.SQL("select * from {} where " + _ROWS[table]).format(sql.Identifier(table)), {"order": self._order_id}
        )
        return [
            _Row(table, row.get("id"), insert, {name: _bindable(row[name], columns[name]) for name in names})
            for row in found
        ]


def open_bare_endpoint(service: Service, twin: Twin) -> None:
    """Behind the same gate, as a plain function in the same threads, in one tenant's transaction."""

    def bare(caller: Annotated[Caller, Depends(get_caller)], container: Services) -> Response:
        with container.db.transaction(build_tenant(caller)) as tx:
            twin.write(driver_connection(tx))
        return Response(b'{"message":"success"}', media_type="application/json")

    service.app.add_api_route(f"/api/v2{PATH}", bare, methods=["POST"])


def _bindable(value: Any, data_type: str) -> Any:
    """As the driver takes it back."""
    return Jsonb(value) if data_type == "jsonb" and value is not None else value
