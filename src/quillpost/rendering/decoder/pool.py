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

from quillpost.core.errors import Unavailable
from quillpost.core.requests import ClientDisconnected, current_client
from quillpost.rendering.decoder.messages import (
    ENDED_KEY,
    STARTED_SIGNAL,
    DecoderProtocolError,
    MessageHead,
    receive_message,
    send_message,
)

MEMORY_LIMIT_BYTES: Final = 1_500_000_000
"""Bytes of address space, of which the libraries themselves take a third."""

SHORT_SECONDS: Final = 2.0
"""What honest files are done with in. Whoever takes longer gives way to the others."""

_START_SECONDS = 30.0
_START_ATTEMPTS = 3
_LOWEST_PRIORITY = 15
_TIMEOUT_SIGNALS = frozenset({signal.SIGXCPU, signal.SIGALRM})
"""What ends a child whose time is over."""

# The decoder gets no more of our surroundings than it needs to start: no secret is among them.
_INHERITED_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class DecoderTimeout(Exception):
    """The work was not done in time; it has been ended."""


class DecoderDied(Exception):
    """The work ended without an answer: out of memory, killed, or crashed."""


class DecoderPool:
    """A decoder process that is started when it is first needed, and anew whenever it is gone.

    It forks a child for each piece of work, with all libraries loaded, which takes a few milliseconds.
    """

    def __init__(self, module: str = "quillpost.rendering.decoder.process") -> None:
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
        """The answer of one child. `seconds` count from its start; threads may run several at once.

        A child whose client goes is ended, and `ClientGone` raised.
        """
        request = {
            "work": work, "how": options or {}, "cpu_seconds": cpu_seconds, "seconds": seconds, "memory": memory,
        }  # fmt: skip
        for _ in range(_START_ATTEMPTS):
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
        """Start the decoder now, so that nobody has to wait for it. It gets ready by itself."""
        with self._lock:
            if self._control is None or self._owner_pid != os.getpid():
                self._start_process()

    def close(self) -> None:
        """End the decoder and whatever it is doing."""
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
        """Let go of a decoder, and of whatever it was doing."""
        if self._control is not None:
            self._control.close()
        if self._process is not None and self._owner_pid == os.getpid():
            # Not asked but made to: one that has stopped would keep us waiting for ever.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._control = self._process = None


class _DecoderChild:
    """A child at work, by a handle that never means another process. It ends with the block."""

    def __init__(self, handle: int) -> None:
        self._pid_handle: int | None = handle
        self._lock = Lock()

    def kill(self) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self._pid_handle is not None:
                signal.pidfd_send_signal(self._pid_handle, signal.SIGKILL)

    def lower_priority(self) -> None:
        """Compute only while nobody else on the machine wants to."""
        with self._lock, suppress(OSError):
            fd_info = Path(f"/proc/self/fdinfo/{self._pid_handle}").read_text()
            pid = int(fd_info.partition("Pid:")[2].split()[0])
            if pid > 0:  # it is still there
                os.setpriority(os.PRIO_PROCESS, pid, _LOWEST_PRIORITY)

    def __enter__(self) -> "_DecoderChild":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with self._lock:
            if self._pid_handle is not None:
                os.close(self._pid_handle)
            self._pid_handle = None


def _accept_child(job: socket.socket) -> _DecoderChild | None:
    """The child that has taken the job; if there is none, its decoder died or could not fork.

    What it says here can be believed: it has not read anything yet.
    """
    job.settimeout(_START_SECONDS)
    try:
        first_byte, handles, _, _ = socket.recv_fds(job, 1, 1)
    except OSError:
        return None
    return _DecoderChild(handles[0]) if first_byte == STARTED_SIGNAL and handles else None


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
            with suppress(BrokenPipeError, ConnectionResetError):  # one that ended meanwhile is told of below
                set_remaining_timeout()
                send_message(job, request)
                send_message(job, {}, data)
            if not _has_response_within(job, min(SHORT_SECONDS, seconds)):
                child.lower_priority()
            head, body = receive_message(job, set_remaining_timeout)
    except TimeoutError:
        raise DecoderTimeout from None
    except (OSError, DecoderProtocolError):
        head, body = {ENDED_KEY: None}, b""
    if ENDED_KEY not in head:
        return head, body
    if client.is_disconnected:
        raise ClientDisconnected
    raise DecoderTimeout if head[ENDED_KEY] in _TIMEOUT_SIGNALS else DecoderDied


def _has_response_within(job: socket.socket, seconds: float) -> bool:
    poller = select.poll()
    poller.register(job, select.POLLIN)
    return bool(poller.poll(1_000 * seconds))


DECODER_POOL: Final = DecoderPool()
atexit.register(DECODER_POOL.close)
