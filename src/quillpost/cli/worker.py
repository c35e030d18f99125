"""`quillpost work`: jobs and deliveries, and how a process ends in time."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from threading import Thread
from typing import Annotated

import structlog
import typer

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.app.runtime import prepare_database
from quillpost.core.settings import Settings
from quillpost.core.telemetry import configure_logging

log = structlog.get_logger(__name__)

# From the signal on:
RESPONSE_SECONDS = 4  # requests without an answer by then get one that says to try again (see `core/requests.py`)
WORKER_STOP_SECONDS = 5.0  # jobs, webhooks and messages are stopped then, and resumed by others or at the next start
PROCESS_STOP_SECONDS = 6.5  # threads that still compute are cut off then
PARENT_STOP_SECONDS = 8.0  # the same for a command that waits for its server processes
CLEANUP_SECONDS = 0.7  # for stopping our database


class ExitDeadline:
    """Its thread is started before, as a signal handler cannot start one safely."""

    def __init__(self, seconds: float, clean_up: Callable[[], object] | None = None) -> None:
        self._seconds, self._clean_up = seconds, clean_up
        self._read_end, self._write_end = os.pipe()
        Thread(target=self._wait_and_exit, name="deadline", daemon=True).start()

    def start(self) -> None:
        """Safe in a signal handler, and to call twice."""
        os.write(self._write_end, b"!")

    def _wait_and_exit(self) -> None:
        os.read(self._read_end, 1)
        time.sleep(self._seconds)
        log.warning("process.shutdown_timed_out", seconds=self._seconds, advice="What was under way is taken up again.")
        if self._clean_up is not None:
            cleanup_thread = Thread(target=self._clean_up, daemon=True)
            cleanup_thread.start()
            cleanup_thread.join(CLEANUP_SECONDS)
        os._exit(0)  # as requested: nothing that was accepted is lost by it


def work(
    queues: Annotated[
        str | None, typer.Option(help="Only these of default, compose, hand_over and import, with commas.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs at a time.", min=1)] = None,
) -> None:
    """Run jobs and deliver webhooks, and serve nothing."""
    signal.signal(signal.SIGTERM, raise_keyboard_interrupt)
    settings = runtime.load_settings()
    configure_logging(as_json=settings.log_format == "json", level=settings.log_level)
    with closing(runtime.open_runtime(settings, keep_running=True, supervise=True)) as service_runtime:
        deadline = ExitDeadline(PROCESS_STOP_SECONDS, clean_up=service_runtime.close)

        def begin_shutdown() -> None:
            deadline.start()
            service_runtime.disable_restart()

        prepare_database(service_runtime.conninfo)
        container = bootstrap.build_container(settings, service_runtime.conninfo)
        runtime.warn_if_key_file_exposed(settings)
        queue_names = [name.strip() for name in queues.split(",")] if queues else None
        with suppress(KeyboardInterrupt):
            asyncio.run(run_until_stopped(settings, container, queue_names, concurrency, before_stop=begin_shutdown))
        container.db.close()


def tune_garbage_collector() -> None:
    """What is loaded by now stays, and is not scanned again. Young objects are scanned by the thousand: deliveries come
    and go, and Python's default took a seventh of their processor time. Larger numbers would pause for a fifth of a
    second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 5, 20)


def start_workers(stop: asyncio.Event, *workers: bootstrap.Listener) -> list[asyncio.Task[None]]:
    """Half a service would look alive: where one part ends by itself, the whole process ends, to be restarted."""

    def on_worker_done(task: asyncio.Task[None]) -> None:
        if not stop.is_set():
            log.error("worker.stopped_unexpectedly", error=None if task.cancelled() else repr(task.exception()))
            os.kill(os.getpid(), signal.SIGTERM)

    tasks = [asyncio.create_task(worker.run(stop)) for worker in workers]
    for task in tasks:
        task.add_done_callback(on_worker_done)
    return tasks


async def stop_workers(tasks: Sequence[asyncio.Task[None]]) -> None:
    """With a time limit: without a database it would wait for ever."""
    _, unfinished = await asyncio.wait(tasks, timeout=WORKER_STOP_SECONDS)
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)


async def run_until_stopped(
    settings: Settings,
    container: Container,
    queues: list[str] | None,
    concurrency: int | None,
    *,
    before_stop: Callable[[], None] | None = None,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stop.set)
    runner = bootstrap.build_runner(settings, container, concurrency=concurrency, queues=queues)
    tasks = start_workers(stop, runner, *bootstrap.build_listeners(settings, container))
    tune_garbage_collector()
    await stop.wait()
    if before_stop is not None:
        before_stop()
    await stop_workers(tasks)


def raise_keyboard_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
