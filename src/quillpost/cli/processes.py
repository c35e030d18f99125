"""Several server processes and the one that looks after them."""

import signal
import time
from types import FrameType
from typing import Any

import structlog
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from quillpost import wiring
from quillpost.cli.deadline import LAST_SECONDS, PARENT_SECONDS, PROCESS_SECONDS, Deadline

log = structlog.get_logger(__name__)

SILENT_SECONDS = 60.0
"""A process that is silent for so long hangs, and is replaced. A busy machine takes its time to start one."""


BETWEEN_LOOKS = 0.1


class ServerProcesses(Multiprocess):
    """As uvicorn's, which waits for each process's answer, and hears no signal meanwhile."""

    def __init__(self, config: Config, sockets: list[Any], ground: wiring.Ground) -> None:
        super().__init__(config, sockets=sockets)
        self._ground = ground
        self._deadline = Deadline(PARENT_SECONDS, last=ground.close)
        self._asked_at: dict[Process, float] = {}

    def run(self) -> None:
        self.init_processes()
        while not self.should_exit.wait(BETWEEN_LOOKS):
            self.handle_signals()
            self.keep_subprocess_alive()
        self.terminate_all()
        self.join_all()

    def handle_int(self) -> None:
        self._deadline.start()
        super().handle_int()

    def handle_term(self) -> None:
        self._deadline.start()
        super().handle_term()

    def terminate_all(self) -> None:
        self._ground.retire()
        super().terminate_all()

    def join_all(self) -> None:
        """Each ends by itself in time; one that cannot, because it is stopped say, is made to."""
        until = time.monotonic() + PROCESS_SECONDS + LAST_SECONDS
        for process in self.processes:
            process.process.join(max(0.0, until - time.monotonic()))
            if process.process.is_alive():
                log.error("server.killed", process=process.pid)
                process.process.kill()
                process.process.join()

    def keep_subprocess_alive(self) -> None:
        for index, process in enumerate(self.processes):
            if self.should_exit.is_set() or self._is_well(process):
                continue
            process.kill()
            process.process.join()
            self._asked_at.pop(process, None)
            if process.exitcode == STARTUP_FAILURE:
                log.error("server.not_started", process=process.pid)
                self.should_exit.set()
                return
            log.error("server.died", process=process.pid, exit_code=process.exitcode)
            self.processes[index] = Process(self.config, self.sockets)
            self.processes[index].start()

    def _is_well(self, process: Process) -> bool:
        if not process.process.is_alive():
            return False
        try:
            if process.parent_conn.poll():
                process.parent_conn.recv()
                self._asked_at.pop(process, None)
            if process not in self._asked_at:
                process.parent_conn.send(b"ping")
                self._asked_at[process] = time.monotonic()
        except (OSError, EOFError):
            return False
        return time.monotonic() - self._asked_at[process] < SILENT_SECONDS


def end_in_time(deadline: Deadline) -> None:
    """In a child, whose server uvicorn makes: a signal that it handles starts the deadline too."""
    for number in (signal.SIGINT, signal.SIGTERM):
        usual: Any = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None, usual: Any = usual) -> None:
            deadline.start()
            usual(number, frame)

        signal.signal(number, handle)
