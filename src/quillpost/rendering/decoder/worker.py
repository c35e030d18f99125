"""The decoder process: `python -m quillpost.rendering.decoder.worker FD`.

It forks a child for each job from the socket, which drops its rights before it reads a byte. All end with the service.
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

from quillpost.rendering.decoder.messages import ENDED_KEY, STARTED_SIGNAL, receive_message, send_message
from quillpost.rendering.decoder.tasks import DECODER_TASKS, DecoderTask, preload_libraries
from quillpost.rendering.images.rules import UnprintableArt

IDLE_CHILDREN_COUNT = 2


class IdleChildren:
    """Children forked ahead of work, so that no job waits for a fork."""

    def __init__(self, tasks: Mapping[str, DecoderTask]) -> None:
        self._tasks = tasks
        self._idle: deque[tuple[int, socket]] = deque()

    def refill(self) -> None:
        with suppress(OSError):  # no room to fork; there may be when a job comes
            while len(self._idle) < IDLE_CHILDREN_COUNT:
                self._idle.append(self._fork_child())

    def assign_job(self, job: socket) -> int | None:
        """The child that has the job now; None if none could be forked."""
        with suppress(OSError):
            while True:
                child, connection = self._idle.popleft() if self._idle else self._fork_child()
                with connection, suppress(BrokenPipeError):  # one that has been killed meanwhile
                    send_fds(connection, [b"j"], [job.fileno()])
                    return child
        return None

    def _fork_child(self) -> tuple[int, socket]:
        ours, theirs = socketpair()
        with theirs:
            child = os.fork()
            if child == 0:
                _run_child(theirs, self._tasks)
        return child, ours


def serve(control: socket, tasks: Mapping[str, DecoderTask]) -> None:
    running_jobs: dict[int, socket] = {}
    idle_children = IdleChildren(tasks)
    with _open_exit_signal_socket() as exit_signals:
        while True:
            idle_children.refill()
            ready, _, _ = select.select([control, exit_signals], [], [])
            if exit_signals in ready:
                exit_signals.recv(1024)
                _reap_children(running_jobs)
            if control in ready:
                _, handles, _, _ = recv_fds(control, 1, 1)
                if not handles:
                    break
                job = socket(fileno=handles[0])
                child = idle_children.assign_job(job)
                if child is None:  # closing the job reports it
                    job.close()
                else:
                    running_jobs[child] = job
    os.killpg(0, signal.SIGKILL)


def _open_exit_signal_socket() -> socket:
    """Readable whenever a child has ended."""
    receiver, sender = socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return receiver


def _reap_children(running_jobs: dict[int, socket]) -> None:
    """Report which signal ended a child: it could not do so itself."""
    with suppress(ChildProcessError):
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                break
            job = running_jobs.pop(child, None)
            if job is not None:
                with job, suppress(OSError):
                    if os.WIFSIGNALED(status):
                        job.setblocking(False)
                        send_message(job, {ENDED_KEY: os.WTERMSIG(status)})


def _run_child(connection: socket, tasks: Mapping[str, DecoderTask]) -> None:
    """Never returns into the parent's code."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _close_all_files_but(connection.fileno())
        _, handles, _, _ = recv_fds(connection, 1, 1)
        if handles:
            connection.close()
            _run_task(socket(fileno=handles[0]), tasks)
    finally:
        os._exit(0)


def _run_task(job: socket, tasks: Mapping[str, DecoderTask]) -> None:
    with job:
        send_fds(job, [STARTED_SIGNAL], [os.pidfd_open(os.getpid())])
        request, _ = receive_message(job)
        _apply_limits(cpu_seconds=request["cpu_seconds"], seconds=request["seconds"], memory=request["memory"])
        _, data = receive_message(job)
        try:
            head, body = tasks[request["work"]](data, request["how"])
        except UnprintableArt as error:
            head, body = {"refused": error.message}, b""
        send_message(job, head, body)


def _close_all_files_but(open_handle: int) -> None:
    dev_null = os.open(os.devnull, os.O_RDWR)
    for standard_handle in (0, 1, 2):
        os.dup2(dev_null, standard_handle)
    os.closerange(3, open_handle)
    os.closerange(open_handle + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.chdir("/")


def _apply_limits(*, cpu_seconds: int, seconds: float, memory: int) -> None:
    """From here on: no new file, no new process, and an end in any case."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_AS, memory),
    ):
        resource.setrlimit(kind, (limit, limit))
    # What it took to get ready is not counted. The first says why it ends; the second ends it in any case.
    limit = cpu_seconds + math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))


def main(tasks: Mapping[str, DecoderTask]) -> None:
    gc.collect()
    gc.freeze()  # what all children share is not written to, and stays shared
    with socket(AF_UNIX, SOCK_STREAM, fileno=int(sys.argv[1])) as control:
        serve(control, tasks)


if __name__ == "__main__":
    preload_libraries()
    main(DECODER_TASKS)
