"""What endpoints are given: the caller, a transaction, the services, the audit log."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import BeforeValidator, WithJsonSchema

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.database import Tx
from quillpost.core.database.search import MAX_QUERY_LENGTH, MAX_QUERY_WORDS
from quillpost.core.errors import Forbidden, Invalid, Unauthenticated
from quillpost.core.paging import PageRequest
from quillpost.web.api.schemas import QueryText, parse_integer, strip_or_none
from quillpost.web.dependencies import (
    ABOVE_MAX_ID,
    DEFAULT_PAGE_SIZE,
    MAX_ID,
    MAX_PAGE,
    AuditWriter,
    Services,
    UnitOfWork,
    open_unit_of_work,
    parse_path_id,
)


def get_caller(request: Request) -> Caller:
    caller = request.scope.get("state", {}).get("caller")
    if not isinstance(caller, Caller):
        raise Unauthenticated
    return caller


async def provide_caller(request: Request) -> Caller:
    return get_caller(request)


ApiCaller = Annotated[Caller, Depends(provide_caller)]
RequireCaller = Callable[[Caller], Awaitable[Caller]]


async def get_unit_of_work(request: Request, container: Services, caller: ApiCaller) -> AsyncIterator[UnitOfWork]:
    async with open_unit_of_work(request, lambda: container.db.transaction(build_tenant(caller))) as unit_of_work:
        yield unit_of_work


def require_scope(scope: str) -> RequireCaller:
    async def check(caller: ApiCaller) -> Caller:
        caller.require(scope)
        return caller

    return check


RequestUnitOfWork = Annotated[UnitOfWork, Depends(get_unit_of_work, scope="function")]


def get_transaction(unit_of_work: RequestUnitOfWork) -> Tx:
    return unit_of_work.tx


RequestTransaction = Annotated[Tx, Depends(get_transaction, scope="function")]


# A query string holds text alone: digits are read out of it, and nothing in it is as good as not asked.
# The description says what is meant: a number.
CountQuery = Annotated[str | None, WithJsonSchema({"type": "integer", "minimum": 1, "examples": [1]})]
IdQuery = Annotated[
    str | None, WithJsonSchema({"type": "integer", "minimum": 1, "exclusiveMaximum": ABOVE_MAX_ID, "examples": [1001]})
]

PageNumberQuery = Annotated[CountQuery, Query(description="Page number, from 1.")]
PageSizeQuery = Annotated[CountQuery, Query(description="Rows a page, 1 to 100; more is taken as 100.")]
RecipientPageSizeQuery = Annotated[CountQuery, Query(description="Rows a page, 1 to 10,000; more is taken as 10,000.")]
LimitQuery = Annotated[CountQuery, Query(description="Another name of items_per_page.")]


async def get_page_request(
    container: Services, page: PageNumberQuery = None, items_per_page: PageSizeQuery = None, limit: LimitQuery = None
) -> PageRequest:
    """Out of range above is clamped; zero, negative and words are refused."""
    return _build_page_request(page, items_per_page, limit, max_size=container.limits.items_per_page)


async def get_recipient_page_request(
    container: Services,
    page: PageNumberQuery = None,
    items_per_page: RecipientPageSizeQuery = None,
    limit: LimitQuery = None,
) -> PageRequest:
    return _build_page_request(page, items_per_page, limit, max_size=container.limits.recipients_per_page)


def _build_page_request(
    page: str | None, items_per_page: str | None, limit: str | None, *, max_size: int
) -> PageRequest:
    sizes = (parse_query_count("items_per_page", items_per_page, max_size), parse_query_count("limit", limit, max_size))
    return PageRequest(
        page=parse_query_count("page", page, MAX_PAGE) or 1,
        per_page=next(filter(None, sizes), min(DEFAULT_PAGE_SIZE, max_size)),
    )


def parse_query_count(name: str, value: str | None, max_count: int) -> int | None:
    if value is None or not value.strip():
        return None
    number = parse_integer(value.strip()) or 0
    if number < 1:
        raise Invalid({name: ["This must be a whole number from 1."]})
    return min(number, max_count)


PageQuery = Annotated[PageRequest, Depends(get_page_request)]
RecipientPageQuery = Annotated[PageRequest, Depends(get_recipient_page_request)]


def parse_query_id(name: str, value: str | None) -> int | None:
    if value is None or not value.strip():
        return None
    number = parse_integer(value.strip()) or 0
    if not 0 < number <= MAX_ID:
        raise Invalid({name: ["This must be a whole number."]})
    return number


async def get_sub_account_filter(
    sub_account_id: Annotated[IdQuery, Query(description="Only this sub account's.")] = None,
    sub_account: Annotated[IdQuery, Query(description="Another name of sub_account_id.")] = None,
) -> int | None:
    ids = (parse_query_id("sub_account_id", sub_account_id), parse_query_id("sub_account", sub_account))
    return next(filter(None, ids), None)


PathId = Annotated[int, BeforeValidator(parse_path_id)]
SubAccountFilter = Annotated[int | None, Depends(get_sub_account_filter)]

SEARCH_DESCRIPTION = (
    "Only those that have each of these words, as the beginning of a word, in any case and without accents."
    " Up to 20 words. A search without a letter or a digit finds nothing."
)


async def get_search_text(
    search: Annotated[QueryText | None, Query(max_length=MAX_QUERY_LENGTH, description=SEARCH_DESCRIPTION)] = None,
) -> str | None:
    text = strip_or_none(search)
    if text is not None and len(text.split()) > MAX_QUERY_WORDS:
        raise Invalid({"search": [f"Search for at most {MAX_QUERY_WORDS} words."]})
    return text


SearchQuery = Annotated[str | None, Depends(get_search_text)]

NOT_FOR_APPS = (
    "A connected app never may do this, whoever connected it: use a personal access token of an operator's account."
)


def require_operator(scope: str) -> RequireCaller:
    """An operator whose token has the scope, and is limited neither to a sub account nor to an app."""

    async def check(caller: ApiCaller) -> Caller:
        caller.require(scope)
        if caller.grant_id is not None:
            raise Forbidden(NOT_FOR_APPS)
        if not caller.is_operator:
            raise Forbidden("Only an operator may do this: use a token of an operator's account.")
        return caller

    return check


def require_live_operator(scope: str) -> RequireCaller:
    """The same for what both modes share: a test token changes nothing of live mail."""

    async def check(caller: Annotated[Caller, Depends(require_operator(scope))]) -> Caller:
        if caller.mode == "test":
            raise Forbidden("This changes live mail as well: use a live token of an operator's account.")
        return caller

    return check


async def get_service_unit_of_work(request: Request, container: Services) -> AsyncIterator[UnitOfWork]:
    """The service's own transaction. An endpoint asks for the operator before it asks for this."""
    async with open_unit_of_work(request, container.db.system_transaction) as unit_of_work:
        yield unit_of_work


def get_service_transaction(
    unit_of_work: Annotated[UnitOfWork, Depends(get_service_unit_of_work, scope="function")],
) -> Tx:
    return unit_of_work.tx


ServiceTransaction = Annotated[Tx, Depends(get_service_transaction, scope="function")]


async def get_audit_writer(request: Request, caller: ApiCaller, container: Services) -> AuditWriter:
    return AuditWriter(caller, request.client.host if request.client else None, container.clock)


RequestAuditWriter = Annotated[AuditWriter, Depends(get_audit_writer)]
