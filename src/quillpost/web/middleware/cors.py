"""Who may call from a web page of another site: everyone, with a token of their own.

No cookie opens the API, so a page of another site gains nothing by its visitor's browser: any origin may
call, and no credentials of the browser's own come along. Nothing else is open: pages and forms of ours go by
cookie, and what `/oauth/token` hands out is good for a year and belongs on a server.
"""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from quillpost.web.api.errors import ROUTED_METHODS
from quillpost.web.api.routes import PREFIX

ALLOWED_HEADERS: Final = ("Authorization", "Content-Type", "Idempotency-Key", "X-Request-Id", "*")
"""The star stands for all others, and in no browser for `Authorization`."""

EXPOSED_HEADERS: Final = (
    "Allow",
    "Content-Disposition",
    "Location",
    "RateLimit-Reset",
    "Retry-After",
    "WWW-Authenticate",
    "X-Ignored-Fields",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-Request-Id",
    "X-Warnings",
)

RESPONSE_HEADERS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": ", ".join(EXPOSED_HEADERS),
}
PREFLIGHT_HEADERS: Final = {
    "Access-Control-Allow-Methods": ", ".join(ROUTED_METHODS),
    "Access-Control-Allow-Headers": ", ".join(ALLOWED_HEADERS),
    "Access-Control-Max-Age": "86400",
}


class PreflightMiddleware:
    """Answers a browser that asks whether it may call: without a token, and without a look at anything."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_preflight(scope):
            await Response(status_code=204, headers=PREFLIGHT_HEADERS)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def is_api_path(path: str) -> bool:
    """Whether pages of other sites may read what is answered here."""
    return path == PREFIX or path.startswith(PREFIX + "/")


def add_cors_headers(headers: MutableHeaders) -> None:
    """Say so in an answer, a refusal too: a page that may not read it cannot tell its user why."""
    headers.update(RESPONSE_HEADERS)


def is_preflight(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "OPTIONS" or not is_api_path(scope["path"]):
        return False
    headers = Headers(scope=scope)
    return "origin" in headers and "access-control-request-method" in headers
