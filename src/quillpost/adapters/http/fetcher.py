"""Fetches what callers name by URL: images, backgrounds, PDF pages."""

import asyncio
import ssl
from http import HTTPStatus

import aiohttp
from aiohttp.abc import AbstractResolver

from quillpost.adapters.http.failures import FAILURES, sentence
from quillpost.adapters.http.guard import OutboundGuard
from quillpost.ports.files import Fetched, FetchFailed

CHUNK = 64 * 1024


class GuardedFetcher:
    """For worker threads: each fetch runs a short event loop of its own in the calling thread."""

    def __init__(
        self,
        guard: OutboundGuard,
        *,
        seconds: float = 20.0,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._seconds = seconds
        self._resolver = resolver
        self._tls = tls

    def fetch(self, url: str, *, most_bytes: int) -> Fetched:
        fault = self._guard.check_url(url)
        if fault is not None:
            raise FetchFailed(fault)
        try:
            return asyncio.run(self._fetch(url, most_bytes))
        except FAILURES as failure:
            raise FetchFailed(sentence(failure, url, seconds=self._seconds)) from failure

    async def _fetch(self, url: str, most_bytes: int) -> Fetched:
        async with (
            self._guard.session(seconds=self._seconds, resolver=self._resolver, tls=self._tls) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            _check_status(response)
            return Fetched(response.content_type, await _read(response, most_bytes))


def _check_status(response: aiohttp.ClientResponse) -> None:
    host, status = response.url.host, response.status
    if status == HTTPStatus.OK:
        return
    if 300 <= status < 400:
        raise FetchFailed(f"{host} redirects to another address: please give the final one.")
    raise FetchFailed(f"{host} answered with status {status}.")


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The body after decoding: a small answer that unpacks to a large one is too large as well."""
    too_large = FetchFailed(f"The file is larger than {_size(most_bytes)}.")
    if (response.content_length or 0) > most_bytes:
        raise too_large
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > most_bytes:
            raise too_large
    return bytes(body)


def _size(count: int) -> str:
    return f"{count / 1_000_000:g} MB" if count >= 1_000_000 else f"{count:,} bytes"
