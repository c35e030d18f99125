"""One call in a transaction of its own."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx

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
