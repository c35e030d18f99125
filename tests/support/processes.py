"""`quillpost` as processes of their own: started, watched, stopped, killed, also at a point in the program."""

import importlib
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

HOUR = 3_600


@dataclass(frozen=True)
class CrashPoint:
    """Right before, or right after, the n-th call of a function, named `package.module:Class.function`; or
    that call takes an hour (`during`).

    The name is that of the place where it is looked up: a function that another module imported by name
    is that module's.
    """

    function: str
    moment: Literal["before", "after", "during"]
    call: int = 1

    def __str__(self) -> str:
        short = self.function.removeprefix("quillpost.").replace(":", ".")
        return f"{self.moment} call {self.call} of {short}"

    def install(self) -> None:
        """Arm this process; it dies when it gets there."""
        module, _, path = self.function.partition(":")
        *holders, name = path.split(".")
        place: Any = importlib.import_module(module)
        for holder in holders:
            place = getattr(place, holder)
        setattr(place, name, self._armed(getattr(place, name)))

    def _armed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        numbers = count(1)
        if inspect.iscoroutinefunction(original):

            @wraps(original)
            async def crash_async(*args: Any, **options: Any) -> Any:
                fatal = next(numbers) == self.call
                _die_if(fatal and self.moment == "before")
                result = await original(*args, **options)
                _die_if(fatal)
                return result

            return crash_async

        @wraps(original)
        def crash(*args: Any, **options: Any) -> Any:
            fatal = next(numbers) == self.call
            if fatal and self.moment == "during":
                time.sleep(HOUR)
            _die_if(fatal and self.moment == "before")
            result = original(*args, **options)
            _die_if(fatal)
            return result

        return crash


def _die_if(fatal: bool) -> None:
    if fatal:
        os.kill(os.getpid(), signal.SIGKILL)


FAST = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "1",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "2",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.5",
    "QUILLPOST_JOB_STALL_SECONDS": "3",
    "QUILLPOST_ALLOW_PRIVATE_URLS": "true",
    "QUILLPOST_CALLS_A_MINUTE": "100000",
}
"""Settings under which an order is delivered in seconds, and a dead worker is missed as soon."""

FORK_COMMANDS = "import sys; sys.path.insert(0, sys.argv[1]); from support import command_forker as c; c.run()"
OUR_PROGRAM = (sys.executable, "-c", "from quillpost.cli import main; main()")
WITHOUT_OUTPUT = ("sh", "-c", 'exec "$0" "$@" >&- 2>&-', *OUR_PROGRAM)
PATIENCE = 150.0
"""Seconds, on a machine that is busy with much else."""

T = TypeVar("T")


def until(look: Callable[[], T | None], *, what: str, seconds: float = PATIENCE) -> T:
    """The first look that finds something; a test that waits in vain fails with what it waited for."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def status_of(url: str) -> int:
    """0 where nobody answers. For many looks a second: a whole client for each would take the processor from whoever
    starts."""
    place = urlsplit(url)
    connection = HTTPConnection(place.netloc, timeout=5)
    try:
        connection.request("GET", place.path)
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def answers(url: str, path: str = "/ready") -> bool:
    return status_of(url + path) == 200


class Service:
    """`quillpost serve` as a person starts it."""

    def __init__(
        self,
        output: Path,
        *arguments: str,
        settings: Mapping[str, str],
        port: int | None = None,
        program: Sequence[str] = OUR_PROGRAM,
    ) -> None:
        port = port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._output = output
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                [*program, "serve", "--port", str(port), *arguments],
                env={**_with_kept_bytecode(), **FAST, **settings},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return self._output.read_text()

    def ready(self) -> "Service":
        """The same, once it says that it is ready."""
        until(self._ready_or_dead, what=f"{self.url} ready")
        return self

    def stop(self, number: int = signal.SIGINT, *, within: float = PATIENCE) -> int:
        """Its exit code."""
        self._process.send_signal(number)
        return self._process.wait(within)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ready_or_dead(self) -> bool:
        assert self._process.poll() is None, f"it ended with {self._process.returncode}:\n{self.output}"
        return answers(self.url)


def _with_kept_bytecode() -> dict[str, str]:
    """Our environment; what a first start compiles a later one finds, as in an installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class CommandRunner:
    """Where commands are started cheaply; see `command_forker.py`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORK_COMMANDS, str(Path(__file__).parents[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(
        self, *arguments: str, settings: Mapping[str, str], crash: CrashPoint | None = None, user: int | None = None
    ) -> "Command":
        self._started += 1
        output = self._folder / f"{self._started}.log"
        pid = self.ask(
            start=arguments,
            environment={**FAST, **settings},
            output=str(output),
            crash=None if crash is None else asdict(crash),
            user=user,
        )
        return Command(self, int(pid), output)

    @contextmanager
    def serving(
        self, *arguments: str, settings: Mapping[str, str], path: str = "/health", crash: CrashPoint | None = None
    ) -> Iterator["Command"]:
        """`quillpost serve` on a port of its own, once it answers there; stopped at the end, if it is not by then."""
        port = free_port()
        server = self.start("serve", "--port", str(port), *arguments, settings=settings, crash=crash)
        server.url = f"http://127.0.0.1:{port}"
        try:
            until(lambda: answers(server.url, path), what=f"{path} of the server")
            yield server
        finally:
            server.stop()

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """The processes that are left end too."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Command:
    """One command that the command_runner started."""

    def __init__(self, command_runner: CommandRunner, pid: int, output: Path) -> None:
        self._command_runner = command_runner
        self._output = output
        self.pid = pid
        self.url = ""
        self._status: int | None = None

    @property
    def output(self) -> str:
        return self._output.read_text() if self._output.exists() else ""

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit status; negative: the signal that ended it."""
        if self._status is None:
            self._status = self._command_runner.ask(wait=self.pid, seconds=seconds)
        assert self._status is not None, f"still alive after {seconds:.0f} s:\n{self.output}"
        return self._status

    def has_ended(self) -> bool:
        if self._status is None:
            self._status = self._command_runner.ask(wait=self.pid, seconds=0)
        return self._status is not None

    def stop(self, number: int = signal.SIGTERM, *, within: float = PATIENCE) -> int:
        if not self.has_ended():
            os.kill(self.pid, number)
        return self.wait(within)
