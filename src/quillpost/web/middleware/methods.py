"""What HEAD and OPTIONS mean at every path alike.

HEAD is GET without the body. A route whose GET does more than read, or whose body is costly to make,
declares a HEAD of its own (`@router.head(path, include_in_schema=False)`), and then that one answers.
"""

from collections.abc import Awaitable, Callable, Sequence

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.web.api.errors import RoutePaths, error_response

RefusalHandler = Callable[[Request, Exception], Awaitable[Response]]


async def refuse_with_json(_request: Request, error: Exception) -> Response:
    return error_response(error)


class MethodMiddleware:
    """Answers OPTIONS, has GET answer HEAD, and takes a path with a trailing slash for the path."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], refuse: RefusalHandler = refuse_with_json) -> None:
        """`refuse` answers where a path is there for other methods alone."""
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
        # The server looks at its own scope to tell that no body is to follow: GET is for the inside alone.
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
    """Stops whoever would go on to produce a body that nobody reads."""


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] != "http.response.body":
            await send(message)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        if message.get("more_body"):
            raise _HeadersSent

    return send_head
