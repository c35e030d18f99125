"""The pump: facts become deliveries, deliveries become signed requests, outcomes are recorded.

Any number of pumps may run. Each holds lanes, and sends what waits in them, alone; if it dies, the lease of
its lanes ends, and another sends again what was in the air, under the same id, so a receiver can tell the
repeat. Its loop goes step by step: what has landed is written down, more is read, and both go on in the air
meanwhile.
"""

import asyncio
import random
from datetime import datetime, timedelta
from uuid import uuid4

import structlog

from quillpost.client import signatures
from quillpost.client.signatures import Signer
from quillpost.core.clock import Clock
from quillpost.core.database import Database
from quillpost.core.encryption import SealBroken, Sealer
from quillpost.core.errors import Unavailable
from quillpost.core.metrics import WEBHOOK_ATTEMPTS
from quillpost.notifications.ports import Poster, PostOutcome
from quillpost.notifications.webhooks import claims, fan_out, outcomes, service
from quillpost.notifications.webhooks.batches import Holding
from quillpost.notifications.webhooks.concurrency import Air, Lane
from quillpost.notifications.webhooks.outcomes import Outcome
from quillpost.notifications.webhooks.payloads import Due

log = structlog.get_logger(__name__)

FACTS_AT_ONCE = 5_000
IDLE_SECONDS = 0.5
PAUSE_SECONDS = 2.0
STEP_SECONDS = 0.03
ENOUGH = 250
"""So many outcomes are written down at once; fewer wait for a moment, as more are about to land."""
LAST_SECONDS = 10.0
"""Less than a process has to end in."""
LAST_TRIES = 5
ATTEMPTS = {
    status: WEBHOOK_ATTEMPTS.labels(told)
    for status, told in (("delivered", "delivered"), ("pending", "retried"), ("failed", "failed"))
}
SIGNERS = 2_000


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
        self._id = uuid4()
        self._lease = answer_within * 2 + timedelta(seconds=30)
        self._db = db
        self._sealer = sealer
        self._poster = poster
        self._clock = clock
        self._air = Air()
        self._holding = Holding(self._air, self._lease)
        self._flights: set[asyncio.Task[None]] = set()
        self._stirred, self._many = asyncio.Event(), asyncio.Event()
        self._is_ending = False
        self._signers: dict[tuple[int, bytes], Signer] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop; what is in the air then is seen home."""
        fanning_out = asyncio.create_task(self._fan_out_until(stop))
        while not stop.is_set():
            try:
                is_busy = await self._step()
            except Unavailable as away:
                log.warning("webhooks.waiting", error=away.message)
                await self._idle(stop, seconds=PAUSE_SECONDS)
            except Exception:
                # One delivery that cannot be handled must not silence all the others.
                log.exception("webhooks.stumbled")
                await self._idle(stop, seconds=PAUSE_SECONDS)
            else:
                if not is_busy:
                    await self._idle(stop, seconds=IDLE_SECONDS, until=self._stirred)
                if not stop.is_set():
                    await self._idle(stop, seconds=STEP_SECONDS, until=self._many)
        await fanning_out
        await self._end()
        await self._poster.close()

    async def _fan_out_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            facts = 0
            try:
                facts = await asyncio.to_thread(self._fan_out)
            except Unavailable as away:
                log.warning("webhooks.waiting", error=away.message)
                await self._idle(stop, seconds=PAUSE_SECONDS)
            except Exception:
                log.exception("webhooks.stumbled")
                await self._idle(stop, seconds=PAUSE_SECONDS)
            if facts:
                self._holding.expect_more()
                self._stirred.set()
            if facts < FACTS_AT_ONCE:
                await self._idle(stop, seconds=IDLE_SECONDS)

    def _fan_out(self) -> int:
        with self._db.work() as tx:
            return fan_out.fan_out(tx, most=FACTS_AT_ONCE, now=self._clock())

    async def _step(self) -> bool:
        """Whether there is more to do at once."""
        self._stirred.clear()
        self._many.clear()
        wish = self._holding.wish(now=self._clock(), at=_beat())
        try:
            found = await asyncio.to_thread(self._ask, wish)
        except BaseException:
            self._holding.take_back(wish)  # to be told again
            raise
        self._holding.keep(wish, found, at=_beat())
        self._start_all(self._clock())
        return self._holding.is_busy

    def _ask(self, wish: claims.Wish) -> claims.Found:
        now = self._clock()
        with self._db.work() as tx:
            return claims.take(tx, self._id, wish, lease_until=now + self._lease, now=now)

    def _start_all(self, now: datetime) -> None:
        """Send what there is room for."""
        while taken := self._next(now):
            flight = asyncio.create_task(self._deliver(*taken, now))
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)

    def _next(self, now: datetime) -> tuple[Lane, Due] | None:
        return None if self._is_ending else self._air.take(now=now)

    async def _deliver(self, lane: Lane, due: Due, now: datetime) -> None:
        """One after the other, whichever is next, as long as there are any."""
        taken: tuple[Lane, Due] | None = lane, due
        while taken:
            lane, due = taken
            try:
                answer = await self._attempt(lane, due, now)
            except Exception as fault:
                log.exception("webhooks.delivery_stumbled", delivery=due.id)
                answer = PostOutcome(None, error=f"The delivery could not be made: {type(fault).__name__}.")
            now = self._clock()
            self._land(lane, outcomes.judge(due, answer, jitter=random.random(), now=now), now)  # noqa: S311
            taken = self._next(now)
            if taken:
                self._start_all(now)  # the window may have grown

    def _land(self, lane: Lane, outcome: Outcome, now: datetime) -> None:
        self._air.land(lane, outcome, now=now)
        self._stirred.set()
        if self._holding.land(outcome) >= ENOUGH:
            self._many.set()
        ATTEMPTS[outcome.status].inc()
        if not outcome.is_delivered:
            log.info(
                "webhook.attempted",
                delivery=outcome.due.id,
                status=outcome.status,
                answer=outcome.response_status,
                error=outcome.error,
            )

    async def _attempt(self, lane: Lane, due: Due, now: datetime) -> PostOutcome:
        url, body = (due.words, b"") if due.verb == "get" else (due.url, due.words.encode())
        try:
            signers = [self._signer(due.webhook_id, sealed) for sealed in lane.held.secrets(now)]
        except SealBroken:
            return PostOutcome(None, error="The secret cannot be opened with this installation's key.")
        headers = signatures.sign_with(signers, message_id=due.event_id, at=now, body=body)
        headers["content-type"] = "application/json"
        return await self._poster.post(url, method=due.verb.upper(), headers=headers, body=body)

    def _signer(self, webhook_id: int, sealed: bytes) -> Signer:
        """Secrets that were unsealed a moment ago are not unsealed again."""
        key = webhook_id, sealed
        if key not in self._signers:
            if len(self._signers) >= SIGNERS:
                self._signers.clear()
            self._signers[key] = Signer(service.unseal(self._sealer, webhook_id, sealed))
        return self._signers[key]

    async def _end(self) -> None:
        """What is in the air is waited for, though not for ever, and the lanes are given back. Those whose
        receivers hang stay ours until the lease ends: nobody knows what has arrived there."""
        self._is_ending = True
        if self._flights:
            await asyncio.wait(self._flights, timeout=LAST_SECONDS)
        for hanging in self._flights:
            hanging.cancel()
        for _ in range(LAST_TRIES):
            wish = self._holding.last_wish()
            try:
                found = await asyncio.to_thread(self._ask, wish)
            except Unavailable as away:
                # If it stays away, the leases run out, and what was not recorded is sent again.
                self._holding.take_back(wish)
                log.warning("webhooks.waiting", error=away.message)
            else:
                if not found.put_off:
                    return
                self._holding.put_off(wish, found.put_off)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _idle(self, stop: asyncio.Event, *, seconds: float, until: asyncio.Event | None = None) -> None:
        """Until the stop, or the other event, or a moment has passed."""
        waits = [asyncio.create_task(each.wait()) for each in (stop, until) if each is not None]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


def _beat() -> float:
    """A clock for how often something is done, which runs whatever time it is."""
    return asyncio.get_running_loop().time()
