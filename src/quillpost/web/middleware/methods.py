"""HEAD and OPTIONS at every path, and calls to the API from pages of other sites (CORS)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fastapi import Request, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.web.api.errors import ROUTED_METHODS, RoutePaths, error_response
from quillpost.web.api.routes import PREFIX

RefusalHandler = Callable[[Request, Exception], Awaitable[Response]]


async def refuse_with_json(_request: Request, error: Exception) -> Response:
    return error_response(error)


class MethodMiddleware:
    """Answers OPTIONS, answers HEAD with GET but without the body, and ignores a trailing slash.

    A route whose GET does more than read, or whose body is costly, declares its own HEAD.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], refuse: RefusalHandler = refuse_with_json) -> None:
        """`refuse` answers where a path has other methods only."""
        self._app = app
        self._paths = RoutePaths.from_routes(routes)
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] = scope["path"].rstrip("/") or "/"
        if scope["method"] == "OPTIONS" and (allowed := self._paths.allowed_methods(path)):
            await Response(status_code=204, headers={"Allow": ", ".join(allowed)})(scope, receive, send)
        elif scope["method"] == "HEAD" and "HEAD" not in self._paths.declared_methods(path):
            await self._answer_head(scope, receive, send)
        elif self._paths.refuses_method(scope["method"], path):
            refusal = HTTPException(405, headers={"Allow": ", ".join(self._paths.allowed_methods(path))})
            response = await self._refuse(Request(scope, receive), refusal)
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer_head(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The server reads its own scope to know that no body follows: only the inner scope says GET.
        has_get = "GET" in self._paths.declared_methods(scope["path"])
        inner_scope = {**scope, "method": "GET"} if has_get else {**scope}
        try:
            await self._app(inner_scope, receive, _without_body(send))
        except _HeadersSent:
            pass
        finally:
            if "route" in inner_scope:
                scope["route"] = inner_scope["route"]


class _HeadersSent(BaseException):
    """Stops the producer of a body that nobody reads."""


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] != "http.response.body":
            await send(message)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        if message.get("more_body"):
            raise _HeadersSent

    return send_head


ALLOWED_HEADERS: Final = ("Authorization", "Content-Type", "Idempotency-Key", "X-Request-Id", "*")
"""The star means all others, but no browser takes it for `Authorization`."""

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
    """Lets pages of any site call the API, with a token of their own.

    No cookie opens the API, so a page of another site gains nothing by its visitor's browser. Nothing else is open:
    our pages go by cookie, and what `/oauth/token` hands out belongs on a server.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_preflight(scope):
            await Response(status_code=204, headers=PREFLIGHT_HEADERS)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def is_api_path(path: str) -> bool:
    return path == PREFIX or path.startswith(PREFIX + "/")


def add_cors_headers(headers: MutableHeaders) -> None:
    """Refusals have them too: a page that may not read one cannot tell its user why."""
    headers.update(RESPONSE_HEADERS)


def is_preflight(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "OPTIONS" or not is_api_path(scope["path"]):
        return False
    headers = Headers(scope=scope)
    return "origin" in headers and "access-control-request-method" in headers
