"""What the database has, looked at and changed by tests: within a transaction of theirs, or in one of its own."""

from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tx

Where = Container | Tx


def execute(where: Where, statement: str | sa.Executable, **values: Any) -> list[Any]:
    """The rows that it returns, if any."""
    if isinstance(where, Container):
        with where.db.system_transaction() as tx:
            return execute(tx, statement, **values)
    done = where.execute(sa.text(statement) if isinstance(statement, str) else statement, values)
    return list(done.all()) if done.returns_rows else []


def scalars(where: Where, statement: str | sa.Executable, **values: Any) -> list[Any]:
    return [row[0] for row in execute(where, statement, **values)]


def scalar(where: Where, statement: str | sa.Executable, **values: Any) -> Any:
    """Of the one row that there is."""
    [found] = scalars(where, statement, **values)
    return found
