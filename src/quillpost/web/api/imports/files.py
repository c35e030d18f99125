"""Imports, whose bodies are too large for memory: a form with a file or the file itself, spooled to disk."""

import asyncio
import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope

from quillpost.core.errors import Invalid, Unavailable
from quillpost.core.exact_json import DEFAULT_BODY_LIMITS, BodyLimits, long_name_error
from quillpost.web.api.arrival import BODY_TIMEOUT_SECONDS, MIN_BYTES_PER_SECOND, require_utf8
from quillpost.web.api.errors import RequestAborted, UnreadableBody
from quillpost.web.api.schemas import MULTIPART, MULTIPART_BOUNDARY
from quillpost.web.dependencies import parse_digits

UPLOAD_PATH = re.compile(r"/api/v2/(?:mailing-lists/[^/]+/import|imports/preview)")
MAX_UPLOADS = 8
"""In one process; fewer than may be admitted, so that other calls always pass."""
MAX_UPLOADS_PER_ACCOUNT = 2
CHUNK_BYTES = 1_000_000
MAX_FIELD_BYTES = 100_000
MAX_FIELDS = 20
FILE_FIELD = "file"
FILE_TYPES = frozenset(
    {
        "text/csv", "text/tab-separated-values", "text/plain", "application/csv", "application/octet-stream",
        "application/vnd.ms-excel",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    }
)  # fmt: skip
UPLOAD_HINT = f"Send the file as {MULTIPART} in the field `file`, or as the body itself with Content-Type: text/csv."
FORM_CUT_OFF = "The form cannot be read: it ends too early."


def is_upload(scope: Scope) -> bool:
    return scope.get("method") == "POST" and UPLOAD_PATH.fullmatch(scope["path"]) is not None


@dataclass(slots=True)
class UploadContent:
    file: IO[bytes]
    name: str
    fields: Mapping[str, str]


@dataclass(slots=True)
class SpooledUpload:
    """A whole body on disk. It is parsed when its content is needed, once."""

    body: IO[bytes]
    content_type: str
    bounds: BodyLimits
    _release: Callable[[], None]
    _content: UploadContent | None = None
    _files: list[IO[bytes]] = field(default_factory=list)

    def get_content(self) -> UploadContent:
        if self._content is None:
            self._content = self._parse()
        return self._content

    def get_digest_body(self) -> bytes:
        content = self.get_content()
        content.file.seek(0)
        digest = hashlib.sha256()
        while chunk := content.file.read(CHUNK_BYTES):
            digest.update(chunk)
        return json.dumps([digest.hexdigest(), content.name, sorted(content.fields.items())]).encode()

    def close(self) -> None:
        for file in (self.body, *self._files):
            file.close()
        self._release()

    def _parse(self) -> UploadContent:
        media_type, options = parse_options_header(self.content_type)
        if media_type.decode("latin-1") in FILE_TYPES:
            return UploadContent(self.body, "", {})
        if media_type.decode("latin-1") != MULTIPART:
            raise UnreadableBody(415, UPLOAD_HINT)
        boundary = options.get(b"boundary", b"")
        if not MULTIPART_BOUNDARY.fullmatch(boundary):
            raise Invalid({"body": [f"The form cannot be read: its {MULTIPART} names no boundary."]})
        form = _MultipartFormReader(self.bounds)
        self._files.append(form.file)
        return form.read(self.body, boundary)


def get_upload(request: Request) -> SpooledUpload | None:
    upload = request.scope.get("state", {}).get("upload")
    return upload if isinstance(upload, SpooledUpload) else None


class _MultipartFormReader:
    """Reads a form from disk to disk: fields stay in memory, the file does not."""

    def __init__(self, bounds: BodyLimits) -> None:
        self._bounds = bounds
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (its upload closes it)
        self._name: str | None = None
        self._fields: dict[str, bytearray] = {}
        self._header, self._value = bytearray(), bytearray()
        self._field: bytearray | None = None
        self._is_file = self._is_complete = False

    def read(self, body: IO[bytes], boundary: bytes) -> UploadContent:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._add_data,
                "on_end": self._end,
            },
        )
        body.seek(0)
        try:
            while chunk := body.read(CHUNK_BYTES):
                parser.write(chunk)
        except MultipartParseError:
            raise Invalid({"body": ["The form cannot be read."]}) from None
        if not self._is_complete:
            raise Invalid({"body": [FORM_CUT_OFF]})
        if self._name is None:
            raise Invalid({FILE_FIELD: [f"This field is required. {UPLOAD_HINT}"]})
        try:
            fields = {name: bytes(value).decode() for name, value in self._fields.items()}
        except UnicodeDecodeError:
            raise Invalid({"body": ["The fields of the form must be in UTF-8."]}) from None
        self.file.flush()
        return UploadContent(self.file, self._name, fields)

    def _begin_part(self) -> None:
        self._disposition = b""
        self._field, self._is_file = None, False

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        if len(options.get(b"name", b"")) > self._bounds.max_key_bytes:
            raise long_name_error(self._bounds)
        name = options.get(b"name", b"").decode(errors="replace")
        if name == FILE_FIELD:
            if self._name is not None:
                raise Invalid({FILE_FIELD: ["This field is given twice: send one file at a time."]})
            self._name = options.get(b"filename", b"").decode(errors="replace")
            self._is_file = True
            return
        if name in self._fields:
            raise Invalid({name: ["This field is given twice."]})
        if len(self._fields) >= MAX_FIELDS:
            raise Invalid({"body": [f"The form may have {MAX_FIELDS} fields."]})
        self._field = self._fields[name] = bytearray()

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.file.write(data[start:end])
        elif self._field is not None:
            self._field.extend(data[start:end])
            if len(self._field) > MAX_FIELD_BYTES:
                raise Invalid({"body": [f"A field of the form may have {MAX_FIELD_BYTES:,} bytes."]})

    def _end(self) -> None:
        self._is_complete = True


class UploadReceiver:
    """Where such bodies come down, not too many at once, nor too many of one account."""

    def __init__(self, *, max_bytes: int, bounds: BodyLimits = DEFAULT_BODY_LIMITS) -> None:
        self._max_bytes = max_bytes
        self._bounds = bounds
        self._active: Counter[int] = Counter()

    async def receive_upload(self, scope: Scope, receive: Receive) -> SpooledUpload:
        """The body on disk, cut off at the limit whatever length it claims to have."""
        require_utf8(Headers(scope=scope).get("content-type", ""), allow_file=True)
        declared_length = parse_digits(Headers(scope=scope).get("content-length", "")) or 0
        if declared_length > self._max_bytes:
            raise self._too_large()
        release = self._reserve(scope["state"]["caller"].account_id)
        file = tempfile.TemporaryFile()  # noqa: SIM115 (its upload closes it)
        try:
            await self._receive_to_disk(file, receive, declared_length)
        except BaseException:
            file.close()
            release()
            raise
        return SpooledUpload(file, Headers(scope=scope).get("content-type", ""), self._bounds, release)

    def _reserve(self, account_id: int) -> Callable[[], None]:
        """Count one more; returns what to call when it is finished."""
        if self._active[account_id] >= MAX_UPLOADS_PER_ACCOUNT:
            raise Unavailable(
                f"{MAX_UPLOADS_PER_ACCOUNT} of your files are being read already. Send this one when they are."
            )
        if self._active.total() >= MAX_UPLOADS:
            raise Unavailable("Too many files arrive at once. Send this one again in a moment.")
        self._active[account_id] += 1

        def release() -> None:
            self._active[account_id] -= 1
            if not self._active[account_id]:
                del self._active[account_id]

        return release

    async def _receive_to_disk(self, file: IO[bytes], receive: Receive, declared_length: int) -> None:
        size, buffer = 0, bytearray()
        started_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(started_at + BODY_TIMEOUT_SECONDS) as timeout:
                is_complete = False
                while not is_complete:
                    message: Mapping[str, Any] = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestAborted
                    buffer += message.get("body", b"")
                    size += len(message.get("body", b""))
                    if size > self._max_bytes:
                        raise self._too_large()
                    if len(buffer) >= CHUNK_BYTES:
                        await run_in_threadpool(file.write, bytes(buffer))
                        buffer.clear()
                    timeout.reschedule(started_at + BODY_TIMEOUT_SECONDS + size / MIN_BYTES_PER_SECOND)
                    is_complete = not message.get("more_body")
        except TimeoutError:
            raise UnreadableBody(408) from None
        if size < declared_length:
            raise Invalid({"body": ["The body ends before its Content-Length: send it whole."]})
        await run_in_threadpool(file.write, bytes(buffer))
        file.flush()

    def _too_large(self) -> UnreadableBody:
        return UnreadableBody(413, f"The file is larger than this service accepts ({self._max_bytes:,} bytes).")
