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

from quillpost.recipients.imports.examiner import FRAME_HEADER, RESPONSE_HEADER
from quillpost.recipients.imports.rows import RowPlan

# They get no more of our surroundings than they need to start: no secret is among them.
_ENVIRONMENT_NAMES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "HOME", "PYTHONPYCACHEPREFIX")
CHUNKS_PER_PROCESS = 2
"""Chunks that wait for each process, so that none does."""

MAX_PROCESSES = 4
"""Processes, however many processors there are: two examine rows faster than the database puts them on their
list, and each takes some 25 MB with the chunks that wait for it."""


@dataclass(frozen=True, slots=True)
class RowChunk:
    """Rows that follow each other in a file, the place of the first and the lines where they begin."""

    first_row: int
    lines: list[int]
    rows: list[list[str]]
    errors: dict[int, str]
    """Of rows that could not be read at all, why, by their place in the chunk."""
    bytes_read: int

    @property
    def row_count(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class ExaminedChunk:
    """What became of a chunk, as the database copies it."""

    chunk: RowChunk
    accepted_data: bytes
    rejected_data: bytes
    accepted_count: int
    rejected_count: int


class ExaminerDied(Exception):
    """One of the processes ended: killed, or out of memory."""


class ExaminerPool:
    """Use it with `with`: the processes end with it."""

    def __init__(self, plan: RowPlan, import_id: int, *, size: int | None = None) -> None:
        self._import_id = import_id
        count = size or min(MAX_PROCESSES, len(os.sched_getaffinity(0)))
        self._sockets, worker_sockets = zip(*(socket.socketpair() for _ in range(count)), strict=True)
        self._process = _start_processes(worker_sockets)
        plan_frame = _pack_frame((list(map(tuple, plan.fields)), plan.width, plan.suppress_by))
        self._idle_workers: SimpleQueue[tuple[socket.socket, IO[bytes]]] = SimpleQueue()
        for worker_socket in self._sockets:
            worker_socket.sendall(plan_frame)
            self._idle_workers.put((worker_socket, worker_socket.makefile("rb")))
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="examine")

    @property
    def pid(self) -> int:
        """Of the process whose children they are, and whose group they are in."""
        return self._process.pid

    @property
    def size(self) -> int:
        return len(self._sockets)

    def examine(self, chunks: Iterable[RowChunk]) -> Iterator[ExaminedChunk]:
        """What became of each chunk, in their order; a few are read ahead."""
        pending: deque[Future[ExaminedChunk]] = deque()
        for chunk in chunks:
            pending.append(self._threads.submit(self._examine_chunk, chunk))
            if len(pending) >= CHUNKS_PER_PROCESS * self.size:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def _examine_chunk(self, chunk: RowChunk) -> ExaminedChunk:
        chunk_frame = _pack_frame((self._import_id, chunk.first_row, chunk.lines, chunk.rows, chunk.errors))
        worker_socket, responses = self._idle_workers.get()
        try:
            worker_socket.sendall(chunk_frame)
            accepted_count, rejected_count, accepted_size, rejected_size = RESPONSE_HEADER.unpack(
                _read_exactly(responses, RESPONSE_HEADER.size)
            )
            return ExaminedChunk(
                chunk,
                _read_exactly(responses, accepted_size),
                _read_exactly(responses, rejected_size),
                accepted_count,
                rejected_count,
            )
        except OSError as failure:
            raise ExaminerDied("A process that examined rows has ended.") from failure
        finally:
            self._idle_workers.put((worker_socket, responses))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._threads.shutdown(cancel_futures=True)
        while not self._idle_workers.empty():
            self._idle_workers.get()[1].close()
        for worker_socket in self._sockets:
            worker_socket.close()


def _start_processes(sockets: Sequence[socket.socket]) -> subprocess.Popen[bytes]:
    """In a group of their own: they end together, and a Ctrl-C is their parent's to hear."""
    descriptors = [worker_socket.fileno() for worker_socket in sockets]
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "quillpost.recipients.imports.examiner", *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=descriptors,
            env={name: os.environ[name] for name in _ENVIRONMENT_NAMES if name in os.environ},
            start_new_session=True,
        )
    finally:
        for worker_socket in sockets:
            worker_socket.close()


def _pack_frame(value: Any) -> bytes:
    data = marshal.dumps(value)
    return FRAME_HEADER.pack(len(data)) + data


def _read_exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise OSError("The answer breaks off.")
    return data
