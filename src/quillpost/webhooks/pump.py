"""The pump: facts become deliveries, deliveries become signed requests, outcomes are recorded.

Any number of pumps may run. A delivery is leased to one of them; if that one dies, the lease ends and
another sends it again under the same id, so a receiver can tell the repeat.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus

import structlog

from quillpost.database import Database
from quillpost.kit import standard_webhooks
from quillpost.kit.errors import Unavailable
from quillpost.kit.sealing import SealBroken, Sealer
from quillpost.kit.times import Clock
from quillpost.ports import Poster, PostOutcome
from quillpost.webhooks import rules, service, store
from quillpost.webhooks.telling import Due

log = structlog.get_logger(__name__)

FACTS_AT_ONCE = 1_000
IN_FLIGHT = 100
IDLE_SECONDS = 0.5
PAUSE_SECONDS = 2.0
GONE = "The receiver said that it is gone (410), so nothing more is delivered to it."


class Pump:
    """`answer_within` is the time a receiver has; a lease lasts well beyond it."""

    def __init__(
        self,
        db: Database,
        sealer: Sealer,
        poster: Poster,
        clock: Clock,
        *,
        answer_within: timedelta,
    ) -> None:
        self._lease = answer_within * 2 + timedelta(seconds=30)
        self._db = db
        self._sealer = sealer
        self._poster = poster
        self._clock = clock
        self._flying: dict[asyncio.Task[None], int] = {}
        self._landed = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop; what is in the air then is seen home."""
        while not stop.is_set():
            try:
                busy = await self._round()
            except Unavailable as away:
                log.warning("webhooks.waiting", error=away.message)
                await self._idle(stop, seconds=PAUSE_SECONDS)
            except Exception:
                # One delivery that cannot be handled must not silence all the others.
                log.exception("webhooks.stumbled")
                await self._idle(stop, seconds=PAUSE_SECONDS)
            else:
                if not busy:
                    await self._idle(stop, seconds=IDLE_SECONDS)
        if self._flying:
            await asyncio.wait(self._flying)
        await self._poster.close()

    async def _round(self) -> bool:
        """Whether there was anything to do."""
        self._landed.clear()
        facts = await asyncio.to_thread(self._fan_out)
        room = IN_FLIGHT - len(self._flying)
        air = Counter(self._flying.values())
        due = await asyncio.to_thread(self._claim, room, air) if room else []
        for delivery in due:
            task = asyncio.create_task(self._deliver(delivery))
            self._flying[task] = delivery.webhook_id
            task.add_done_callback(self._land)
        return bool(facts or due)

    async def _idle(self, stop: asyncio.Event, *, seconds: float) -> None:
        """Until a delivery has landed since the last round (the next of its stream may go), the stop, or a
        moment has passed."""
        waits = [asyncio.create_task(self._landed.wait()), asyncio.create_task(stop.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _land(self, task: asyncio.Task[None]) -> None:
        del self._flying[task]
        if not task.cancelled() and (fault := task.exception()):
            log.error("webhooks.delivery_stumbled", error=repr(fault))
        self._landed.set()

    def _fan_out(self) -> int:
        with self._db.work() as tx:
            return store.fan_out(tx, most=FACTS_AT_ONCE, now=self._clock())

    def _claim(self, most: int, flying: Mapping[int, int]) -> list[Due]:
        now = self._clock()
        with self._db.work() as tx:
            return store.claim(tx, most=most, flying=flying, lease=now + self._lease, now=now)

    async def _deliver(self, due: Due) -> None:
        url, body = (due.words, b"") if due.verb == "get" else (due.url, due.words.encode())
        outcome = await self._attempt(due, url, body)
        # If the outcome cannot be recorded, the lease runs out and the delivery is made again.
        with suppress(Unavailable):
            await asyncio.to_thread(self._record, due, outcome)

    async def _attempt(self, due: Due, url: str, body: bytes) -> PostOutcome:
        try:
            secret = service.unseal(self._sealer, due.webhook_id, due.secret_sealed)
        except SealBroken:
            return PostOutcome(None, error="The secret cannot be opened with this installation's key.")
        signature = standard_webhooks.sign(
            [secret], message_id=due.told.event_id, at=self._clock(), body=body
        )
        headers = {"content-type": "application/json", **signature}
        return await self._poster.post(url, method=due.verb.upper(), headers=headers, body=body)

    def _record(self, due: Due, outcome: PostOutcome) -> None:
        now = self._clock()
        delivered = outcome.status is not None and 200 <= outcome.status < 300
        gone = outcome.status == HTTPStatus.GONE
        next_at = None
        if not delivered and not gone:
            next_at = rules.next_attempt(
                due.attempts,
                now=now,
                jitter=random.random(),  # noqa: S311
                asked=outcome.retry_after,
            )
        status = "delivered" if delivered else "pending" if next_at else "failed"
        with self._db.work() as tx:
            is_news = store.record_outcome(
                tx,
                due,
                status=status,
                response_status=outcome.status,
                response_body=outcome.body,
                error=outcome.error,
                next_at=next_at,
                now=now,
            )
            if is_news and gone:
                store.disable(tx, due.webhook_id, why=GONE, now=now)
            elif is_news and status == "failed":
                store.mark_failing(tx, due.webhook_id, now=now)
        log.info(
            "webhook.attempted",
            delivery=due.id,
            status=status,
            answer=outcome.status,
            error=outcome.error,
        )
