"""Requests whose body is bounded, parsed and validated; heavy ones one after the other."""

import asyncio
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Receive

from quillpost.core import exact_json
from quillpost.core.errors import Invalid
from quillpost.core.exact_json import DEFAULT_BODY_LIMITS, BodyLimits, check_unknown_keys, long_name_error, parse_form
from quillpost.web.api.errors import RequestAborted, UnreadableBody
from quillpost.web.api.schemas import MULTIPART, MULTIPART_BOUNDARY, Body, FormFile, FormText, ValidatedBody

MAX_CONCURRENT_READS = 1
"""Two threads that both compute are no faster than one, and leave less for light calls."""

Result = TypeVar("Result")
ShouldStop = Callable[[], bool]

_READERS: Final = ThreadPoolExecutor(MAX_CONCURRENT_READS, "bodies")


class BodyReadQueue:
    """One body of each caller in turn: a caller who sends a hundred bodies waits for their own."""

    def __init__(self) -> None:
        self._free = MAX_CONCURRENT_READS
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    async def run(self, queue_key: Hashable, work: Callable[[ShouldStop], Result]) -> Result:
        """Do the work when there is a slot. Canceled later, it is asked to stop; its slot is free when it has."""
        await self._wait_for_slot(queue_key)
        stop = threading.Event()
        result = asyncio.get_running_loop().run_in_executor(_READERS, work, stop.is_set)
        result.add_done_callback(self._on_done)
        try:
            return await asyncio.shield(result)
        finally:
            stop.set()

    async def _wait_for_slot(self, queue_key: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(queue_key, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._release_slot()  # it was this one's turn at that very moment
            raise

    def _on_done(self, result: asyncio.Future[Any]) -> None:
        if not result.cancelled():
            result.exception()  # looked at, even where no request waits for it any longer
        self._release_slot()

    def _release_slot(self) -> None:
        """To the first of the caller who has waited longest."""
        while self._waiting:
            queue_key, waiters = self._waiting.popitem(last=False)
            waiter = waiters.popleft()
            if waiters:
                self._waiting[queue_key] = waiters
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work; `RequestAborted`, and the work canceled, if the caller leaves before."""
    work_task, disconnect_task = (asyncio.ensure_future(work), asyncio.ensure_future(_wait_for_disconnect(receive)))
    try:
        await asyncio.wait({work_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done() and disconnect_task.done():
            raise RequestAborted
        return await work_task
    finally:
        for task in (work_task, disconnect_task):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


LARGE_BODY_BYTES = 50_000
MAX_FIELDS = 100
MAX_FILES = 4
MAX_FIELD_BYTES = 100_000
MAX_FORM_FIELDS = 1_000
CHUNK_BYTES = 250_000
"""Bytes of a form that are read in one step: between two steps, other threads have their turn."""


class ParsedRequest(Request):
    """A request whose body has been read and understood already; `raw_body` is what came."""

    parsed_body: Any = None
    raw_body: bytes = b""
    ignored_fields: Set[str] = frozenset()
    """Names in it that mean nothing to its endpoint."""
    validated: ValidatedBody | None = None

    async def json(self) -> Any:
        return self.parsed_body if self.validated is None else self.validated


@dataclass(frozen=True, slots=True)
class BodyReadOptions:
    body: type[Body] | None = None
    takes_files: bool = False
    bounds: BodyLimits = DEFAULT_BODY_LIMITS
    max_rows: int = 5_000
    queue: BodyReadQueue = field(default_factory=BodyReadQueue)
    queue_key: Hashable = None


async def parse_request(request: Request, options: BodyReadOptions | None = None) -> Request:
    """The request with its body validated; `RequestAborted` if the caller leaves while a large one is read."""
    options = options or BodyReadOptions()
    body = await request.body()
    if len(body) <= LARGE_BODY_BYTES:
        parsed = _parse_body(request, body, options, lambda: False)
    else:

        def work(should_stop: ShouldStop) -> ParsedRequest | None:
            return _parse_body(request, body, options, should_stop)

        parsed = await run_while_connected(request.receive, options.queue.run(options.queue_key, work))
    if parsed is None:
        request._body = b""
        return request
    return parsed


def _parse_body(
    request: Request, body: bytes, options: BodyReadOptions, should_stop: ShouldStop
) -> ParsedRequest | None:
    """None if there is nothing to read."""
    if not body or (len(body) <= LARGE_BODY_BYTES and body.isspace()):
        return None
    parsed = _as_json_request(request)
    parsed._body = parsed.raw_body = body
    parsed.parsed_body = _parse_by_content_type(request, body, options)
    if options.body is not None and parsed.parsed_body is not None and not should_stop():
        options.body.check_rows(parsed.parsed_body, options.max_rows)
        parsed.ignored_fields = check_unknown_keys(options.body.ignored_in(parsed.parsed_body), options.bounds)
        parsed.validated = options.body.validated(parsed.parsed_body)
    return parsed


def _as_json_request(request: Request) -> ParsedRequest:
    """The request as one that has sent JSON: from here on it is all the same."""
    scope = dict(request.scope)
    headers = [(k, v) for k, v in request.scope["headers"] if k != b"content-type"]
    scope["headers"] = [*headers, (b"content-type", b"application/json")]
    return ParsedRequest(scope, request.receive)


def _parse_by_content_type(request: Request, body: bytes, options: BodyReadOptions) -> Any:
    media_type = _media_type(request)
    if media_type == "application/json" or media_type.endswith("+json"):
        return read_json(body, options.bounds)
    if media_type == "application/x-www-form-urlencoded":
        return _parse_form(body, options.bounds)
    if media_type == MULTIPART and options.takes_files:
        return read_multipart(request, body, options.bounds)
    if media_type == MULTIPART:
        raise UnreadableBody(415, f"No files are taken here, so {MULTIPART} is not read: send application/json.")
    raise UnreadableBody(415)


def read_multipart(request: Request, body: bytes, bounds: BodyLimits) -> dict[str, FormText | FormFile]:
    return _run_without_waiting(_parse_multipart(body, _multipart_boundary(request), bounds))


async def get_digest_body(request: Request) -> bytes:
    """What is the same when a call is repeated: the boundary of a form differs each time."""
    body = await request.body()
    if _media_type(request) != MULTIPART:
        return body
    return body.replace(b"--" + _multipart_boundary(request), b"--")


def parse_stored_body(raw: bytes) -> Any:
    """A stored JSON object or form. Today's limits do not apply: it was accepted once."""
    return _parse_json(raw, None) if raw.lstrip()[:1] == b"{" else _parse_form(raw, DEFAULT_BODY_LIMITS)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _multipart_boundary(request: Request) -> bytes:
    _, options = parse_options_header(request.headers["content-type"])
    boundary = options.get(b"boundary", b"")
    if not MULTIPART_BOUNDARY.fullmatch(boundary):
        raise Invalid({"body": [f"The form cannot be read: its {MULTIPART} names no boundary."]})
    return boundary


def read_json(body: bytes, bounds: BodyLimits) -> Any:
    return _parse_json(body, bounds)


def _parse_json(body: bytes, bounds: BodyLimits | None) -> Any:
    try:
        return exact_json.parse_json(body, limits=bounds)
    except exact_json.InvalidJson as error:
        raise Invalid({"body": [_escape_surrogates(str(error))]}) from None


def _escape_surrogates(text: str) -> str:
    """A sentence may quote the body, and a body may hold half a character."""
    return text.encode(errors="backslashreplace").decode()


def _parse_form(body: bytes, bounds: BodyLimits) -> dict[str, FormText]:
    if body[:LARGE_BODY_BYTES].lstrip()[:1] in (b"{", b"["):
        raise UnreadableBody(
            415, "The body looks like JSON but is labelled as a form: send Content-Type: application/json."
        )
    try:
        pairs = parse_form(body, max_fields=MAX_FORM_FIELDS, limits=bounds, is_strict=True)
    except ValueError:
        raise Invalid({"body": ["The form cannot be read."]}) from None
    return {name: FormText(value) for name, value in _reject_duplicates(pairs).items()}


def _reject_duplicates(pairs: Sequence[tuple[str, Result]]) -> dict[str, Result]:
    counts = Counter(name for name, _ in pairs)
    duplicate = next((name for name, count in counts.items() if count > 1), None)
    if duplicate is not None:
        raise Invalid({duplicate: ["This field is given twice."]})
    return dict(pairs)


class _InMemoryMultiPartParser(MultiPartParser):
    """The body is in memory, and bounded: a copy on disk would not help."""

    spool_max_size = sys.maxsize


async def _parse_multipart(body: bytes, boundary: bytes, bounds: BodyLimits) -> dict[str, FormText | FormFile]:
    # Read as Latin-1 every byte is a letter, and comes back as it was: what is no UTF-8 is found out.
    content_type = f'{MULTIPART}; boundary="{boundary.decode()}"; charset=latin-1'
    parser = _InMemoryMultiPartParser(
        Headers({"content-type": content_type}),
        _iterate_chunks(body),
        max_files=MAX_FILES,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    if b"--" + boundary + b"--" not in body:
        raise Invalid({"body": ["The form cannot be read: it ends too early."]})
    try:
        form = await parser.parse()
        try:
            if any(len(name) > bounds.max_key_bytes for name in form):
                raise long_name_error(bounds)
            return _reject_duplicates(
                [(_latin1_to_utf8(name), await _read_part(value)) for name, value in form.multi_items()]
            )
        finally:
            await form.close()
    except (MultiPartException, UnicodeDecodeError):
        raise Invalid(
            {
                "body": [
                    f"The form cannot be read. It may have {MAX_FIELDS} fields of {MAX_FIELD_BYTES:,} bytes in"
                    f" UTF-8, and {MAX_FILES} files."
                ]
            }
        ) from None


async def _iterate_chunks(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), CHUNK_BYTES):
        yield body[start : start + CHUNK_BYTES]


def _run_without_waiting(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine gives that has nothing to wait for: all that it reads is in memory."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    raise AssertionError("A form in memory was waited for.")


async def _read_part(value: str | UploadFile) -> FormText | FormFile:
    return FormText(_latin1_to_utf8(value)) if isinstance(value, str) else FormFile(await value.read())


def _latin1_to_utf8(text: str) -> str:
    return text.encode("latin-1").decode()
