"""Working: jobs and whatever else runs beside the requests, with a server or alone."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Protocol

import structlog
import typer

from quillpost import wiring
from quillpost.cli.deadline import PROCESS_SECONDS, WORK_SECONDS, Deadline
from quillpost.cli.ground import make_ready
from quillpost.kit.logs import configure_logs
from quillpost.parts import Parts

log = structlog.get_logger(__name__)


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
    settings = wiring.load_settings()
    configure_logs(as_json=settings.log_format == "json", level=settings.log_level)
    ground = wiring.open_ground(settings, stays=True, supervises=True)
    deadline = Deadline(PROCESS_SECONDS, last=ground.close)

    def begin_to_end() -> None:
        deadline.start()
        ground.retire()

    try:
        make_ready(ground.conninfo)
        parts = wiring.build(settings, ground.conninfo)
        wiring.warn_of_open_key(settings)
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
    settings: wiring.Settings,
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
    runner = wiring.runner(settings, parts, concurrency=concurrency, queues=queues)
    tasks = started(stop, runner, *wiring.listeners(settings, parts))
    spare_the_collector()
    await stop.wait()
    if before_the_end is not None:
        before_the_end()
    await end(tasks)


def leave(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
