"""Processes that examine rows on several processors: what they are given comes back in the same order."""

import marshal
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Self

from quillpost.recipients.imports.examiner import ANSWER, SIZE
from quillpost.recipients.imports.rows import Plan

# They get no more of our surroundings than they need to start: no secret is among them.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "HOME", "PYTHONPYCACHEPREFIX")
AHEAD = 2
"""Chunks that wait for each process, so that none does."""

MOST = 4
"""Processes, however many processors there are: two examine rows faster than the database puts them on their
list, and each takes some 25 MB with the chunks that wait for it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that follow each other in a file, the place of the first and the lines where they begin."""

    first: int
    lines: list[int]
    rows: list[list[str]]
    faults: dict[int, str]
    """Of rows that could not be read at all, why, by their place in the chunk."""
    bytes_read: int

    @property
    def count(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Examined:
    """What became of a chunk, as the database copies it."""

    chunk: Chunk
    people: bytes
    rejects: bytes
    good: int
    bad: int


class ExaminerDied(Exception):
    """One of the processes ended: killed, or out of memory."""


class Crew:
    """Use it with `with`: the processes end with it."""

    def __init__(self, plan: Plan, import_id: int, *, size: int | None = None) -> None:
        self._import_id = import_id
        count = size or min(MOST, len(os.sched_getaffinity(0)))
        self._doors, theirs = zip(*(socket.socketpair() for _ in range(count)), strict=True)
        self._first = _started(theirs)
        order = _framed((list(map(tuple, plan.fields)), plan.width, plan.suppress_by))
        self._idle: SimpleQueue[tuple[socket.socket, IO[bytes]]] = SimpleQueue()
        for door in self._doors:
            door.sendall(order)
            self._idle.put((door, door.makefile("rb")))
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="examine")

    @property
    def pid(self) -> int:
        """Of the process whose children they are, and whose group they are in."""
        return self._first.pid

    @property
    def size(self) -> int:
        return len(self._doors)

    def examine(self, chunks: Iterable[Chunk]) -> Iterator[Examined]:
        """What became of each chunk, in their order; a few are read ahead."""
        under_way: deque[Future[Examined]] = deque()
        for chunk in chunks:
            under_way.append(self._threads.submit(self._one, chunk))
            if len(under_way) >= AHEAD * self.size:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    def _one(self, chunk: Chunk) -> Examined:
        order = _framed((self._import_id, chunk.first, chunk.lines, chunk.rows, chunk.faults))
        door, answers = self._idle.get()
        try:
            door.sendall(order)
            good, bad, people, rejects = ANSWER.unpack(_exactly(answers, ANSWER.size))
            return Examined(chunk, _exactly(answers, people), _exactly(answers, rejects), good, bad)
        except OSError as ended:
            raise ExaminerDied("A process that examined rows has ended.") from ended
        finally:
            self._idle.put((door, answers))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._first.pid, signal.SIGKILL)
        self._first.wait()
        self._threads.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get()[1].close()
        for door in self._doors:
            door.close()


def _started(doors: Sequence[socket.socket]) -> subprocess.Popen[bytes]:
    """In a group of their own: they end together, and a Ctrl-C is their parent's to hear."""
    numbers = [door.fileno() for door in doors]
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "quillpost.recipients.imports.examiner", *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=numbers,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            start_new_session=True,
        )
    finally:
        for door in doors:
            door.close()


def _framed(value: Any) -> bytes:
    data = marshal.dumps(value)
    return SIZE.pack(len(data)) + data


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise OSError("The answer breaks off.")
    return data
