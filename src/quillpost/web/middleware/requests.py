"""Around every request: an id, a line in the log, a count, the limit's headers, and no naked failure."""

import asyncio
import re
import time
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts.models import Allowance, Caller
from quillpost.core.errors import Unavailable
from quillpost.core.metrics import REQUEST_SECONDS, REQUESTS
from quillpost.core.shutdown import STOPPING, Shutdown
from quillpost.core.tokens import hide_secrets
from quillpost.web.api.errors import HUNG_UP, method_label, response_for, unexpected
from quillpost.web.middleware.cors import is_open, open_to_all
from quillpost.web.middleware.path_secrets import cover

log = structlog.get_logger(__name__)

CALLERS_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
FRAMING = "X-Frame-Options"
SECRET_PATHS = re.compile(r"/gift(?:/|$)")
"""Where an address is a secret itself, and so may be all that is answered there, failures included."""
PRIVATE = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer"}
NOTHING = "default-src 'none'; frame-ancestors 'none'"
"""The policy of answers that are data. Pages have one of their own; pictures and PDFs need none."""
ALWAYS_SECURE = "max-age=31536000"
"""Whoever came over https once comes so for a year. Other hosts of the same name are none of our business."""


class Envelope:
    def __init__(self, app: ASGIApp, shutdown: Shutdown | None = None) -> None:
        self._app = app
        self._shutdown = shutdown or Shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["leaked"] = cover(scope)
        request_id = request_id_of(scope)
        status, started = 0, time.perf_counter()

        async def sealed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                if SECRET_PATHS.match(scope["path"]):
                    headers.update(PRIVATE)
                headers["X-Request-Id"] = request_id
                write_headers(headers, state.get("allowance"))
                if is_open(scope["path"]):
                    open_to_all(headers)
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", ALWAYS_SECURE)
            await send(message)

        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                with self._shutdown.request():
                    await self._app(scope, receive, sealed)
                status = status or HUNG_UP
            except asyncio.CancelledError:
                if not self._shutdown.has_begun:
                    raise
                # The server stops and waits no longer. No commit was allowed for a while: nothing was done.
                if not status:
                    await response_for(Unavailable(STOPPING))(scope, receive, sealed)
            except Exception:
                log.exception("request.failed", path=_route(scope))
                if status:
                    raise
                await unexpected()(scope, receive, sealed)
            finally:
                _note(scope, status or 500, time.perf_counter() - started)


def request_id_of(scope: Scope) -> str:
    """The caller's own id, where it is one that can be repeated in a log."""
    given = Headers(scope=scope).get("x-request-id")
    return given if given and is_callers_id(given) else uuid4().hex


def is_callers_id(given: str) -> bool:
    """Whether it can safely be repeated: it is short and plain, and no secret of ours."""
    return CALLERS_ID.fullmatch(given) is not None and hide_secrets(given) == given


def write_headers(headers: MutableHeaders, allowance: Allowance | None = None) -> None:
    """Those of every answer."""
    for name, value in SECURITY.items():
        if name != FRAMING or not _names_a_frame(headers):
            headers.setdefault(name, value)
    if headers.get("Content-Type", "").startswith("application/json"):
        headers.setdefault("Content-Security-Policy", NOTHING)
    if allowance is not None:
        headers["X-RateLimit-Limit"] = str(allowance.limit)
        headers["X-RateLimit-Remaining"] = str(allowance.remaining)


def _names_a_frame(headers: MutableHeaders) -> bool:
    """Whether its policy says which site may show it in a frame: the older header knows no sites."""
    return "frame-ancestors http" in headers.get("Content-Security-Policy", "")


def _route(scope: Scope) -> str:
    """The route's pattern, never the path itself: a path may hold a key."""
    return str(getattr(scope.get("route"), "path", "unmatched"))


def _note(scope: Scope, status: int, seconds: float) -> None:
    route, who = _route(scope), scope["state"].get("who")
    method = method_label(scope["method"])
    REQUESTS.labels(method, route, str(status)).inc()
    REQUEST_SECONDS.labels(method, route).observe(seconds)
    if not scope["state"].get("shed") and route not in ("/health", "/ready", "/ready/live", "/metrics"):
        log.info(
            "request",
            method=method,
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            account=who.account_id if isinstance(who, Caller) else None,
        )
