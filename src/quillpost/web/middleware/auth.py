"""Authentication, rate limits and body limits of /api/v2. A token or session that was valid before counts as its
account, everybody else as their network address. That decides only who waits behind whom: tokens are checked with
every call."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from cachetools import LRUCache
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts import service as account_service
from quillpost.accounts.models import RateLimitStatus, get_network
from quillpost.accounts.rate_limits.service import count_anonymous_call
from quillpost.app.container import Container
from quillpost.core.errors import QuillpostError, Throttled, Unauthenticated
from quillpost.core.tokens import hash_token
from quillpost.web.api.arrival import MAX_LARGE_BODIES, BodyReadThrottle, LargeBodyBudget, ReportSize, read_whole_body
from quillpost.web.api.errors import RequestAborted, UnreadableBody, error_response
from quillpost.web.api.imports.files import UploadReceiver, is_upload
from quillpost.web.middleware.admission import RequestAdmission
from quillpost.web.middleware.methods import RefusalHandler, is_api_path, refuse_with_json
from quillpost.web.middleware.requests import SecretInUrl

MAX_IDENTITIES: Final = 20_000


class IdentityCache:
    def __init__(self, cookie_name: str) -> None:
        self._cookie_names = (cookie_name, f"__Host-{cookie_name}")
        self._accounts: LRUCache[bytes, int] = LRUCache(MAX_IDENTITIES)

    def caller_key(self, scope: Scope) -> Hashable:
        credential = self._credential_digest(scope)
        account = None if credential is None else self._accounts.get(credential)
        if account is None:
            return "address", get_network(get_client_address(scope))
        return account_key(account)

    def remember(self, scope: Scope, account: int | None) -> None:
        """None: the credential is not valid, or not any more."""
        if (credential := self._credential_digest(scope)) is None:
            return
        if account is None:
            self._accounts.pop(credential, None)
        else:
            self._accounts[credential] = account

    def _credential_digest(self, scope: Scope) -> bytes | None:
        """A digest, as it stays in memory for long."""
        headers = Headers(scope=scope)
        if (token := get_bearer_token(headers)) is not None:
            return hash_token(token)
        cookies = cookie_parser(headers.get("cookie", ""))
        cookie = next(filter(None, map(cookies.get, self._cookie_names)), None)
        return None if cookie is None else hash_token(cookie)


def account_key(account: int) -> Hashable:
    """All tokens, sub accounts and people of an account are one caller."""
    return "account", account


def is_account_key(caller_key: Hashable) -> bool:
    return isinstance(caller_key, tuple) and caller_key[0] == "account"


def get_client_address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else "unknown"


def get_bearer_token(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


class AuthMiddleware:
    """Gives the API a request's whole body, and its caller in `scope["state"]["caller"]`, or answers it. Each request
    has its `admission` already."""

    def __init__(
        self,
        app: ASGIApp,
        container: Container,
        identities: IdentityCache,
        *,
        refuse: RefusalHandler = refuse_with_json,
    ) -> None:
        """`refuse` answers a page's request."""
        self._app = app
        self._container = container
        self._refuse = refuse
        self._identities = identities
        limits = container.limits
        self._body_budget = LargeBodyBudget(MAX_LARGE_BODIES * limits.body_bytes)
        self._read_throttle = BodyReadThrottle()
        self._upload_receiver = UploadReceiver(max_bytes=limits.import_bytes, bounds=limits.bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            serve = self._serve_api if is_api_path(scope["path"]) else self._serve_page
            await serve(scope, receive, send)
        except RequestAborted:  # the client has disconnected
            return

    async def _serve_api(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._body_budget.reserve() as report_size, close_upload_after(scope):
            try:
                body = await self._read_admitted_body(scope, receive, report_size)
            except (QuillpostError, UnreadableBody) as refusal:
                await error_response(refusal)(scope, receive, send)
                return
            await self._app(scope, _replay_body(body, receive), send)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.setdefault("state", {})
        if (refusal := state.get("refusal")) is not None:
            response = await self._refuse(Request(scope, receive), refusal)
            await response(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            if "account_id" in state:
                self._identities.remember(scope, state["account_id"])

    async def _read_admitted_body(self, scope: Scope, receive: Receive, report_size: ReportSize) -> bytes:
        allowance = await self._authenticate(scope)
        account = scope["state"]["caller"].account_id
        self._identities.remember(scope, account)
        admission: RequestAdmission = scope["state"]["admission"]
        await admission.change_caller(account_key(account))
        if allowance.is_exceeded:
            raise Throttled(retry_after=allowance.resets_in)
        if scope["state"].get("has_leaked_secret"):
            raise SecretInUrl
        # A body that trickles in keeps nobody waiting but its sender.
        if is_upload(scope):
            scope["state"]["upload"] = await self._upload_receiver.receive_upload(scope, receive)
            return b""
        max_bytes = self._container.limits.body_bytes
        return await read_whole_body(
            scope, receive, max_bytes=max_bytes, report_size=report_size, throttle=self._read_throttle
        )

    async def _authenticate(self, scope: Scope) -> RateLimitStatus:
        state = scope.setdefault("state", {})
        limit = self._container.limits.calls_a_minute
        try:
            if (token := get_bearer_token(Headers(scope=scope))) is None:
                raise Unauthenticated
            caller, allowance = await run_in_threadpool(
                account_service.authenticate, self._container.db, token, limit=limit, now=self._container.clock()
            )
        except Unauthenticated:
            self._identities.remember(scope, None)
            allowance = await run_in_threadpool(
                count_anonymous_call, self._container.db, get_client_address(scope), limit=limit
            )
            state["allowance"] = allowance
            if allowance.is_exceeded:
                raise Throttled(retry_after=allowance.resets_in) from None
            if state.get("has_leaked_secret"):
                raise SecretInUrl from None
            raise
        state["caller"], state["allowance"] = caller, allowance
        return allowance


@contextmanager
def close_upload_after(scope: Scope) -> Iterator[None]:
    try:
        yield
    finally:
        upload = scope.get("state", {}).get("upload")
        if upload is not None:
            upload.close()


def _replay_body(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
