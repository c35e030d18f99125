"""Processes of bounded means that read what strangers send: no files, no network, no secrets of ours."""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from quillpost.core.clients import ClientGone, current_client
from quillpost.core.errors import Unavailable
from quillpost.rendering.decoder.messages import ENDED, STARTED, Broken, Head, receive_message, send_message

MEMORY: Final = 1_500_000_000
"""Bytes of address space, of which the libraries themselves take a third."""

SHORT_SECONDS: Final = 2.0
"""What honest files are done with in. Whoever takes longer gives way to the others."""

_START_SECONDS = 30.0
_ATTEMPTS = 3
_LAST = 15
_SPENT = frozenset({signal.SIGXCPU, signal.SIGALRM})
"""What ends a child whose time is over."""

# The decoder gets no more of our surroundings than it needs to start: no secret is among them.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class TookTooLong(Exception):
    """The work was not done in time; it has been ended."""


class Died(Exception):
    """The work ended without an answer: out of memory, killed, or crashed."""


class Nursery:
    """A decoder process that is started when it is first needed, and anew whenever it is gone.

    It forks a child for each piece of work, with all libraries loaded, which takes a few milliseconds.
    """

    def __init__(self, module: str = "quillpost.rendering.decoder.process") -> None:
        self._module = module
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    def run(
        self,
        work: str,
        data: bytes,
        *,
        cpu_seconds: int,
        seconds: float,
        memory: int = MEMORY,
        how: Head | None = None,
    ) -> tuple[Head, bytes]:
        """The answer of one child. `seconds` count from its start; threads may run several at once.

        A child whose client goes is ended, and `ClientGone` raised.
        """
        order = {
            "work": work, "how": how or {}, "cpu_seconds": cpu_seconds, "seconds": seconds, "memory": memory,
        }  # fmt: skip
        for _ in range(_ATTEMPTS):
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    self._hand_over(theirs)
                child = _started(ours)
                if child is not None:
                    with child:
                        return _answer(ours, child, order, data, seconds)
        raise Unavailable("The service cannot read files at the moment. Try again shortly.")

    def warm_up(self) -> None:
        """Start the decoder now, so that nobody has to wait for it. It gets ready by itself."""
        with self._lock:
            if self._control is None or self._owner != os.getpid():
                self._start()

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


class _Child:
    """A child at work, by a handle that never means another process. It ends with the block."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle
        self._lock = Lock()

    def kill(self) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def give_way(self) -> None:
        """Compute only while nobody else on the machine wants to."""
        with self._lock, suppress(OSError):
            known = Path(f"/proc/self/fdinfo/{self._handle}").read_text()
            number = int(known.partition("Pid:")[2].split()[0])
            if number > 0:  # it is still there
                os.setpriority(os.PRIO_PROCESS, number, _LAST)

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
            self._handle = None


def _started(job: socket.socket) -> _Child | None:
    """The child that has taken the job; if there is none, its decoder died or could not fork.

    What it says here can be believed: it has not read anything yet.
    """
    job.settimeout(_START_SECONDS)
    try:
        word, handles, _, _ = socket.recv_fds(job, 1, 1)
    except OSError:
        return None
    return _Child(handles[0]) if word == STARTED and handles else None


def _answer(
    job: socket.socket, child: _Child, order: Head, data: bytes, seconds: float
) -> tuple[Head, bytes]:
    ends = time.monotonic() + seconds
    client = current_client()

    def wait_no_longer() -> None:
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        job.settimeout(left)

    try:
        with client.when_gone(child.kill):
            with suppress(BrokenPipeError, ConnectionResetError):  # one that ended meanwhile is told of below
                wait_no_longer()
                send_message(job, order)
                send_message(job, {}, data)
            if not _answers_soon(job, min(SHORT_SECONDS, seconds)):
                child.give_way()
            head, body = receive_message(job, wait_no_longer)
    except TimeoutError:
        raise TookTooLong from None
    except (OSError, Broken):
        head, body = {ENDED: None}, b""
    if ENDED not in head:
        return head, body
    if client.is_gone:
        raise ClientGone
    raise TookTooLong if head[ENDED] in _SPENT else Died


def _answers_soon(job: socket.socket, seconds: float) -> bool:
    line = select.poll()
    line.register(job, select.POLLIN)
    return bool(line.poll(1_000 * seconds))


NURSERY: Final = Nursery()
atexit.register(NURSERY.close)
