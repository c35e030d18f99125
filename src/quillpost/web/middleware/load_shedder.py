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
from quillpost.core.requests import STOPPING_MESSAGE
from quillpost.core.telemetry import REQUEST_SECONDS, REQUESTS
from quillpost.web.api.errors import CLIENT_CLOSED_REQUEST, RequestAborted, error_response, method_label
from quillpost.web.middleware.admission import Admission, RequestAdmission
from quillpost.web.middleware.auth import IdentityCache, is_account_key
from quillpost.web.middleware.methods import add_cors_headers, is_api_path, is_preflight
from quillpost.web.middleware.requests import HSTS_VALUE, add_common_headers, get_request_id

log = structlog.get_logger(__name__)

EXEMPT_PATHS: Final = frozenset({"/health"})  # answered however busy we are

PERSON_WAIT_FACTOR: Final = 10
"""Programs retry by themselves; for people, a slow page is better than a refusal."""

LOG_INTERVAL_SECONDS: Final = 1.0
UNMATCHED: Final = "unmatched"


class LoadSheddingMiddleware:
    """Sets `scope["state"]["admission"]`, and for a page that waited too long the `refusal` to answer with."""

    def __init__(self, app: ASGIApp, admission: Admission, identities: IdentityCache) -> None:
        self._app = app
        self._admission = admission
        self._identities = identities
        self._shed_counter = _ShedCounter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in EXEMPT_PATHS or is_preflight(scope):
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        state = scope.setdefault("state", {})
        admission = self._create_admission(scope, receive)
        try:
            await admission.enter()
        except Unavailable as refusal:
            if isinstance(refusal, Overloaded):
                self._shed_counter.count()
                state["is_shed"] = True
            if is_api_path(scope["path"]):
                status = await _send_refusal(scope, send, refusal)
                _count_request(scope["method"], status, time.perf_counter() - started)
                return
            state["refusal"] = refusal
        except RequestAborted:
            _count_request(scope["method"], CLIENT_CLOSED_REQUEST, time.perf_counter() - started)
            return
        state["admission"] = admission
        try:
            await self._app(scope, admission.receive, admission.wrap_send(send))
        finally:
            admission.leave()
            # They refer to the server's request, which refers to this state: break the cycle.
            del state["admission"]
            state.pop("refusal", None)

    def _create_admission(self, scope: Scope, receive: Receive) -> RequestAdmission:
        caller_key = self._identities.caller_key(scope)
        is_person = not is_api_path(scope["path"]) and is_account_key(caller_key)
        wait_factor = PERSON_WAIT_FACTOR if is_person else 1
        return RequestAdmission(self._admission, caller_key, receive, wait_factor=wait_factor)


class _ShedCounter:
    """Counts refused requests and logs one line a second, not one for each."""

    def __init__(self) -> None:
        self._count = 0

    def count(self) -> None:
        self._count += 1
        if self._count == 1:
            asyncio.get_running_loop().call_later(LOG_INTERVAL_SECONDS, self._log_count)

    def _log_count(self) -> None:
        log.warning("requests.shed", count=self._count)
        self._count = 0


class _PreparedResponse:
    """A response that differs only in its request id."""

    def __init__(self, refusal: Unavailable) -> None:
        response = error_response(refusal)
        add_common_headers(response.headers)
        add_cors_headers(response.headers)
        self.status, self.headers = response.status_code, response.raw_headers
        self.body = {"type": "http.response.body", "body": response.body}


_OVERLOADED_RESPONSE = _PreparedResponse(Overloaded())
_STOPPING_RESPONSE = _PreparedResponse(Unavailable(STOPPING_MESSAGE))


async def _send_refusal(scope: Scope, send: Send, refusal: Unavailable) -> int:
    prepared = _OVERLOADED_RESPONSE if isinstance(refusal, Overloaded) else _STOPPING_RESPONSE
    headers = [*prepared.headers, (b"x-request-id", get_request_id(scope).encode())]
    if scope["scheme"] == "https":
        headers.append((b"strict-transport-security", HSTS_VALUE.encode()))
    await send({"type": "http.response.start", "status": prepared.status, "headers": headers})
    await send(prepared.body)
    return prepared.status


def _count_request(method: str, status: int, seconds: float) -> None:
    label = method_label(method)
    REQUESTS.labels(label, UNMATCHED, str(status)).inc()
    REQUEST_SECONDS.labels(label, UNMATCHED).observe(seconds)
