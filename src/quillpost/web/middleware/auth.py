"""No request comes into /api/v2 without a token, too often, or with too much.

A token or a session that was good before stands for the account that it was good for; everybody else for
their network address, made-up tokens among them. That decides who waits behind whom, and nothing else:
whether a token is good is looked up with every call.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts import service as accounts
from quillpost.accounts.models import Allowance, network_of
from quillpost.app.container import Parts
from quillpost.core.errors import QuillpostError, Throttled, Unauthenticated
from quillpost.core.tokens import digest
from quillpost.web.api.arrival import MOST, Grow, Held, Pace, whole_body
from quillpost.web.api.errors import HungUp, WrongBody, response_for
from quillpost.web.api.uploads import Landing, takes_file
from quillpost.web.middleware.admission import Passage
from quillpost.web.middleware.cors import is_open
from quillpost.web.middleware.path_secrets import InAddress

MOST_IDENTITIES: Final = 20_000
"""Tokens and sessions that are remembered; who was not seen for longest is forgotten."""


class Identities:
    def __init__(self, cookie: str) -> None:
        self._cookies = (cookie, f"__Host-{cookie}")
        self._accounts: OrderedDict[bytes, int] = OrderedDict()

    def whose(self, scope: Scope) -> Hashable:
        secret = self._secret(scope)
        account = None if secret is None else self._accounts.get(secret)
        if account is None:
            return "address", network_of(address_of(scope))
        return account_line(account)

    def learn(self, scope: Scope, account: int | None) -> None:
        """What came with the request is good for this account; None: for none, or for none any longer."""
        if (secret := self._secret(scope)) is None:
            return
        if account is None:
            self._accounts.pop(secret, None)
            return
        self._accounts[secret] = account
        self._accounts.move_to_end(secret)
        if len(self._accounts) > MOST_IDENTITIES:
            self._accounts.popitem(last=False)

    def _secret(self, scope: Scope) -> bytes | None:
        """A digest of what the caller shows: it is in memory for long."""
        headers = Headers(scope=scope)
        if (token := bearer(headers)) is not None:
            return digest(token)
        cookies = cookie_parser(headers.get("cookie", ""))
        shown = next(filter(None, map(cookies.get, self._cookies)), None)
        return None if shown is None else digest(shown)


def account_line(account: int) -> Hashable:
    """All tokens, sub accounts and people of an account are one caller."""
    return "account", account


def is_account(whose: Hashable) -> bool:
    """Not just somebody's network address."""
    return isinstance(whose, tuple) and whose[0] == "account"


def address_of(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else "unknown"


def bearer(headers: Headers) -> str | None:
    """The token of a call, whatever it may be."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


Refuse = Callable[[Request, Exception], Awaitable[Response]]


async def refuse_plainly(_request: Request, failure: Exception) -> Response:
    return response_for(failure)


class Gate:
    """Brings to the API a request's whole body, and its caller in `scope["state"]["who"]`, or answers it.
    Whose turn it is was settled before: each request has its `passage`."""

    def __init__(
        self, app: ASGIApp, parts: Parts, identities: Identities, *, refuse: Refuse = refuse_plainly
    ) -> None:
        """`refuse` answers who may be a person."""
        self._app = app
        self._parts = parts
        self._refuse = refuse
        self._identities = identities
        limits = parts.limits
        self._held = Held(MOST * limits.body_bytes)
        self._pace = Pace()
        self._landing = Landing(largest=limits.import_bytes, bounds=limits.bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            enter = self._call if is_open(scope["path"]) else self._visit
            await enter(scope, receive, send)
        except HungUp:  # nobody is there to be told
            return

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Of the API."""
        with self._held.share() as grow, closing_upload(scope):
            try:
                body = await self._let_in(scope, receive, grow)
            except (QuillpostError, WrongBody) as refusal:
                await response_for(refusal)(scope, receive, send)
                return
            await self._app(scope, _replayed(body, receive), send)

    async def _visit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Of anything else."""
        state = scope.setdefault("state", {})
        if (refusal := state.get("refusal")) is not None:
            answer = await self._refuse(Request(scope, receive), refusal)
            await answer(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            if "account_id" in state:
                self._identities.learn(scope, state["account_id"])

    async def _let_in(self, scope: Scope, receive: Receive, grow: Grow) -> bytes:
        allowance = await self._admit(scope)
        account = scope["state"]["who"].account_id
        self._identities.learn(scope, account)
        passage: Passage = scope["state"]["passage"]
        await passage.become(account_line(account))
        if allowance.is_spent:
            raise Throttled(retry_after=allowance.resets_in)
        if scope["state"].get("leaked"):
            raise InAddress
        # A body that trickles in keeps nobody waiting but its sender.
        if takes_file(scope):
            scope["state"]["upload"] = await self._landing.whole(scope, receive)
            return b""
        largest = self._parts.limits.body_bytes
        return await whole_body(scope, receive, largest=largest, grow=grow, pace=self._pace)

    async def _admit(self, scope: Scope) -> Allowance:
        state = scope.setdefault("state", {})
        limit = self._parts.limits.calls_a_minute
        try:
            if (token := bearer(Headers(scope=scope))) is None:
                raise Unauthenticated
            who, allowance = await run_in_threadpool(
                accounts.authenticate, self._parts.db, token, limit=limit, now=self._parts.clock()
            )
        except Unauthenticated:
            self._identities.learn(scope, None)
            allowance = await run_in_threadpool(
                accounts.count_stranger, self._parts.db, address_of(scope), limit=limit
            )
            state["allowance"] = allowance
            if allowance.is_spent:
                raise Throttled(retry_after=allowance.resets_in) from None
            if state.get("leaked"):
                raise InAddress from None
            raise
        state["who"], state["allowance"] = who, allowance
        return allowance


@contextmanager
def closing_upload(scope: Scope) -> Iterator[None]:
    """A file that came with the request is gone when the request is done with."""
    try:
        yield
    finally:
        upload = scope.get("state", {}).get("upload")
        if upload is not None:
            upload.close()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, and after it whatever else the caller does."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
