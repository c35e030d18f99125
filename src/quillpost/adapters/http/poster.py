"""Delivers webhooks over HTTP."""

import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache

import aiohttp
from aiohttp.abc import AbstractResolver

from quillpost.adapters.http.failures import FAILURES, sentence
from quillpost.adapters.http.guard import OutboundGuard
from quillpost.ports.messages import PostOutcome

KEPT_CHARACTERS = 2_000
KEPT_BYTES = 4 * KEPT_CHARACTERS  # no UTF-8 character is longer
LONGEST_WAIT = 24 * 60 * 60


class WebhookPoster:
    """For the event loop: one session, opened with the first delivery, shared by all."""

    def __init__(
        self,
        guard: OutboundGuard,
        *,
        seconds: float = 15.0,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._seconds = seconds
        self._resolver = resolver
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        # An address is told of thousands of events; where it leads is judged at each connection.
        self._fault = lru_cache(maxsize=1_000)(guard.check_destination)

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """Deliver once. Whatever the other side does is an outcome, never an exception."""
        fault = self._fault(url) if method == "POST" else self._guard.check_destination(url)
        if fault is not None:
            return PostOutcome(status=None, error=fault)
        try:
            async with self._open_session().request(
                method, url, headers=headers, data=body or None, allow_redirects=False
            ) as response:
                return PostOutcome(
                    status=response.status,
                    body=await _start_of_body(response),
                    retry_after=_retry_after(response.headers),
                )
        except FAILURES as failure:
            return PostOutcome(status=None, error=sentence(failure, url, seconds=self._seconds))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = self._guard.session(seconds=self._seconds, resolver=self._resolver, tls=self._tls)
        return self._session


async def _start_of_body(response: aiohttp.ClientResponse) -> str:
    """As much as the delivery log shows. The status has been given: a body that fails is cut."""
    kept = bytearray()
    try:
        while len(kept) < KEPT_BYTES and (chunk := await response.content.read(KEPT_BYTES)):
            kept += chunk
    except FAILURES:
        response.close()
    # PostgreSQL stores every character but this one.
    return kept.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")[:KEPT_CHARACTERS]


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """Seconds to wait; a date is read against the other side's own clock, its `Date`."""
    given = headers.get("Retry-After", "").strip()
    if not given:
        return None
    if given.isascii() and given.isdigit():
        return min(int(given[:9]), LONGEST_WAIT)
    try:
        wait = parsedate_to_datetime(given) - parsedate_to_datetime(headers["Date"])
    except (ValueError, KeyError, TypeError):  # TypeError: one has a time zone, the other none
        return None
    return min(max(int(wait.total_seconds()), 0), LONGEST_WAIT)
