"""A print partner that is spoken to over HTTP.

Each file is put under the job's address, then the job itself, with its ticket: `PUT {base}/jobs/{reference}/
{file}` and `PUT {base}/jobs/{reference}`. All of it may be said again and is then the same job. Every request
is signed after the Standard Webhooks convention, and its `webhook-id` names what is asked, so that a
signature is good for that request alone. The partner calls back (`web/public/partner_webhooks.py`); asking
how far it is, `GET {base}/jobs/{reference}`, is for calls that were lost.
"""

import asyncio
import hashlib
import io
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import aiohttp
import orjson

from quillpost.client import signatures
from quillpost.core.hosts import is_this_machine
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.integrations.http.client import FAILURES, sentence
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.integrations.printing.models import (
    LARGEST_MARK,
    TICKET,
    one_line,
    read_moment,
    read_object,
    read_spoiled,
)

SLOWEST = 100_000
"""Bytes a second that a partner takes at least; a large file has that much more time."""

SHOWN_BYTES = 2_000
COME_BACK = {408, 429}
"""Of the answers that refuse, those that say: not now."""

JSON, BINARY = "application/json", "application/octet-stream"


class HttpPartner:
    """For worker threads: each call runs a short event loop of its own in the calling thread."""

    def __init__(
        self,
        base_url: str,
        *,
        secrets: Sequence[str],
        seconds: float = 30.0,
        tls: ssl.SSLContext | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = base_url.rstrip("/")
        self._secrets = list(secrets)
        self._seconds = seconds
        self._tls = tls
        self._ticks = ticks
        # The address is the operator's own setting, not a caller's: it may well be on a private network.
        self._guard = OutboundGuard(allow_private=True)

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        if job.secret and not self._is_private:
            raise PartnerDown(
                "The print file of gift cards holds what they are claimed with: it goes to a partner over"
                " https alone. Change QUILLPOST_PRINT_PARTNER."
            )
        asyncio.run(self._submit(job, now))

    @property
    def _is_private(self) -> bool:
        """Whether nobody on the way reads along."""
        place = urlsplit(self._base)
        return place.scheme == "https" or is_this_machine(place.hostname or "")

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        answer = asyncio.run(self._ask(reference, now))
        source = f"The answer of {self._base}/jobs/{reference}"
        told = read_object(answer, source=source)
        moments = {
            name: None if told.get(name) is None else read_moment(told[name], now=now, source=source)
            for name in ("acknowledged_at", "printed_at", "mailed_at")
        }
        return PrintProgress(**moments, spoiled=read_spoiled(told.get("spoiled"), source=source))

    async def _submit(self, job: PrintJob, now: datetime) -> None:
        begun = self._ticks()
        parts = [
            (f"{job.reference}/{name}", BINARY, data) for name, data in job.files.items() if name != TICKET
        ]
        async with self._session() as session:
            for path, kind, data in [*parts, (job.reference, JSON, orjson.dumps(job.ticket))]:
                # A signature is good for minutes; all the files of a job may take longer.
                at = now + timedelta(seconds=self._ticks() - begun)
                await self._put(session, path, kind, data, at)

    async def _ask(self, reference: str, now: datetime) -> bytes:
        async with self._session() as session:
            return await self._call(session, "GET", reference, {}, b"", now)

    async def _put(
        self, session: aiohttp.ClientSession, path: str, kind: str, data: bytes, at: datetime
    ) -> None:
        digest = b64encode(hashlib.sha256(data).digest()).decode()
        headers = {"Content-Type": kind, "Content-Digest": f"sha-256=:{digest}:"}
        await self._call(session, "PUT", path, headers, data, at)

    async def _call(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes,
        at: datetime,
    ) -> bytes:
        """The answer's body, or `PartnerDown` in the partner's own words."""
        url = f"{self._base}/jobs/{path}"
        message_id = f"{method.lower()}:{path}"
        signed = signatures.sign(self._secrets, message_id=message_id, at=at, body=data)
        seconds = self._seconds + len(data) / SLOWEST
        try:
            async with session.request(
                method,
                url,
                data=io.BytesIO(data) if data else None,
                headers=headers | signed,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=self._seconds),
            ) as response:
                body = await _read(response)
        except FAILURES as failure:
            raise PartnerDown(sentence(failure, url, seconds=seconds)) from failure
        _check(response, path, body)
        if len(body) > LARGEST_MARK:
            raise PartnerDown(f"{response.url.host} answered with more than {LARGEST_MARK:,} bytes.")
        return body

    def _session(self) -> aiohttp.ClientSession:
        return self._guard.session(seconds=self._seconds, tls=self._tls)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """No more than one byte too many."""
    most = LARGEST_MARK if response.ok else SHOWN_BYTES
    body = bytearray()
    while len(body) <= most and (chunk := await response.content.read(most + 1 - len(body))):
        body += chunk
    return bytes(body)


def _check(response: aiohttp.ClientResponse, path: str, body: bytes) -> None:
    host, status = response.url.host, response.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise PartnerDown(
            f"{host} redirects to another address: give the final one in QUILLPOST_PRINT_PARTNER."
        )
    words = one_line(body[:SHOWN_BYTES].decode(errors="replace"))
    said = f": {words}" if words else "."
    if status in COME_BACK or status >= 500:
        raise PartnerDown(f"{host} cannot take {path} now, it answered with status {status}{said}")
    raise PartnerDown(f"{host} refuses {path}, it answered with status {status}{said}")
