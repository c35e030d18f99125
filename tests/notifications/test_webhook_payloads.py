"""Webhook bodies, and signatures that Standard Webhooks verify."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from quillpost.client.signatures import new_secret, sign, verify
from quillpost.notifications.webhooks.rules import (
    DELIVERED_EVENT,
    ITEM_STATUS_EVENT,
    ORDER_STATUS_EVENT,
    RETRY_DELAYS,
    SCAN_EVENT,
    WebhookEvent,
    build_body,
    build_data,
    build_query,
    next_attempt_at,
)

NOON = datetime(2026, 5, 4, 12, 0, 0, 700_000, tzinfo=UTC)
ORDER_KEYS = {
    "order.id", "order.status", "order.previous_status", "order.current_status", "order.metadata",
}  # fmt: skip
FLAT_KEYS = {
    "order_item.id", "order.id", "order.sub_account_id", "order_item.scans",
    "order_item.failure", "order_item.delivery_date", "order_item.previous_status",
    "order_item.current_status", "order.status",
    "recipient.name", "recipient.company", "recipient.address", "recipient.address2",
    "recipient.absentee_address", "recipient.city", "recipient.province", "recipient.postal_code",
    "recipient.country", "recipient.email", "recipient.phone",
    *(f"recipient.custom_{n}" for n in range(1, 11)),
    "qrcode.url", "order.metadata",
}  # fmt: skip
PIECE: dict[str, Any] = {
    "id": 77, "failure": "No such number", "delivery_date": date(2026, 5, 9), "scans": 2,
    "name": "Zoë Doe", "company": None, "address": "12 Main St", "address2": None,
    "absentee_address": None, "city": "Austin", "province": "TX", "postal_code": "78701",
    "country": "US", "email": None, "phone": None,
    **{f"custom{n}": f"c{n}" for n in range(1, 11)},
}  # fmt: skip


def order_event(**changes: Any) -> WebhookEvent:
    return replace(
        WebhookEvent(
            event_type=ORDER_STATUS_EVENT,
            event_id="4d1c9c64-7f7c-4a52-9a0b-0d2f6c1f5d11",
            at=NOON,
            order_id=5,
            sub_account_id=None,
            order_status="processing",
            previous="reviewing",
            current="processing",
            metadata='{"b":1.0,"a":[1e2]}',
        ),
        **changes,
    )


def item_event(**changes: Any) -> WebhookEvent:
    usual = {
        "event_type": ITEM_STATUS_EVENT, "previous": "Printed", "current": "In Transit", "item": PIECE,
        "qrcode_url": "https://example.com/c1", "sub_account_id": 3,
    }  # fmt: skip
    return order_event(**usual | changes)


def test_an_order_s_event_has_exactly_the_interface_s_keys() -> None:
    data = build_data(order_event())
    assert set(data) == ORDER_KEYS
    assert data["order.id"] == 5
    assert (data["order.status"], data["order.current_status"]) == ("Processing", "processing")
    assert data["order.previous_status"] == "reviewing"


@pytest.mark.parametrize("kind", [ITEM_STATUS_EVENT, DELIVERED_EVENT, SCAN_EVENT])
def test_an_item_s_event_has_exactly_the_interface_s_keys(kind: str) -> None:
    data = build_data(item_event(event_type=kind))
    assert set(data) == FLAT_KEYS
    assert (data["order_item.id"], data["order.id"], data["order.sub_account_id"]) == (77, 5, 3)
    assert (data["order_item.previous_status"], data["order_item.current_status"]) == ("Printed", "In Transit")
    assert data["order.status"] == "Processing"
    assert [data[f"recipient.custom_{n}"] for n in (1, 10)] == ["c1", "c10"]
    assert data["qrcode.url"] == "https://example.com/c1"


@pytest.mark.parametrize("event", [order_event(previous=None), item_event(previous=None)])
def test_the_first_event_has_no_previous_status(event: WebhookEvent) -> None:
    data = build_data(event)
    assert [data[key] for key in data if key.endswith("previous_status")] == [None]


@pytest.mark.parametrize(
    ("current", "failure", "day"),
    [
        ("In Transit", None, None),
        ("Delivered", None, "2026-05-09"),
        ("Failed", "No such number", None),
        ("Returned to Sender", "No such number", None),
    ],
)
def test_an_event_does_not_tell_what_came_after_it(current: str, failure: str | None, day: str | None) -> None:
    data = build_data(item_event(current=current))
    assert (data["order_item.failure"], data["order_item.delivery_date"]) == (failure, day)


def test_the_message_is_whole_and_keeps_metadata_to_the_letter() -> None:
    written = build_body(order_event())
    assert b'"order.metadata":{"b":1.0,"a":[1e2]}' in written
    assert json.loads(written) == {
        "event_type": ORDER_STATUS_EVENT,
        "event_id": "4d1c9c64-7f7c-4a52-9a0b-0d2f6c1f5d11",
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


@pytest.mark.parametrize(("metadata", "expected"), [(None, None), ("{}", {})])
def test_no_metadata_is_null_and_an_empty_one_is_empty(metadata: str | None, expected: object) -> None:
    assert build_data(item_event(metadata=metadata))["order.metadata"] == expected


def test_the_same_event_is_written_alike_each_time() -> None:
    assert build_body(item_event()) == build_body(item_event())


@pytest.mark.parametrize("event", [order_event(), item_event(), item_event(metadata=None, qrcode_url=None)])
def test_a_get_request_has_the_same_values_as_parameters(event: WebhookEvent) -> None:
    params = parse_qs(build_query(event), keep_blank_values=True)
    for key, value in build_data(event).items():
        if value is not None and key != "order.metadata":
            assert params[key] == [str(value)], key
    assert params["event_type"] == [event.event_type]
    assert params["event_id"] == [event.event_id]
    assert params["timestamp"] == ["1777896000"]
    if event.metadata is not None:
        assert params["order.metadata"] == [event.metadata]


def test_a_delivery_is_tried_for_about_three_days_ever_more_rarely() -> None:
    assert list(RETRY_DELAYS) == sorted(RETRY_DELAYS)
    assert timedelta(days=3) <= sum(RETRY_DELAYS, timedelta()) <= timedelta(days=3.5)


@given(attempts=st.integers(1, len(RETRY_DELAYS)), jitter=st.floats(0, 1, exclude_max=True))
def test_the_wait_is_the_schedule_s_and_a_fifth_more_at_most(attempts: int, jitter: float) -> None:
    again = next_attempt_at(attempts, now=NOON, jitter=jitter, retry_after=None)
    assert again is not None
    wait = RETRY_DELAYS[attempts - 1]
    assert wait <= again - NOON <= wait * 1.2


def test_after_the_last_try_it_is_given_up() -> None:
    assert next_attempt_at(len(RETRY_DELAYS), now=NOON, jitter=0, retry_after=None) is not None
    assert next_attempt_at(len(RETRY_DELAYS) + 1, now=NOON, jitter=0, retry_after=30) is None


@pytest.mark.parametrize(("retry_after", "wait"), [(None, 5), (0, 5), (2, 5), (600, 600), (10**9, 86_400)])
def test_a_receiver_may_ask_for_a_longer_wait_of_up_to_a_day(retry_after: int | None, wait: int) -> None:
    assert next_attempt_at(1, now=NOON, jitter=0, retry_after=retry_after) == NOON + timedelta(seconds=wait)


SECRET, NEXT_SECRET = new_secret(bytes(range(32))), new_secret(bytes(range(32, 64)))
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
BODY = '{"event_type":"order_item.delivered","name":"Zoë"}'.encode()


def signed(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    return sign(secrets, message_id="msg_1", at=NOW, body=body)


def changed(headers: Mapping[str, str], **fields: str) -> dict[str, str]:
    return {**headers, **{name.replace("_", "-"): value for name, value in fields.items()}}


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


def test_the_public_library_accepts_our_signature() -> None:
    headers = sign([SECRET], message_id="msg_1", at=datetime.now(UTC), body=BODY)
    assert standardwebhooks.Webhook(SECRET).verify(BODY, headers) == json.loads(BODY)


def test_the_public_library_refuses_a_body_that_we_did_not_sign() -> None:
    headers = sign([SECRET], message_id="msg_1", at=datetime.now(UTC), body=BODY)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(BODY + b" ", headers)


def test_the_public_library_makes_the_same_signature() -> None:
    theirs = standardwebhooks.Webhook(SECRET).sign("msg_1", NOW, BODY.decode())
    assert signed(SECRET)["webhook-signature"] == theirs


def test_during_a_rotation_either_secret_is_enough_for_the_receiver() -> None:
    headers = sign([NEXT_SECRET, SECRET], message_id="msg_1", at=datetime.now(UTC), body=BODY)
    assert standardwebhooks.Webhook(SECRET).verify(BODY, headers)
    assert standardwebhooks.Webhook(NEXT_SECRET).verify(BODY, headers)


def test_our_receiver_accepts_our_signature_under_any_spelling_of_the_headers() -> None:
    headers = {name.title(): value for name, value in signed(SECRET).items()}
    assert verify([SECRET], headers, BODY, now=NOW)
    assert verify([NEXT_SECRET, SECRET], signed(SECRET), BODY, now=NOW)
    assert verify([SECRET], signed(NEXT_SECRET, SECRET), BODY, now=NOW)


def test_an_empty_body_can_be_signed() -> None:
    assert verify([SECRET], signed(SECRET, body=b""), b"", now=NOW)


def test_a_changed_delivery_is_refused() -> None:
    headers = signed(SECRET)
    assert not verify([SECRET], headers, BODY + b" ", now=NOW)
    assert not verify([SECRET], changed(headers, webhook_id="msg_2"), BODY, now=NOW)
    later = str(int(NOW.timestamp()) + 1)
    assert not verify([SECRET], changed(headers, webhook_timestamp=later), BODY, now=NOW)
    assert not verify([NEXT_SECRET], headers, BODY, now=NOW)
    assert not verify([], headers, BODY, now=NOW)


@pytest.mark.parametrize("minutes", [-5, 5])
def test_five_minutes_apart_is_still_accepted(minutes: int) -> None:
    assert verify([SECRET], signed(SECRET), BODY, now=NOW + timedelta(minutes=minutes))


@pytest.mark.parametrize("seconds", [-301, 301])
def test_more_than_five_minutes_apart_is_refused(seconds: int) -> None:
    assert not verify([SECRET], signed(SECRET), BODY, now=NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("value", ["", "v1", "v1,", "v2,x", "é", "-1", "9" * 5_000, "1e9", "٣"])
def test_a_spoiled_header_is_refused(name: str, value: str) -> None:
    assert not verify([SECRET], {**signed(SECRET), name: value}, BODY, now=NOW)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_refused(name: str) -> None:
    headers = signed(SECRET)
    del headers[name]
    assert not verify([SECRET], headers, BODY, now=NOW)


def test_another_version_of_signature_does_not_count() -> None:
    headers = signed(SECRET)
    other = headers["webhook-signature"].replace("v1,", "v2,")
    assert not verify([SECRET], changed(headers, webhook_signature=other), BODY, now=NOW)


@pytest.mark.parametrize("size", [0, 23, 65])
def test_a_secret_of_a_wrong_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="24 to 64"):
        new_secret(bytes(size))


def test_a_delivery_without_a_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one secret"):
        signed()
