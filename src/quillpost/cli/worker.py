"""`quillpost work`: jobs and deliveries, and how a process ends in time."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Annotated, Protocol

import structlog
import typer

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Parts
from quillpost.cli.runtime import make_ready
from quillpost.core.logging import configure_logs
from quillpost.core.settings import Settings

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 4
"""From the signal on. Whoever is not answered by then is told to come again (see `core/shutdown.py`)."""

WORK_SECONDS = 5.0
"""Jobs, webhooks and notices are given up then. They are taken up again, by others or at the next start."""

PROCESS_SECONDS = 6.5
"""Threads that still compute are cut off then."""

PARENT_SECONDS = 8.0
"""The same for whoever waits for server processes of their own."""

LAST_SECONDS = 0.7
"""For stopping our database."""


class Deadline:
    """Started by the signal. Its thread is there before: none can be started safely in a signal's handler."""

    def __init__(self, seconds: float, last: Callable[[], object] | None = None) -> None:
        """`last` is what is to be tried before the end."""
        self._seconds, self._last = seconds, last
        self._reads, self._writes = os.pipe()
        Thread(target=self._watch, name="deadline", daemon=True).start()

    def start(self) -> None:
        """Safe in a signal's handler, and to call twice."""
        os.write(self._writes, b"!")

    def _watch(self) -> None:
        os.read(self._reads, 1)
        time.sleep(self._seconds)
        log.warning("process.cut_off", seconds=self._seconds, advice="What was under way is taken up again.")
        if self._last is not None:
            trying = Thread(target=self._last, daemon=True)
            trying.start()
            trying.join(LAST_SECONDS)
        os._exit(0)  # as asked: nothing that was accepted is lost by it


def add_to(app: typer.Typer) -> None:
    app.command()(work)


def work(
    queues: Annotated[
        str | None, typer.Option(help="Only these of default, compose, hand_over and import, with commas.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs at a time.", min=1)] = None,
) -> None:
    """Run jobs and deliver webhooks, and serve nothing."""
    signal.signal(signal.SIGTERM, leave)
    settings = runtime.load_settings()
    configure_logs(as_json=settings.log_format == "json", level=settings.log_level)
    ground = runtime.open_ground(settings, stays=True, supervises=True)
    deadline = Deadline(PROCESS_SECONDS, last=ground.close)

    def begin_to_end() -> None:
        deadline.start()
        ground.retire()

    try:
        make_ready(ground.conninfo)
        parts = bootstrap.build(settings, ground.conninfo)
        runtime.warn_of_open_key(settings)
        chosen = [name.strip() for name in queues.split(",")] if queues else None
        with suppress(KeyboardInterrupt):
            asyncio.run(work_until_stopped(settings, parts, chosen, concurrency, before_the_end=begin_to_end))
        parts.db.close()
    finally:
        ground.close()


def spare_the_collector() -> None:
    """All that is loaded by now stays for good, and is not looked through again and again; what comes and
    goes by the thousand, as deliveries do, is looked through by the thousand. It takes a seventh of a
    delivery's processor time otherwise. But not by the hundred thousand: all stands still meanwhile, for
    a fifth of a second under load."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 5, 20)


class Worker(Protocol):
    async def run(self, stop: asyncio.Event) -> None: ...


def started(stop: asyncio.Event, *parts: Worker) -> list[asyncio.Task[None]]:
    """Each at its work until the stop. Half a service would look alive and leave its work undone: where a
    part ends by itself, the whole process does, and whoever looks after it starts it again."""

    def ended(task: asyncio.Task[None]) -> None:
        if not stop.is_set():
            log.error("work.broken_off", error=None if task.cancelled() else repr(task.exception()))
            os.kill(os.getpid(), signal.SIGTERM)

    tasks = [asyncio.create_task(part.run(stop)) for part in parts]
    for task in tasks:
        task.add_done_callback(ended)
    return tasks


async def end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """See the work home, but not for ever: with the database gone it would wait in vain."""
    _, late = await asyncio.wait(tasks, timeout=WORK_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


async def work_until_stopped(
    settings: Settings,
    parts: Parts,
    queues: list[str] | None,
    concurrency: int | None,
    *,
    before_the_end: Callable[[], None] | None = None,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runner = bootstrap.runner(settings, parts, concurrency=concurrency, queues=queues)
    tasks = started(stop, runner, *bootstrap.listeners(settings, parts))
    spare_the_collector()
    await stop.wait()
    if before_the_end is not None:
        before_the_end()
    await end(tasks)


def leave(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
