"""Files that are too long for the memory: they wait on disk, outside, until they are whole.

Of all routes only an import takes such a body. It comes as a form with a file, or is the file itself.
"""

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

from quillpost.core.body_limits import BOUNDS, Bounds, long_name
from quillpost.core.errors import Invalid, Unavailable
from quillpost.web.api.arrival import PATIENCE, SLOWEST, require_utf8
from quillpost.web.api.bodies import BOUNDARY, MULTIPART, whole_number
from quillpost.web.api.errors import HungUp, WrongBody

TAKES_FILE = re.compile(r"/api/v2/(?:mailing-lists/[^/]+/import|imports/preview)")
AT_ONCE = 8
"""Such bodies in one process, from their first byte until they are answered: fewer than the gate has room
for, so that other calls always pass."""
SHARE = 2
"""Of these, how many may be of one account."""
PIECE = 1_000_000
LONGEST_FIELD = 100_000
MOST_FIELDS = 20
FILE = "file"
FILE_TYPES = frozenset(
    {
        "text/csv", "text/tab-separated-values", "text/plain", "application/csv", "application/octet-stream",
        "application/vnd.ms-excel",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    }
)  # fmt: skip
"""Of a body that is the file itself."""
HOW = f"Send the file as {MULTIPART} in the field `file`, or as the body itself with Content-Type: text/csv."
CUT = "The form cannot be read: it ends too early."


def takes_file(scope: Scope) -> bool:
    return scope.get("method") == "POST" and TAKES_FILE.fullmatch(scope["path"]) is not None


@dataclass(slots=True)
class Uploaded:
    """What such a body holds: the file, what it is called, and the fields beside it."""

    file: IO[bytes]
    name: str
    fields: Mapping[str, str]


@dataclass(slots=True)
class Upload:
    """A whole body on disk. It is taken apart when somebody asks for it, once."""

    body: IO[bytes]
    content_type: str
    bounds: Bounds
    _leave: Callable[[], None]
    _uploaded: Uploaded | None = None
    _files: list[IO[bytes]] = field(default_factory=list)

    def uploaded(self) -> Uploaded:
        if self._uploaded is None:
            self._uploaded = self._taken_apart()
        return self._uploaded

    def essence(self) -> bytes:
        """What is the same when a call is repeated."""
        found = self.uploaded()
        found.file.seek(0)
        digest = hashlib.sha256()
        while piece := found.file.read(PIECE):
            digest.update(piece)
        return json.dumps([digest.hexdigest(), found.name, sorted(found.fields.items())]).encode()

    def close(self) -> None:
        for file in (self.body, *self._files):
            file.close()
        self._leave()

    def _taken_apart(self) -> Uploaded:
        kind, options = parse_options_header(self.content_type)
        if kind.decode("latin-1") in FILE_TYPES:
            return Uploaded(self.body, "", {})
        if kind.decode("latin-1") != MULTIPART:
            raise WrongBody(415, HOW)
        boundary = options.get(b"boundary", b"")
        if not BOUNDARY.fullmatch(boundary):
            raise Invalid({"body": [f"The form cannot be read: its {MULTIPART} names no boundary."]})
        form = _Form(self.bounds)
        self._files.append(form.file)
        return form.read(self.body, boundary)


def upload_of(request: Request) -> Upload | None:
    found = request.scope.get("state", {}).get("upload")
    return found if isinstance(found, Upload) else None


class _Form:
    """Reads a form from disk to disk: fields stay in memory, the file does not."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (its upload closes it)
        self._name: str | None = None
        self._fields: dict[str, bytearray] = {}
        self._header, self._value = bytearray(), bytearray()
        self._into: bytearray | None = None
        self._is_file = self._is_whole = False

    def read(self, body: IO[bytes], boundary: bytes) -> Uploaded:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_end": self._end,
            },
        )
        body.seek(0)
        try:
            while piece := body.read(PIECE):
                parser.write(piece)
        except MultipartParseError:
            raise Invalid({"body": ["The form cannot be read."]}) from None
        if not self._is_whole:
            raise Invalid({"body": [CUT]})
        if self._name is None:
            raise Invalid({FILE: [f"This field is required. {HOW}"]})
        try:
            fields = {name: bytes(value).decode() for name, value in self._fields.items()}
        except UnicodeDecodeError:
            raise Invalid({"body": ["The fields of the form must be in UTF-8."]}) from None
        self.file.flush()
        return Uploaded(self.file, self._name, fields)

    def _begin(self) -> None:
        self._disposition = b""
        self._into, self._is_file = None, False

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        if len(options.get(b"name", b"")) > self._bounds.key_bytes:
            raise long_name(self._bounds)
        name = options.get(b"name", b"").decode(errors="replace")
        if name == FILE:
            if self._name is not None:
                raise Invalid({FILE: ["This field is given twice: send one file at a time."]})
            self._name = options.get(b"filename", b"").decode(errors="replace")
            self._is_file = True
            return
        if name in self._fields:
            raise Invalid({name: ["This field is given twice."]})
        if len(self._fields) >= MOST_FIELDS:
            raise Invalid({"body": [f"The form may have {MOST_FIELDS} fields."]})
        self._into = self._fields[name] = bytearray()

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.file.write(data[start:end])
        elif self._into is not None:
            self._into.extend(data[start:end])
            if len(self._into) > LONGEST_FIELD:
                raise Invalid({"body": [f"A field of the form may have {LONGEST_FIELD:,} bytes."]})

    def _end(self) -> None:
        self._is_whole = True


class Landing:
    """Where such bodies come down, not too many at once, nor too many of one account."""

    def __init__(self, *, largest: int, bounds: Bounds = BOUNDS) -> None:
        self._largest = largest
        self._bounds = bounds
        self._under_way: Counter[int] = Counter()

    async def whole(self, scope: Scope, receive: Receive) -> Upload:
        """The body on disk, cut off at the limit whatever length it claims to have."""
        require_utf8(Headers(scope=scope).get("content-type", ""), or_file=True)
        declared = whole_number(Headers(scope=scope).get("content-length", "")) or 0
        if declared > self._largest:
            raise self._too_large()
        leave = self._enter(scope["state"]["who"].account_id)
        file = tempfile.TemporaryFile()  # noqa: SIM115 (its upload closes it)
        try:
            await self._receive(file, receive, declared)
        except BaseException:
            file.close()
            leave()
            raise
        return Upload(file, Headers(scope=scope).get("content-type", ""), self._bounds, leave)

    def _enter(self, account_id: int) -> Callable[[], None]:
        """Count one more; what is to be called when it is done with."""
        if self._under_way[account_id] >= SHARE:
            raise Unavailable(f"{SHARE} of your files are being read already. Send this one when they are.")
        if self._under_way.total() >= AT_ONCE:
            raise Unavailable("Too many files arrive at once. Send this one again in a moment.")
        self._under_way[account_id] += 1

        def leave() -> None:
            self._under_way[account_id] -= 1
            if not self._under_way[account_id]:
                del self._under_way[account_id]

        return leave

    async def _receive(self, file: IO[bytes], receive: Receive, declared: int) -> None:
        size, waiting = 0, bytearray()
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(begun + PATIENCE) as limit:
                is_whole = False
                while not is_whole:
                    message: Mapping[str, Any] = await receive()
                    if message["type"] == "http.disconnect":
                        raise HungUp
                    waiting += message.get("body", b"")
                    size += len(message.get("body", b""))
                    if size > self._largest:
                        raise self._too_large()
                    if len(waiting) >= PIECE:
                        await run_in_threadpool(file.write, bytes(waiting))
                        waiting.clear()
                    limit.reschedule(begun + PATIENCE + size / SLOWEST)
                    is_whole = not message.get("more_body")
        except TimeoutError:
            raise WrongBody(408) from None
        if size < declared:
            raise Invalid({"body": ["The body ends before its Content-Length: send it whole."]})
        await run_in_threadpool(file.write, bytes(waiting))
        file.flush()

    def _too_large(self) -> WrongBody:
        return WrongBody(413, f"The file is larger than this service accepts ({self._largest:,} bytes).")
