"""A print partner over HTTP, and the partner that a setting names."""

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
from quillpost.core.errors import NotReady
from quillpost.core.ports import FileStore
from quillpost.core.text import is_loopback_host
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintPartner, PrintProgress
from quillpost.integrations.folders.local import build_folder
from quillpost.integrations.folders.models import SftpCredentials
from quillpost.integrations.http.client import REQUEST_FAILURES, describe_failure
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.integrations.printing.folder import FolderPartner, HotFolder
from quillpost.integrations.printing.models import (
    MAX_MARK_BYTES,
    TICKET_FILE,
    read_object,
    read_spoiled,
    read_time,
    to_one_line,
)

MIN_BYTES_PER_SECOND = 100_000  # of a partner; a large file has more time
MAX_ERROR_BYTES = 2_000
RETRY_STATUSES = {408, 429}  # retried
JSON_TYPE, BINARY_TYPE = "application/json", "application/octet-stream"


class HttpPartner:
    """For worker threads: each call runs a short event loop in the calling thread."""

    def __init__(
        self,
        base_url: str,
        *,
        secrets: Sequence[str],
        seconds: float = 30.0,
        tls: ssl.SSLContext | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._secrets = list(secrets)
        self._seconds = seconds
        self._tls = tls
        self._monotonic = monotonic
        # The URL is the operator's own setting: it may be on a private network.
        self._guard = OutboundGuard(allow_private=True)

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        if job.secret_names and not self._is_private:
            raise PartnerDown(
                "The print file of gift cards holds what they are claimed with: it goes to a partner over"
                " https alone. Change QUILLPOST_PRINT_PARTNER."
            )
        asyncio.run(self._submit(job, now))

    @property
    def _is_private(self) -> bool:
        url = urlsplit(self._base_url)
        return url.scheme == "https" or is_loopback_host(url.hostname or "")

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        response_body = asyncio.run(self._fetch_progress(reference, now))
        source = f"The answer of {self._base_url}/jobs/{reference}"
        payload = read_object(response_body, source=source)
        times = {
            name: None if payload.get(name) is None else read_time(payload[name], now=now, source=source)
            for name in ("acknowledged_at", "printed_at", "mailed_at")
        }
        return PrintProgress(**times, spoiled=read_spoiled(payload.get("spoiled"), source=source))

    async def _submit(self, job: PrintJob, now: datetime) -> None:
        started = self._monotonic()
        files = [
            (f"{job.reference}/{name}", BINARY_TYPE, data) for name, data in job.files.items() if name != TICKET_FILE
        ]
        async with self._session() as session:
            for path, content_type, data in [*files, (job.reference, JSON_TYPE, orjson.dumps(job.ticket))]:
                # A signature is valid for minutes; all the files of a job may take longer.
                signed_at = now + timedelta(seconds=self._monotonic() - started)
                await self._put(session, path, content_type, data, signed_at)

    async def _fetch_progress(self, reference: str, now: datetime) -> bytes:
        async with self._session() as session:
            return await self._call(session, "GET", reference, {}, b"", now)

    async def _put(
        self, session: aiohttp.ClientSession, path: str, content_type: str, data: bytes, signed_at: datetime
    ) -> None:
        digest = b64encode(hashlib.sha256(data).digest()).decode()
        headers = {"Content-Type": content_type, "Content-Digest": f"sha-256=:{digest}:"}
        await self._call(session, "PUT", path, headers, data, signed_at)

    async def _call(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes,
        signed_at: datetime,
    ) -> bytes:
        """The response's body, or `PartnerDown` in the partner's own words."""
        url = f"{self._base_url}/jobs/{path}"
        message_id = f"{method.lower()}:{path}"
        signature_headers = signatures.sign(self._secrets, message_id=message_id, at=signed_at, body=data)
        seconds = self._seconds + len(data) / MIN_BYTES_PER_SECOND
        try:
            async with session.request(
                method,
                url,
                data=io.BytesIO(data) if data else None,
                headers=headers | signature_headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=self._seconds),
            ) as response:
                body = await _read_body(response)
        except REQUEST_FAILURES as failure:
            raise PartnerDown(describe_failure(failure, url, seconds=seconds)) from failure
        _check_response(response, path, body)
        if len(body) > MAX_MARK_BYTES:
            raise PartnerDown(f"{response.url.host} answered with more than {MAX_MARK_BYTES:,} bytes.")
        return body

    def _session(self) -> aiohttp.ClientSession:
        return self._guard.session(seconds=self._seconds, tls=self._tls)


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """At most one byte more than allowed."""
    max_bytes = MAX_MARK_BYTES if response.ok else MAX_ERROR_BYTES
    body = bytearray()
    while len(body) <= max_bytes and (chunk := await response.content.read(max_bytes + 1 - len(body))):
        body += chunk
    return bytes(body)


def _check_response(response: aiohttp.ClientResponse, path: str, body: bytes) -> None:
    host, status = response.url.host, response.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise PartnerDown(f"{host} redirects to another address: give the final one in QUILLPOST_PRINT_PARTNER.")
    reason = to_one_line(body[:MAX_ERROR_BYTES].decode(errors="replace"))
    reason_text = f": {reason}" if reason else "."
    if status in RETRY_STATUSES or status >= 500:
        raise PartnerDown(f"{host} cannot take {path} now, it answered with status {status}{reason_text}")
    raise PartnerDown(f"{host} refuses {path}, it answered with status {status}{reason_text}")


SETTING = "QUILLPOST_PRINT_PARTNER"
EMBEDDED_PARTNER = "folder"


def build_partner(
    address: str, *, store: FileStore, folder: str, secrets: Sequence[str], credentials: SftpCredentials
) -> PrintPartner:
    """The partner, or `NotReady`. No connection is made yet."""
    if address == EMBEDDED_PARTNER:
        return FolderPartner(store, folder)
    scheme = address.partition(":")[0].lower()
    if scheme in ("file", "sftp"):
        return HotFolder(build_folder(address, credentials=credentials, setting=SETTING))
    if scheme in ("http", "https"):
        return HttpPartner(_check_url(address), secrets=_require_secrets(secrets))
    raise NotReady(f"{SETTING} must be folder, file:///path, sftp://user@host:port/path or https://host/path.")


def _check_url(url: str) -> str:
    try:
        parsed = urlsplit(url)
        is_plain = bool(parsed.hostname) and parsed.port != 0 and not (parsed.query or parsed.fragment)
    except ValueError:
        raise NotReady(f"{SETTING} is not an address that we can read.") from None
    if parsed.username is not None or parsed.password is not None:
        raise NotReady(f"{SETTING} must not hold a user or a password: requests are signed instead.")
    if not is_plain or not url.isprintable() or " " in url:
        raise NotReady(f"{SETTING} must be an address such as https://host/path.")
    return url


def _require_secrets(secrets: Sequence[str]) -> Sequence[str]:
    if not secrets:
        raise NotReady(f"{SETTING} is an address on the web: QUILLPOST_PRINT_SECRET must be set, to sign with.")
    return secrets
