"""Requests wait for their turn here, before any other work; those that wait too long get a 503.

Under overload this is all that most requests see, so an API refusal is prepared once and costs little more
than the server's own reading and writing: time spent on refusals is taken from the requests we serve.
"""

import asyncio
import time
from typing import Final

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from quillpost.core.errors import Overloaded, Unavailable
from quillpost.core.metrics import REQUEST_SECONDS, REQUESTS
from quillpost.core.shutdown import STOPPING
from quillpost.web.api.errors import HUNG_UP, HungUp, method_label, response_for
from quillpost.web.middleware.admission import Admission, Passage
from quillpost.web.middleware.auth import Identities, is_account
from quillpost.web.middleware.cors import is_open, is_preflight, open_to_all
from quillpost.web.middleware.requests import ALWAYS_SECURE, request_id_of, write_headers

log = structlog.get_logger(__name__)

FREE: Final = frozenset({"/health"})
"""Health checks are answered however busy we are."""

PATIENCE_OF_PEOPLE: Final = 10
"""People wait this many times as long as programs, which retry by themselves: after a click, a slow page is
better than a refusal."""

SHED_SECONDS: Final = 1.0
UNMATCHED: Final = "unmatched"


class LoadShedder:
    """Sets `scope["state"]["passage"]`, and for a page that waited too long the `refusal` to answer with."""

    def __init__(self, app: ASGIApp, admission: Admission, identities: Identities) -> None:
        self._app = app
        self._admission = admission
        self._identities = identities
        self._shed = _Shed()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE or is_preflight(scope):
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        state = scope.setdefault("state", {})
        passage = self._passage(scope, receive)
        try:
            await passage.enter()
        except Unavailable as refusal:
            if isinstance(refusal, Overloaded):
                self._shed.note()
                state["shed"] = True
            if is_open(scope["path"]):
                status = await _refuse(scope, send, refusal)
                _count(scope["method"], status, time.perf_counter() - started)
                return
            state["refusal"] = refusal
        except HungUp:
            _count(scope["method"], HUNG_UP, time.perf_counter() - started)
            return
        state["passage"] = passage
        try:
            await self._app(scope, passage.receive, passage.sending(send))
        finally:
            passage.leave()
            # They refer to the server's request, which refers to this state: break the cycle.
            del state["passage"]
            state.pop("refusal", None)

    def _passage(self, scope: Scope, receive: Receive) -> Passage:
        whose = self._identities.whose(scope)
        is_person = not is_open(scope["path"]) and is_account(whose)
        patience = PATIENCE_OF_PEOPLE if is_person else 1
        return Passage(self._admission, whose, receive, patience=patience)


class _Shed:
    """Counts refused requests and logs one line a second, not one for each."""

    def __init__(self) -> None:
        self._count = 0

    def note(self) -> None:
        self._count += 1
        if self._count == 1:
            asyncio.get_running_loop().call_later(SHED_SECONDS, self._tell)

    def _tell(self) -> None:
        log.warning("requests.shed", count=self._count)
        self._count = 0


class _Prepared:
    """A response that differs only in its request id."""

    def __init__(self, refusal: Unavailable) -> None:
        answer = response_for(refusal)
        write_headers(answer.headers)
        open_to_all(answer.headers)
        self.status, self.headers = answer.status_code, answer.raw_headers
        self.body = {"type": "http.response.body", "body": answer.body}


_TOO_MANY = _Prepared(Overloaded())
_STOPPING = _Prepared(Unavailable(STOPPING))


async def _refuse(scope: Scope, send: Send, refusal: Unavailable) -> int:
    prepared = _TOO_MANY if isinstance(refusal, Overloaded) else _STOPPING
    headers = [*prepared.headers, (b"x-request-id", request_id_of(scope).encode())]
    if scope["scheme"] == "https":
        headers.append((b"strict-transport-security", ALWAYS_SECURE.encode()))
    await send({"type": "http.response.start", "status": prepared.status, "headers": headers})
    await send(prepared.body)
    return prepared.status


def _count(method: str, status: int, seconds: float) -> None:
    label = method_label(method)
    REQUESTS.labels(label, UNMATCHED, str(status)).inc()
    REQUEST_SECONDS.labels(label, UNMATCHED).observe(seconds)
