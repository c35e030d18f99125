"""Lists that come in pages, read row by row: the next page is fetched when its first row is wanted."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

import httpx2

from quillpost.client.responses import ResponseObject

T = TypeVar("T")


def next_query(page: ResponseObject) -> str | None:
    """The query of the page after this one, in either envelope.

    Only the query: the next page is asked for where this one was, so the token goes nowhere else, and a
    proxy that the service does not know of does no harm.
    """
    link = page.get("next_page_url") or (page.get("links") or {}).get("next")
    return None if link is None else httpx2.URL(link).query.decode()


class Pages(Generic[T]):
    """Every row of a list. Each `for` starts anew from the first page."""

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
    """Every row of a list. Each `async for` starts anew from the first page."""

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
