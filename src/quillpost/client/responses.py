"""Answers: plain dicts and lists that also have what the headers said, and lists that come in pages."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

import httpx2

from quillpost.client.errors import QuillpostError, listed


class ResponseInfo:
    """What the headers of an answer said of the call."""

    warnings: tuple[str, ...] = ()
    """What deserves a look, such as a letter that the hand does not have."""

    ignored_fields: tuple[str, ...] = ()
    """What was sent and means nothing here: mostly typing errors."""

    request_id: str | None = None


class ResponseObject(ResponseInfo, dict[str, Any]):
    """A JSON object. Metadata is as it was sent: integers of any length, key order, 1.0 a float."""


class ResponseArray(ResponseInfo, list[Any]):
    """A JSON array."""


def about(answer: object) -> ResponseInfo:
    """What was said beside the response, for type checkers, to which a response is only a TypedDict."""
    if not isinstance(answer, ResponseInfo):
        raise TypeError("This is not the answer to a call, or it is only a part of one.")
    return answer


def read_response(response: httpx2.Response) -> ResponseObject | ResponseArray:
    try:
        found = json.loads(response.content)
    except ValueError:
        found = None
    if not isinstance(found, dict | list):
        raise QuillpostError(
            "What answered does not speak JSON: does base_url lead to Quillpost?",
            status=response.status_code,
            request_id=response.headers.get("x-request-id"),
        )
    content = ResponseObject(found) if isinstance(found, dict) else ResponseArray(found)
    content.warnings = _warnings(response.headers.get("x-warnings"))
    content.ignored_fields = listed(response.headers.get("x-ignored-fields"), ", ")
    content.request_id = response.headers.get("x-request-id")
    return content


def _warnings(header: str | None) -> tuple[str, ...]:
    """The header is a JSON array of sentences; anything else stands as it came."""
    if not header:
        return ()
    try:
        found = json.loads(header)
    except ValueError:
        return (header,)
    return tuple(map(str, found)) if isinstance(found, list) else (header,)


T = TypeVar("T")


def next_query(page: ResponseObject) -> str | None:
    """The query of the page after this one, in either envelope. Never another host: the token goes nowhere else."""
    link = page.get("next_page_url") or (page.get("links") or {}).get("next")
    return None if link is None else httpx2.URL(link).query.decode()


class Pages(Generic[T]):
    """Every row of a list. Each `for` starts again from the first page."""

    def __init__(self, fetch: Callable[[str | None], ResponseObject]) -> None:
        self._fetch = fetch

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page["data"]

    def pages(self) -> Iterator[dict[str, Any]]:
        """The pages themselves, as they were answered: `data` with totals and links."""
        page = self._fetch(None)
        yield page
        while (query := next_query(page)) is not None:
            page = self._fetch(query)
            yield page


class AsyncPages(Generic[T]):
    """Every row of a list. Each `async for` starts again from the first page."""

    def __init__(self, fetch: Callable[[str | None], Awaitable[ResponseObject]]) -> None:
        self._fetch = fetch

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for row in page["data"]:
                yield row

    async def pages(self) -> AsyncIterator[dict[str, Any]]:
        """The pages themselves, as they were answered: `data` with totals and links."""
        page = await self._fetch(None)
        yield page
        while (query := next_query(page)) is not None:
            page = await self._fetch(query)
            yield page
