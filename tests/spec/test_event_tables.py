"""The tables of events: their types and their payloads, key for key, as samples and as they arrive."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core import exact_json
from quillpost.notifications.webhooks.payloads import build_sample_event
from quillpost.notifications.webhooks.rules import EVENT_TYPES, build_data
from support.event_receiver import EventReceiver, ReceivedEvent, run_dispatcher
from support.factories import Account, Build, Clock, make_sub_account, person, run_jobs_for
from support.field_shapes import Test, find_differences, integer, or_null, string
from support.qr_scans import codes_of, count_scans, scan
from support.test_client import TestClient

ORDER, DELIVERED, SCAN = "order.status_update", "order_item.delivered", "scans.scan_update"
TYPES = [ORDER, "order_item.status_update", DELIVERED, SCAN]


def dictionary(value: Any) -> bool:
    return type(value) is dict


ORDER_PAYLOAD: dict[str, Test] = {
    "order.id": integer, "order.status": string, "order.previous_status": or_null(string),
    "order.current_status": string, "order.metadata": or_null(dictionary),
}  # fmt: skip
FLAT_PAYLOAD: dict[str, Test] = {
    **dict.fromkeys(("order_item.id", "order.id", "order.sub_account_id", "order_item.scans"), or_null(integer)),
    **dict.fromkeys(
        (
            "order_item.failure", "order_item.delivery_date", "order_item.previous_status",
            "order_item.current_status", "order.status", "qrcode.url",
        ),
        or_null(string),
    ),
    **dict.fromkeys(
        (f"recipient.{name}" for name in (
            "name", "company", "address", "address2", "absentee_address", "city", "province",
            "postal_code", "country", "email", "phone", *(f"custom_{n}" for n in range(1, 11)),
        )),
        or_null(string),
    ),
    "order.metadata": or_null(dictionary),
}  # fmt: skip
PAYLOADS = {event_type: ORDER_PAYLOAD if event_type == ORDER else FLAT_PAYLOAD for event_type in TYPES}

METADATA = {"zeta": 1, "alpha": [True, None, {"ü": "✓ & ="}], "big": 123456789012345678901234567890}
HOW_MANY = """
    select count(*) + count(*) filter (where kind = 'item.status' and current = 'Delivered') from facts
"""
JANE = {
    "company": "Doe & Sons", "address2": "Apt 4", "email": "jane@example.com", "phone": "+15125550100",
    **{f"custom{n}": f"c{n}" for n in range(1, 11)},
}  # fmt: skip


def test_samples_of_events_are_as_their_tables_say() -> None:
    assert list(EVENT_TYPES) == TYPES
    for event_type, payload in PAYLOADS.items():
        event = build_sample_event(event_type, "5f3c", sub_account_id=7, at=datetime(2026, 5, 4, tzinfo=UTC))
        data = json.loads(exact_json.dump_json(build_data(event)))
        assert find_differences({event_type: [data]}, payload) == []


Events = dict[str, dict[str, list[ReceivedEvent]]]


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def receive_all(container: Container, http: TestClient, owner: Account, clock: Clock) -> Events:
    """Every event of two cards, from their order to the scan of their codes, by verb and type: one of a sub
    account, to somebody of whom much is known and with metadata, one with nothing that is not needed."""
    with EventReceiver() as receiver:
        for verb in ("post", "get"):
            subscription = {"url": receiver.url(f"/{verb}?key=1"), "type": "*", "verb": verb}
            assert owner.post("/webhooks", subscription).status_code == 201
        rich = owner.send(
            recipients=[person(**JANE)],
            metadata=METADATA,
            qrcode_url="https://shop.example.com/?to=%FIRST_NAME%",
            sub_account_id=make_sub_account(container, owner),
        ).json()["id"]
        assert owner.send(qrcode_url=None).status_code == 200
        run_jobs_for(container, clock, seconds=60)
        [code] = codes_of(container, rich)
        assert scan(http, code).status_code == 302
        assert count_scans(container) == 1
        with container.db.system_transaction() as tx:
            how_many = int(tx.exec_driver_sql(HOW_MANY).scalar_one())
        with run_dispatcher(container):
            found = {verb: receiver.wait(f"/{verb}", how_many) for verb in ("post", "get")}
    return {
        verb: {kind: [each for each in events if each.type == kind] for kind in TYPES} for verb, events in found.items()
    }


def test_events_arrive_as_tables_say(container: Container, http: TestClient, owner: Account, clock: Clock) -> None:
    arrived = receive_all(container, http, owner, clock)
    posted, queried = arrived["post"], {each.id: each for events in arrived["get"].values() for each in events}
    for event_type, payload in PAYLOADS.items():
        assert find_differences({event_type: [each.data for each in posted[event_type]]}, payload) == []
        metadata = [each.data["order.metadata"] for each in posted[event_type]]
        # Only the card with metadata was scanned.
        assert [METADATA in metadata, None in metadata] == [True, event_type != SCAN]
    for each in (each for events in posted.values() for each in events):
        assert (each.method, each.query, each.headers["content-type"]) == ("POST", "key=1", "application/json")
        assert set(each.message) == {"event_type", "event_id", "data", "timestamp", "date_time"}
        assert each.headers["webhook-id"] == each.message["event_id"]
        by_get = queried.pop(each.id)
        assert (by_get.method, by_get.body) == ("GET", b"")
        assert by_get.message == in_texts(each.message) | {"data": {"key": "1"} | in_texts(each.data)}
    assert queried == {}
    check_data(posted)


def in_texts(values: dict[str, Any]) -> dict[str, str]:
    """As parameters have it: nothing for null, and JSON for metadata."""
    written = json.dumps(METADATA, ensure_ascii=False, separators=(",", ":"))
    return {
        name: "" if value is None else written if value == METADATA else str(value)
        for name, value in values.items()
        if name != "data"
    }


def check_data(posted: dict[str, list[ReceivedEvent]]) -> None:
    """Events carry the person and the scan unchanged."""
    [scanned] = [each.data for each in posted[SCAN]]
    person_keys = {f"recipient.{name}".replace("custom", "custom_"): text for name, text in JANE.items()}
    assert person_keys.items() <= scanned.items()
    assert (scanned["order_item.scans"], scanned["order_item.current_status"]) == (1, "Delivered")
    assert scanned["order_item.previous_status"] is None
    assert scanned["qrcode.url"] == "https://shop.example.com/?to=Jane"
    [delivered] = [each.data for each in posted[DELIVERED] if each.data["order.metadata"]]
    assert (delivered["order_item.scans"], delivered["order_item.delivery_date"]) == (0, "2026-05-04")
