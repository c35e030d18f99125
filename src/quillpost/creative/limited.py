"""Reading what strangers send, in a process of bounded means: no files, no network, no secrets of ours."""

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from threading import Lock

from quillpost.composition.art.intake import PrintablePicture
from quillpost.composition.art.limits import MOST_PAGES
from quillpost.composition.art.papers import PrintablePages, count_pages
from quillpost.composition.art.picture import read_picture
from quillpost.composition.art.refusals import BadArt, BadImage, BadPdf
from quillpost.composition.art.signatures import JPEG
from quillpost.composition.art.tones import CELL_BYTES, GRID, Tones
from quillpost.creative.messages import STARTED, Broken, Head, receive_message, send_message
from quillpost.kit.errors import Unavailable

MEMORY = 1_500_000_000
PICTURE_SECONDS = 20
PAGES_SECONDS = 40

_LONGEST_NOTE = 1_000
_MOST_NOTES = 100
_START_SECONDS = 30.0
_ATTEMPTS = 3

# The decoder gets no more of our surroundings than it needs to start: no secret is among them.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class TookTooLong(Exception):
    """The work was not done in time; it has been ended."""


class Died(Exception):
    """The work ended without an answer: out of memory, killed, or crashed."""


class Nursery:
    """A decoder process that is started when it is first needed, and anew whenever it is gone."""

    def __init__(self, module: str = "quillpost.creative.decoder") -> None:
        self._module = module
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    def run(
        self, work: str, data: bytes, *, cpu_seconds: int, seconds: float, memory: int = MEMORY
    ) -> tuple[Head, bytes]:
        """The answer of one child. `seconds` count from its start; threads may run several at once."""
        order = {"work": work, "cpu_seconds": cpu_seconds, "seconds": seconds, "memory": memory}
        for _ in range(_ATTEMPTS):
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    self._hand_over(theirs)
                if _has_started(ours):
                    return _answer(ours, order, data, seconds)
        raise Unavailable("The service cannot read files at the moment. Try again shortly.")

    def close(self) -> None:
        """End the decoder and whatever it is doing."""
        with self._lock:
            self._forget()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _hand_over(self, job: socket.socket) -> None:
        with self._lock:
            if self._control is not None and self._owner == os.getpid():
                try:
                    socket.send_fds(self._control, [b"j"], [job.fileno()])
                    return
                except OSError:
                    self._forget()
            socket.send_fds(self._start(), [b"j"], [job.fileno()])

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
                | {"OPENBLAS_NUM_THREADS": "1"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control, self._owner = ours, os.getpid()
        return ours

    def _forget(self) -> None:
        """Let go of a decoder, and of whatever it was doing."""
        if self._control is not None:
            self._control.close()
        if self._process is not None and self._owner == os.getpid():
            # Not asked but made to: one that has stopped would keep us waiting for ever.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._control = self._process = None


def limited_picture(data: bytes) -> PrintablePicture:
    """As `printable_picture`, at no risk."""
    notes, body = _made("picture", data, PICTURE_SECONDS, "image", BadImage)
    width, height = read_picture(body).upright_size
    kind = "image/jpeg" if body.startswith(JPEG) else "image/png"
    return PrintablePicture(body, kind, width, height, notes)


def limited_pages(data: bytes) -> PrintablePages:
    """As `printable_pages`, at no risk."""
    notes, body = _made("pages", data, PAGES_SECONDS, "PDF", BadPdf)
    count = count_pages(body)
    if not 1 <= count <= MOST_PAGES:
        raise BadPdf("The PDF is damaged or too complex to be read.")
    return PrintablePages(body, count, notes)


def limited_tones(data: bytes, width: int, height: int) -> Tones:
    """The colors of a printable picture of that size, at no risk."""
    _, cells = _made("tones", data, PICTURE_SECONDS, "image", BadImage)
    if len(cells) != GRID * GRID * CELL_BYTES:
        raise BadImage("The image is damaged or too complex to be read.")
    return Tones(width, height, cells)


def _made(
    work: str, data: bytes, seconds: int, what: str, refusal: type[BadArt]
) -> tuple[tuple[str, ...], bytes]:
    """Notes on what a child made of the data, and that; or the refusal that says why it made nothing.

    The child may have been taken over by what it read: what it made is to be looked at, not believed.
    """
    try:
        head, body = _NURSERY.run(work, data, cpu_seconds=seconds, seconds=2 * seconds)
    except TookTooLong:
        raise refusal(f"The {what} took too long to read: it is damaged or too complex.") from None
    except (Died, Broken):
        raise refusal(f"The {what} is damaged or too complex to be read.") from None
    if "refused" in head:
        raise refusal(str(head["refused"])[:_LONGEST_NOTE])
    return _notes(head), body


def _has_started(job: socket.socket) -> bool:
    """Whether a child has taken the job; if not, its decoder died or could not fork."""
    job.settimeout(_START_SECONDS)
    try:
        return job.recv(1) == STARTED
    except OSError:
        return False


def _answer(job: socket.socket, order: Head, data: bytes, seconds: float) -> tuple[Head, bytes]:
    ends = time.monotonic() + seconds

    def wait_no_longer() -> None:
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        job.settimeout(left)

    try:
        wait_no_longer()
        send_message(job, order)
        send_message(job, {}, data)
        return receive_message(job, wait_no_longer)
    except TimeoutError:
        raise TookTooLong from None
    except (OSError, Broken):
        raise (TookTooLong if time.monotonic() >= ends else Died) from None


def _notes(head: Head) -> tuple[str, ...]:
    notes = head.get("notes")
    return tuple(str(note)[:_LONGEST_NOTE] for note in notes[:_MOST_NOTES]) if isinstance(notes, list) else ()


_NURSERY = Nursery()
atexit.register(_NURSERY.close)
