"""Untrusted files, read and drawn in sandboxed processes."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from threading import Lock
from typing import Final

from quillpost.core.errors import Unavailable
from quillpost.core.requests import ClientDisconnected, current_client
from quillpost.rendering.decoder import messages
from quillpost.rendering.decoder.messages import DecoderProtocolError, MessageHead
from quillpost.rendering.handwriting.sheet.models import (
    PageReading,
    ProblemCode,
    SheetReading,
    Signature,
    UnreadableSheet,
)
from quillpost.rendering.handwriting.sheet.records import InvalidRecord, Record, page_from_record, signature_from_record
from quillpost.rendering.handwriting.sheet.rules import combine_pages
from quillpost.rendering.images import models as image_models
from quillpost.rendering.images import rules as image_rules
from quillpost.rendering.images.models import CopiedPages, PictureTones, PrintablePages, PrintablePicture
from quillpost.rendering.images.rules import ArtTooComplex, UnprintableArt, UnprintableImage, UnprintablePdf
from quillpost.rendering.models import Box

MEMORY_LIMIT_BYTES: Final = 1_500_000_000  # bytes of address space, of which the libraries themselves take a third
SHORT_SECONDS: Final = 2.0  # honest files take less; a child that takes longer gets a lower priority
_START_SECONDS = 30.0
_TIMEOUT_SIGNALS = frozenset({signal.SIGXCPU, signal.SIGALRM})

# The decoder gets no more of our surroundings than it needs to start: no secret is among them.
_INHERITED_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class DecoderTimeout(Exception):
    """The work took too long and was killed."""


class DecoderDied(Exception):
    """The work ended without an answer: out of memory, killed, or crashed."""


class DecoderPool:
    """A decoder process, started on first use and again whenever it is gone; it forks a child for each job."""

    def __init__(self, module: str = "quillpost.rendering.decoder.worker") -> None:
        self._module = module
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner_pid = 0

    def run(
        self,
        work: str,
        data: bytes,
        *,
        cpu_seconds: int,
        seconds: float,
        memory: int = MEMORY_LIMIT_BYTES,
        options: MessageHead | None = None,
    ) -> tuple[MessageHead, bytes]:
        """The answer of one child; `seconds` count from its start. A child whose client disconnects is killed."""
        request = {
            "work": work, "how": options or {}, "cpu_seconds": cpu_seconds, "seconds": seconds, "memory": memory,
        }  # fmt: skip
        for _ in range(3):
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    self._send_job(theirs)
                child = _accept_child(ours)
                if child is not None:
                    with child:
                        return _run_in_child(ours, child, request, data, seconds)
        raise Unavailable("The service cannot read files at the moment. Try again shortly.")

    def warm_up(self) -> None:
        with self._lock:
            if self._control is None or self._owner_pid != os.getpid():
                self._start_process()

    def close(self) -> None:
        with self._lock:
            self._stop()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _send_job(self, job: socket.socket) -> None:
        with self._lock:
            if self._control is not None and self._owner_pid == os.getpid():
                try:
                    socket.send_fds(self._control, [b"j"], [job.fileno()])
                    return
                except OSError:
                    self._stop()
            socket.send_fds(self._start_process(), [b"j"], [job.fileno()])

    def _start_process(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
                | {"OPENBLAS_NUM_THREADS": "1"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control, self._owner_pid = ours, os.getpid()
        return ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None and self._owner_pid == os.getpid():
            # Killed rather than terminated: a stopped process would keep us waiting forever.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._control = self._process = None


class _DecoderChild:
    """A running child, by a pidfd that never means another process. It is killed at the end of the block."""

    def __init__(self, handle: int) -> None:
        self._pid_handle: int | None = handle
        self._lock = Lock()

    def kill(self) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self._pid_handle is not None:
                signal.pidfd_send_signal(self._pid_handle, signal.SIGKILL)

    def lower_priority(self) -> None:
        with self._lock, suppress(OSError):
            fd_info = Path(f"/proc/self/fdinfo/{self._pid_handle}").read_text()
            pid = int(fd_info.partition("Pid:")[2].split()[0])
            if pid > 0:  # it is still there
                os.setpriority(os.PRIO_PROCESS, pid, 15)

    def __enter__(self) -> "_DecoderChild":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with self._lock:
            if self._pid_handle is not None:
                os.close(self._pid_handle)
            self._pid_handle = None


def _accept_child(job: socket.socket) -> _DecoderChild | None:
    """The child that took the job, None if the decoder died or could not fork. It has not read anything yet."""
    job.settimeout(_START_SECONDS)
    try:
        first_byte, handles, _, _ = socket.recv_fds(job, 1, 1)
    except OSError:
        return None
    return _DecoderChild(handles[0]) if first_byte == messages.STARTED_SIGNAL and handles else None


def _run_in_child(
    job: socket.socket, child: _DecoderChild, request: MessageHead, data: bytes, seconds: float
) -> tuple[MessageHead, bytes]:
    deadline = time.monotonic() + seconds
    client = current_client()

    def set_remaining_timeout() -> None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        job.settimeout(remaining)

    try:
        with client.on_disconnect(child.kill):
            with suppress(BrokenPipeError, ConnectionResetError):  # a child that has ended is handled below
                set_remaining_timeout()
                messages.send_message(job, request)
                messages.send_message(job, {}, data)
            poller = select.poll()
            poller.register(job, select.POLLIN)
            if not poller.poll(1_000 * min(SHORT_SECONDS, seconds)):
                child.lower_priority()
            head, body = messages.receive_message(job, set_remaining_timeout)
    except TimeoutError:
        raise DecoderTimeout from None
    except (OSError, DecoderProtocolError):
        head, body = {messages.ENDED_KEY: None}, b""
    if messages.ENDED_KEY not in head:
        return head, body
    if client.is_disconnected:
        raise ClientDisconnected
    raise DecoderTimeout if head[messages.ENDED_KEY] in _TIMEOUT_SIGNALS else DecoderDied


DECODER_POOL: Final = DecoderPool()
atexit.register(DECODER_POOL.close)


PICTURE_SECONDS: Final = 20
PAGES_SECONDS: Final = 40
SHEET_SECONDS: Final = 60  # a scan may hold all pages of a handwriting sheet
DRAW_SECONDS: Final = 10  # CPU seconds of a drawing; each page adds DRAW_PAGE_SECONDS
DRAW_PAGE_SECONDS: Final = 1
_MAX_NOTE_LENGTH = 1_000
_MAX_NOTES = 100
_DAMAGED_MESSAGE = "The PDF is damaged or too complex to be read."
_SIMPLIFY_ADVICE = "Make it simpler, or save it as a picture, and send that."


class DecoderSandbox:
    def rasterize(self, pdf: bytes, *, dpi: float, crops: Sequence[Box | None] | None = None) -> list[bytes]:
        options = {
            "dpi": dpi,
            "pages": None,
            "crops": None if crops is None else [crop and astuple(crop) for crop in crops],
        }
        seconds = DRAW_SECONDS + DRAW_PAGE_SECONDS * len(crops or ())
        try:
            return messages.unpack_parts(_run_task("draw", pdf, seconds, options)[1])
        except DecoderTimeout:
            raise ArtTooComplex(f"It takes more than {seconds} seconds to be drawn. {_SIMPLIFY_ADVICE}") from None
        except (DecoderDied, DecoderProtocolError):
            raise ArtTooComplex(
                f"It takes more than {MEMORY_LIMIT_BYTES // 1_000_000:,} MB of memory to be drawn, or it is damaged."
                f" {_SIMPLIFY_ADVICE}"
            ) from None

    def copy_pages(self, pages: bytes, *, first: int, default_spaces: bytes) -> CopiedPages:
        options = {"first": first, "default_spaces": default_spaces.decode("latin-1")}
        # Twice: it could be done when the pages came, and whatever ended a child may have been ours.
        for is_last_attempt in (False, True):
            try:
                head, body = _run_task("copy", pages, PAGES_SECONDS, options)
                return CopiedPages.from_byte_strings(messages.unpack_parts(body), head["forms"], first_number=first)
            except (DecoderTimeout, DecoderDied, DecoderProtocolError, KeyError, TypeError):
                if is_last_attempt:
                    raise UnprintablePdf(_DAMAGED_MESSAGE) from None
        raise AssertionError

    def printable_pages(self, pdf: bytes) -> PrintablePages:
        return make_printable_pages_in_sandbox(pdf)


def make_printable_picture_in_sandbox(data: bytes) -> PrintablePicture:
    with _errors_raised_as(UnprintableImage, "image", PICTURE_SECONDS):
        head, body = _run_task("picture", data, PICTURE_SECONDS)
    width, height = image_models.read_picture(body).upright_size
    content_type = "image/jpeg" if body.startswith(image_rules.JPEG_SIGNATURE) else "image/png"
    return PrintablePicture(body, content_type, width, height, _read_notes(head))


def measure_tones_in_sandbox(data: bytes, width: int, height: int) -> PictureTones:
    with _errors_raised_as(UnprintableImage, "image", PICTURE_SECONDS):
        _, cells = _run_task("tones", data, PICTURE_SECONDS)
    if len(cells) != image_models.GRID_CELLS * image_models.GRID_CELLS * image_models.CELL_BYTES:
        raise UnprintableImage("The image is damaged or too complex to be read.")
    return PictureTones(width, height, cells)


def make_printable_pages_in_sandbox(data: bytes) -> PrintablePages:
    """What one child made, another one checks."""
    with _errors_raised_as(UnprintablePdf, "PDF", PAGES_SECONDS):
        head, body = _run_task("pages", data, PAGES_SECONDS)
        count = _run_task("count", body, PAGES_SECONDS)[0].get("count")
    if not isinstance(count, int) or not 1 <= count <= image_rules.MAX_PAGES:
        raise UnprintablePdf(_DAMAGED_MESSAGE)
    return PrintablePages(body, count, _read_notes(head))


def join_pdfs_in_sandbox(files: Sequence[bytes]) -> bytes:
    """Our own PDF files with untrusted art, as one; all but the pages is as in the first."""
    try:
        return _run_task("join", messages.pack_parts(files), PAGES_SECONDS)[1]
    except (DecoderTimeout, DecoderDied, DecoderProtocolError):
        raise ArtTooComplex("Its pages are too large to be put together in one file.") from None


_MAX_RECORDS_BYTES = 30_000_000


def read_sheet_in_sandbox(files: Sequence[bytes]) -> SheetReading:
    """The handwriting sheet in these photographs and scans; what cannot be read is among its problems."""
    return combine_pages([_read_sheet_file(data) for data in files])


def read_signature_in_sandbox(data: bytes) -> Signature:
    """UnreadableSheet has a sentence for the sender."""
    records = _run_sheet_task("signature", data, PICTURE_SECONDS)
    try:
        problem = page_from_record(records[0]) if "code" in records[0] else None
        signature = None if problem else signature_from_record(records[0])
    except (InvalidRecord, IndexError):
        raise _unreadable_file() from None
    if signature is None:
        raise problem if isinstance(problem, UnreadableSheet) else _unreadable_file()
    return signature


def _read_sheet_file(data: bytes) -> list[PageReading | UnreadableSheet]:
    try:
        return [page_from_record(record) for record in _run_sheet_task("sheet", data, SHEET_SECONDS)]
    except UnreadableSheet as error:
        return [error]
    except InvalidRecord:
        return [_unreadable_file()]


def _run_sheet_task(task_name: str, data: bytes, seconds: int) -> list[Record]:
    try:
        _, body = _run_task(task_name, data, seconds)
        records = json.loads(body[:_MAX_RECORDS_BYTES])
    except UnprintableArt as error:
        raise UnreadableSheet(ProblemCode.NOT_A_PICTURE, error.message) from None
    except (DecoderTimeout, DecoderDied, DecoderProtocolError, ValueError, RecursionError):
        raise _unreadable_file() from None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise _unreadable_file()
    return records


def _unreadable_file() -> UnreadableSheet:
    return UnreadableSheet(
        ProblemCode.TAKES_TOO_MUCH,
        "We couldn't read this file: it is damaged or too large. Take the picture again, and upload that.",
    )


@contextmanager
def _errors_raised_as(error_type: type[UnprintableArt], file_kind: str, seconds: int) -> Iterator[None]:
    try:
        yield
    except DecoderTimeout:
        raise error_type(
            f"The {file_kind} took too long to read, more than {seconds} seconds: it is damaged or too complex."
        ) from None
    except (DecoderDied, DecoderProtocolError):
        raise error_type(
            f"The {file_kind} is damaged or too complex to be read: it takes more than"
            f" {MEMORY_LIMIT_BYTES // 1_000_000:,} MB of memory."
        ) from None
    except UnprintableArt as error:
        raise error_type(error.message) from None


def _run_task(
    task_name: str, data: bytes, seconds: int, options: MessageHead | None = None
) -> tuple[MessageHead, bytes]:
    """What a child made of the data, or UnprintableArt with its reason."""
    head, body = DECODER_POOL.run(task_name, data, cpu_seconds=seconds, seconds=2 * seconds, options=options)
    if "refused" in head:
        raise UnprintableArt(str(head["refused"])[:_MAX_NOTE_LENGTH])
    return head, body


def _read_notes(head: MessageHead) -> tuple[str, ...]:
    notes = head.get("notes")
    return tuple(str(note)[:_MAX_NOTE_LENGTH] for note in notes[:_MAX_NOTES]) if isinstance(notes, list) else ()
