"""The process that reads what strangers send: `python -m quillpost.rendering.decoder.process FD`.

It waits on a socket for connections, one a job, and has a child of its own for each, which gives up every
right that it does not need before it reads a byte. It ends, with its children, when the service does.
"""

import gc
import math
import os
import resource
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from socket import AF_UNIX, SOCK_STREAM, recv_fds, send_fds, socket, socketpair

from quillpost.rendering.decoder.messages import ENDED, STARTED, receive_message, send_message
from quillpost.rendering.decoder.works import WORKS, Work, rehearse
from quillpost.rendering.images.limits import BadArt

SPARES = 2
"""Children that wait for work."""


class Spares:
    """Children that are forked before there is anything to do: nobody waits for that."""

    def __init__(self, works: Mapping[str, Work]) -> None:
        self._works = works
        self._idle: deque[tuple[int, socket]] = deque()

    def refill(self) -> None:
        with suppress(OSError):  # no room to fork: perhaps there is when somebody asks
            while len(self._idle) < SPARES:
                self._idle.append(self._forked())

    def take(self, job: socket) -> int | None:
        """The child that has the job now; none when there is no room for one."""
        with suppress(OSError):
            while True:
                child, line = self._idle.popleft() if self._idle else self._forked()
                with line, suppress(BrokenPipeError):  # one that has been killed meanwhile
                    send_fds(line, [b"j"], [job.fileno()])
                    return child
        return None

    def _forked(self) -> tuple[int, socket]:
        ours, theirs = socketpair()
        with theirs:
            child = os.fork()
            if child == 0:
                _wait_and_work(theirs, self._works)
        return child, ours


def serve(control: socket, works: Mapping[str, Work]) -> None:
    """Give each connection that arrives a child of its own, until the other side is gone."""
    under_way: dict[int, socket] = {}
    spares = Spares(works)
    with _waking_for_the_dead() as woken:
        while True:
            spares.refill()
            ready, _, _ = select.select([control, woken], [], [])
            if woken in ready:
                woken.recv(1024)
                _bury(under_way)
            if control in ready:
                _, arrived, _, _ = recv_fds(control, 1, 1)
                if not arrived:
                    break
                job = socket(fileno=arrived[0])
                child = spares.take(job)
                if child is None:  # the job is told by its end
                    job.close()
                else:
                    under_way[child] = job
    os.killpg(0, signal.SIGKILL)


def _waking_for_the_dead() -> socket:
    """Something to read whenever a child has ended."""
    woken, wakes = socketpair()
    woken.setblocking(False)
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def _bury(under_way: dict[int, socket]) -> None:
    """Say for those who were ended what ended them: they could not."""
    with suppress(ChildProcessError):
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                break
            job = under_way.pop(child, None)
            if job is not None:
                with job, suppress(OSError):
                    if os.WIFSIGNALED(status):
                        job.setblocking(False)
                        send_message(job, {ENDED: os.WTERMSIG(status)})


def _wait_and_work(line: socket, works: Mapping[str, Work]) -> None:
    """The child's whole life. It never returns into its parent's."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _leave_everything_but(line.fileno())
        _, arrived, _, _ = recv_fds(line, 1, 1)
        if arrived:
            line.close()
            _work(socket(fileno=arrived[0]), works)
    finally:
        os._exit(0)


def _work(job: socket, works: Mapping[str, Work]) -> None:
    with job:
        send_fds(job, [STARTED], [os.pidfd_open(os.getpid())])
        order, _ = receive_message(job)
        _accept_limits(cpu_seconds=order["cpu_seconds"], seconds=order["seconds"], memory=order["memory"])
        _, data = receive_message(job)
        try:
            answer, made = works[order["work"]](data, order["how"])
        except BadArt as bad:
            answer, made = {"refused": bad.message}, b""
        send_message(job, answer, made)


def _leave_everything_but(kept: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.chdir("/")


def _accept_limits(*, cpu_seconds: int, seconds: float, memory: int) -> None:
    """From here on no new file, no new process, and an end in any case."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_AS, memory),
    ):
        resource.setrlimit(kind, (most, most))
    # What it took to get ready is not counted. The first says why it ends; the second ends it in any case.
    most = cpu_seconds + math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))


def main(works: Mapping[str, Work]) -> None:
    gc.collect()
    gc.freeze()  # what all children share is not written to, and stays shared
    with socket(AF_UNIX, SOCK_STREAM, fileno=int(sys.argv[1])) as control:
        serve(control, works)


if __name__ == "__main__":
    rehearse()
    main(WORKS)
