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
from quillpost.integrations.http import client
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
    def __init__(
        self,
        base_url: str,
        *,
        secrets: Sequence[str],
        seconds: float = 30.0,
        tls: ssl.SSLContext | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client.ServiceClient(base_url, error=PartnerDown, seconds=seconds, tls=tls)
        self._secrets, self._seconds, self._monotonic = list(secrets), seconds, monotonic

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        if job.secret_names and not self._is_private:
            raise PartnerDown(
                "The print file of gift cards holds what they are claimed with: it goes to a partner over"
                " https alone. Change QUILLPOST_PRINT_PARTNER."
            )
        asyncio.run(self._submit(job, now))

    @property
    def _is_private(self) -> bool:
        url = urlsplit(self._client.base_url)
        return url.scheme == "https" or is_loopback_host(url.hostname or "")

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        response_body = asyncio.run(self._fetch_progress(reference, now))
        source = f"The answer of {self._client.base_url}/jobs/{reference}"
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
        async with self._client.open_session() as session:
            for path, content_type, data in [*files, (job.reference, JSON_TYPE, orjson.dumps(job.ticket))]:
                # A signature is valid for minutes; all the files of a job may take longer.
                signed_at = now + timedelta(seconds=self._monotonic() - started)
                await self._put(session, path, content_type, data, signed_at)

    async def _fetch_progress(self, reference: str, now: datetime) -> bytes:
        async with self._client.open_session() as session:
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
        url = f"{self._client.base_url}/jobs/{path}"
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
                body = await client.read_bounded(response, MAX_MARK_BYTES if response.ok else MAX_ERROR_BYTES)
        except client.REQUEST_FAILURES as failure:
            raise PartnerDown(client.describe_failure(failure, url, seconds=seconds)) from failure
        _check_response(response, path, body)
        if len(body) > MAX_MARK_BYTES:
            raise PartnerDown(f"{response.url.host} answered with more than {MAX_MARK_BYTES:,} bytes.")
        return body


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
        client.parse_service_url(address, SETTING, hint="requests are signed instead.")
        if not secrets:
            raise NotReady(f"{SETTING} is an address on the web: QUILLPOST_PRINT_SECRET must be set, to sign with.")
        return HttpPartner(address, secrets=secrets)
    raise NotReady(f"{SETTING} must be folder, file:///path, sftp://user@host:port/path or https://host/path.")
