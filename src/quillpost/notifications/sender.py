"""The courier: news becomes notices, notices become e-mails and text messages, outcomes are recorded.

Any number of couriers may run. A notice is leased to one of them; if that one dies, the lease ends and
another sends it again under the same key, from which a mail's Message-ID is made. Mails and texts go by
themselves: a mail server that is slow or down holds up no text message, and neither holds up the jobs.
"""

import asyncio
import random
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo

import structlog

from quillpost.core import outbox
from quillpost.core import outbox as rules
from quillpost.core.clock import Clock
from quillpost.core.database import Database
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Unavailable
from quillpost.core.outbox import Channel, Claimed
from quillpost.notifications import digests, unsubscribe
from quillpost.notifications.ports import Message, NeverTaken, Notifier, NotifierDown, NotTakenNow
from quillpost.notifications.service import compose
from quillpost.notifications.unsubscribe import Reader

log = structlog.get_logger(__name__)

AT_ONCE = 8
"""Messages of one channel that are on their way at a time."""

ATTEMPT_SECONDS = 60.0
"""An attempt that takes longer is broken off; a lease lasts well beyond it."""

IDLE_SECONDS = 1.0
PAUSE_SECONDS = 2.0

STUMBLED = "It could not be sent, or what came of it not be noted, for a reason that is in the log."


class Line:
    """One channel of one courier: its notifier, what is on its way, and whether it rests."""

    def __init__(self, channel: Channel, notifier: Notifier) -> None:
        self.channel: Channel = channel
        self.notifier = notifier
        self.flying: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._rests_until: datetime | None = None

    def room(self, now: datetime) -> int:
        """How many more may go. After a rest one goes alone, to see whether anyone is there again."""
        if self._rests_until is not None and now < self._rests_until:
            return 0
        return max((1 if self._failures else AT_ONCE) - len(self.flying), 0)

    def works(self) -> None:
        if self._failures:
            log.info("notices.reached_again", channel=self.channel)
        self._failures, self._rests_until = 0, None

    def is_down(self, reason: str, now: datetime) -> datetime:
        """When it is tried again. Several that were on their way together tell of one failure."""
        if self._rests_until is None or now >= self._rests_until:
            self._failures += 1
            self._rests_until = now + rules.rest(self._failures)
            log.warning("notices.waiting", channel=self.channel, error=reason)
        return self._rests_until


class Courier:
    """`window` is how long further scans of an order are gathered after an address was told of one; their
    times are shown in `zone`."""

    def __init__(
        self,
        db: Database,
        sealer: Sealer,
        notifiers: Mapping[Channel, Notifier],
        clock: Clock,
        *,
        base_url: str,
        window: timedelta,
        zone: tzinfo,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        self._db = db
        self._sealer = sealer
        self._clock = clock
        self._base_url = base_url
        self._window = window
        self._zone = zone
        self._seconds = attempt_seconds
        self._lease = timedelta(seconds=2 * attempt_seconds + 30)
        self._lines = [Line(channel, notifier) for channel, notifier in notifiers.items()]
        self._landed = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Send until told to stop; what is on its way then is seen home."""
        while not stop.is_set():
            try:
                busy = await self.round()
            except Unavailable as away:
                log.warning("notices.waiting", error=away.message)
                await self._idle(stop, seconds=PAUSE_SECONDS)
            except Exception:
                # One notice that cannot be handled must not silence all the others.
                log.exception("notices.stumbled")
                await self._idle(stop, seconds=PAUSE_SECONDS)
            else:
                if not busy:
                    await self._idle(stop, seconds=IDLE_SECONDS)
        await self.land()
        for line in self._lines:
            await line.notifier.close()

    async def round(self) -> bool:
        """Write what is due to be told and start what is due to be sent; whether there was anything."""
        self._landed.clear()
        busy = await asyncio.to_thread(self._gather) > 0
        for line in self._lines:
            room = line.room(self._clock())
            due = await asyncio.to_thread(self._claim, line, room) if room else []
            for notice in due:
                task = asyncio.create_task(self._deliver(line, notice))
                line.flying.add(task)
                task.add_done_callback(line.flying.discard)
                task.add_done_callback(self._land)
            busy = busy or bool(due)
        return busy

    async def land(self) -> None:
        """Until nothing is on its way."""
        while flying := [task for line in self._lines for task in line.flying]:
            await asyncio.wait(flying)

    async def _idle(self, stop: asyncio.Event, *, seconds: float) -> None:
        """Until one has landed, so that there is room, the stop, or a moment has passed."""
        waits = [asyncio.create_task(self._landed.wait()), asyncio.create_task(stop.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _land(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()):
            log.error("notices.attempt_stumbled", error=type(fault).__name__)
        self._landed.set()

    def _gather(self) -> int:
        with self._db.work() as tx:
            return digests.gather(tx, window=self._window, zone=self._zone, now=self._clock())

    def _claim(self, line: Line, most: int) -> list[Claimed]:
        now = self._clock()
        with self._db.work() as tx:
            return outbox.claim(tx, line.channel, most=most, lease=now + self._lease, now=now)

    async def _deliver(self, line: Line, notice: Claimed) -> None:
        failure: Exception | None = None
        again: datetime | None = None
        try:
            secret = self._secret_of(notice)
            message = compose(notice, link_to=self._link_to, secret=secret, now=self._clock())
            await self._attempt(line.notifier, message)
        except NotifierDown as down:
            failure, again = down, line.is_down(_without(notice.address, str(down)), self._clock())
        except (NeverTaken, NotTakenNow) as refused:
            line.works()
            failure, again = refused, _again(notice, refused, self._clock())
        except Exception as fault:
            failure, again = self._stumble(notice, fault)
        else:
            line.works()
        await self._note(notice, failure, again)

    async def _note(self, notice: Claimed, failure: Exception | None, again: datetime | None) -> None:
        # If the outcome cannot be recorded, the lease runs out and the message is sent again.
        with suppress(Unavailable):
            try:
                await asyncio.to_thread(self._record, notice, failure, again)
            except Unavailable:
                raise
            except Exception as fault:
                await asyncio.to_thread(self._record, notice, *self._stumble(notice, fault))

    def _stumble(self, notice: Claimed, fault: Exception) -> tuple[NotTakenNow, datetime | None]:
        """What nobody foresaw counts as an attempt, or it would go on for days. Only the fault's name is
        logged: its words may hold the address."""
        log.error("notices.attempt_stumbled", notice=notice.id, error=type(fault).__name__)
        stumbled = NotTakenNow(STUMBLED)
        return stumbled, _again(notice, stumbled, self._clock())

    async def _attempt(self, notifier: Notifier, message: Message) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await notifier.send(message)
        except TimeoutError:
            raise NotTakenNow(f"It was not taken within {self._seconds:g} seconds.") from None

    def _record(self, notice: Claimed, failure: Exception | None, again: datetime | None) -> None:
        with self._db.work() as tx:
            if failure is None:
                outbox.record_sent(tx, notice, now=self._clock())
            elif isinstance(failure, NotifierDown):
                outbox.put_back(tx, notice, error=str(failure), next_at=again)
            else:
                outbox.record_failure(tx, notice, error=str(failure), next_at=again)
        # The reason stays in the database: another server's words may hold the address.
        log.info("notice.attempted", notice=notice.id, outcome=type(failure).__name__ if failure else "sent")

    def _secret_of(self, notice: Claimed) -> str | None:
        if notice.secret_sealed is None:
            return None
        return self._sealer.open(notice.secret_sealed, context=outbox.context_of(notice.key)).decode()

    def _link_to(self, reader: Reader) -> str:
        return f"{self._base_url}/unsubscribe/{unsubscribe.token_of(self._sealer, reader)}"


def _without(address: str, reason: str) -> str:
    """The reason as it may be logged: others' words may repeat whom a message is for."""
    whom = address.removesuffix(rules.TEXT_SUFFIX).lstrip("+")
    return re.sub(re.escape(whom), "[address]", reason, flags=re.IGNORECASE)


def _again(notice: Claimed, failure: NeverTaken | NotTakenNow, now: datetime) -> datetime | None:
    if not isinstance(failure, NotTakenNow):
        return None
    jitter = random.random()  # noqa: S311
    return rules.next_attempt(notice.attempts, now=now, jitter=jitter, asked=failure.retry_after)
