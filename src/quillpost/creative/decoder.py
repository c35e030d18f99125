"""The process that reads what strangers send: `python -m quillpost.creative.decoder FD`.

It waits on a socket for connections, one a job, and forks a child for each, which gives up every right
that it does not need before it reads a byte. It ends, with its children, when the service does.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import AF_UNIX, SOCK_STREAM, recv_fds, socket

from quillpost.composition.art.intake import printable_picture
from quillpost.composition.art.papers import printable_pages
from quillpost.composition.art.refusals import BadArt
from quillpost.composition.art.tones import measure_tones
from quillpost.creative.messages import STARTED, Head, receive_message, send_message
from quillpost.creative.rehearsal import specimen_pages, specimen_pictures

Work = Callable[[bytes], tuple[Head, bytes]]


def read_picture(data: bytes) -> tuple[Head, bytes]:
    made = printable_picture(data)
    return {"notes": made.notes}, made.data


def read_pages(data: bytes) -> tuple[Head, bytes]:
    made = printable_pages(data)
    return {"notes": made.notes}, made.data


def read_tones(data: bytes) -> tuple[Head, bytes]:
    return {}, measure_tones(data)


WORKS: Mapping[str, Work] = {"picture": read_picture, "pages": read_pages, "tones": read_tones}


def serve(control: socket, works: Mapping[str, Work]) -> None:
    """Fork a child for each connection that arrives, until the other side is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    while True:
        _, arrived, _, _ = recv_fds(control, 1, 1)
        if not arrived:
            break
        with (
            socket(fileno=arrived[0]) as job,
            suppress(OSError),
        ):  # no room to fork: the job is told by its end
            if os.fork() == 0:
                _work_and_end(control, job, works)
    os.killpg(0, signal.SIGKILL)


def _work_and_end(control: socket, job: socket, works: Mapping[str, Work]) -> None:
    """The child's whole life. It never returns into its parent's."""
    try:
        control.close()
        _leave_everything_but(job.fileno())
        job.sendall(STARTED)
        order, _ = receive_message(job)
        _accept_limits(cpu_seconds=order["cpu_seconds"], seconds=order["seconds"], memory=order["memory"])
        _, data = receive_message(job)
        try:
            answer, made = works[order["work"]](data)
        except BadArt as bad:
            answer, made = {"refused": bad.message}, b""
        send_message(job, answer, made)
    finally:
        os._exit(0)


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
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory),
    ):
        resource.setrlimit(kind, (most, most))


def rehearse() -> None:
    """Read every kind of file once, so that no child has to load a library."""
    pictures = specimen_pictures()
    for work, specimens in ((read_picture, pictures), (read_pages, specimen_pages()), (read_tones, pictures)):
        for specimen in specimens:
            with suppress(BadArt):
                work(specimen)


def main(works: Mapping[str, Work]) -> None:
    with socket(AF_UNIX, SOCK_STREAM, fileno=int(sys.argv[1])) as control:
        serve(control, works)


if __name__ == "__main__":
    rehearse()
    main(WORKS)
