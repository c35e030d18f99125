"""Webhook bodies, and signatures that Standard Webhooks verify."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.client.signatures import new_secret, sign, verify
from quillpost.notifications.webhooks.rules import (
    DELIVERED_EVENT,
    EVENT_TYPES,
    ITEM_STATUS_EVENT,
    ORDER_STATUS_EVENT,
    RETRY_DELAYS,
    SCAN_EVENT,
    WebhookEvent,
    build_body,
    build_data,
    next_attempt_at,
)
from quillpost.notifications.webhooks.service import create_webhook, send_sample_event
from support.factories import Clock
from support.rows import run_as
from support.webhooks import claim_deliveries, complete_deliveries, deliver, delivery_rows, subscribe, webhook_row

EVENT_ID = "4d1c9c64-7f7c-4a52-9a0b-0d2f6c1f5d11"
NOON = datetime(2026, 5, 4, 12, 0, 0, 700_000, tzinfo=UTC)
PIECE: dict[str, Any] = {
    "id": 77, "failure": "No such number", "delivery_date": date(2026, 5, 9), "scans": 2,
    "name": "Zoë Doe", "company": None, "address": "12 Main St", "address2": None,
    "absentee_address": None, "city": "Austin", "province": "TX", "postal_code": "78701",
    "country": "US", "email": None, "phone": None,
    **{f"custom{n}": f"c{n}" for n in range(1, 11)},
}  # fmt: skip


def order_event(**changes: Any) -> WebhookEvent:
    usual: dict[str, Any] = {
        "event_type": ORDER_STATUS_EVENT, "event_id": EVENT_ID, "at": NOON, "order_id": 5, "sub_account_id": None,
        "order_status": "processing", "previous": "reviewing", "current": "processing",
        "metadata": '{"b":1.0,"a":[1e2]}',
    }  # fmt: skip
    return WebhookEvent(**usual | changes)


def item_event(**changes: Any) -> WebhookEvent:
    usual = {
        "event_type": ITEM_STATUS_EVENT, "previous": "Printed", "current": "In Transit", "item": PIECE,
        "qrcode_url": "https://example.com/c1", "sub_account_id": 3,
    }  # fmt: skip
    return order_event(**usual | changes)


def test_an_event_has_the_values_of_its_order_and_item() -> None:
    data = build_data(order_event())
    assert data["order.id"] == 5
    assert (data["order.status"], data["order.current_status"]) == ("Processing", "processing")
    assert data["order.previous_status"] == "reviewing"
    for kind in (ITEM_STATUS_EVENT, DELIVERED_EVENT, SCAN_EVENT):
        data = build_data(item_event(event_type=kind))
        assert (data["order_item.id"], data["order.id"], data["order.sub_account_id"]) == (77, 5, 3)
        assert (data["order_item.previous_status"], data["order_item.current_status"]) == ("Printed", "In Transit")
        assert data["order.status"] == "Processing"
        assert [data[f"recipient.custom_{n}"] for n in (1, 10)] == ["c1", "c10"]
        assert data["qrcode.url"] == "https://example.com/c1"


def test_an_event_does_not_tell_what_came_before_or_after_it() -> None:
    for event in (order_event(previous=None), item_event(previous=None)):
        data = build_data(event)
        assert [data[key] for key in data if key.endswith("previous_status")] == [None]
    failure = "No such number"
    for current, failed, day in (
        ("In Transit", None, None), ("Delivered", None, "2026-05-09"), ("Failed", failure, None),
        ("Returned to Sender", failure, None),
    ):  # fmt: skip
        data = build_data(item_event(current=current))
        assert (data["order_item.failure"], data["order_item.delivery_date"]) == (failed, day), current


def test_the_message_is_whole_and_keeps_metadata_to_the_letter() -> None:
    written = build_body(order_event())
    assert b'"order.metadata":{"b":1.0,"a":[1e2]}' in written
    assert json.loads(written) == {
        "event_type": ORDER_STATUS_EVENT,
        "event_id": EVENT_ID,
        "data": {
            "order.id": 5,
            "order.status": "Processing",
            "order.previous_status": "reviewing",
            "order.current_status": "processing",
            "order.metadata": {"b": 1.0, "a": [100.0]},
        },
        "timestamp": 1_777_896_000,
        "date_time": "2026-05-04 12:00:00",
    }
    assert build_body(item_event()) == build_body(item_event()), "it is written alike each time"
    kept = [build_data(item_event(metadata=metadata))["order.metadata"] for metadata in (None, "{}")]
    assert kept == [None, {}]


def test_a_delivery_is_tried_for_about_three_days_ever_more_rarely_and_then_given_up() -> None:
    assert list(RETRY_DELAYS) == sorted(RETRY_DELAYS)
    assert timedelta(days=3) <= sum(RETRY_DELAYS, timedelta()) <= timedelta(days=3.5)
    assert next_attempt_at(len(RETRY_DELAYS), now=NOON, jitter=0, retry_after=None) is not None
    assert next_attempt_at(len(RETRY_DELAYS) + 1, now=NOON, jitter=0, retry_after=30) is None


@given(attempts=st.integers(1, len(RETRY_DELAYS)), jitter=st.floats(0, 1, exclude_max=True))
def test_the_wait_is_the_schedule_s_and_a_fifth_more_at_most(attempts: int, jitter: float) -> None:
    again = next_attempt_at(attempts, now=NOON, jitter=jitter, retry_after=None)
    assert again is not None
    wait = RETRY_DELAYS[attempts - 1]
    assert wait <= again - NOON <= wait * 1.2


def test_a_receiver_may_ask_for_a_longer_wait_of_up_to_a_day() -> None:
    for retry_after, wait in ((None, 5), (0, 5), (2, 5), (600, 600), (10**9, 86_400)):
        again = next_attempt_at(1, now=NOON, jitter=0, retry_after=retry_after)
        assert again == NOON + timedelta(seconds=wait), retry_after


SECRET, NEXT_SECRET = new_secret(bytes(range(32))), new_secret(bytes(range(32, 64)))
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
BODY = '{"event_type":"order_item.delivered","name":"Zoë"}'.encode()


def signed(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    return sign(secrets, message_id="msg_1", at=NOW, body=body)


def test_the_published_example_is_signed_as_published() -> None:
    headers = sign(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        at=datetime.fromtimestamp(1614265330, UTC),
        body=b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_the_public_library_makes_the_same_signature_and_refuses_another_body() -> None:
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


def test_a_secret_of_a_wrong_size_or_none_is_refused() -> None:
    for size in (0, 23, 65):
        with pytest.raises(ValueError, match="24 to 64"):
            new_secret(bytes(size))
    with pytest.raises(ValueError, match="at least one secret"):
        signed()


@pytest.mark.usefixtures("clean_database")
def test_a_sample_of_the_subscribed_type_arrives_and_verifies(
    container: Container, owner: Caller, clock: Clock, subtests: pytest.Subtests
) -> None:
    """In our own time: whoever verifies a signature asks how old it is."""
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    found = {}
    for subscribed, event_type in (("*", ORDER_STATUS_EVENT), *((each, each) for each in EVENT_TYPES)):
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
    delivered, scanned = found[DELIVERED_EVENT], found[SCAN_EVENT]
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
