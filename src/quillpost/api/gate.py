"""The gate before everything: requests take turns, and nobody comes into /api/v2 without a token, too often,
or with too much."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts import service as accounts
from quillpost.accounts.rules import Allowance
from quillpost.api.admission import Admission
from quillpost.api.arrival import MOST, Grow, Held, HungUp, Pace, whole_body
from quillpost.api.errors import WrongBody, response_for
from quillpost.api.identities import Identities, account_line, address_of, bearer, is_account
from quillpost.api.leaks import InAddress
from quillpost.api.passage import Passage
from quillpost.api.processor_load import ProcessorLoad
from quillpost.api.route import PREFIX
from quillpost.api.uploads import Landing, takes_file
from quillpost.kit.errors import Overloaded, QuillpostError, Throttled, Unauthenticated, Unavailable
from quillpost.parts import Parts

Refuse = Callable[[Request, Exception], Awaitable[Response]]

PATIENCE_OF_PEOPLE = 10
"""Times as long as programs, which try again by themselves: to somebody who has clicked, a slow page is
better than one that says no."""

OVERLOADED = response_for(Overloaded())
"""Made once: it is told hundreds of times a second, when there is no time."""

FREE = frozenset({"/health"})
"""Answered however busy we are: whoever looks after us asks here."""


async def refuse_plainly(_request: Request, failure: Exception) -> Response:
    return response_for(failure)


class Gate:
    """Lets a request in when its turn has come, or answers it. To the API it brings its whole body, and its
    caller in `scope["state"]["who"]`."""

    def __init__(
        self,
        app: ASGIApp,
        parts: Parts,
        admission: Admission | None = None,
        *,
        cookie: str = "",
        refuse: Refuse = refuse_plainly,
    ) -> None:
        """`cookie` is the name of the one that sessions have; `refuse` answers who may be a person."""
        self._app = app
        self._parts = parts
        self._refuse = refuse
        self._identities = Identities(cookie)
        limits = parts.limits
        self._admission = admission or Admission(
            share=limits.calls_at_once, patience=limits.wait_seconds, load=ProcessorLoad()
        )
        self._held = Held(MOST * limits.body_bytes)
        self._pace = Pace()
        self._landing = Landing(largest=limits.import_bytes, bounds=limits.bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE:
            await self._app(scope, receive, send)
            return
        whose, is_call = self._identities.whose(scope), _is_guarded(scope["path"])
        is_signed_in = not is_call and is_account(whose)
        patience = PATIENCE_OF_PEOPLE if is_signed_in else 1
        passage = Passage(self._admission, whose, receive, patience=patience)
        try:
            if is_call:
                await self._call(scope, passage, send)
            else:
                await self._visit(scope, passage, send)
        except HungUp:  # nobody is there to be told
            return
        finally:
            passage.leave()

    async def _call(self, scope: Scope, passage: Passage, send: Send) -> None:
        """Of the API."""
        with self._held.share() as grow, closing_upload(scope):
            try:
                body = await self._let_in(scope, passage, grow)
            except (QuillpostError, WrongBody) as refusal:
                passage.leave()
                scope["state"]["shed"] = is_shed = isinstance(refusal, Overloaded)
                answer = OVERLOADED if is_shed else response_for(refusal)
                await answer(scope, passage.receive, send)
                return
            await self._app(scope, _replayed(body, passage.receive), passage.sending(send))

    async def _visit(self, scope: Scope, passage: Passage, send: Send) -> None:
        """Of anything else."""
        try:
            await passage.enter()
        except Unavailable as refusal:
            scope["state"]["shed"] = isinstance(refusal, Overloaded)
            answer = await self._refuse(Request(scope, passage.receive), refusal)
            await answer(scope, passage.receive, send)
            return
        try:
            await self._app(scope, passage.receive, passage.sending(send))
        finally:
            if "account_id" in (state := scope.get("state", {})):
                self._identities.learn(scope, state["account_id"])

    async def _let_in(self, scope: Scope, passage: Passage, grow: Grow) -> bytes:
        await passage.enter()
        allowance = await self._admit(scope)
        account = scope["state"]["who"].account_id
        self._identities.learn(scope, account)
        await passage.become(account_line(account))
        if allowance.is_spent:
            raise Throttled(retry_after=allowance.resets_in)
        if scope["state"].get("leaked"):
            raise InAddress
        # A body that trickles in keeps nobody waiting but its sender.
        if takes_file(scope):
            scope["state"]["upload"] = await self._landing.whole(scope, passage.receive)
            return b""
        largest = self._parts.limits.body_bytes
        return await whole_body(scope, passage.receive, largest=largest, grow=grow, pace=self._pace)

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


def _is_guarded(path: str) -> bool:
    return path == PREFIX or path.startswith(PREFIX + "/")
