"""A process that dies while it tells others of events, of scans, and of events once more: each is told, and again only
what may not have arrived, under the same key."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import takewhile

import pytest

from quillpost.accounts.models import Caller
from quillpost.fulfillment.qr_scans import service as scan_service
from quillpost.fulfillment.qr_scans.service import ScanRecorder, ScanRequest
from quillpost.notifications.ports import OutgoingMessage, PostResult
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from support.mailing_lists import make_order
from support.notifications import DANA, message_sender, send_all_due
from support.process_deaths import Death, MortalService, ProcessDied
from support.qr_scans import codes_of, count_scans, order_with_codes, scan
from support.webhooks import subscribe

FAR_AWAY = timedelta(days=1_000)


class Subscriber:
    """Takes whatever is posted or mailed, and remembers it by its key."""

    def __init__(self, service: MortalService) -> None:
        self._service = service
        self.received: list[tuple[str, str]] = []

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        self._take(headers["webhook-id"], body.decode())
        return PostResult(204)

    async def send(self, message: OutgoingMessage) -> None:
        self._take(message.key, message.text.partition("/unsubscribe/")[0])

    async def close(self) -> None: ...

    def assert_received_once(self, death: Death) -> None:
        """But for what the dead had not noted down."""
        unrecorded = list(takewhile(lambda effect: effect == "told", reversed(death.process.effects)))
        repeats = len(unrecorded) if death.process.is_dead else 0
        assert len(self.received) - len(set(self.received)) == repeats
        assert len({key for key, _ in self.received}) == len(set(self.received)), "a repeat says something else"

    def _take(self, key: str, text: str) -> None:
        self._service.process.require_alive()
        self.received.append((key, text))
        self._service.process.record("told")


async def deliver_all(service: MortalService, subscriber: Subscriber) -> None:
    """As a dispatcher does, one step after the other, until nothing is left."""
    parts, timeout = service.container, timedelta(seconds=15)
    dispatcher = Dispatcher(parts.db, parts.encryptor, subscriber, parts.clock, response_timeout=timeout)
    while dispatcher._fan_out() or await dispatcher._step() or dispatcher._attempts:
        await asyncio.gather(*dispatcher._attempts)
    await dispatcher._shut_down()


def test_each_event_is_posted_once_but_for_those_in_flight(service: MortalService, caller: Caller) -> None:
    subscribe(service.container, caller)

    def flow(death: Death) -> None:
        subscriber = Subscriber(service)
        due_at = service.clock.now() + FAR_AWAY
        orders = [make_order(service.container, caller, due_at=due_at) for _ in range(3)]
        with death:
            asyncio.run(deliver_all(service, subscriber))
        asyncio.run(deliver_all(service, subscriber))

        events = """select d.event_id::text from deliveries d join facts f on f.id = d.fact_id
                     where f.order_id = any(%s) and d.status = 'delivered'"""
        assert {key for (key,) in service.rows(events, orders)} == {key for key, _ in subscriber.received}
        assert len({key for key, _ in subscriber.received}) == len(orders)
        subscriber.assert_received_once(death)

    dispatcher = "notifications.webhooks.dispatcher.Dispatcher"
    steps = [f"{dispatcher}._fan_out", f"{dispatcher}._run_step", *["told"] * 3, *[f"{dispatcher}._run_step"] * 2]
    assert service.die_everywhere(flow) == steps


# As many as it takes for three steps, one after the other, of a minute ago.
HAPPENED = """
    insert into facts (account_id, mode, kind, order_id, order_status, previous, current, at)
    select account_id, mode, 'order.status', id, status, 'reviewing', 'processing', %s - n * interval '1 second'
      from orders, generate_series(1, 7) n where id = %s
    returning 1
"""


def test_a_replay_leaves_nothing_out_and_repeats_nothing(
    service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_tasks, "FACTS_PER_TRANSACTION", 3)
    order = make_order(service.container, caller, due_at=service.clock.now() + FAR_AWAY)

    def flow(death: Death) -> None:
        service.work()
        hook, now = subscribe(service.container, caller), service.clock.now()
        service.rows(HAPPENED, now, order)
        with service.container.db.system_transaction() as tx:
            webhook_tasks.start_replay(tx, hook.id, since=now - timedelta(minutes=1), until=now)
        with death:
            service.work()
        service.work()

        assert service.rows("select 1 from webhook_replays") == []
        facts = "select fact_id from deliveries where webhook_id = %s order by id"
        in_order = "select id from facts where at >= %s - interval '1 minute' and at < %s order by at, id"
        assert service.rows(facts, hook.id) == service.rows(in_order, now, now)

    assert service.die_everywhere(flow) == ["notifications.webhooks.tasks.continue_replay"] * 3


def test_each_scan_is_counted_once_and_its_mail_sent_once(
    service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    process_batch = ScanRecorder._process_batch

    def disconnect_when_dead(recorder: ScanRecorder, requests: Sequence[ScanRequest]) -> None:
        try:
            process_batch(recorder, requests)
        except ProcessDied:
            scan_service._respond(requests, {}, ConnectionResetError())

    monkeypatch.setattr(ScanRecorder, "_process_batch", disconnect_when_dead)
    monkeypatch.setattr(scan_service, "TIMEOUT_SECONDS", 60)  # however busy this machine is

    def flow(death: Death) -> None:
        later = service.clock.now() + FAR_AWAY
        order = order_with_codes(service.container, caller, notification_emails=[DANA], schedule_for=later)
        [code] = codes_of(service.container, order.id)
        subscriber, answers = Subscriber(service), []

        def scan_and_tell() -> None:
            answers.append(scan(service.http, code).status_code)
            count_scans(service.container)
            send_all_due(message_sender(service.container, subscriber))

        with death:
            scan_and_tell()
        scan_and_tell()

        assert answers == [503 if death.process.effects == ["insert_scans"] else 302, 302]
        assert service.rows("select scans from items where order_id = %s", order.id) == [(2,)]
        assert service.rows("select total_scans, multi_scans from orders where id = %s", order.id) == [(2, 1)]
        events = "select scans from facts where kind = 'item.scan' and order_id = %s order by id"
        assert service.rows(events, order.id) == [(1,), (2,)]
        sent = "select key from notices where status = 'sent' and key like 'scans:' || %s || ':%%'"
        assert {key for (key,) in service.rows(sent, order.id)} == {key for key, _ in subscriber.received}
        assert subscriber.received
        subscriber.assert_received_once(death)

    assert service.die_everywhere(flow) == [
        "insert_scans",
        "the test",  # which counts them
        "notifications.tasks.MessageSender._write_digests",
        "notifications.tasks.MessageSender._claim",
        "told",
        "notifications.tasks.MessageSender._record",
    ]
