"""Where a printed QR code leads: from its short code to the sender's page, the person's words filled in.

The way that nearly everyone takes is answered before all that other requests pass through. Whoever cannot be
led on goes through it, to a page that says why.
"""

import asyncio
import secrets
import time
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from quillpost.accounts import service as accounts
from quillpost.accounts.models import network_of
from quillpost.app.container import Parts
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.metrics import REQUEST_SECONDS, REQUESTS
from quillpost.fulfillment.qr_scans.rules import HINTS, kind_of, shown_agent
from quillpost.fulfillment.qr_scans.service import Known, Lost
from quillpost.web import rendering as pages
from quillpost.web.api.responses import answer
from quillpost.web.middleware.requests import SECURITY, is_callers_id

router = APIRouter(include_in_schema=False)

PATH = "/q/"
ROUTE = "/q/{code}"
MOST_BARRED = 10_000

AGENT, REQUEST_ID = b"user-agent", b"x-request-id"
_HINTS = {name.encode(): name for name in HINTS}
_ALWAYS = [
    (b"content-length", b"0"),
    (b"cache-control", b"no-store"),
    *((name.lower().encode(), value.encode()) for name, value in SECURITY.items()),
]
_PROCESS = secrets.token_hex(8).encode()
_NUMBERS = count(1)
_END = {"type": "http.response.body", "body": b"", "more_body": False}


class Trouble(NamedTuple):
    """Why somebody is not led on, in words for a person and for a program. With a preview all is well."""

    status: int
    name: str
    message: str
    retry_after: int | None = None


TROUBLES = {
    Lost.UNKNOWN: Trouble(
        404,
        "unknown",
        "No piece of mail has this code. Scan it again, in good light and with the whole square in view.",
    ),
    Lost.EXPIRED: Trouble(
        410, "expired", "This code has expired. Whoever sent the mail can tell you where it led."
    ),
    Lost.SPECIMEN: Trouble(
        200, "specimen", "This is the code of a preview. Each printed piece has its own, which leads on."
    ),
}
AWAY = Trouble(503, "away", "Your scan could not be noted just now. Scan again in a few seconds.", 5)


def too_many(retry_after: int) -> Trouble:
    message = f"Too many codes that do not exist were tried from your network. Wait {retry_after} seconds."
    return Trouble(429, "throttled", message, retry_after)


class ScanDoor:
    """Each scan comes by here, and is stored before it is answered; the answer is never cached."""

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._parts = parts
        self._desk = parts.scans
        self._barred: dict[str, float] = {}
        self._counts = {method: REQUESTS.labels(method, ROUTE, "302") for method in ("GET", "HEAD")}
        self._times = {method: REQUEST_SECONDS.labels(method, ROUTE) for method in ("GET", "HEAD")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATH):
            await self._app(scope, receive, send)
            return
        method, code = scope["method"], scope["path"][len(PATH) :].rstrip("/")
        if method not in self._counts or not code or "/" in code:
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id, found = await self._follow(scope, code, counts=method == "GET")
        if not isinstance(found, Known):
            scope.setdefault("state", {})["trouble"] = found
            await self._app(scope, receive, send)
            return
        headers = [(b"location", found.location), (REQUEST_ID, request_id), *_ALWAYS]
        await send({"type": "http.response.start", "status": 302, "headers": headers})
        await send(_END)
        self._counts[method].inc()
        self._times[method].observe(time.perf_counter() - started)

    async def _follow(self, scope: Scope, code: str, *, counts: bool) -> tuple[bytes, Known | Trouble]:
        agent, request_id, hints = _heard(scope["headers"])
        found = self._desk.recall(code)
        is_news = found is None
        if is_news or (counts and isinstance(found, Known)):
            kind = kind_of(agent, hints)
            try:
                found = await self._desk.follow(code, found, kind, shown_agent(agent), counts=counts)
            except (Unavailable, asyncio.CancelledError):  # the server stops, and waits no longer
                return request_id, AWAY
        if isinstance(found, Known):
            return request_id, found
        return request_id, await self._refuse(scope, found or Lost.UNKNOWN, is_news=is_news)

    async def _refuse(self, scope: Scope, why: Lost, *, is_news: bool) -> Trouble:
        """Whoever guesses is counted, with every new code that nobody has.

        Many people may share a network with someone who guesses: a card that is good leads on all the same.
        """
        if why is Lost.UNKNOWN and is_news:
            if self._barred and (left := self._time_left(scope)):
                return too_many(left)
            try:
                allowance = await run_in_threadpool(
                    accounts.count_stranger,
                    self._parts.db,
                    _address(scope),
                    limit=self._parts.limits.calls_a_minute,
                )
            except Unavailable:
                return AWAY
            if allowance.is_spent:
                self._bar(scope, allowance.resets_in)
                return too_many(allowance.resets_in)
        return TROUBLES[why]

    def _bar(self, scope: Scope, seconds: int) -> None:
        """Until then its wrong codes are refused without being counted."""
        while len(self._barred) >= MOST_BARRED:
            del self._barred[next(iter(self._barred))]
        self._barred[network_of(_address(scope))] = time.monotonic() + seconds

    def _time_left(self, scope: Scope) -> int:
        network = network_of(_address(scope))
        left = self._barred.get(network, 0) - time.monotonic()
        if left <= 0:
            self._barred.pop(network, None)
            return 0
        return int(left) + 1


@router.api_route(ROUTE, methods=["GET", "HEAD"])
def tell_why(request: Request, code: str) -> Response:
    """Why the door did not lead on: a page for a person, and the one shape of failures for a program."""
    trouble = getattr(request.state, "trouble", None)
    if trouble is None:
        raise NotFound
    headers = {"Cache-Control": "no-store"}
    if trouble.retry_after is not None:
        headers["Retry-After"] = str(trouble.retry_after)
    if "text/html" not in request.headers.get("accept", ""):
        return answer({"message": trouble.message}, status=trouble.status, headers=headers)
    text = pages.text_of(
        "doors/scan.html", trouble=trouble.name, code=code, release=request.app.state.release
    )
    shown = pages.page(text, status=trouble.status)
    shown.headers.update(headers)
    return shown


def _heard(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, bytes, dict[str, str]]:
    """The agent's name, the request's id, and the hints that came with it."""
    agent, request_id, hints = "", b"", {}
    for name, value in headers:
        if name == AGENT:
            agent = value.decode("latin-1")
        elif name in _HINTS:
            hints[_HINTS[name]] = value.decode("latin-1")
        elif name == REQUEST_ID and is_callers_id(value.decode("latin-1")):
            request_id = value
    return agent, request_id or _new_request_id(), hints


def _new_request_id() -> bytes:
    """Like any other's, but for the randomness: one start for all of this process, and a number."""
    return b"%b%016x" % (_PROCESS, next(_NUMBERS))


def _address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else "unknown"
