"""Processes that examine rows on several processors, in the order of the file."""

import gc
import os
import resource
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from quillpost.recipients.addresses.cities import load_zip_codes
from quillpost.recipients.imports.models import ExaminedChunk, RowChunk, RowPlan
from quillpost.recipients.imports.rules import RowReader, examine_rows

RESPONSE_HEADER = struct.Struct("<QQ")
"""Accepted rows, and rejected rows; the bytes of each follow."""

MAX_MEMORY_BYTES = 1_500_000_000
"""Address space: a chunk of rows takes a hundredth of it."""

# They get no more of our surroundings than they need to start: no secret is among them.
_ENVIRONMENT_NAMES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "HOME", "PYTHONPYCACHEPREFIX")
CHUNKS_PER_PROCESS = 2
MAX_PROCESSES = 4
"""Two examine rows faster than the database inserts them, and each takes some 25 MB with its chunks."""


class ImportProcessDied(Exception):
    """One of the processes was killed, or ran out of memory."""


class ImportProcessPool:
    """A context manager: the processes end with it."""

    def __init__(self, plan: RowPlan, import_id: int, *, size: int | None = None) -> None:
        self._import_id = import_id
        count = size or min(MAX_PROCESSES, len(os.sched_getaffinity(0)))
        self._connections, worker_connections = zip(*(Pipe() for _ in range(count)), strict=True)
        self._process = _start_processes(worker_connections)
        self._idle_connections: SimpleQueue[Connection] = SimpleQueue()
        for connection in self._connections:
            connection.send(plan)
            self._idle_connections.put(connection)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="examine")

    @property
    def pid(self) -> int:
        """Of the parent process of the group."""
        return self._process.pid

    @property
    def size(self) -> int:
        return len(self._connections)

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
        connection = self._idle_connections.get()
        try:
            connection.send((self._import_id, chunk.first_row, chunk.lines, chunk.rows, chunk.errors))
            accepted_count, rejected_count = RESPONSE_HEADER.unpack(connection.recv_bytes())
            accepted_data, rejected_data = connection.recv_bytes(), connection.recv_bytes()
            return ExaminedChunk(chunk, accepted_data, rejected_data, accepted_count, rejected_count)
        except EOFError as failure:
            raise ImportProcessDied("The answer breaks off.") from failure
        except OSError as failure:
            raise ImportProcessDied("A process that examined rows has ended.") from failure
        finally:
            self._idle_connections.put(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._threads.shutdown(cancel_futures=True)
        for connection in self._connections:
            connection.close()


def _start_processes(worker_connections: Sequence[Connection]) -> subprocess.Popen[bytes]:
    """In a group of their own: they end together, and do not get a Ctrl-C."""
    descriptors = [connection.fileno() for connection in worker_connections]
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
        for connection in worker_connections:
            connection.close()


def main() -> None:
    """Load everything, then fork: the workers share the memory."""
    for resource_kind, limit in ((resource.RLIMIT_AS, MAX_MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(resource_kind, (limit, limit))
    connections = [Connection(int(number)) for number in sys.argv[1:]]
    warm_up()
    gc.collect()
    gc.freeze()
    workers = [_fork_worker(connection, connections) for connection in connections]
    for connection in connections:
        connection.close()
    for worker in workers:
        os.waitpid(worker, 0)


def warm_up() -> None:
    """Load the tables of addresses, all of them."""
    load_zip_codes()
    for line in ("12 N Main St Apt 4, Austin, TX 78701", "The Old Mill, 3 1/2 River Road, Salem, MA 01970"):
        RowReader(RowPlan([(0, "address")], 1)).read_person([line])


def _fork_worker(own_connection: Connection, connections: Sequence[Connection]) -> int:
    worker_pid = os.fork()
    if worker_pid:
        return worker_pid
    for connection in connections:
        if connection is not own_connection:
            connection.close()
    try:
        with suppress(OSError, EOFError):  # the import has ended
            _serve(own_connection)
    finally:
        os._exit(0)


def _serve(connection: Connection) -> None:
    reader = RowReader(connection.recv())
    gc.disable()  # rows make no circles: it is enough to look for some after each chunk
    while True:
        people, rejects = examine_rows(reader, *connection.recv())
        connection.send_bytes(RESPONSE_HEADER.pack(len(people), len(rejects)))
        connection.send_bytes("".join(people).encode())
        connection.send_bytes("".join(rejects).encode())
        gc.collect()


if __name__ == "__main__":
    main()
