"""`quillpost serve`: one server process, or several and their supervisor."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from multiprocessing import parent_process
from threading import Thread
from types import FrameType
from typing import Annotated, Any
from uuid import uuid4

import orjson
import structlog
import typer
import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from quillpost.app import bootstrap, runtime
from quillpost.app.bootstrap import publish_receiver_address
from quillpost.app.container import Container
from quillpost.app.runtime import prepare_database
from quillpost.cli.welcome import Welcome, prepare_welcome
from quillpost.cli.worker import (
    CLEANUP_SECONDS,
    PARENT_STOP_SECONDS,
    PROCESS_STOP_SECONDS,
    RESPONSE_SECONDS,
    ExitDeadline,
    raise_keyboard_interrupt,
    start_workers,
    stop_workers,
    tune_garbage_collector,
)
from quillpost.core.errors import NotReady
from quillpost.core.requests import Shutdown
from quillpost.core.settings import Settings
from quillpost.core.telemetry import configure_logging
from quillpost.web.application import BackgroundRunner, create_app
from quillpost.web.assets import missing_packages

log = structlog.get_logger(__name__)

UNREADABLE_MESSAGE = "This is not HTTP as we read it: the method, the address or a header is malformed or too long."


class QuillpostProtocol(HttpToolsProtocol):
    """Answers in JSON what uvicorn's parser refuses, which no application sees."""

    def shutdown(self) -> None:
        """The server waits for open responses: streams must end."""
        if (shutdown := self.app_state.get("shutdown")) is not None:
            shutdown.begin()
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        request_id, body = uuid4().hex, orjson.dumps({"message": UNREADABLE_MESSAGE})
        log.warning("requests.malformed", request_id=request_id, reason=msg)
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "x-request-id": request_id,
            "connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{head}\r\n".encode() + body)
        self.transport.close()


UNRESPONSIVE_SECONDS = 60.0  # a process that falls silent for so long is replaced
START_SECONDS = 900.0  # until its first answer: on a busy machine it loads for minutes, and so would another
POLL_SECONDS = 0.1


class ServerProcesses(Multiprocess):
    """Unlike uvicorn's, it handles signals while it waits for a process."""

    def __init__(self, config: Config, sockets: list[Any], service_runtime: runtime.Runtime) -> None:
        super().__init__(config, sockets=sockets)
        self._runtime = service_runtime
        self._deadline = ExitDeadline(PARENT_STOP_SECONDS, clean_up=service_runtime.close)
        self._pinged_at: dict[Process, float] = {}
        self._has_answered: set[Process] = set()

    def run(self) -> None:
        self.init_processes()
        while not self.should_exit.wait(POLL_SECONDS):
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
        self._runtime.disable_restart()
        super().terminate_all()

    def join_all(self) -> None:
        """A process that does not end in time is killed."""
        deadline = time.monotonic() + PROCESS_STOP_SECONDS + CLEANUP_SECONDS
        for process in self.processes:
            process.process.join(max(0.0, deadline - time.monotonic()))
            if process.process.is_alive():
                log.error("server.process_killed", process=process.pid)
                process.process.kill()
                process.process.join()

    def keep_subprocess_alive(self) -> None:
        for index, process in enumerate(self.processes):
            if self.should_exit.is_set() or self._is_responsive(process):
                continue
            process.kill()
            process.process.join()
            self._pinged_at.pop(process, None)
            self._has_answered.discard(process)
            if process.exitcode == STARTUP_FAILURE:
                log.error("server.start_failed", process=process.pid)
                self.should_exit.set()
                return
            log.error("server.process_died", process=process.pid, exit_code=process.exitcode)
            self.processes[index] = Process(self.config, self.sockets)
            self.processes[index].start()

    def _is_responsive(self, process: Process) -> bool:
        if not process.process.is_alive():
            return False
        try:
            if process.parent_conn.poll():
                process.parent_conn.recv()
                self._pinged_at.pop(process, None)
                self._has_answered.add(process)
            if process not in self._pinged_at:
                process.parent_conn.send(b"ping")
                self._pinged_at[process] = time.monotonic()
        except (OSError, EOFError):
            return False
        limit = UNRESPONSIVE_SECONDS if process in self._has_answered else START_SECONDS
        return time.monotonic() - self._pinged_at[process] < limit


def start_deadline_on_signals(deadline: ExitDeadline) -> None:
    """For a child process, whose server uvicorn creates."""
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        previous_handler: Any = signal.getsignal(signal_number)

        def handle(signal_number: int, frame: FrameType | None, previous_handler: Any = previous_handler) -> None:
            deadline.start()
            previous_handler(signal_number, frame)

        signal.signal(signal_number, handle)


# The event loop asks for the interpreter many times in a request: with Python's 5 ms, a few busy threads would make
# each of these a wait.
THREAD_SWITCH_SECONDS = 0.00005


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
    signal.signal(signal.SIGTERM, raise_keyboard_interrupt)
    settings = runtime.load_settings()
    configure_logging(as_json=settings.log_format == "json", level=settings.log_level)
    warn_of_missing_scripts(settings)
    listener = _open_listener(settings.host, settings.port)
    with closing(runtime.open_runtime(settings, keep_running=True, supervise=True)) as service_runtime:
        prepare_database(service_runtime.conninfo)
        publish_receiver_address(settings)
        greeting = prepare_welcome(settings, service_runtime.conninfo) if welcome else None
        with suppress(KeyboardInterrupt):
            if workers == 1:
                _serve_single(settings, service_runtime, listener, greeting)
            else:
                _serve_multiple(settings, workers, service_runtime, listener, greeting)


def warn_of_missing_scripts(settings: Settings) -> None:
    if missing := missing_packages(bootstrap.find_npm_packages(settings)):
        log.warning("web.scripts_missing", missing=missing, advice="`quillpost doctor` says how to install them.")


def app_of_child() -> FastAPI:
    """The parent has prepared the database."""
    settings = runtime.load_settings()
    configure_logging(as_json=settings.log_format == "json", level=settings.log_level)
    Thread(target=_end_with_parent, daemon=True).start()
    start_deadline_on_signals(ExitDeadline(PROCESS_STOP_SECONDS))
    return _create_application(settings, runtime.open_runtime(settings, keep_running=True).conninfo)


def _end_with_parent() -> None:
    """An orphan would hold the port. Waits for the end of a pipe from our start, not for a change of the parent's id,
    which may have happened before we first look."""
    parent = parent_process()
    assert parent is not None, "only a child of the server has a parent to follow"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _create_application(settings: Settings, conninfo: str) -> FastAPI:
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    container = bootstrap.build_container(settings, conninfo)
    runtime.warn_if_key_file_exposed(settings)
    runs_jobs = os.environ.get("QUILLPOST_SERVE_JOBS") != "no"
    return create_app(container, _create_background(settings, container) if runs_jobs else None)


def _create_background(settings: Settings, container: Container) -> BackgroundRunner:
    @asynccontextmanager
    async def run_background(shutdown: Shutdown) -> AsyncIterator[None]:
        stop = asyncio.Event()
        shutdown.on_begin(stop.set)
        tasks = start_workers(
            stop, bootstrap.build_runner(settings, container), *bootstrap.build_listeners(settings, container)
        )
        tune_garbage_collector()
        try:
            yield
        finally:
            stop.set()
            await stop_workers(tasks)

    return run_background


class _GreetingServer(uvicorn.Server):
    """Prints the welcome once it accepts connections, and ends in time."""

    greeting: Welcome | None = None

    def __init__(self, config: uvicorn.Config, service_runtime: runtime.Runtime) -> None:
        super().__init__(config)
        self._runtime = service_runtime
        self._deadline = ExitDeadline(PROCESS_STOP_SECONDS, clean_up=service_runtime.close)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._deadline.start()
        self._runtime.disable_restart()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.greeting is not None:
            # The process that started us may have stopped reading: the service runs all the same.
            with suppress(OSError):
                self.greeting.print_message()


def _create_config(settings: Settings, app: Any, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=QuillpostProtocol,
        log_config=None,  # our own logs say it all
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=RESPONSE_SECONDS,
        **options,
    )


def _serve_single(
    settings: Settings, service_runtime: runtime.Runtime, listener: socket.socket, greeting: Welcome | None
) -> None:
    server = _GreetingServer(
        _create_config(settings, _create_application(settings, service_runtime.conninfo)), service_runtime
    )
    server.greeting = greeting
    server.run(sockets=[listener])


def _serve_multiple(
    settings: Settings,
    workers: int,
    service_runtime: runtime.Runtime,
    listener: socket.socket,
    greeting: Welcome | None,
) -> None:
    config = _create_config(settings, "quillpost.cli.server:app_of_child", factory=True, workers=workers)
    if greeting is not None:
        greeting.print_message()
    ServerProcesses(config, [listener], service_runtime).run()


def _open_listener(host: str, port: int) -> socket.socket:
    """Take the port before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1_024)
    except OSError as error:
        listener.close()
        raise NotReady(
            f"Port {port} on {host} cannot be used ({error.strerror}): stop what uses it, "
            "or set QUILLPOST_PORT to another."
        ) from None
    listener.set_inheritable(True)
    return listener
