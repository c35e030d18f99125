"""Around every request: an id, a log line, metrics, common headers, and no secret in its URL."""

import asyncio
import re
import time
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts.models import Caller, RateLimitStatus
from quillpost.core.errors import Refused, Unavailable
from quillpost.core.requests import STOPPING_MESSAGE, Shutdown
from quillpost.core.telemetry import REQUEST_SECONDS, REQUESTS
from quillpost.core.tokens import HIDDEN_REPLACEMENT, SECRET_START_PATTERN, hide_secrets
from quillpost.web.api.errors import CLIENT_CLOSED_REQUEST, error_response, method_label, unexpected_error_response
from quillpost.web.middleware.methods import add_cors_headers, is_api_path

SECRET_PREFIX = b"qp_"
# These links are made to hold a secret.
SECRET_LINKS = (("/join/", "qp_invitation_"), ("/reset/", "qp_reset_"))


class SecretInUrl(Refused):
    def __init__(self) -> None:
        super().__init__(
            "The address of this call holds a token or another secret. It belongs in the Authorization header"
            " (as Bearer) or in the body, never in an address, which logs keep on its way: revoke it now."
        )


def remove_url_secrets(scope: Scope) -> bool:
    """Remove every secret from the URL before anyone reads it; whether there was one."""
    query: bytes = scope.get("query_string", b"")
    decoded_query = unquote_to_bytes(query) if b"%" in query else query
    if SECRET_PREFIX.decode() not in scope["path"] and SECRET_PREFIX not in decoded_query:
        return False
    path = without_secrets(scope["path"])
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    clean_pairs = [(without_secrets(name), without_secrets(value)) for name, value in pairs]
    is_leak = path != scope["path"] or clean_pairs != pairs
    if path != scope["path"]:
        scope["path"], scope["raw_path"] = path, quote(path).encode()
    if clean_pairs != pairs:
        scope["query_string"] = urlencode(clean_pairs).encode()
    return is_leak


def without_secrets(text: str) -> str:
    """Only the prefixes of secrets remain, except in links that are made to hold one."""

    def hide(match: re.Match[str]) -> str:
        is_link = any(match[1] == kind and text.endswith(path, 0, match.start()) for path, kind in SECRET_LINKS)
        return match[0] if is_link else match.expand(HIDDEN_REPLACEMENT)

    return SECRET_START_PATTERN.sub(hide, text)


log = structlog.get_logger(__name__)

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
SECURITY_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}
FRAME_HEADER = "X-Frame-Options"
SECRET_PATHS = re.compile(r"/gift(?:/|$)")
"""Where the URL is a secret, so may be the response, errors included."""
PRIVATE_HEADERS = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer"}
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""For responses that are data. Pages have their own; pictures and PDFs need none."""
HSTS_VALUE = "max-age=31536000"  # no subdomains: other hosts of the name are not ours


class RequestMiddleware:
    def __init__(self, app: ASGIApp, shutdown: Shutdown | None = None) -> None:
        self._app = app
        self._shutdown = shutdown or Shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["has_leaked_secret"] = remove_url_secrets(scope)
        request_id = get_request_id(scope)
        status, started = 0, time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                if SECRET_PATHS.match(scope["path"]):
                    headers.update(PRIVATE_HEADERS)
                headers["X-Request-Id"] = request_id
                add_common_headers(headers, state.get("allowance"))
                if is_api_path(scope["path"]):
                    add_cors_headers(headers)
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", HSTS_VALUE)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                with self._shutdown.request_context():
                    await self._app(scope, receive, send_with_headers)
                status = status or CLIENT_CLOSED_REQUEST
            except asyncio.CancelledError:
                if not self._shutdown.has_begun:
                    raise
                # The server stops and waits no longer. No commit was allowed for a while: nothing was done.
                if not status:
                    await error_response(Unavailable(STOPPING_MESSAGE))(scope, receive, send_with_headers)
            except Exception:
                log.exception("requests.failed", route=_route_pattern(scope))
                if status:
                    raise
                await unexpected_error_response()(scope, receive, send_with_headers)
            finally:
                _record_request(scope, status or 500, time.perf_counter() - started)


def get_request_id(scope: Scope) -> str:
    """The caller's own id, if it is safe to log."""
    request_id = Headers(scope=scope).get("x-request-id")
    return request_id if request_id and is_valid_request_id(request_id) else uuid4().hex


def is_valid_request_id(request_id: str) -> bool:
    """Short, plain, and no secret of ours."""
    return REQUEST_ID.fullmatch(request_id) is not None and hide_secrets(request_id) == request_id


def add_common_headers(headers: MutableHeaders, allowance: RateLimitStatus | None = None) -> None:
    for name, value in SECURITY_HEADERS.items():
        if name != FRAME_HEADER or not _allows_framing(headers):
            headers.setdefault(name, value)
    if headers.get("Content-Type", "").startswith("application/json"):
        headers.setdefault("Content-Security-Policy", DATA_POLICY)
    if allowance is not None:
        headers["X-RateLimit-Limit"] = str(allowance.limit)
        headers["X-RateLimit-Remaining"] = str(allowance.remaining)


def _allows_framing(headers: MutableHeaders) -> bool:
    """Its policy names the site that may frame it, which the older header cannot."""
    return "frame-ancestors http" in headers.get("Content-Security-Policy", "")


def _route_pattern(scope: Scope) -> str:
    """Never the path itself, which may hold a key."""
    return str(getattr(scope.get("route"), "path", "unmatched"))


def _record_request(scope: Scope, status: int, seconds: float) -> None:
    route, caller = _route_pattern(scope), scope["state"].get("caller")
    method = method_label(scope["method"])
    REQUESTS.labels(method, route, str(status)).inc()
    REQUEST_SECONDS.labels(method, route).observe(seconds)
    if not scope["state"].get("is_shed") and route not in ("/health", "/ready", "/ready/live", "/metrics"):
        log.info(
            "requests.completed",
            method=method,
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            account=caller.account_id if isinstance(caller, Caller) else None,
        )
