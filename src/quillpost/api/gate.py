"""The gate before /api/v2: nobody comes in without a token, too often, or with too much."""

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts import service as accounts
from quillpost.accounts.rules import Allowance
from quillpost.api.bodies import whole_number
from quillpost.api.errors import WrongBody, response_for
from quillpost.kit.errors import QuillpostError, Throttled, Unauthenticated
from quillpost.parts import Parts

PREFIX = "/api/v2"


class Gate:
    """Admits a request with its caller in `scope["state"]["who"]`, or answers it."""

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_guarded(scope["path"]):
            await self._app(scope, receive, send)
            return
        scope["path"] = scope["path"].rstrip("/")
        try:
            allowance = await self._admit(scope)
            if allowance.is_spent:
                raise Throttled(retry_after=allowance.resets_in)
            self._check_length(scope)
        except (QuillpostError, WrongBody) as refusal:
            await response_for(refusal)(scope, receive, send)
            return
        await self._app(scope, self._measured(receive), send)

    async def _admit(self, scope: Scope) -> Allowance:
        state = scope.setdefault("state", {})
        limit = self._parts.limits.calls_a_minute
        try:
            token = _bearer(Headers(scope=scope))
            who, allowance = await run_in_threadpool(
                accounts.authenticate, self._parts.db, token, limit=limit
            )
        except Unauthenticated:
            address = scope["client"][0] if scope.get("client") else "unknown"
            allowance = await run_in_threadpool(accounts.count_stranger, self._parts.db, address, limit=limit)
            state["allowance"] = allowance
            if allowance.is_spent:
                raise Throttled(retry_after=allowance.resets_in) from None
            raise
        state["who"], state["allowance"] = who, allowance
        return allowance

    def _check_length(self, scope: Scope) -> None:
        declared = whole_number(Headers(scope=scope).get("content-length", "0"))
        if declared is not None and declared > self._parts.limits.body_bytes:
            raise WrongBody(413)

    def _measured(self, receive: Receive) -> Receive:
        """A body without a length, or with a false one, is cut off at the limit."""
        seen = 0

        async def measured() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._parts.limits.body_bytes:
                raise WrongBody(413)
            return message

        return measured


def _is_guarded(path: str) -> bool:
    return path == PREFIX or path.startswith(PREFIX + "/")


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated
    return token.strip()
