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
from quillpost.core.body_limits import BOUNDS, Bounds, check_unknown, long_name, read_form
from quillpost.core.errors import Invalid
from quillpost.web.api.bodies import BOUNDARY, MULTIPART, Body, Examined, FormText, Upload
from quillpost.web.api.errors import HungUp, WrongBody

AT_ONCE = 1
"""Bodies that a process reads at a time. Two threads that both compute are no quicker than one, and leave
light calls a smaller share."""

Given = TypeVar("Given")
Stops = Callable[[], bool]
"""Whether whoever waits for a piece of work has gone, so that the rest of it need not be done."""

_READERS: Final = ThreadPoolExecutor(AT_ONCE, "bodies")


class Turns:
    """Who is next: one of each caller in turn, so that whoever sends a hundred bodies waits for their own."""

    def __init__(self) -> None:
        self._free = AT_ONCE
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, who: Hashable, work: Callable[[Stops], Given]) -> Given:
        """What the work gives when its turn has come. Cancelled before, it is not begun; cancelled later, it
        is asked to stop, and the next turn begins when it has."""
        await self._turn_of(who)
        stop = threading.Event()
        done = asyncio.get_running_loop().run_in_executor(_READERS, work, stop.is_set)
        done.add_done_callback(self._over)
        try:
            return await asyncio.shield(done)
        finally:
            stop.set()

    async def _turn_of(self, who: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()  # it was this one's turn at that very moment
            raise

    def _over(self, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()  # looked at, even where nobody waits for it any longer
        self._pass_on()

    def _pass_on(self) -> None:
        """The turn, to the first of the caller who has waited longest since having had one."""
        while self._waiting:
            who, places = self._waiting.popitem(last=False)
            place = places.popleft()
            if places:
                self._waiting[who] = places
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


async def while_there(receive: Receive, work: Coroutine[Any, Any, Given]) -> Given:
    """What the work gives; `HungUp`, and the work cancelled, if the caller leaves before."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and leaving.done():
            raise HungUp
        return await working
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


LARGE_BODY = 50_000
MOST_FIELDS = 100
MOST_FILES = 4
LONGEST_FIELD = 100_000
MOST_PAIRS = 1_000
"""Fields of a form without files."""
AT_A_TIME = 250_000
"""Bytes of a form that are read in one step: between two steps, other threads have their turn."""


class ReadRequest(Request):
    """A request whose body has been read and understood already; `raw` is what came."""

    understood: Any = None
    raw: bytes = b""
    ignored: Set[str] = frozenset()
    """Names in it that mean nothing to whoever reads it."""
    examined: Examined | None = None

    async def json(self) -> Any:
        return self.understood if self.examined is None else self.examined


@dataclass(frozen=True, slots=True)
class Reading:
    """How a body is to be read: what it may hold, who wants it, and who reads heavy ones."""

    body: type[Body] | None = None
    takes_files: bool = False
    bounds: Bounds = BOUNDS
    most_rows: int = 5_000
    turns: Turns = field(default_factory=Turns)
    who: Hashable = None


async def understand(request: Request, reading: Reading | None = None) -> Request:
    """The request with its body parsed and validated, or a clear refusal; `HungUp` if its caller leaves
    while a heavy one is read."""
    reading = reading or Reading()
    body = await request.body()
    if len(body) <= LARGE_BODY:
        read = _read(request, body, reading, lambda: False)
    else:

        def work(stops: Stops) -> ReadRequest | None:
            return _read(request, body, reading, stops)

        read = await while_there(request.receive, reading.turns.take(reading.who, work))
    if read is None:
        request._body = b""
        return request
    return read


def _read(request: Request, body: bytes, reading: Reading, stops: Stops) -> ReadRequest | None:
    """None if there is nothing to read."""
    if not body or (len(body) <= LARGE_BODY and body.isspace()):
        return None
    read = _with_json(request)
    read._body = read.raw = body
    read.understood = _value(request, body, reading)
    if reading.body is not None and read.understood is not None and not stops():
        reading.body.check_rows(read.understood, reading.most_rows)
        read.ignored = check_unknown(reading.body.ignored_in(read.understood), reading.bounds)
        read.examined = reading.body.examined(read.understood)
    return read


def _with_json(request: Request) -> ReadRequest:
    """The request as one that has sent JSON: from here on it is all the same."""
    scope = dict(request.scope)
    headers = [(k, v) for k, v in request.scope["headers"] if k != b"content-type"]
    scope["headers"] = [*headers, (b"content-type", b"application/json")]
    return ReadRequest(scope, request.receive)


def _value(request: Request, body: bytes, reading: Reading) -> Any:
    kind = _kind(request)
    if kind == "application/json" or kind.endswith("+json"):
        return read_json(body, reading.bounds)
    if kind == "application/x-www-form-urlencoded":
        return _form(body, reading.bounds)
    if kind == MULTIPART and reading.takes_files:
        return read_parts(request, body, reading.bounds)
    if kind == MULTIPART:
        raise WrongBody(415, f"No files are taken here, so {MULTIPART} is not read: send application/json.")
    raise WrongBody(415)


def read_parts(request: Request, body: bytes, bounds: Bounds) -> dict[str, FormText | Upload]:
    """The fields and files of a form in parts."""
    return _at_once(_form_with_files(body, _boundary(request), bounds))


async def essence(request: Request) -> bytes:
    """What is the same when a call is repeated: a form with files is divided by other signs each time."""
    body = await request.body()
    if _kind(request) != MULTIPART:
        return body
    return body.replace(b"--" + _boundary(request), b"--")


def understand_again(raw: bytes) -> Any:
    """What a request without files said, from its body alone: an object in JSON, or else a form. It was let
    in once, whatever the bounds are by now."""
    return _json(raw, None) if raw.lstrip()[:1] == b"{" else _form(raw, BOUNDS)


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _boundary(request: Request) -> bytes:
    """What stands between the parts of a form with files."""
    _, options = parse_options_header(request.headers["content-type"])
    boundary = options.get(b"boundary", b"")
    if not BOUNDARY.fullmatch(boundary):
        raise Invalid({"body": [f"The form cannot be read: its {MULTIPART} names no boundary."]})
    return boundary


def read_json(body: bytes, bounds: Bounds) -> Any:
    """What a caller's JSON says; `Invalid` if it is none, or holds too much."""
    return _json(body, bounds)


def _json(body: bytes, bounds: Bounds | None) -> Any:
    try:
        return exact_json.read(body, bounds=bounds)
    except exact_json.NotJson as bad:
        raise Invalid({"body": [_sayable(str(bad))]}) from None


def _sayable(text: str) -> str:
    """A sentence may quote the body, and a body may hold half a character."""
    return text.encode(errors="backslashreplace").decode()


def _form(body: bytes, bounds: Bounds) -> dict[str, FormText]:
    if body[:LARGE_BODY].lstrip()[:1] in (b"{", b"["):
        raise WrongBody(
            415, "The body looks like JSON but is labelled as a form: send Content-Type: application/json."
        )
    try:
        pairs = read_form(body, fields=MOST_PAIRS, bounds=bounds, strict=True)
    except ValueError:
        raise Invalid({"body": ["The form cannot be read."]}) from None
    return {name: FormText(value) for name, value in _once_each(pairs).items()}


def _once_each(pairs: Sequence[tuple[str, Given]]) -> dict[str, Given]:
    times = Counter(name for name, _ in pairs)
    twice = next((name for name, count in times.items() if count > 1), None)
    if twice is not None:
        raise Invalid({twice: ["This field is given twice."]})
    return dict(pairs)


class _InMemory(MultiPartParser):
    """The body is in memory, and bounded: a copy on disk would help nobody."""

    spool_max_size = sys.maxsize


async def _form_with_files(body: bytes, boundary: bytes, bounds: Bounds) -> dict[str, FormText | Upload]:
    # Read as Latin-1 every byte is a letter, and comes back as it was: what is no UTF-8 can be told.
    kind = f'{MULTIPART}; boundary="{boundary.decode()}"; charset=latin-1'
    parser = _InMemory(
        Headers({"content-type": kind}),
        _piecemeal(body),
        max_files=MOST_FILES,
        max_fields=MOST_FIELDS,
        max_part_size=LONGEST_FIELD,
    )
    if b"--" + boundary + b"--" not in body:
        raise Invalid({"body": ["The form cannot be read: it ends too early."]})
    try:
        form = await parser.parse()
        try:
            if any(len(name) > bounds.key_bytes for name in form):
                raise long_name(bounds)
            return _once_each([(_utf8(name), await _part(value)) for name, value in form.multi_items()])
        finally:
            await form.close()
    except (MultiPartException, UnicodeDecodeError):
        raise Invalid(
            {
                "body": [
                    f"The form cannot be read. It may have {MOST_FIELDS} fields of {LONGEST_FIELD:,} bytes in"
                    f" UTF-8, and {MOST_FILES} files."
                ]
            }
        ) from None


async def _piecemeal(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), AT_A_TIME):
        yield body[start : start + AT_A_TIME]


def _at_once(reading: Coroutine[Any, Any, Given]) -> Given:
    """What a coroutine gives that has nothing to wait for: all that it reads is in memory."""
    try:
        reading.send(None)
    except StopIteration as done:
        given: Given = done.value
        return given
    raise AssertionError("A form in memory was waited for.")


async def _part(value: str | UploadFile) -> FormText | Upload:
    return FormText(_utf8(value)) if isinstance(value, str) else Upload(await value.read())


def _utf8(text: str) -> str:
    return text.encode("latin-1").decode()
