"""The outbox: who is told of what, in which order, in which words, and signed as Standard Webhooks verify."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.client.signatures import new_secret, sign, verify
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks import tasks as fanning
from quillpost.notifications.webhooks.service import create_webhook, send_sample_event
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support import webhooks as outbox
from support.factories import Clock, people, person
from support.orders import create_order, end_review, item_ids
from support.rows import execute, run_as, scalar
from support.waiting import is_lock_awaited, wait_until
from support.webhooks import claim_deliveries, complete_deliveries, deliver, delivery_rows, subscribe, webhook_row

pytestmark = pytest.mark.usefixtures("clean_database")

ITEM, ORDER = rules.ITEM_STATUS_EVENT, rules.ORDER_STATUS_EVENT
SCANNED = """
    with fact as (
        insert into facts (account_id, mode, kind, order_id, item_id, order_status, current, at, scans)
        select account_id, mode, 'item.scan', order_id, id, 'reviewing', status, :now, :scans
          from items where order_id = :order returning id)
    insert into fact_queue select id from fact
"""


def deliver_order(container: Container, owner: Caller, *args: Any, **how: Any) -> Order:
    """An order whose one piece is printed and delivered, of which all events are on their way."""
    order = create_order(container, owner, *args, **how)
    end_review(container, order)
    for status in (ItemStatus.PRINTED, ItemStatus.DELIVERED):
        outbox.move_pieces(container, order, status, delivery_date=date(2026, 5, 9))
    outbox.fan_out(container)
    return order


def test_a_subscription_gets_only_events_of_its_type_the_status_first(container: Container, owner: Caller) -> None:
    counts = {ORDER: 3, ITEM: 3, rules.DELIVERED_EVENT: 1, rules.SCAN_EVENT: 0}
    hooks = {kind: outbox.subscribe(container, owner, type=kind) for kind in ("*", *counts)}
    deliver_order(container, owner)
    got = {kind: outbox.event_types(container, hook) for kind, hook in hooks.items()}
    assert got.pop("*") == [ORDER, ITEM, ITEM, ITEM, rules.DELIVERED_EVENT, ORDER, ORDER]
    assert got == {kind: [kind] * number for kind, number in counts.items()}


def test_a_scan_event_carries_the_count_at_that_scan(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe(container, owner, type=rules.SCAN_EVENT)
    order = create_order(container, owner)
    for scans in (1, 2):
        execute(container, SCANNED, order=order.id, scans=scans, now=container.clock())
    outbox.fan_out(container)
    assert outbox.event_types(container, hook) == [rules.SCAN_EVENT, rules.SCAN_EVENT]
    [first] = outbox.claim_deliveries(container)
    outbox.complete_deliveries(container, [first])
    payloads = [outbox.payload_data(due) for due in (first, *outbox.claim_deliveries(container))]
    assert [each["order_item.scans"] for each in payloads] == [1, 2]
    statuses = {(each["order_item.previous_status"], each["order_item.current_status"]) for each in payloads}
    assert statuses == {(None, "Processing")}


def test_only_a_subscription_that_is_disabled_misses_anything(container: Container, owner: Caller) -> None:
    hooks = {status: outbox.subscribe(container, owner) for status in ("active", "failing", "paused", "disabled")}
    for status, hook in hooks.items():
        outbox.set_columns(container, webhooks, hook.id, status=status)
    outbox.fan_out_order(container, owner)
    counts = {status: len(outbox.event_types(container, hook)) for status, hook in hooks.items()}
    assert counts == {"active": 2, "failing": 2, "paused": 2, "disabled": 0}


def test_every_fact_is_taken_once(container: Container, owner: Caller) -> None:
    hook, order = outbox.subscribe(container, owner), create_order(container, owner, people(2))
    with container.db.system_transaction() as tx:
        assert fanning.fan_out_facts(tx, limit=10, now=container.clock()) == 3
        tx.rollback()  # and leaves its facts to the next
    assert (outbox.event_types(container, hook), outbox.queue_row(container, hook).due_at) == ([], None)
    with container.db.system_transaction() as tx:
        assert fanning.fan_out_facts(tx, limit=2, now=container.clock()) == 2
        assert outbox.fan_out(container) == 0, "of two at once one leaves it to the other"
    assert [outbox.fan_out(container), outbox.fan_out(container)] == [1, 0]
    assert outbox.event_types(container, hook) == [ORDER, ITEM, ITEM]
    end_review(container, order)
    outbox.fan_out(container)
    with container.db.system_transaction() as tx:
        change_item_statuses(tx, [StatusChange(item_ids(tx, order)[0], ItemStatus.PRINTED)], now=container.clock())
        tx.rollback()
    assert outbox.fan_out(container) == 0, "what was rolled back did not happen"


def test_events_wake_only_the_queues_of_their_subscribers(container: Container, clock: Clock, owner: Caller) -> None:
    active, paused = (outbox.subscribe(container, owner) for _ in range(2))
    other, earlier = outbox.subscribe(container, owner, type=rules.SCAN_EVENT), clock.now()
    outbox.set_columns(container, webhooks, paused.id, status="paused")
    outbox.fan_out_order(container, owner)
    woken = [outbox.queue_wakeups(container, hook) for hook in (active, paused, other)]
    assert woken == [(earlier, 1), (earlier, 1), (None, 0)]
    clock.advance(seconds=5)
    outbox.fan_out_order(container, owner)
    assert outbox.queue_wakeups(container, active) == (earlier, 2)


def test_resuming_during_a_fan_out_waits_for_it_and_leaves_nothing_behind(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe(container, owner)
    run_as(container, owner, webhook_service.pause_webhook, hook.id, now=container.clock())
    create_order(container, owner)

    def resume() -> None:
        run_as(container, owner, webhook_service.resume_webhook, hook.id, now=container.clock())

    with ThreadPoolExecutor(1) as pool:
        with container.db.system_transaction() as tx:
            fanning.fan_out_facts(tx, limit=10, now=container.clock())
            resumed = pool.submit(resume)
            wait_until(lambda: is_lock_awaited(container))
        resumed.result()
    assert [row.next_at for row in outbox.delivery_rows(container, hook)] == [container.clock()] * 2
    assert len(outbox.claim_deliveries(container)) == 2


def test_a_later_event_of_a_piece_waits_for_the_earlier(container: Container, owner: Caller) -> None:
    outbox.subscribe(container, owner)
    deliver_order(container, owner)
    seen = []
    while dues := outbox.claim_deliveries(container):
        streams = [due.stream for due in dues]
        assert len(set(streams)) == len(streams), "two of one stream were in the air together"
        seen += [
            (json.loads(due.payload)["event_type"], outbox.payload_data(due)["order_item.current_status"])
            for due in dues
            if due.stream.startswith("item:")
        ]
        outbox.complete_deliveries(container, dues)
    assert seen == [(ITEM, "Processing"), (ITEM, "Printed"), (ITEM, "Delivered"), (rules.DELIVERED_EVENT, "Delivered")]


def test_a_failing_delivery_of_one_item_holds_up_no_other(container: Container, owner: Caller) -> None:
    outbox.subscribe(container, owner, type=ITEM)
    order = create_order(container, owner, people(2))
    end_review(container, order)
    outbox.move_pieces(container, order)
    outbox.fan_out(container)
    stuck, fine = outbox.claim_deliveries(container)
    outbox.complete_deliveries(container, [stuck], "pending", next_at=container.clock() + timedelta(hours=1))
    outbox.complete_deliveries(container, [fine])
    [after] = outbox.claim_deliveries(container)
    assert outbox.payload_data(after)["order_item.id"] == outbox.payload_data(fine)["order_item.id"]


def test_a_delivery_is_claimed_again_after_its_lease_alone(container: Container, clock: Clock, owner: Caller) -> None:
    outbox.subscribe_with_delivery(container, owner)
    [first] = outbox.claim_deliveries(container)
    assert outbox.claim_deliveries(container) == []
    clock.advance(seconds=outbox.LEASE.seconds)
    [again] = outbox.claim_deliveries(container)
    assert (again.id, again.event_id, again.payload, again.attempts) == (first.id, first.event_id, first.payload, 0)


def test_a_success_counts_and_heals_the_subscription(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    outbox.set_columns(container, webhooks, hook.id, status="failing")
    dues = outbox.claim_deliveries(container)
    for _ in range(2):  # a success that was known already is not counted again
        outbox.complete_deliveries(container, dues)
    healed, [row] = outbox.webhook_row(container, hook), outbox.delivery_rows(container, hook)
    assert (healed.status, healed.invoke_count) == ("active", 1)
    assert (row.status, row.delivered_at, row.response_status) == ("delivered", container.clock(), 200)
    outbox.complete_deliveries(container, dues, "pending", next_at=container.clock())
    assert outbox.claim_deliveries(container) == [], "an outcome after the lease does not undo it"


def test_a_failure_is_kept_with_its_answer_and_counts_for_nothing(container: Container, owner: Caller) -> None:
    hook, dues = outbox.subscribe_with_delivery(container, owner), outbox.claim_deliveries(container)
    outbox.complete_deliveries(container, dues, "failed", response_status=500, response_body="oops", error="gave up")
    assert outbox.claim_deliveries(container) == []
    [row] = outbox.delivery_rows(container, hook)
    assert (row.status, row.response_body, row.error) == ("failed", "oops", "gave up")
    assert outbox.webhook_row(container, hook).invoke_count == 0


def test_events_carry_the_values_of_their_moment(container: Container, owner: Caller) -> None:
    outbox.subscribe(container, owner)
    how = {"metadata": '{"a":1.0}', "qrcode_url": "https://x.test/%CUSTOM1%"}
    deliver_order(container, owner, [person(custom1="blue")], **how)
    dues = outbox.claim_deliveries(container)
    creation, first = (outbox.payload_data(due) for due in dues)
    assert (creation["order.previous_status"], creation["order.current_status"]) == (None, "reviewing")
    assert (first["order_item.previous_status"], first["order_item.current_status"]) == (None, "Processing")
    assert (first["order.status"], first["qrcode.url"]) == ("Reviewing", "https://x.test/blue")
    assert all('"order.metadata":{"a":1.0}}' in due.payload for due in dues)


def test_a_secret_is_sealed_and_opens_for_its_own_subscription(container: Container, owner: Caller) -> None:
    how = {"url": "https://example.com", "type": "*", "now": container.clock()}
    with container.db.transaction(build_tenant(owner)) as tx:
        hook, secret = webhook_service.create_webhook(tx, owner, container.encryptor, **how)  # type: ignore[arg-type]
    sealed = bytes(scalar(container, sa.select(webhooks.c.secret_sealed)))
    assert secret.encode() not in sealed
    assert webhook_service.decrypt_secret(container.encryptor, hook.id, sealed) == secret


EVENT_ID = "4d1c9c64-7f7c-4a52-9a0b-0d2f6c1f5d11"
NOON = datetime(2026, 5, 4, 12, 0, 0, 700_000, tzinfo=UTC)
PIECE: dict[str, Any] = {
    "id": 77, "failure": "No such number", "delivery_date": date(2026, 5, 9), "scans": 2,
    "name": "Zoë Doe", "company": None, "address": "12 Main St", "address2": None,
    "absentee_address": None, "city": "Austin", "province": "TX", "postal_code": "78701",
    "country": "US", "email": None, "phone": None,
    **{f"custom{n}": f"c{n}" for n in range(1, 11)},
}  # fmt: skip


def order_event(**changes: Any) -> rules.WebhookEvent:
    usual: dict[str, Any] = {
        "event_type": ORDER, "event_id": EVENT_ID, "at": NOON, "order_id": 5, "sub_account_id": None,
        "order_status": "processing", "previous": "reviewing", "current": "processing",
        "metadata": '{"b":1.0,"a":[1e2]}',
    }  # fmt: skip
    return rules.WebhookEvent(**usual | changes)


def item_event(**changes: Any) -> rules.WebhookEvent:
    usual = {
        "event_type": ITEM, "previous": "Printed", "current": "In Transit", "item": PIECE,
        "qrcode_url": "https://example.com/c1", "sub_account_id": 3,
    }  # fmt: skip
    return order_event(**usual | changes)


def test_an_event_has_the_values_of_its_moment_alone() -> None:
    data = rules.build_data(order_event())
    assert data["order.id"] == 5
    assert (data["order.status"], data["order.current_status"]) == ("Processing", "processing")
    assert data["order.previous_status"] == "reviewing"
    for kind in (ITEM, rules.DELIVERED_EVENT, rules.SCAN_EVENT):
        data = rules.build_data(item_event(event_type=kind))
        assert (data["order_item.id"], data["order.id"], data["order.sub_account_id"]) == (77, 5, 3)
        assert (data["order_item.previous_status"], data["order_item.current_status"]) == ("Printed", "In Transit")
        assert data["order.status"] == "Processing"
        assert [data[f"recipient.custom_{n}"] for n in (1, 10)] == ["c1", "c10"]
        assert data["qrcode.url"] == "https://example.com/c1"
    for event in (order_event(previous=None), item_event(previous=None)):
        data = rules.build_data(event)
        assert [data[key] for key in data if key.endswith("previous_status")] == [None]
    failure = "No such number"
    for current, failed, day in (
        ("In Transit", None, None), ("Delivered", None, "2026-05-09"), ("Failed", failure, None),
        ("Returned to Sender", failure, None),
    ):  # fmt: skip
        data = rules.build_data(item_event(current=current))
        assert (data["order_item.failure"], data["order_item.delivery_date"]) == (failed, day), current


def test_the_message_is_whole_and_keeps_metadata_to_the_letter() -> None:
    written = rules.build_body(order_event())
    assert b'"order.metadata":{"b":1.0,"a":[1e2]}' in written
    assert json.loads(written) == {
        "event_type": ORDER, "event_id": EVENT_ID, "timestamp": 1_777_896_000, "date_time": "2026-05-04 12:00:00",
        "data": {"order.id": 5, "order.status": "Processing", "order.previous_status": "reviewing",
                 "order.current_status": "processing", "order.metadata": {"b": 1.0, "a": [100.0]}},
    }  # fmt: skip
    assert rules.build_body(item_event()) == rules.build_body(item_event()), "it is written alike each time"
    kept = [rules.build_data(item_event(metadata=metadata))["order.metadata"] for metadata in (None, "{}")]
    assert kept == [None, {}]


def test_a_delivery_is_tried_for_three_days_and_later_where_its_receiver_asks() -> None:
    assert list(rules.RETRY_DELAYS) == sorted(rules.RETRY_DELAYS)
    assert timedelta(days=3) <= sum(rules.RETRY_DELAYS, timedelta()) <= timedelta(days=3.5)
    assert rules.next_attempt_at(len(rules.RETRY_DELAYS), now=NOON, jitter=0, retry_after=None) is not None
    assert rules.next_attempt_at(len(rules.RETRY_DELAYS) + 1, now=NOON, jitter=0, retry_after=30) is None
    for retry_after, wait in ((None, 5), (0, 5), (2, 5), (600, 600), (10**9, 86_400)):
        again = rules.next_attempt_at(1, now=NOON, jitter=0, retry_after=retry_after)
        assert again == NOON + timedelta(seconds=wait), retry_after


@given(attempts=st.integers(1, len(rules.RETRY_DELAYS)), jitter=st.floats(0, 1, exclude_max=True))
def test_the_wait_is_the_schedule_s_and_a_fifth_more_at_most(attempts: int, jitter: float) -> None:
    again = rules.next_attempt_at(attempts, now=NOON, jitter=jitter, retry_after=None)
    assert again is not None
    wait = rules.RETRY_DELAYS[attempts - 1]
    assert wait <= again - NOON <= wait * 1.2


SECRET, NEXT_SECRET = new_secret(bytes(range(32))), new_secret(bytes(range(32, 64)))
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
BODY = '{"event_type":"order_item.delivered","name":"Zoë"}'.encode()


def signed(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    return sign(secrets, message_id="msg_1", at=NOW, body=body)


def test_the_published_example_and_the_public_library_have_our_signature() -> None:
    secret, message_id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    at, signature = datetime.fromtimestamp(1614265330, UTC), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = sign([secret], message_id=message_id, at=at, body=b'{"test": 2432232314}')
    assert headers == {"webhook-id": message_id, "webhook-timestamp": "1614265330", "webhook-signature": signature}
    theirs = standardwebhooks.Webhook(SECRET)
    assert signed(SECRET)["webhook-signature"] == theirs.sign("msg_1", NOW, BODY.decode())
    headers = sign([NEXT_SECRET, SECRET], message_id="msg_1", at=datetime.now(UTC), body=BODY)
    assert theirs.verify(BODY, headers) == json.loads(BODY)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        theirs.verify(BODY + b" ", headers)


def test_our_receiver_accepts_our_signature_under_any_spelling_of_the_headers() -> None:
    assert verify([SECRET], {name.title(): value for name, value in signed(SECRET).items()}, BODY, now=NOW)
    assert verify([NEXT_SECRET, SECRET], signed(SECRET), BODY, now=NOW)
    assert verify([SECRET], signed(NEXT_SECRET, SECRET), BODY, now=NOW)
    assert verify([SECRET], signed(SECRET, body=b""), b"", now=NOW)
    for seconds in (-301, -300, 300, 301):
        at = NOW + timedelta(seconds=seconds)
        assert verify([SECRET], signed(SECRET), BODY, now=at) == (abs(seconds) == 300), seconds
    for size in (0, 23, 65):
        with pytest.raises(ValueError, match="24 to 64"):
            new_secret(bytes(size))
    with pytest.raises(ValueError, match="at least one secret"):
        signed()


def test_a_changed_delivery_is_refused(subtests: pytest.Subtests) -> None:
    headers = signed(SECRET)
    assert not verify([SECRET], headers, BODY + b" ", now=NOW)
    assert not verify([NEXT_SECRET], headers, BODY, now=NOW)
    assert not verify([], headers, BODY, now=NOW)
    odd = ["", "v1", "v1,", "v2,x", "é", "-1", "9" * 5_000, "1e9", "٣"]
    changes: list[dict[str, str | None]] = [
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": str(int(NOW.timestamp()) + 1)},
        {"webhook-signature": headers["webhook-signature"].replace("v1,", "v2,")},
        *({name: value} for name in headers for value in (*odd, None)),
    ]
    for change in changes:
        with subtests.test(str(change)[:60]):
            present = {name: value for name, value in (headers | change).items() if value is not None}
            assert not verify([SECRET], present, BODY, now=NOW)


@pytest.mark.usefixtures("clean_database")
def test_a_sample_of_the_subscribed_type_arrives_and_verifies(
    container: Container, owner: Caller, clock: Clock, subtests: pytest.Subtests
) -> None:
    """In our own time: whoever verifies a signature asks how old it is."""
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    found = {}
    for subscribed, event_type in (("*", ORDER), *((each, each) for each in rules.EVENT_TYPES)):
        with subtests.test(subscribed):
            how: dict[str, Any] = {"url": "https://example.com/hook", "type": subscribed, "now": clock.now()}
            hook, secret = run_as(container, owner, create_webhook, owner, container.encryptor, **how)
            event = run_as(container, owner, send_sample_event, hook.id, now=clock.now())
            [(_, body)], [headers] = (receivers := deliver(container, 204)).requests, receivers.headers
            message = standardwebhooks.Webhook(secret).verify(body, dict(headers))
            assert (message["event_id"], message["event_type"]) == (event.event_id, event_type)
            assert headers["webhook-id"] == event.event_id
            assert message["timestamp"] == int(clock.now().timestamp())
            assert {message["data"][key] for key in message["data"] if key.endswith(".id")} == {0}
            [row] = delivery_rows(container, hook)
            assert (row.status, row.body) == ("delivered", body.decode())
            found[event_type] = message["data"]
    delivered, scanned = found[rules.DELIVERED_EVENT], found[rules.SCAN_EVENT]
    assert delivered["order_item.delivery_date"] == clock.now().date().isoformat()
    assert [each["order_item.current_status"] for each in (delivered, scanned)] == ["Delivered", "Delivered"]
    assert [each["order_item.scans"] for each in (delivered, scanned)] == [0, 1]


@pytest.mark.usefixtures("clean_database")
def test_samples_wait_for_no_other(container: Container, owner: Caller) -> None:
    hook, now = subscribe(container, owner), container.clock()
    events = [run_as(container, owner, send_sample_event, hook.id, now=now).event_id for _ in range(3)]
    dues = claim_deliveries(container)
    assert {due.event_id for due in dues} == set(events)
    complete_deliveries(container, dues)
    assert webhook_row(container, hook).invoke_count == 3
