"""Hands made ready while the service runs: in a process of their own, so that nobody waits for them."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread

import structlog

from quillpost.rendering.handwriting.catalog import DEFAULT_STYLE, PLAIN_FACE
from quillpost.rendering.handwriting.collection import Hands

log = structlog.get_logger(__name__)

START_DELAY_SECONDS = 1.5
POLL_SECONDS = 1.0
MAX_POLLS = 300


@asynccontextmanager
async def prepare_in_background(hands: Hands) -> AsyncIterator[None]:
    """Meanwhile every hand is made ready, and the first one is read. Neither start nor end waits for it."""
    work = asyncio.create_task(_prepare_hands(hands))
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _prepare_hands(hands: Hands) -> None:
    await asyncio.sleep(START_DELAY_SECONDS)
    helper: asyncio.Task[bool] | None = None
    try:
        missing = await asyncio.to_thread(hands.unprepared_faces)
        if missing:
            log.info("handwriting.font_preparation_started", count=len(missing))
            helper = asyncio.create_task(_run_helper())
            await _wait_for_first(hands, helper)
        # No thread that is waited for at the end: without a helper it may be busy for long.
        Thread(target=_load_first, args=(hands,), daemon=True).start()
        if helper is not None and await helper:
            log.info("handwriting.fonts_prepared")
    except Exception as error:  # a hand that is not ready is made so when it is needed
        log.warning("handwriting.font_preparation_failed", error=repr(error))
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
        _, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        error = stderr.decode(errors="replace").strip().splitlines()[-1:]
        log.warning("handwriting.font_preparation_failed", exit_code=process.returncode, error=" ".join(error))
    return process.returncode == 0


async def _wait_for_first(hands: Hands, helper: asyncio.Task[bool]) -> None:
    """Whoever prepares it: our helper, or that of another process."""
    for _ in range(MAX_POLLS):
        missing = await asyncio.to_thread(hands.unprepared_faces)
        has_failed = helper.done() and not helper.result()
        if has_failed or not {PLAIN_FACE, DEFAULT_STYLE} & set(missing):
            return
        await asyncio.sleep(POLL_SECONDS)


def _load_first(hands: Hands) -> None:
    try:
        hands.hand(DEFAULT_STYLE.number)
    except Exception as error:  # whoever sends is told; the service itself goes on
        log.warning("handwriting.font_load_failed", error=repr(error))
