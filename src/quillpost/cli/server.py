"""`quillpost serve`: one server process, or several and their supervisor."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing import parent_process
from threading import Thread
from types import FrameType
from typing import Annotated, Any

import structlog
import typer
import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Parts
from quillpost.app.outbound import note_receiver
from quillpost.cli.protocol import QuillpostProtocol
from quillpost.cli.runtime import make_ready
from quillpost.cli.welcome import Welcome, prepare_welcome
from quillpost.cli.worker import (
    ANSWER_SECONDS,
    LAST_SECONDS,
    PARENT_SECONDS,
    PROCESS_SECONDS,
    Deadline,
    end,
    leave,
    spare_the_collector,
    started,
)
from quillpost.core.errors import NotReady
from quillpost.core.logging import configure_logs
from quillpost.core.settings import Settings
from quillpost.core.shutdown import Shutdown
from quillpost.web.application import Background, create_app
from quillpost.web.assets import missing_packages

log = structlog.get_logger(__name__)

SILENT_SECONDS = 60.0
"""A process that is silent for so long hangs, and is replaced. A busy machine takes its time to start one."""


BETWEEN_LOOKS = 0.1


class ServerProcesses(Multiprocess):
    """As uvicorn's, which waits for each process's answer, and hears no signal meanwhile."""

    def __init__(self, config: Config, sockets: list[Any], ground: runtime.Ground) -> None:
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


SWITCH_SECONDS = 0.00005
"""How long a thread that computes keeps the interpreter from the others. The event loop asks for it many
times in a request: with Python's 5 ms a few busy threads would make each of these a wait."""


def add_to(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    workers: Annotated[int, typer.Option(help="Server processes.", min=1)] = 1,
    jobs: Annotated[bool, typer.Option(help="Run jobs and webhooks here too.")] = True,
    welcome: Annotated[
        bool, typer.Option("--welcome", help="First steps: an account, a test token, a receiver page.")
    ] = False,
) -> None:
    """Serve the API, the dashboard and, unless --no-jobs, the work behind them."""
    # Children of a server with several processes read the same environment.
    for name, value in (("HOST", host), ("PORT", port), ("RECEIVER", "true" if welcome else None)):
        if value is not None:
            os.environ[f"QUILLPOST_{name}"] = str(value)
    os.environ["QUILLPOST_SERVE_JOBS"] = "yes" if jobs else "no"
    signal.signal(signal.SIGTERM, leave)
    settings = runtime.load_settings()
    configure_logs(as_json=settings.log_format == "json", level=settings.log_level)
    warn_of_missing_scripts(settings)
    listener = _listen(settings.host, settings.port)
    ground = runtime.open_ground(settings, stays=True, supervises=True)
    try:
        make_ready(ground.conninfo)
        note_receiver(settings)
        greeting = prepare_welcome(settings, ground.conninfo) if welcome else None
        with suppress(KeyboardInterrupt):
            if workers == 1:
                _serve_alone(settings, ground, listener, greeting)
            else:
                _serve_many(settings, workers, ground, listener, greeting)
    finally:
        ground.close()


def warn_of_missing_scripts(settings: Settings) -> None:
    """Pages do all they must without them, and nothing on them is live: for whoever wonders why."""
    if missing := missing_packages(bootstrap.npm_packages(settings)):
        log.warning("pages.not_live", missing=missing, advice="`quillpost doctor` says how to install them.")


def app_of_child() -> FastAPI:
    """The application in one process of several; the parent has made the database ready."""
    settings = runtime.load_settings()
    configure_logs(as_json=settings.log_format == "json", level=settings.log_level)
    Thread(target=_end_with_parent, daemon=True).start()
    end_in_time(Deadline(PROCESS_SECONDS))
    return _application(settings, runtime.open_ground(settings, stays=True).conninfo)


def _end_with_parent() -> None:
    """Leave when the parent is gone, however and whenever it went: an orphan would hold the port.

    What is waited for is the end of a pipe that came with our birth, not a change of our parent's
    number, which may be over before we first look.
    """
    parent = parent_process()
    assert parent is not None, "only a child of the server has a parent to follow"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _application(settings: Settings, conninfo: str) -> FastAPI:
    sys.setswitchinterval(SWITCH_SECONDS)
    parts = bootstrap.build(settings, conninfo)
    runtime.warn_of_open_key(settings)
    with_jobs = os.environ.get("QUILLPOST_SERVE_JOBS") != "no"
    return create_app(parts, _background(settings, parts) if with_jobs else None)


def _background(settings: Settings, parts: Parts) -> Background:
    @asynccontextmanager
    async def running(shutdown: Shutdown) -> AsyncIterator[None]:
        stop = asyncio.Event()
        shutdown.first(stop.set)
        tasks = started(stop, bootstrap.runner(settings, parts), *bootstrap.listeners(settings, parts))
        spare_the_collector()
        try:
            yield
        finally:
            stop.set()
            await end(tasks)

    return running


class _Server(uvicorn.Server):
    """Says hello once it accepts connections. Asked to stop, it tells its ground, and is gone in time."""

    greeting: Welcome | None = None

    def __init__(self, config: uvicorn.Config, ground: runtime.Ground) -> None:
        super().__init__(config)
        self._ground = ground
        self._deadline = Deadline(PROCESS_SECONDS, last=ground.close)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._deadline.start()
        self._ground.retire()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.greeting is not None:
            # Whoever started us may have stopped reading: the service runs all the same.
            with suppress(OSError):
                self.greeting.show()


def _config(settings: Settings, app: Any, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=QuillpostProtocol,
        log_config=None,  # our own logs say it all
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=ANSWER_SECONDS,
        **more,
    )


def _serve_alone(
    settings: Settings, ground: runtime.Ground, listener: socket.socket, greeting: Welcome | None
) -> None:
    server = _Server(_config(settings, _application(settings, ground.conninfo)), ground)
    server.greeting = greeting
    server.run(sockets=[listener])


def _serve_many(
    settings: Settings,
    workers: int,
    ground: runtime.Ground,
    listener: socket.socket,
    greeting: Welcome | None,
) -> None:
    config = _config(settings, "quillpost.cli.server_process:app_of_child", factory=True, workers=workers)
    if greeting is not None:
        greeting.show()
    ServerProcesses(config, [listener], ground).run()


def _listen(host: str, port: int) -> socket.socket:
    """Take the port before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1_024)
    except OSError as taken:
        listener.close()
        raise NotReady(
            f"Port {port} on {host} cannot be used ({taken.strerror}): stop what uses it, "
            "or set QUILLPOST_PORT to another."
        ) from None
    listener.set_inheritable(True)
    return listener
