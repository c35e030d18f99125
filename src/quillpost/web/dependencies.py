"""What endpoints and pages need: the container, a transaction, the audit log, numbers in paths."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from anyio import CancelScope, CapacityLimiter, to_thread
from fastapi import Depends, Request

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.text import Clock


def get_container(request: Request) -> Container:
    container: Container = request.app.state.container
    return container


# Whatever only looks at the request is a coroutine: it runs where it stands. Anything else that an endpoint depends on
# is handed to a thread, which takes longer than to look.
async def provide_container(request: Request) -> Container:
    return get_container(request)


Services = Annotated[Container, Depends(provide_container)]


def base_url(request: Request) -> str:
    """The host that the caller used."""
    return str(request.base_url).rstrip("/")


MAX_ID = 2**63 - 1
ABOVE_MAX_ID = MAX_ID + 1
DEFAULT_PAGE_SIZE = 25
MAX_PAGE = 10**12
"""No list is that long, and its first row's number still fits the database's own."""


def parse_digits(text: str) -> int | None:
    """The number that these digits write, or None. Whatever no id can be is `ABOVE_MAX_ID`, however long."""
    if not (text.isascii() and text.isdigit()):
        return None
    return min(int(text), ABOVE_MAX_ID) if len(text) <= len(str(ABOVE_MAX_ID)) else ABOVE_MAX_ID


def parse_path_id(text: str) -> int:
    """An id in a path; what cannot be one is simply not found."""
    number = parse_digits(text) or 0
    return number if number <= MAX_ID else 0


class UnitOfWork:
    """One request's transaction: opened when first asked for, committed before the answer leaves."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Tx]]) -> None:
        self._begin = begin
        self._open_contexts = ExitStack()
        self._tx: Tx | None = None

    @property
    def tx(self) -> Tx:
        if self._tx is None:
            self._tx = self._open_contexts.enter_context(self._begin())
        return self._tx

    def commit(self) -> None:
        self._open_contexts.close()
        self._tx = None

    def roll_back(self, error: BaseException) -> None:
        """Roll back now, so that what is written about the failure needs no second connection."""
        with suppress(type(error)):
            self._open_contexts.__exit__(type(error), error, error.__traceback__)
        self._open_contexts = ExitStack()
        self._tx = None

    @property
    def is_open(self) -> bool:
        return self._tx is not None

    def __enter__(self) -> "UnitOfWork":
        return self

    def __exit__(self, *failure: object) -> None:
        self._open_contexts.__exit__(*failure)  # type: ignore[arg-type]


@asynccontextmanager
async def open_unit_of_work(
    request: Request, begin: Callable[[], AbstractContextManager[Tx]]
) -> AsyncIterator[UnitOfWork]:
    """That of a request. It ends even if the caller has left, and in a thread beyond those that requests share: all
    of them may be waiting for the connection that the end sets free."""
    request.state.unit_of_work = unit_of_work = UnitOfWork(begin)
    try:
        yield unit_of_work
    except BaseException as error:
        await _end(unit_of_work, partial(unit_of_work.roll_back, error))
        raise
    await _end(unit_of_work, unit_of_work.commit)


async def _end(unit_of_work: UnitOfWork, end: Callable[[], None]) -> None:
    if unit_of_work.is_open:
        with CancelScope(shield=True):
            await to_thread.run_sync(end, limiter=CapacityLimiter(1))


@dataclass(frozen=True, slots=True)
class AuditWriter:
    """Writes in the name of the caller, into the log of the caller's account."""

    caller: Caller
    address: str | None
    clock: Clock
    actor: audit_service.Actor | None = None
    """The person, where one does it at a page of ours and not by a token."""

    def record(self, tx: Tx, action: str, details: Mapping[str, Any], *, sub_account_id: int | None = None) -> None:
        """One line; a caller limited to a sub account writes for that one."""
        audit_service.record_audit_entry(
            tx,
            self.caller.account_id,
            action,
            self.actor or audit_service.build_caller_actor(tx, self.caller, address=self.address),
            about=details,
            sub_account_id=self.caller.sub_account_id if sub_account_id is None else sub_account_id,
            now=self.clock(),
        )

    def recorder(self, action: str, details: Mapping[str, Any]) -> Callable[[Tx], None]:
        """The same for a deed that has a transaction of its own."""
        return lambda tx: self.record(tx, action, details)

    def counting_recorder(self, action: str, details: Mapping[str, Any]) -> Callable[[Tx, int], None]:
        """The same for one that is done to several, which are not known yet."""
        return lambda tx, count: self.record(tx, action, {**details, "how_many": count})
