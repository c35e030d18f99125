"""Around every request: an id, a line in the log, a count, the limit's headers, and no naked failure."""

import re
import time
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts.rules import Allowance, Caller
from quillpost.api.allowed import KNOWN
from quillpost.api.errors import unexpected
from quillpost.kit.metrics import REQUEST_SECONDS, REQUESTS

log = structlog.get_logger(__name__)

CALLERS_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


HUNG_UP = 499
"""What proxies count a request under whose caller left before there was an answer."""


class Envelope:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        request_id = _request_id(Headers(scope=scope).get("x-request-id"))
        status, started = 0, time.perf_counter()

        async def sealed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _write_headers(MutableHeaders(scope=message), request_id, state.get("allowance"))
            await send(message)

        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                await self._app(scope, receive, sealed)
                status = status or HUNG_UP
            except Exception:
                log.exception("request.failed", path=_route(scope))
                if status:
                    raise
                await unexpected()(scope, receive, sealed)
            finally:
                _note(scope, status or 500, time.perf_counter() - started)


def _request_id(given: str | None) -> str:
    """The caller's own id, where it is one that can safely be repeated in a log."""
    return given if given and CALLERS_ID.fullmatch(given) else uuid4().hex


def _write_headers(headers: MutableHeaders, request_id: str, allowance: Allowance | None) -> None:
    headers["X-Request-Id"] = request_id
    for name, value in SECURITY.items():
        headers.setdefault(name, value)
    if allowance is not None:
        headers["X-RateLimit-Limit"] = str(allowance.limit)
        headers["X-RateLimit-Remaining"] = str(allowance.remaining)


def _route(scope: Scope) -> str:
    """The route's pattern, never the path itself: a path may hold a key."""
    return str(getattr(scope.get("route"), "path", "unmatched"))


def _note(scope: Scope, status: int, seconds: float) -> None:
    route, who = _route(scope), scope["state"].get("who")
    # Callers can invent methods without end; the metrics do not grow with them.
    method = scope["method"] if scope["method"] in KNOWN else "other"
    REQUESTS.labels(method, route, str(status)).inc()
    REQUEST_SECONDS.labels(method, route).observe(seconds)
    if route not in ("/health", "/ready", "/metrics"):
        log.info(
            "request",
            method=method,
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            account=who.account_id if isinstance(who, Caller) else None,
        )
