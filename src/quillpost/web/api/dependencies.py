"""What endpoints are given: the caller, a transaction, the services, the audit log."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import WithJsonSchema

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.clock import Clock
from quillpost.core.database import Tx
from quillpost.core.database.search import LONGEST, MOST_WORDS
from quillpost.core.errors import Forbidden, Invalid, Unauthenticated
from quillpost.core.paging import PageRequest
from quillpost.web.api.bodies import BEYOND_IDS, LARGEST_ID, SoughtText, said, whole_number, written_integer


class Unit:
    """One request's transaction: opened when first asked for, committed before the answer leaves."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Tx]]) -> None:
        self._begin = begin
        self._open = ExitStack()
        self._tx: Tx | None = None

    @property
    def tx(self) -> Tx:
        if self._tx is None:
            self._tx = self._open.enter_context(self._begin())
        return self._tx

    def commit(self) -> None:
        """Now, and not when the answer leaves."""
        self._open.close()
        self._tx = None

    def abandon(self, failure: BaseException) -> None:
        """Roll back now, so that what is written about the failure needs no second connection."""
        with suppress(type(failure)):
            self._open.__exit__(type(failure), failure, failure.__traceback__)
        self._open = ExitStack()
        self._tx = None

    def __enter__(self) -> "Unit":
        return self

    def __exit__(self, *failure: object) -> None:
        self._open.__exit__(*failure)  # type: ignore[arg-type]


def parts_of(request: Request) -> ServiceParts:
    parts: ServiceParts = request.app.state.parts
    return parts


def caller_of(request: Request) -> Caller:
    """Whom the gate let in."""
    who = request.scope.get("state", {}).get("who")
    if not isinstance(who, Caller):
        raise Unauthenticated
    return who


def unit_of(
    request: Request,
    parts: Annotated[ServiceParts, Depends(parts_of)],
    who: Annotated[Caller, Depends(caller_of)],
) -> Iterator[Unit]:
    with Unit(lambda: parts.db.transaction(tenant(who))) as unit:
        request.state.unit = unit
        yield unit


def may(scope: str) -> Callable[[Caller], Caller]:
    """A caller whose token has the scope."""

    def check(who: Annotated[Caller, Depends(caller_of)]) -> Caller:
        who.require(scope)
        return who

    return check


OneUnit = Annotated[Unit, Depends(unit_of, scope="function")]


def tx_of(unit: OneUnit) -> Tx:
    return unit.tx


Services = Annotated[ServiceParts, Depends(parts_of)]
InTx = Annotated[Tx, Depends(tx_of, scope="function")]


DEFAULT_SIZE = 25
LAST_PAGE = 10**12
"""No list is that long, and its first row's number still fits the database's own."""

# A query string holds text alone: digits are read out of it, and nothing in it is as good as not asked.
# The description says what is meant: a number.
Counted = Annotated[str | None, WithJsonSchema({"type": "integer", "minimum": 1, "examples": [1]})]
AskedId = Annotated[
    str | None,
    WithJsonSchema({"type": "integer", "minimum": 1, "exclusiveMaximum": BEYOND_IDS, "examples": [1001]}),
]

AskedNumber = Annotated[Counted, Query(description="Page number, from 1.")]
AskedSize = Annotated[Counted, Query(description="Rows a page, 1 to 100; more is taken as 100.")]
AskedRecipientsSize = Annotated[
    Counted, Query(description="Rows a page, 1 to 10,000; more is taken as 10,000.")
]
AskedLimit = Annotated[Counted, Query(description="Another name of items_per_page.")]


def page_of(
    parts: Services, page: AskedNumber = None, items_per_page: AskedSize = None, limit: AskedLimit = None
) -> PageRequest:
    """Out of range above is clamped; zero, negative and words are refused."""
    return _page(page, items_per_page, limit, most=parts.limits.items_per_page)


def recipients_page_of(
    parts: Services,
    page: AskedNumber = None,
    items_per_page: AskedRecipientsSize = None,
    limit: AskedLimit = None,
) -> PageRequest:
    """The same for lists of recipients, whose pages may be longer."""
    return _page(page, items_per_page, limit, most=parts.limits.recipients_per_page)


def _page(page: str | None, items_per_page: str | None, limit: str | None, *, most: int) -> PageRequest:
    wanted = count_in_query("items_per_page", items_per_page, most), count_in_query("limit", limit, most)
    return PageRequest(
        page=count_in_query("page", page, LAST_PAGE) or 1,
        per_page=next(filter(None, wanted), min(DEFAULT_SIZE, most)),
    )


def count_in_query(name: str, given: str | None, most: int) -> int | None:
    """A number from 1 in a query string, at most so many."""
    if given is None or not given.strip():
        return None
    number = written_integer(given.strip()) or 0
    if number < 1:
        raise Invalid({name: ["This must be a whole number from 1."]})
    return min(number, most)


AskedPage = Annotated[PageRequest, Depends(page_of)]
AskedRecipientsPage = Annotated[PageRequest, Depends(recipients_page_of)]


def number_in_query(name: str, given: str | None) -> int | None:
    """An id in a query string."""
    if given is None or not given.strip():
        return None
    number = written_integer(given.strip()) or 0
    if not 0 < number <= LARGEST_ID:
        raise Invalid({name: ["This must be a whole number."]})
    return number


def sub_account_filter(
    sub_account_id: Annotated[AskedId, Query(description="Only this sub account's.")] = None,
    sub_account: Annotated[AskedId, Query(description="Another name of sub_account_id.")] = None,
) -> int | None:
    wanted = (
        number_in_query("sub_account_id", sub_account_id),
        number_in_query("sub_account", sub_account),
    )
    return next(filter(None, wanted), None)


SubAccountFilter = Annotated[int | None, Depends(sub_account_filter)]

SEARCH = (
    "Only those that have each of these words, as the beginning of a word, in any case and without accents."
    " Up to 20 words. A search without a letter or a digit finds nothing."
)


def search_filter(
    search: Annotated[SoughtText | None, Query(max_length=LONGEST, description=SEARCH)] = None,
) -> str | None:
    """What is searched for, if anything is."""
    text = said(search)
    if text is not None and len(text.split()) > MOST_WORDS:
        raise Invalid({"search": [f"Search for at most {MOST_WORDS} words."]})
    return text


AskedSearch = Annotated[str | None, Depends(search_filter)]


def id_in_path(text: str) -> int:
    """An id in a path; what cannot be one is simply not found."""
    number = whole_number(text) or 0
    return number if number <= LARGEST_ID else 0


NO_APPS = (
    "A connected app never may do this, whoever connected it: use a personal access token of an operator's "
    "account."
)


def operator(scope: str) -> Callable[[Caller], Caller]:
    """An operator whose token has the scope. A token that is limited to a sub account is no operator's, nor
    is a connected app's."""

    def check(who: Annotated[Caller, Depends(caller_of)]) -> Caller:
        who.require(scope)
        if who.grant_id is not None:
            raise Forbidden(NO_APPS)
        if not who.is_operator:
            raise Forbidden("Only an operator may do this: use a token of an operator's account.")
        return who

    return check


def live_operator(scope: str) -> Callable[[Caller], Caller]:
    """The same, for what is one and the same in both modes: a testing token changes nothing of live mail."""

    def check(who: Annotated[Caller, Depends(operator(scope))]) -> Caller:
        if who.is_testing:
            raise Forbidden("This changes live mail as well: use a live token of an operator's account.")
        return who

    return check


def service_unit(request: Request, parts: Services) -> Iterator[Unit]:
    """The service's own transaction. An endpoint asks for the operator before it asks for this."""
    with Unit(parts.db.work) as unit:
        request.state.unit = unit
        yield unit


def service_tx(unit: Annotated[Unit, Depends(service_unit, scope="function")]) -> Tx:
    return unit.tx


MayDecide = Annotated[Caller, Depends(operator("orders:write"))]
MayLook = Annotated[Caller, Depends(operator("orders:read"))]
InServiceTx = Annotated[Tx, Depends(service_tx, scope="function")]


@dataclass(frozen=True, slots=True)
class Pen:
    """Writes in the name of the caller, into the log of the caller's account."""

    who: Caller
    address: str | None
    clock: Clock
    actor: audit_service.Actor | None = None
    """The person, where one does it at a page of ours and not by a token."""

    def note(self, tx: Tx, act: str, about: Mapping[str, Any], *, sub_account_id: int | None = None) -> None:
        """One line; whoever is limited to a sub account writes for that one."""
        audit_service.note(
            tx,
            self.who.account_id,
            act,
            self.actor or audit_service.caller_actor(tx, self.who, address=self.address),
            about=about,
            sub_account_id=self.who.sub_account_id if sub_account_id is None else sub_account_id,
            now=self.clock(),
        )

    def later(self, act: str, about: Mapping[str, Any]) -> Callable[[Tx], None]:
        """The same for a deed that has a transaction of its own."""
        return lambda tx: self.note(tx, act, about)

    def counting(self, act: str, about: Mapping[str, Any]) -> Callable[[Tx, int], None]:
        """The same for one that is done to several, which are not known yet."""
        return lambda tx, how_many: self.note(tx, act, {**about, "how_many": how_many})


def pen_of(request: Request, who: Annotated[Caller, Depends(caller_of)], parts: Services) -> Pen:
    return Pen(who, request.client.host if request.client else None, parts.clock)


Log = Annotated[Pen, Depends(pen_of)]
