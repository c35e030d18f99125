"""Requests wait for their turn here, before anything is done for them; who waits too long is sent away.

When too many call, this is all that most of them see. So a call's refusal is made beforehand and costs little
more than the server's own reading and writing: whatever the event loop does for those it sends away, it does
not do for those it serves.
"""

import asyncio
import time
from typing import Final

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from quillpost.api.admission import Admission
from quillpost.api.allowed import method_label
from quillpost.api.arrival import HungUp
from quillpost.api.cors import is_open, is_preflight, open_to_all
from quillpost.api.envelope import ALWAYS_SECURE, request_id_of, write_headers
from quillpost.api.errors import response_for
from quillpost.api.identities import Identities, is_account
from quillpost.api.passage import Passage
from quillpost.kit.errors import Overloaded, Unavailable
from quillpost.kit.metrics import REQUEST_SECONDS, REQUESTS
from quillpost.kit.shutdown import STOPPING

log = structlog.get_logger(__name__)

FREE: Final = frozenset({"/health"})
"""Answered however busy we are: whoever looks after us asks here."""

PATIENCE_OF_PEOPLE: Final = 10
"""Times as long as programs, which try again by themselves: to somebody who has clicked, a slow page is
better than one that says no."""

SHED_SECONDS: Final = 1.0
UNMATCHED: Final = "unmatched"


class LoadShedder:
    """In `scope["state"]` a request finds its `passage`, and, where it is a page's that comes too late, the
    `refusal` with which it is to be answered."""

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
                await _refuse(scope, send, refusal)
                _count(scope["method"], time.perf_counter() - started)
                return
            state["refusal"] = refusal
        except HungUp:  # nobody is there to be told
            return
        state["passage"] = passage
        try:
            await self._app(scope, passage.receive, passage.sending(send))
        finally:
            passage.leave()
            # Both know the server's request, which knows this state.
            del state["passage"]
            state.pop("refusal", None)

    def _passage(self, scope: Scope, receive: Receive) -> Passage:
        whose = self._identities.whose(scope)
        is_person = not is_open(scope["path"]) and is_account(whose)
        patience = PATIENCE_OF_PEOPLE if is_person else 1
        return Passage(self._admission, whose, receive, patience=patience)


class _Shed:
    """Those sent away because too many came: a line a second tells how many, not a line each."""

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
    """An answer that is the same for all but for its request id."""

    def __init__(self, refusal: Unavailable) -> None:
        answer = response_for(refusal)
        write_headers(answer.headers)
        open_to_all(answer.headers)
        self.status, self.headers = answer.status_code, answer.raw_headers
        self.body = {"type": "http.response.body", "body": answer.body}


_TOO_MANY = _Prepared(Overloaded())
_STOPPING = _Prepared(Unavailable(STOPPING))


async def _refuse(scope: Scope, send: Send, refusal: Unavailable) -> None:
    prepared = _TOO_MANY if isinstance(refusal, Overloaded) else _STOPPING
    headers = [*prepared.headers, (b"x-request-id", request_id_of(scope).encode())]
    if scope["scheme"] == "https":
        headers.append((b"strict-transport-security", ALWAYS_SECURE.encode()))
    await send({"type": "http.response.start", "status": prepared.status, "headers": headers})
    await send(prepared.body)


def _count(method: str, seconds: float) -> None:
    label = method_label(method)
    REQUESTS.labels(label, UNMATCHED, "503").inc()
    REQUEST_SECONDS.labels(label, UNMATCHED).observe(seconds)
