"""Writes due digests, sends e-mails and text messages, and records the outcomes. Several senders may run: a message is
leased to one of them. If it dies, the lease ends and another sends it again under the same key, from which an e-mail's
Message-ID is made. Channels are independent: a slow mail server holds up no text message."""

import asyncio
import random
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo

import structlog

from quillpost.core import outbox
from quillpost.core.database import Database
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Unavailable
from quillpost.core.outbox import Channel, ClaimedNotification
from quillpost.core.requests import wait_for_any
from quillpost.core.text import Clock
from quillpost.notifications import service
from quillpost.notifications.messages import NotificationReader, compose_message
from quillpost.notifications.ports import MessageDeferred, MessageRejected, Notifier, NotifierDown, OutgoingMessage

log = structlog.get_logger(__name__)
MAX_IN_FLIGHT = 8  # of one channel
ATTEMPT_SECONDS = 60.0  # a lease lasts well beyond it
IDLE_SECONDS = 1.0
ERROR_PAUSE_SECONDS = 2.0
UNEXPECTED_ERROR = "It could not be sent, or what came of it not be noted, for a reason that is in the log."


class ChannelState:
    """One channel of a sender: its notifier, messages in flight, and its backoff."""

    def __init__(self, channel: Channel, notifier: Notifier) -> None:
        self.channel: Channel = channel
        self.notifier = notifier
        self.in_flight: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._backoff_until: datetime | None = None

    def free_slots(self, now: datetime) -> int:
        """How many more may be sent. After a backoff, one at a time until one succeeds."""
        if self._backoff_until is not None and now < self._backoff_until:
            return 0
        return max((1 if self._failures else MAX_IN_FLIGHT) - len(self.in_flight), 0)

    def record_success(self) -> None:
        if self._failures:
            log.info("notifications.channel_recovered", channel=self.channel)
        self._failures, self._backoff_until = 0, None

    def record_outage(self, reason: str, now: datetime) -> datetime:
        """When it is tried again. Failures of messages in flight together count once."""
        if self._backoff_until is None or now >= self._backoff_until:
            self._failures += 1
            self._backoff_until = now + outbox.backoff_delay(self._failures)
            log.warning("notifications.channel_unavailable", channel=self.channel, error=reason)
        return self._backoff_until


class MessageSender:
    """After a notification, further scans of an order are collected for `window`; times are shown in `zone`."""

    def __init__(
        self,
        db: Database,
        encryptor: Encryptor,
        notifiers: Mapping[Channel, Notifier],
        clock: Clock,
        *,
        base_url: str,
        window: timedelta,
        zone: tzinfo,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        self._db, self._encryptor, self._clock, self._base_url, self._window = db, encryptor, clock, base_url, window
        self._zone, self._attempt_seconds = zone, attempt_seconds
        self._lease_duration = timedelta(seconds=2 * attempt_seconds + 30)
        self._channels = [ChannelState(channel, notifier) for channel, notifier in notifiers.items()]
        self._has_finished = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop`, then wait for messages in flight."""
        while not stop.is_set():
            try:
                is_busy = await self.send_due()
            except Unavailable as error:
                log.warning("notifications.database_unavailable", error=error.message)
                await wait_for_any(stop, self._has_finished, seconds=ERROR_PAUSE_SECONDS)
            except Exception:
                # One message that cannot be handled must not stop all others.
                log.exception("notifications.sender_failed")
                await wait_for_any(stop, self._has_finished, seconds=ERROR_PAUSE_SECONDS)
            else:
                if not is_busy:
                    await wait_for_any(stop, self._has_finished, seconds=IDLE_SECONDS)
        await self.wait_for_all()
        for channel in self._channels:
            await channel.notifier.close()

    async def send_due(self) -> bool:
        """Write due digests and start due messages; whether there were any."""
        self._has_finished.clear()
        is_busy = await asyncio.to_thread(self._write_digests) > 0
        for channel in self._channels:
            free_slots = channel.free_slots(self._clock())
            due = await asyncio.to_thread(self._claim, channel, free_slots) if free_slots else []
            for notification in due:
                task = asyncio.create_task(self._send(channel, notification))
                channel.in_flight.add(task)
                task.add_done_callback(channel.in_flight.discard)
                task.add_done_callback(self._finish_attempt)
            is_busy = is_busy or bool(due)
        return is_busy

    async def wait_for_all(self) -> None:
        while in_flight := [task for channel in self._channels for task in channel.in_flight]:
            await asyncio.wait(in_flight)

    def _finish_attempt(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            log.error("notifications.attempt_crashed", error=type(error).__name__)
        self._has_finished.set()

    def _write_digests(self) -> int:
        with self._db.system_transaction() as tx:
            return service.write_due_digests(tx, window=self._window, zone=self._zone, now=self._clock())

    def _claim(self, channel: ChannelState, limit: int) -> list[ClaimedNotification]:
        now = self._clock()
        with self._db.system_transaction() as tx:
            return outbox.claim_due_notifications(
                tx, channel.channel, limit=limit, leased_until=now + self._lease_duration, now=now
            )

    async def _send(self, channel: ChannelState, notification: ClaimedNotification) -> None:
        failure: Exception | None = None
        next_at: datetime | None = None
        try:
            secret = self._decrypt_secret(notification)
            message = compose_message(notification, build_link=self._unsubscribe_url, secret=secret, now=self._clock())
            await self._attempt(channel.notifier, message)
        except NotifierDown as outage:
            failure = outage
            next_at = channel.record_outage(_redact_address(notification.address, str(outage)), self._clock())
        except (MessageRejected, MessageDeferred) as rejection:
            channel.record_success()
            failure, next_at = rejection, _next_attempt_at(notification, rejection, self._clock())
        except Exception as error:
            failure, next_at = self._handle_unexpected(notification, error)
        else:
            channel.record_success()
        await self._record_safely(notification, failure, next_at)

    async def _record_safely(
        self, notification: ClaimedNotification, failure: Exception | None, next_at: datetime | None
    ) -> None:
        # If the outcome cannot be recorded, the lease ends and the message is sent again.
        with suppress(Unavailable):
            try:
                await asyncio.to_thread(self._record, notification, failure, next_at)
            except Unavailable:
                raise
            except Exception as error:
                await asyncio.to_thread(self._record, notification, *self._handle_unexpected(notification, error))

    def _handle_unexpected(
        self, notification: ClaimedNotification, error: Exception
    ) -> tuple[MessageDeferred, datetime | None]:
        """An unexpected error counts as an attempt, or it would repeat for days. Only its type is logged: its text may
        hold the address."""
        log.error("notifications.attempt_crashed", notification=notification.id, error=type(error).__name__)
        failure = MessageDeferred(UNEXPECTED_ERROR)
        return failure, _next_attempt_at(notification, failure, self._clock())

    async def _attempt(self, notifier: Notifier, message: OutgoingMessage) -> None:
        try:
            async with asyncio.timeout(self._attempt_seconds):
                await notifier.send(message)
        except TimeoutError:
            raise MessageDeferred(f"It was not taken within {self._attempt_seconds:g} seconds.") from None

    def _record(self, notification: ClaimedNotification, failure: Exception | None, next_at: datetime | None) -> None:
        with self._db.system_transaction() as tx:
            if failure is None:
                outbox.record_sent(tx, notification, now=self._clock())
            elif isinstance(failure, NotifierDown):
                outbox.release_notification(tx, notification, error=str(failure), next_at=next_at)
            else:
                outbox.record_failure(tx, notification, error=str(failure), next_at=next_at)
        # The reason stays in the database: a server's text may hold the address.
        log.info(
            "notifications.attempted",
            notification=notification.id,
            outcome=type(failure).__name__ if failure else "sent",
        )

    def _decrypt_secret(self, notification: ClaimedNotification) -> str | None:
        if notification.secret_sealed is None:
            return None
        return self._encryptor.decrypt(
            notification.secret_sealed, context=outbox.encryption_context(notification.key)
        ).decode()

    def _unsubscribe_url(self, reader: NotificationReader) -> str:
        return f"{self._base_url}/unsubscribe/{service.encode_token(self._encryptor, reader)}"


def _redact_address(address: str, reason: str) -> str:
    """The reason as it may be logged."""
    recipient = address.removesuffix(outbox.TEXT_SUFFIX).lstrip("+")
    return re.sub(re.escape(recipient), "[address]", reason, flags=re.IGNORECASE)


def _next_attempt_at(
    notification: ClaimedNotification, failure: MessageRejected | MessageDeferred, now: datetime
) -> datetime | None:
    if not isinstance(failure, MessageDeferred):
        return None
    jitter = random.random()  # noqa: S311
    return outbox.next_attempt_at(
        notification.attempts, now=now, jitter=jitter, retry_after_seconds=failure.retry_after
    )
