"""Fetches what callers name by URL, posts webhooks, and requests to services that the operator has chosen."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from quillpost.core.errors import NotReady
from quillpost.core.ports import FetchedDocument, FetchFailed
from quillpost.integrations.http.guard import AddressRefused, OutboundGuard
from quillpost.notifications.ports import PostResult

# Every way that a request can fail because of the other side.
REQUEST_FAILURES = (aiohttp.ClientError, TimeoutError, ValueError, OSError)


def describe_failure(failure: Exception, url: str, *, seconds: float) -> str:
    """Names the server and what happened, never a resolved address."""
    host = _get_host(url)
    if reason := describe_connection_failure(failure, host, seconds=seconds):
        return reason
    match failure:
        case aiohttp.ClientPayloadError():
            return f"{host} broke off in the middle of its answer."
        case aiohttp.ServerDisconnectedError() | OSError():
            return f"{host} closed the connection without an answer."
        case aiohttp.ClientResponseError():
            return f"{host} gave an answer that is not HTTP."
        case _:
            return f"{host} could not be asked: the request is not valid."


def describe_connection_failure(failure: Exception, host: str, *, seconds: float) -> str | None:
    """What went wrong before any response, of HTTP or SMTP; None for all else."""
    match failure:
        case aiohttp.ClientConnectorError(os_error=AddressRefused()):
            return f"{host} is not a public address."
        case aiohttp.ClientConnectorDNSError() | socket.gaierror():
            return f"The server {host} could not be found."
        case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
            return f"The certificate of {host} could not be verified."
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return f"No secure connection to {host} could be made."
        case TimeoutError():
            return f"{host} did not answer within {seconds:g} seconds."
        case aiohttp.ClientConnectorError() | ConnectionRefusedError():
            return f"{host} could not be reached."
    return None


def _get_host(url: str) -> str:
    try:
        return URL(url).host or "The server"
    except ValueError:
        return "The server"


CHUNK_BYTES = 64 * 1024


def parse_service_url(
    url: str,
    setting: str,
    *,
    hint: str,
    expected: str = "must be an address such as https://host/path.",
    unreadable: str = "is not an address that we can read.",
) -> SplitResult:
    """The URL of a service that a setting names, or `NotReady` with a sentence that names the setting."""
    try:
        parsed = urlsplit(url)
        is_plain = bool(parsed.hostname) and parsed.port != 0 and not (parsed.query or parsed.fragment)
    except ValueError:
        raise NotReady(f"{setting} {unreadable}") from None
    if parsed.scheme not in ("http", "https") or not is_plain or " " in url or not url.isprintable():
        raise NotReady(f"{setting} {expected}")
    if parsed.username is not None or parsed.password is not None:
        raise NotReady(f"{setting} must not hold a user or a password: {hint}")
    return parsed


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    host: str
    status: int
    body: bytes


class ServiceClient:
    """For worker threads: each request runs a short event loop in the calling thread. Failures are raised as `error`.
    The URL is the operator's own setting: it may be on a private network."""

    def __init__(
        self, base_url: str, *, error: type[Exception], seconds: float = 30.0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._error, self._seconds, self._tls = error, seconds, tls
        self._guard = OutboundGuard(allow_private=True)

    def open_session(self) -> aiohttp.ClientSession:
        return self._guard.session(seconds=self._seconds, tls=self._tls)

    def post(self, path: str, *, headers: Mapping[str, str], body: bytes, max_bytes: int) -> ServiceResponse:
        url = f"{self.base_url}/{path}"
        try:
            return asyncio.run(self._post(url, headers, body, max_bytes))
        except REQUEST_FAILURES as failure:
            raise self._error(describe_failure(failure, url, seconds=self._seconds)) from failure

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes, max_bytes: int) -> ServiceResponse:
        async with (
            self.open_session() as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            return ServiceResponse(response.url.host or url, response.status, await read_bounded(response, max_bytes))


async def read_bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """At most one byte more than allowed."""
    body = bytearray()
    while len(body) <= max_bytes and (chunk := await response.content.read(max_bytes + 1 - len(body))):
        body += chunk
    return bytes(body)


class GuardedClient:
    def __init__(
        self,
        guard: OutboundGuard,
        *,
        seconds: float = 20.0,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard, self._seconds, self._resolver, self._tls = guard, seconds, resolver, tls

    def open_session(self) -> aiohttp.ClientSession:
        return self._guard.session(seconds=self._seconds, resolver=self._resolver, tls=self._tls)


class GuardedFetcher(GuardedClient):
    """For worker threads: each fetch runs a short event loop in the calling thread."""

    def fetch(self, url: str, *, max_bytes: int) -> FetchedDocument:
        error = self._guard.check_url(url)
        if error is not None:
            raise FetchFailed(error)
        try:
            return asyncio.run(self._fetch(url, max_bytes))
        except REQUEST_FAILURES as failure:
            raise FetchFailed(describe_failure(failure, url, seconds=self._seconds)) from failure

    async def _fetch(self, url: str, max_bytes: int) -> FetchedDocument:
        async with self.open_session() as session, session.get(url, allow_redirects=False) as response:
            _check_status(response)
            return FetchedDocument(response.content_type, await _read_body(response, max_bytes))


def _check_status(response: aiohttp.ClientResponse) -> None:
    host, status = response.url.host, response.status
    if status == HTTPStatus.OK:
        return
    if 300 <= status < 400:
        raise FetchFailed(f"{host} redirects to another address: please give the final one.")
    raise FetchFailed(f"{host} answered with status {status}.")


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """After decoding: a small response that unpacks to a large one is too large as well."""
    size = f"{max_bytes / 1_000_000:g} MB" if max_bytes >= 1_000_000 else f"{max_bytes:,} bytes"
    too_large = FetchFailed(f"The file is larger than {size}.")
    if (response.content_length or 0) > max_bytes:
        raise too_large
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            raise too_large
    return bytes(body)


MAX_BODY_CHARACTERS = 2_000
MAX_BODY_BYTES = 4 * MAX_BODY_CHARACTERS  # no UTF-8 character is longer
MAX_RETRY_SECONDS = 24 * 60 * 60


class WebhookPoster(GuardedClient):
    """For the event loop: one session, opened with the first delivery, shared by all."""

    def __init__(self, guard: OutboundGuard, *, seconds: float = 15.0, **options: Any) -> None:
        super().__init__(guard, seconds=seconds, **options)
        self._session: aiohttp.ClientSession | None = None
        # A URL gets thousands of events; its address is checked at each connection.
        self._check_destination = lru_cache(maxsize=1_000)(guard.check_destination)

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        """Any response or failure is a result, never an exception."""
        error = self._check_destination(url) if method == "POST" else self._guard.check_destination(url)
        if error is not None:
            return PostResult(status=None, error=error)
        if self._session is None:
            self._session = self.open_session()
        try:
            async with self._session.request(
                method, url, headers=headers, data=body or None, allow_redirects=False
            ) as response:
                return PostResult(
                    status=response.status,
                    body=await _read_body_start(response),
                    retry_after=_read_retry_after(response.headers),
                )
        except REQUEST_FAILURES as failure:
            return PostResult(status=None, error=describe_failure(failure, url, seconds=self._seconds))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def _read_body_start(response: aiohttp.ClientResponse) -> str:
    """As much as the delivery log shows; a body that fails is cut."""
    body = bytearray()
    try:
        while len(body) < MAX_BODY_BYTES and (chunk := await response.content.read(MAX_BODY_BYTES)):
            body += chunk
    except REQUEST_FAILURES:
        response.close()
    # PostgreSQL stores every character but this one.
    return body.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")[:MAX_BODY_CHARACTERS]


def _read_retry_after(headers: Mapping[str, str]) -> int | None:
    """In seconds; a date is read against the other side's own clock, its `Date`."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return min(int(value[:9]), MAX_RETRY_SECONDS)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers["Date"])
    except (ValueError, KeyError, TypeError):  # TypeError: one has a time zone, the other none
        return None
    return min(max(int(wait.total_seconds()), 0), MAX_RETRY_SECONDS)
