"""What the database has, looked at and changed by tests: within a transaction of theirs, or in one of its own."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx

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


P = ParamSpec("P")
T = TypeVar("T")


def run(container: Container, do: Callable[Concatenate[Tx, P], T], *args: P.args, **how: P.kwargs) -> T:
    """As the service, which sees all accounts."""
    with container.db.system_transaction() as tx:
        return do(tx, *args, **how)


def run_as(
    container: Container, caller: Caller | Tenant, do: Callable[Concatenate[Tx, P], T], *args: P.args, **how: P.kwargs
) -> T:
    """As an account, which sees its own."""
    with container.db.transaction(caller if isinstance(caller, Tenant) else build_tenant(caller)) as tx:
        return do(tx, *args, **how)
