"""The tables of events: their types and their payloads, key for key, as samples and as they arrive."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from quillpost.app import bootstrap
from quillpost.core import exact_json
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks.payloads import build_sample_event
from quillpost.notifications.webhooks.rules import EVENT_TYPES, build_data
from quillpost.web.application import create_app
from support.event_receiver import EventReceiver, ReceivedEvent, run_dispatcher
from support.factories import Clock, make_account, make_sub_account, person, run_jobs_for
from support.qr_scans import codes_of, count_scans, scan
from support.test_client import TestClient

TYPES = ["order.status_update", "order_item.status_update", "order_item.delivered", "scans.scan_update"]
FLAT = TYPES[1:]

TEXT, NUMBER, NOTHING = str, int, type(None)

ORDER_PAYLOAD: dict[str, tuple[type, ...]] = {
    "order.id": (NUMBER,),
    "order.status": (TEXT,),
    "order.previous_status": (TEXT, NOTHING),
    "order.current_status": (TEXT,),
    "order.metadata": (dict, NOTHING),
}
FLAT_PAYLOAD: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("order_item.id", "order.id", "order.sub_account_id", "order_item.scans"), (NUMBER, NOTHING)
    ),
    **dict.fromkeys(
        ("order_item.failure", "order_item.delivery_date", "order_item.previous_status",
         "order_item.current_status", "order.status"),
        (TEXT, NOTHING),
    ),
    **dict.fromkeys(
        (f"recipient.{name}" for name in (
            "name", "company", "address", "address2", "absentee_address", "city", "province",
            "postal_code", "country", "email", "phone",
        )),
        (TEXT, NOTHING),
    ),
    **dict.fromkeys((f"recipient.custom_{n}" for n in range(1, 11)), (TEXT, NOTHING)),
    "qrcode.url": (TEXT, NOTHING),
    "order.metadata": (dict, NOTHING),
}  # fmt: skip


METADATA = {"zeta": 1, "alpha": [True, None, {"ü": "✓ & ="}], "big": 123456789012345678901234567890}
HOW_MANY = """
    select count(*) + count(*) filter (where kind = 'item.status' and current = 'Delivered') from facts
"""
JANE = {
    "company": "Doe & Sons",
    "address2": "Apt 4",
    "email": "jane@example.com",
    "phone": "+15125550100",
    **{f"custom{n}": f"c{n}" for n in range(1, 11)},
}


def payload(event_type: str) -> dict[str, Any]:
    event = build_sample_event(event_type, "5f3c", sub_account_id=7, at=datetime(2026, 5, 4, tzinfo=UTC))
    return json.loads(exact_json.dump_json(build_data(event)))  # type: ignore[no-any-return]


def test_the_types_are_these() -> None:
    assert list(EVENT_TYPES) == TYPES


@pytest.mark.parametrize("key", ORDER_PAYLOAD)
def test_each_key_of_the_order_payload(key: str) -> None:
    assert isinstance(payload(TYPES[0])[key], ORDER_PAYLOAD[key])


@pytest.mark.parametrize("event_type", FLAT)
@pytest.mark.parametrize("key", FLAT_PAYLOAD)
def test_each_key_of_the_flat_payload(event_type: str, key: str) -> None:
    assert isinstance(payload(event_type)[key], FLAT_PAYLOAD[key])


@pytest.mark.parametrize("event_type", TYPES)
def test_there_are_no_other_keys(event_type: str) -> None:
    assert set(payload(event_type)) == set(ORDER_PAYLOAD if event_type == TYPES[0] else FLAT_PAYLOAD)


@pytest.fixture(scope="module")
def arrived(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[ReceivedEvent]]]:
    """All that is told of two cards, from their order to the scan of their codes, by each verb: one of a sub
    account, to somebody of whom much is known and with metadata, one with nothing that is not needed."""
    name, clock = "told_events_" + tmp_path_factory.getbasetemp().name.replace("-", "_"), Clock()
    usual = {"home": tmp_path_factory.mktemp("told"), "allow_private_urls": True}
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin, EventReceiver() as receiver:
        admin.execute(f'create database "{name}" template {template} strategy file_copy')
        container = bootstrap.build_container(Settings.model_validate(usual), postgres.conninfo(name), clock=clock.now)
        with TestClient(create_app(container), base_url="http://quillpost.test") as http:
            owner = make_account(container, http, "owner@example.com")
            for verb in ("post", "get"):
                subscription = {"url": receiver.url_of(f"/{verb}?key=1"), "type": "*", "verb": verb}
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
                events = int(tx.exec_driver_sql(HOW_MANY).scalar_one())
            with run_dispatcher(container):
                yield {verb: receiver.wait(f"/{verb}", events) for verb in ("post", "get")}
        container.db.close()
        admin.execute(f'drop database "{name}" with (force)')


def of_type(arrived: dict[str, list[ReceivedEvent]], verb: str, event_type: str) -> list[ReceivedEvent]:
    found = [each for each in arrived[verb] if each.type == event_type]
    assert found
    return found


@pytest.mark.parametrize("event_type", TYPES)
def test_a_receiver_gets_exactly_these_keys_with_values_of_their_types(
    arrived: dict[str, list[ReceivedEvent]], event_type: str
) -> None:
    table = ORDER_PAYLOAD if event_type == TYPES[0] else FLAT_PAYLOAD
    for each in of_type(arrived, "post", event_type):
        assert (each.method, each.query, each.headers["content-type"]) == ("POST", "key=1", "application/json")
        assert set(each.message) == {"event_type", "event_id", "data", "timestamp", "date_time"}
        assert set(each.data) == set(table)
        assert [key for key, kinds in table.items() if not isinstance(each.data[key], kinds)] == []
        assert each.headers["webhook-id"] == each.message["event_id"]


@pytest.mark.parametrize("event_type", TYPES)
def test_by_get_the_same_keys_are_parameters(arrived: dict[str, list[ReceivedEvent]], event_type: str) -> None:
    posted = {each.message["event_id"]: each for each in of_type(arrived, "post", event_type)}
    queried = {each.message["event_id"]: each for each in of_type(arrived, "get", event_type)}
    assert queried.keys() == posted.keys()
    for event_id, each in queried.items():
        assert (each.method, each.body) == ("GET", b"")
        assert each.message == in_texts(posted[event_id].message) | {
            "data": {"key": "1"} | in_texts(posted[event_id].data)
        }


def in_texts(values: dict[str, Any]) -> dict[str, str]:
    """As parameters have it: nothing for null, and JSON for metadata."""
    return {
        name: "" if value is None else exact_json.dump_json(value) if isinstance(value, dict) else str(value)
        for name, value in values.items()
        if name != "data"
    }


@pytest.mark.parametrize("event_type", TYPES)
def test_metadata_is_in_each_event_untouched_or_null(arrived: dict[str, list[ReceivedEvent]], event_type: str) -> None:
    metadata = [each.data["order.metadata"] for each in of_type(arrived, "post", event_type)]
    # Only the card with metadata was scanned.
    assert [METADATA in metadata, None in metadata] == [True, event_type != TYPES[3]]
    texts = [each.data["order.metadata"] for each in of_type(arrived, "get", event_type)]
    written = json.dumps(METADATA, ensure_ascii=False, separators=(",", ":"))
    assert set(texts) == ({written} if event_type == TYPES[3] else {written, ""})


def test_events_carry_the_person_and_the_scan_unchanged(arrived: dict[str, list[ReceivedEvent]]) -> None:
    [scan_event] = of_type(arrived, "post", TYPES[3])
    data = scan_event.data
    assert {
        f"recipient.{name}".replace("custom", "custom_"): text for name, text in JANE.items()
    }.items() <= data.items()
    assert (data["order_item.scans"], data["order_item.current_status"]) == (1, "Delivered")
    assert data["order_item.previous_status"] is None
    assert data["qrcode.url"] == "https://shop.example.com/?to=Jane"
    [delivered] = [each.data for each in of_type(arrived, "post", TYPES[2]) if each.data["order.metadata"]]
    assert (delivered["order_item.scans"], delivered["order_item.delivery_date"]) == (0, "2026-05-04")
