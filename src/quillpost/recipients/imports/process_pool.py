"""Processes that examine rows on several processors, in the order of the file."""

import gc
import marshal
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Self

from quillpost.recipients.imports.models import ExaminedChunk, RowChunk, RowPlan
from quillpost.recipients.imports.rules import RowReader, examine_rows

FRAME_HEADER = struct.Struct("<Q")
RESPONSE_HEADER = struct.Struct("<QQQQ")
"""Accepted rows, rejected rows, and the bytes of each."""

MAX_MEMORY_BYTES = 1_500_000_000
"""Address space: a chunk of rows takes a hundredth of it."""


# They get no more of our surroundings than they need to start: no secret is among them.
_ENVIRONMENT_NAMES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "HOME", "PYTHONPYCACHEPREFIX")
CHUNKS_PER_PROCESS = 2
MAX_PROCESSES = 4
"""Two examine rows faster than the database inserts them, and each takes some 25 MB with its chunks."""


class ExaminerDied(Exception):
    """One of the processes was killed, or ran out of memory."""


class ExaminerPool:
    """A context manager: the processes end with it."""

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
        """Of the parent process of the group."""
        return self._process.pid

    @property
    def size(self) -> int:
        return len(self._sockets)

    def examine(self, chunks: Iterable[RowChunk]) -> Iterator[ExaminedChunk]:
        """In order; a few chunks are read ahead."""
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
            header = _read_exactly(responses, RESPONSE_HEADER.size)
            accepted_count, rejected_count, accepted_size, rejected_size = RESPONSE_HEADER.unpack(header)
            accepted_data = _read_exactly(responses, accepted_size)
            rejected_data = _read_exactly(responses, rejected_size)
            return ExaminedChunk(chunk, accepted_data, rejected_data, accepted_count, rejected_count)
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
    """In a group of their own: they end together, and do not get a Ctrl-C."""
    descriptors = [worker_socket.fileno() for worker_socket in sockets]
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "quillpost.recipients.imports.process_pool", *map(str, descriptors)],
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


def main() -> None:
    """Load everything, then fork: the workers share the memory."""
    for resource_kind, limit in ((resource.RLIMIT_AS, MAX_MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(resource_kind, (limit, limit))
    sockets = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    warm_up()
    gc.collect()
    gc.freeze()
    workers = [_fork_worker(worker_socket, sockets) for worker_socket in sockets]
    for worker_socket in sockets:
        worker_socket.close()
    for worker in workers:
        os.waitpid(worker, 0)


def warm_up() -> None:
    """Load the tables of addresses."""
    for line in ("12 N Main St Apt 4, Austin, TX 78701", "The Old Mill, 3 1/2 River Road, Salem, MA 01970"):
        RowReader(RowPlan([(0, "address")], 1)).read_person([line])


def _fork_worker(own_socket: socket.socket, sockets: Sequence[socket.socket]) -> int:
    worker_pid = os.fork()
    if worker_pid:
        return worker_pid
    for worker_socket in sockets:
        if worker_socket is not own_socket:
            worker_socket.close()
    try:
        with suppress(OSError):  # nobody is left to ask
            _serve(own_socket)
    finally:
        os._exit(0)


def _serve(worker_socket: socket.socket) -> None:
    source = worker_socket.makefile("rb")
    plan_values = _read_frame(source)
    if plan_values is None:
        return
    reader = RowReader(RowPlan(*plan_values))
    gc.disable()  # rows make no circles: it is enough to look for some after each chunk
    while (chunk := _read_frame(source)) is not None:
        people, rejects = examine_rows(reader, *chunk)
        accepted_data, rejected_data = "".join(people).encode(), "".join(rejects).encode()
        worker_socket.sendall(
            RESPONSE_HEADER.pack(len(people), len(rejects), len(accepted_data), len(rejected_data))
            + accepted_data
            + rejected_data
        )
        gc.collect()


def _read_frame(source: IO[bytes]) -> Any:
    header = source.read(FRAME_HEADER.size)
    if len(header) < FRAME_HEADER.size:
        return None
    (size,) = FRAME_HEADER.unpack(header)
    return marshal.loads(source.read(size))  # noqa: S302 (our own parent wrote it)


if __name__ == "__main__":
    main()
