"""Calls as HTTP: how a request is written, sent and tried again."""

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from random import SystemRandom
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2

from quillpost.client.errors import QuillpostError, UnreachableError, error_of
from quillpost.client.requests import Request, Route
from quillpost.client.responses import AsyncPages, Pages, ResponseArray, ResponseObject, read_response

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 20.0

PASSING = (httpx2.NetworkError, httpx2.TimeoutException, httpx2.RemoteProtocolError)
"""Failures of the way there and back; the others would only happen again."""

BUSY = frozenset({429, 502, 503, 504})
CONFLICT = 409

_chance = SystemRandom()


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for one answer, retries, and seconds in all. Waits that the service asks for count as no retry."""

    timeout: float
    retries: int
    deadline: float


def backoff(retry: int) -> float:
    """Up to twice as long each time, and by chance anything below: callers who failed together part."""
    return _chance.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**retry))


class Attempts:
    """The attempts of one call. Each call that we make may be made again: a POST carries its key."""

    def __init__(self, patience: Patience, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._clock = clock
        self._ends = clock() + patience.deadline
        self._retries = 0
        self._pauses = 0

    @property
    def timeout(self) -> float:
        return max(0.0, min(self._patience.timeout, self._ends - self._clock()))

    def pause_after(self, outcome: httpx2.Response | httpx2.RequestError) -> float:
        """Seconds to wait before the next attempt; what failed is raised where there is none to make."""
        error = _error(outcome)
        requested_wait = error.retry_after or 0.0
        is_used_up = self._retries >= self._patience.retries and not (requested_wait and self._patience.retries)
        if not _is_passing(outcome, error) or is_used_up:
            raise error
        pause = max(backoff(self._pauses), requested_wait)
        if self._clock() + pause >= self._ends:
            raise error
        self._pauses += 1
        if not requested_wait:
            self._retries += 1
        return pause


def _error(outcome: httpx2.Response | httpx2.RequestError) -> QuillpostError:
    if isinstance(outcome, httpx2.Response):
        return error_of(outcome)
    url = outcome.request.url
    why = str(outcome) or type(outcome).__name__
    error = UnreachableError(f"{url.scheme}://{url.netloc.decode()} cannot be reached: {why.rstrip('.')}.")
    error.__cause__ = outcome
    return error


def _is_passing(outcome: httpx2.Response | httpx2.RequestError, error: QuillpostError) -> bool:
    if isinstance(outcome, httpx2.RequestError):
        return isinstance(outcome, PASSING)
    # A key that is in use will be free; a key that was used with another body never will.
    return error.status in BUSY or (error.status == CONFLICT and error.retry_after is not None)


PREFIX = "/api/v2"
PATH_PARAMETER = re.compile(r"\{\w+\}")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to the last byte, so that a second attempt is the same as the first."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes = b""

    def within(self, seconds: float) -> httpx2.Request:
        return httpx2.Request(
            self.method,
            self.url,
            headers=self.headers,
            content=self.content or None,
            extensions={"timeout": httpx2.Timeout(seconds).as_dict()},
        )


class Writer:
    def __init__(self, base_url: str, token: str) -> None:
        self._api = base_url.rstrip("/").removesuffix(PREFIX) + PREFIX
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "*/*", "User-Agent": "quillpost-python"}

    def write(self, route: Route, request: Request[Any], query: str | None = None) -> HttpRequest:
        """The request of a call; a `query` of its own stands in for the call's."""
        chosen = str(httpx2.QueryParams(list(_pairs(request.query or {})))) if query is None else query
        url = self._api + _filled(route.path, request) + (f"?{chosen}" if chosen else "")
        kind, content = _body(request)
        headers = self._headers | kind
        if route.method == "POST":
            headers["Idempotency-Key"] = request.idempotency_key or str(uuid4())
        return HttpRequest(route.method, url, headers, content)


def _filled(path: str, request: Request[Any]) -> str:
    ids = iter(request.ids)

    def fill(_: re.Match[str]) -> str:
        text = quote(str(next(ids)), safe="")
        if text in ("", ".", ".."):
            raise ValueError("An id is missing.")
        return text

    return PATH_PARAMETER.sub(fill, path)


def _pairs(query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is None is left out; an object is written as `metadata[key]`."""
    for name, value in query.items():
        if isinstance(value, Mapping):
            yield from _pairs({f"{name}[{key}]": inner for key, inner in value.items()})
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif value is not None:
            yield name, value.isoformat() if isinstance(value, date) else str(value)


def _body(request: Request[Any]) -> tuple[dict[str, str], bytes]:
    if request.files is not None:
        fields = dict(_pairs(request.body if isinstance(request.body, Mapping) else {}))
        form = httpx2.Request("POST", "http://form", data=fields, files=request.files)
        return {"Content-Type": form.headers["Content-Type"]}, form.read()
    if request.body is None:
        return {}, b""
    return {"Content-Type": "application/json"}, json.dumps(request.body, allow_nan=False, default=_moment).encode()


def _moment(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"JSON has no {type(value).__name__}.")


class BlockingWire:
    def __init__(self, writer: Writer, http: httpx2.Client, patience: Patience, sleep: Callable[[float], None]) -> None:
        self._writer = writer
        self._http = http
        self._patience = patience
        self._sleep = sleep

    def run(self, route: Route, request: Request[Any]) -> Any:
        response = self._exchange(self._writer.write(route, request))
        return response.content if route.is_file else read_response(response)

    def pages(self, route: Route, request: Request[Any]) -> Pages[Any]:
        return Pages(lambda query: _page(self._exchange(self._writer.write(route, request, query))))

    def download(self, url: str) -> bytes:
        return self._exchange(HttpRequest("GET", url, {})).content

    def close(self) -> None:
        self._http.close()

    def _exchange(self, written: HttpRequest) -> httpx2.Response:
        attempts = Attempts(self._patience)
        while True:
            outcome: httpx2.Response | httpx2.RequestError
            try:
                outcome = self._http.send(written.within(attempts.timeout))
                if outcome.is_success:
                    return outcome
            except httpx2.RequestError as failure:
                outcome = failure
            self._sleep(attempts.pause_after(outcome))


class AwaitedWire:
    def __init__(
        self, writer: Writer, http: httpx2.AsyncClient, patience: Patience, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._writer = writer
        self._http = http
        self._patience = patience
        self._sleep = sleep

    async def run(self, route: Route, request: Request[Any]) -> Any:
        response = await self._exchange(self._writer.write(route, request))
        return response.content if route.is_file else read_response(response)

    def pages(self, route: Route, request: Request[Any]) -> AsyncPages[Any]:
        async def fetch(query: str | None) -> ResponseObject:
            return _page(await self._exchange(self._writer.write(route, request, query)))

        return AsyncPages(fetch)

    async def download(self, url: str) -> bytes:
        return (await self._exchange(HttpRequest("GET", url, {}))).content

    async def close(self) -> None:
        await self._http.aclose()

    async def _exchange(self, written: HttpRequest) -> httpx2.Response:
        attempts = Attempts(self._patience)
        while True:
            outcome: httpx2.Response | httpx2.RequestError
            try:
                outcome = await self._http.send(written.within(attempts.timeout))
                if outcome.is_success:
                    return outcome
            except httpx2.RequestError as failure:
                outcome = failure
            await self._sleep(attempts.pause_after(outcome))


def _page(response: httpx2.Response) -> ResponseObject:
    found = read_response(response)
    return ResponseObject(data=found) if isinstance(found, ResponseArray) else found
