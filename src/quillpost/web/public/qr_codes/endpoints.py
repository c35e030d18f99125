"""QR codes on printed mail: from the short code to the sender's page. Scans are answered before the middleware that
other requests pass; only those that fail go through it, to a page that says why."""

import asyncio
import secrets
import time
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from cachetools import TLRUCache
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from quillpost.accounts.models import get_network
from quillpost.accounts.rate_limits.service import count_anonymous_call
from quillpost.app.container import Container
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.telemetry import REQUEST_SECONDS, REQUESTS
from quillpost.fulfillment.qr_scans.rules import HINT_HEADERS, classify_visitor, printable_agent
from quillpost.fulfillment.qr_scans.service import InvalidCode, ScanTarget
from quillpost.web.api.responses import json_response
from quillpost.web.middleware.requests import SECURITY_HEADERS, is_valid_request_id
from quillpost.web.public.dependencies import is_for_people, render_public_page

router = APIRouter(include_in_schema=False)

PATH_PREFIX = "/q/"
ROUTE_PATTERN = "/q/{code}"
MAX_BLOCKED_NETWORKS = 10_000

AGENT_HEADER, REQUEST_ID_HEADER = b"user-agent", b"x-request-id"
_HINT_HEADERS = {name.encode(): name for name in HINT_HEADERS}
_COMMON_HEADERS = [
    (b"content-length", b"0"),
    (b"cache-control", b"no-store"),
    *((name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()),
]
_PROCESS_ID = secrets.token_hex(8).encode()
_REQUEST_NUMBERS = count(1)
_EMPTY_BODY = {"type": "http.response.body", "body": b"", "more_body": False}


class ScanFailure(NamedTuple):
    """Why a scan is not redirected, for people and for programs."""

    status: int
    name: str
    message: str
    retry_after: int | None = None


SCAN_FAILURES = {
    InvalidCode.UNKNOWN: ScanFailure(
        404,
        "unknown",
        "No piece of mail has this code. Scan it again, in good light and with the whole square in view.",
    ),
    InvalidCode.EXPIRED: ScanFailure(
        410, "expired", "This code has expired. Whoever sent the mail can tell you where it led."
    ),
    InvalidCode.SPECIMEN: ScanFailure(
        200, "specimen", "This is the code of a preview. Each printed piece has its own, which leads on."
    ),
}
UNAVAILABLE_FAILURE = ScanFailure(503, "away", "Your scan could not be noted just now. Scan again in a few seconds.", 5)


def throttled_failure(retry_after: int) -> ScanFailure:
    message = f"Too many codes that do not exist were tried from your network. Wait {retry_after} seconds."
    return ScanFailure(429, "throttled", message, retry_after)


class ScanMiddleware:
    """Every scan is stored before it is answered; the answer is never cached."""

    def __init__(self, app: ASGIApp, container: Container) -> None:
        self._app = app
        self._container = container
        self._recorder = container.scan_recorder
        self._blocked_until: TLRUCache[str, float] = TLRUCache(
            MAX_BLOCKED_NETWORKS, ttu=lambda _key, until, _now: until
        )
        self._counts = {method: REQUESTS.labels(method, ROUTE_PATTERN, "302") for method in ("GET", "HEAD")}
        self._durations = {method: REQUEST_SECONDS.labels(method, ROUTE_PATTERN) for method in ("GET", "HEAD")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATH_PREFIX):
            await self._app(scope, receive, send)
            return
        method, code = scope["method"], scope["path"][len(PATH_PREFIX) :].rstrip("/")
        if method not in self._counts or not code or "/" in code:
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id, result = await self._follow(scope, code, counts=method == "GET")
        if not isinstance(result, ScanTarget):
            scope.setdefault("state", {})["scan_failure"] = result
            await self._app(scope, receive, send)
            return
        headers = [(b"location", result.location), (REQUEST_ID_HEADER, request_id), *_COMMON_HEADERS]
        await send({"type": "http.response.start", "status": 302, "headers": headers})
        await send(_EMPTY_BODY)
        self._counts[method].inc()
        self._durations[method].observe(time.perf_counter() - started)

    async def _follow(self, scope: Scope, code: str, *, counts: bool) -> tuple[bytes, ScanTarget | ScanFailure]:
        agent, request_id, hints = _read_headers(scope["headers"])
        result = self._recorder.find_cached(code)
        is_uncached = result is None
        if is_uncached or (counts and isinstance(result, ScanTarget)):
            kind = classify_visitor(agent, hints)
            try:
                result = await self._recorder.record_scan(code, result, kind, printable_agent(agent), is_counted=counts)
            except (Unavailable, asyncio.CancelledError):  # the server stops, and waits no longer
                return request_id, UNAVAILABLE_FAILURE
        if isinstance(result, ScanTarget):
            return request_id, result
        return request_id, await self._refuse(scope, result or InvalidCode.UNKNOWN, is_uncached=is_uncached)

    async def _refuse(self, scope: Scope, reason: InvalidCode, *, is_uncached: bool) -> ScanFailure:
        """Unknown codes are counted by network. People may share one with an attacker who guesses: valid codes still
        redirect."""
        if reason is InvalidCode.UNKNOWN and is_uncached:
            if self._blocked_until and (seconds_left := self._blocked_seconds(scope)):
                return throttled_failure(seconds_left)
            try:
                allowance = await run_in_threadpool(
                    count_anonymous_call,
                    self._container.db,
                    _client_address(scope),
                    limit=self._container.limits.calls_a_minute,
                )
            except Unavailable:
                return UNAVAILABLE_FAILURE
            if allowance.is_exceeded:
                self._block(scope, allowance.resets_in)
                return throttled_failure(allowance.resets_in)
        return SCAN_FAILURES[reason]

    def _block(self, scope: Scope, seconds: int) -> None:
        """Until then its unknown codes are refused without being counted."""
        self._blocked_until[get_network(_client_address(scope))] = time.monotonic() + seconds

    def _blocked_seconds(self, scope: Scope) -> int:
        blocked_until = self._blocked_until.get(get_network(_client_address(scope)))
        return 0 if blocked_until is None else int(blocked_until - time.monotonic()) + 1


@router.api_route(ROUTE_PATTERN, methods=["GET", "HEAD"])
def show_failure(request: Request, code: str) -> Response:
    """A page for people, JSON for programs."""
    scan_failure = getattr(request.state, "scan_failure", None)
    if scan_failure is None:
        raise NotFound
    headers = {"Cache-Control": "no-store"}
    if scan_failure.retry_after is not None:
        headers["Retry-After"] = str(scan_failure.retry_after)
    if not is_for_people(request):
        return json_response({"message": scan_failure.message}, status=scan_failure.status, headers=headers)
    return render_public_page(
        request,
        "public/scan_failure.html",
        status=scan_failure.status,
        headers=headers,
        failure=scan_failure.name,
        code=code,
    )


def _read_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, bytes, dict[str, str]]:
    """The user agent, the request id, and the hint headers."""
    agent, request_id, hints = "", b"", {}
    for name, value in headers:
        if name == AGENT_HEADER:
            agent = value.decode("latin-1")
        elif name in _HINT_HEADERS:
            hints[_HINT_HEADERS[name]] = value.decode("latin-1")
        elif name == REQUEST_ID_HEADER and is_valid_request_id(value.decode("latin-1")):
            request_id = value
    return agent, request_id or _new_request_id(), hints


def _new_request_id() -> bytes:
    """Cheaper than random ids: a prefix for the process, and a number."""
    return b"%b%016x" % (_PROCESS_ID, next(_REQUEST_NUMBERS))


def _client_address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else "unknown"
