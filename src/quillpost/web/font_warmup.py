"""Hands made ready while the service runs: in a process of their own, so that nobody waits for them."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread

import structlog

from quillpost.rendering.handwriting.catalog import DEFAULT, PLAIN
from quillpost.rendering.handwriting.collection import Hands

log = structlog.get_logger(__name__)

START_AFTER_SECONDS = 1.5
BETWEEN_LOOKS_SECONDS = 1.0
MOST_LOOKS = 300


@asynccontextmanager
async def preparing(hands: Hands) -> AsyncIterator[None]:
    """Meanwhile every hand is made ready, and the first one is read. Neither start nor end waits for it."""
    work = asyncio.create_task(_prepare(hands))
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _prepare(hands: Hands) -> None:
    await asyncio.sleep(START_AFTER_SECONDS)
    helper: asyncio.Task[bool] | None = None
    try:
        missing = await asyncio.to_thread(hands.unprepared)
        if missing:
            log.info("hands.preparing", count=len(missing))
            helper = asyncio.create_task(_run_helper())
            await _until_first_is_ready(hands, helper)
        # No thread that is waited for at the end: without a helper it may be busy for long.
        Thread(target=_read_first, args=(hands,), daemon=True).start()
        if helper is not None and await helper:
            log.info("hands.prepared")
    except Exception as fault:  # a hand that is not ready is made so when it is needed
        log.warning("hands.not_prepared", error=repr(fault))
    finally:
        if helper is not None:
            helper.cancel()
            await asyncio.gather(helper, return_exceptions=True)


async def _run_helper() -> bool:
    """Prepare in another process, which ends when we do; whether it could. Of several, one does the work."""
    command = (sys.executable, "-m", "quillpost", "hands", "--prepare", "--beside", str(os.getpid()))
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        # Ctrl-C at the terminal is ours; we end the helper ourselves.
        start_new_session=True,
    )
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        error = said.decode(errors="replace").strip().splitlines()[-1:]
        log.warning("hands.not_prepared", exit_code=process.returncode, error=" ".join(error))
    return process.returncode == 0


async def _until_first_is_ready(hands: Hands, helper: asyncio.Task[bool]) -> None:
    """Whoever prepares it: our helper, or that of another process."""
    for _ in range(MOST_LOOKS):
        missing = await asyncio.to_thread(hands.unprepared)
        has_failed = helper.done() and not helper.result()
        if has_failed or not {PLAIN, DEFAULT} & set(missing):
            return
        await asyncio.sleep(BETWEEN_LOOKS_SECONDS)


def _read_first(hands: Hands) -> None:
    try:
        hands.hand(DEFAULT.number)
    except Exception as fault:  # whoever sends is told; the service itself goes on
        log.warning("hands.not_read", error=repr(fault))
