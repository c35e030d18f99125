"""Fans out events, sends deliveries as signed requests, and records the outcomes. Several dispatchers may run. Each
leases endpoint queues and is the only one to send from them; if it dies, the leases end and another sends again what
was in flight, under the same id, so that a receiver can recognize the repeat. In each step the loop records outcomes
and reads more, while requests stay in flight."""

import asyncio
import random
from datetime import datetime, timedelta
from functools import lru_cache
from uuid import uuid4

import structlog

from quillpost.client import signatures
from quillpost.client.signatures import Signer
from quillpost.core.database import Database
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import Unavailable
from quillpost.core.requests import wait_for_any
from quillpost.core.telemetry import WEBHOOK_ATTEMPTS
from quillpost.core.text import Clock
from quillpost.notifications.ports import PostResult, WebhookClient
from quillpost.notifications.webhooks import leases, outcomes, service, tasks
from quillpost.notifications.webhooks.concurrency import EndpointQueue, InFlightDeliveries
from quillpost.notifications.webhooks.leases import LeaseManager
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome
from quillpost.notifications.webhooks.payloads import DueDelivery

log = structlog.get_logger(__name__)
FACTS_PER_TRANSACTION = 5_000
IDLE_SECONDS = 0.5
ERROR_PAUSE_SECONDS = 2.0
STEP_SECONDS = 0.03
OUTCOMES_PER_STEP = 250  # recorded at once; fewer wait for a moment
SHUTDOWN_SECONDS = 10.0  # less than a process has to end
SHUTDOWN_TRIES = 5
ATTEMPT_COUNTERS = {
    status: WEBHOOK_ATTEMPTS.labels(outcome)
    for status, outcome in (("delivered", "delivered"), ("pending", "retried"), ("failed", "failed"))
}
MAX_CACHED_SIGNERS = 2_000


class Dispatcher:
    """An endpoint has `response_timeout` to answer; a lease lasts well beyond it."""

    def __init__(
        self, db: Database, encryptor: Encryptor, client: WebhookClient, clock: Clock, *, response_timeout: timedelta
    ) -> None:
        self._id = uuid4()
        self._lease_duration = response_timeout * 2 + timedelta(seconds=30)
        self._db, self._encryptor, self._client, self._clock = db, encryptor, client, clock
        self._in_flight = InFlightDeliveries()
        self._leases = LeaseManager(self._in_flight, self._lease_duration)
        self._attempts: set[asyncio.Task[None]] = set()
        self._has_work, self._has_enough_outcomes = asyncio.Event(), asyncio.Event()
        self._is_stopping = False
        self._find_signer = lru_cache(MAX_CACHED_SIGNERS)(self._build_signer)

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop`, then wait for requests in flight."""
        fan_out_task = asyncio.create_task(self._fan_out_until(stop))
        while not stop.is_set():
            try:
                is_busy = await self._step()
            except Unavailable as error:
                log.warning("webhooks.database_unavailable", error=error.message)
                await wait_for_any(stop, seconds=ERROR_PAUSE_SECONDS)
            except Exception:
                # One delivery that cannot be handled must not stop all others.
                log.exception("webhooks.dispatcher_failed")
                await wait_for_any(stop, seconds=ERROR_PAUSE_SECONDS)
            else:
                if not is_busy:
                    await wait_for_any(stop, self._has_work, seconds=IDLE_SECONDS)
                if not stop.is_set():
                    await wait_for_any(stop, self._has_enough_outcomes, seconds=STEP_SECONDS)
        await fan_out_task
        await self._shut_down()
        await self._client.close()

    async def _fan_out_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            fact_count = 0
            try:
                fact_count = await asyncio.to_thread(self._fan_out)
            except Unavailable as error:
                log.warning("webhooks.database_unavailable", error=error.message)
                await wait_for_any(stop, seconds=ERROR_PAUSE_SECONDS)
            except Exception:
                log.exception("webhooks.fan_out_failed")
                await wait_for_any(stop, seconds=ERROR_PAUSE_SECONDS)
            if fact_count:
                self._leases.expect_deliveries()
                self._has_work.set()
            if fact_count < FACTS_PER_TRANSACTION:
                await wait_for_any(stop, seconds=IDLE_SECONDS)

    def _fan_out(self) -> int:
        with self._db.system_transaction() as tx:
            return tasks.fan_out_facts(tx, limit=FACTS_PER_TRANSACTION, now=self._clock())

    async def _step(self) -> bool:
        """Whether there is more to do at once."""
        self._has_work.clear()
        self._has_enough_outcomes.clear()
        request = self._leases.build_request(now=self._clock(), at=_loop_time())
        try:
            result = await asyncio.to_thread(self._run_step, request)
        except BaseException:
            self._leases.requeue_outcomes(request)  # to be sent again
            raise
        self._leases.apply_result(request, result, at=_loop_time())
        self._start_ready(self._clock())
        return self._leases.is_busy

    def _run_step(self, request: leases.StepRequest) -> leases.StepResult:
        now = self._clock()
        with self._db.system_transaction() as tx:
            return leases.run_step(tx, self._id, request, lease_until=now + self._lease_duration, now=now)

    def _start_ready(self, now: datetime) -> None:
        while started := self._next_delivery(now):
            attempt = asyncio.create_task(self._deliver_until_empty(*started, now))
            self._attempts.add(attempt)
            attempt.add_done_callback(self._attempts.discard)

    def _next_delivery(self, now: datetime) -> tuple[EndpointQueue, DueDelivery] | None:
        return None if self._is_stopping else self._in_flight.start_next(now=now)

    async def _deliver_until_empty(self, queue: EndpointQueue, delivery: DueDelivery, now: datetime) -> None:
        """One after the other, of whichever endpoint is next, as long as there are any."""
        started: tuple[EndpointQueue, DueDelivery] | None = queue, delivery
        while started:
            queue, delivery = started
            try:
                response = await self._attempt(queue, delivery, now)
            except Exception as error:
                log.exception("webhooks.attempt_crashed", delivery=delivery.id)
                response = PostResult(None, error=f"The delivery could not be made: {type(error).__name__}.")
            now = self._clock()
            jitter = random.random()  # noqa: S311 - it spreads retries, it keeps no secret
            self._complete_delivery(queue, outcomes.decide_outcome(delivery, response, jitter=jitter, now=now), now)
            started = self._next_delivery(now)
            if started:
                self._start_ready(now)  # the window may have grown

    def _complete_delivery(self, queue: EndpointQueue, outcome: DeliveryOutcome, now: datetime) -> None:
        self._in_flight.complete_delivery(queue, outcome, now=now)
        self._has_work.set()
        if self._leases.add_outcome(outcome) >= OUTCOMES_PER_STEP:
            self._has_enough_outcomes.set()
        ATTEMPT_COUNTERS[outcome.status].inc()
        if not outcome.is_delivered:
            log.info(
                "webhooks.attempt_failed",
                delivery=outcome.delivery.id,
                status=outcome.status,
                response_status=outcome.response_status,
                error=outcome.error,
            )

    async def _attempt(self, queue: EndpointQueue, delivery: DueDelivery, now: datetime) -> PostResult:
        url, body = (delivery.payload, b"") if delivery.verb == "get" else (delivery.url, delivery.payload.encode())
        try:
            signers = [
                self._find_signer(delivery.webhook_id, encrypted) for encrypted in queue.lease.signing_secrets(now)
            ]
        except DecryptionFailed:
            return PostResult(None, error="The secret cannot be opened with this installation's key.")
        headers = signatures.sign_with(signers, message_id=delivery.event_id, at=now, body=body)
        headers["content-type"] = "application/json"
        return await self._client.post(url, method=delivery.verb.upper(), headers=headers, body=body)

    def _build_signer(self, webhook_id: int, encrypted: bytes) -> Signer:
        return Signer(service.decrypt_secret(self._encryptor, webhook_id, encrypted))

    async def _shut_down(self) -> None:
        """Wait for requests in flight, up to a limit, and release the leases. Those of endpoints that hang are kept
        until they end: it is not known what has arrived there."""
        self._is_stopping = True
        if self._attempts:
            await asyncio.wait(self._attempts, timeout=SHUTDOWN_SECONDS)
        for attempt in self._attempts:
            attempt.cancel()
        for _ in range(SHUTDOWN_TRIES):
            request = self._leases.build_final_request()
            try:
                result = await asyncio.to_thread(self._run_step, request)
            except Unavailable as error:
                # If it stays unavailable, the leases end, and what was not recorded is sent again.
                self._leases.requeue_outcomes(request)
                log.warning("webhooks.database_unavailable", error=error.message)
            else:
                if not result.blocked_ids:
                    return
                self._leases.requeue_outcomes(request, result.blocked_ids)
            await asyncio.sleep(ERROR_PAUSE_SECONDS)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
