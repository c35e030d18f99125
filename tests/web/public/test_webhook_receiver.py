"""The built-in receiver: it believes only what we have signed, and keeps it once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from httpx2 import Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.client import signatures
from quillpost.core import exact_json
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.web.application import create_app
from quillpost.web.public.receiver import endpoints as receiver_endpoints
from support.factories import Build, Clock, make_account
from support.test_client import TestClient

EVENT = {
    "event_type": "order_item.status_update",
    "event_id": "e-1",
    "data": {
        "order_item.id": 7,
        "order.id": 3,
        "order_item.previous_status": "Printed",
        "order_item.current_status": "In Transit",
    },
}


@dataclass
class Sender:
    """Signs as the service does, for a subscription to the receiver's own address."""

    http: TestClient
    path: str
    secret: str
    clock: Clock

    def deliver(self, event: Any = EVENT, *, event_id: str = "e-1", secret: str | None = None) -> Response:
        body = event if isinstance(event, bytes) else exact_json.dump_json(event).encode()
        return self.http.post(f"{self.path}/hook", content=body, headers=self.signed(event_id, body, secret))

    def signed(self, event_id: str, body: bytes, secret: str | None = None) -> dict[str, str]:
        now = self.clock.now()
        return signatures.sign([secret or self.secret], message_id=event_id, at=now, body=body)

    def events(self, after: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get(f"{self.path}/events?after={after}").json()["events"]
        return found


@pytest.fixture
def container(build: Build) -> Container:
    return build(receiver=True)


@pytest.fixture
def sender(container: Container, clock: Clock) -> Iterator[Sender]:
    path = f"/receiver/{container.receiver_key}"
    with TestClient(create_app(container)) as http:
        owner = Caller(make_account(container, http, "owner@example.com").id, "test")
        with container.db.transaction(build_tenant(owner)) as tx:
            _, secret = webhook_service.create_webhook(
                tx, owner, container.encryptor, url=f"{container.base_url}{path}/hook", type="*", now=clock.now()
            )
        yield Sender(http, path, secret, clock)


def test_a_signed_event_is_shown_with_what_changed(sender: Sender) -> None:
    assert sender.deliver().status_code == 204
    [event] = sender.events()
    assert (event["previous"], event["current"]) == ("Printed", "In Transit")
    assert (event["order_id"], event["item_id"]) == (3, 7)
    assert event["verified"] is True
    assert event["received_at"] == "2026-05-04T12:00:00Z"


def test_a_scan_is_shown_with_its_recipient_count_and_target(sender: Sender) -> None:
    page = "https://shop.example.com/hi"
    details = {"order_item.scans": 2, "recipient.name": "Jane Doe", "qrcode.url": page}
    scan = EVENT | {"event_type": "scans.scan_update", "data": {"order_item.id": 7, "order.id": 3} | details}
    assert sender.deliver(scan).status_code == 204
    [event] = sender.events()
    assert (event["scans"], event["name"], event["leads_to"]) == (2, "Jane Doe", page)
    assert event["previous"] is None


def test_a_subscription_made_under_another_key_holds_up_no_other(sender: Sender, container: Container) -> None:
    with container.db.system_transaction() as tx:
        tx.exec_driver_sql(
            """insert into webhooks (account_id, mode, url, type, verb, status, invoke_count, created_at,
                                     updated_at, secret_sealed)
               select account_id, mode, url, type, verb, status, 0, created_at, updated_at, 'sealed elsewhere'
                 from webhooks"""
        )
    assert sender.deliver().status_code == 204


def test_a_repeat_is_stored_once(sender: Sender) -> None:
    assert [sender.deliver().status_code for _ in range(2)] == [204, 204]
    assert len(sender.events()) == 1


def test_a_forged_event_is_refused_and_not_kept(sender: Sender) -> None:
    stranger = signatures.new_secret(b"x" * 32)
    assert sender.deliver(secret=stranger).status_code == 401
    assert sender.http.post(f"{sender.path}/hook", json=EVENT).status_code == 401
    tampered = sender.http.post(f"{sender.path}/hook", content=b"{}", headers=sender.signed("e-1", b"{ }"))
    assert tampered.status_code == 401
    assert sender.events() == []


def test_an_old_delivery_played_again_is_refused(sender: Sender, clock: Clock) -> None:
    body = exact_json.dump_json(EVENT).encode()
    headers = sender.signed("e-1", body)
    clock.advance(minutes=6)
    assert sender.http.post(f"{sender.path}/hook", content=body, headers=headers).status_code == 401


def test_an_event_by_get_is_read_from_its_query(sender: Sender) -> None:
    query = {"event_type": "order.status_update", "event_id": "e-2", "order.id": "3"}
    query |= {"order.previous_status": "reviewing", "order.current_status": "processing"}
    headers = sender.signed("e-2", b"")
    assert sender.http.get(f"{sender.path}/hook", params=query, headers=headers).status_code == 204
    [event] = sender.events()
    assert (event["event_type"], event["previous"]) == ("order.status_update", "reviewing")
    assert event["order_id"] == "3"


def test_the_page_asks_only_for_what_it_has_not_seen(sender: Sender) -> None:
    sender.deliver(event_id="e-1")
    [first] = sender.events()
    sender.deliver(event_id="e-2")
    assert [event["event_id"] for event in sender.events(after=first["id"])] == ["e-2"]


def test_only_the_latest_are_kept(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_endpoints, "MAX_STORED", 3)
    for number in range(5):
        sender.deliver(event_id=f"e-{number}")
    assert [event["event_id"] for event in sender.events()] == ["e-2", "e-3", "e-4"]


def test_the_body_is_shown_number_for_number(sender: Sender) -> None:
    body = b'{"event_type":"order.status_update","data":{"order.metadata":{"a":1.0,"b":1e2,"c":"\\ud800"}}}'
    assert sender.deliver(body).status_code == 204
    shown = sender.events()[0]["body"]
    assert '"a": 1.0,' in shown
    assert '"b": 1e2,' in shown


@pytest.mark.parametrize("body", [b"no json", b"[]", b"7", b'{"event_type": "x"}', b'{"data": {}}'])
def test_a_signed_body_that_is_no_event_is_a_422(sender: Sender, body: bytes) -> None:
    assert sender.deliver(body).status_code == 422
    assert sender.events() == []


def test_a_body_without_end_is_cut_off(sender: Sender) -> None:
    assert sender.deliver(b" " * (receiver_endpoints.MAX_BODY_BYTES + 1)).status_code == 413


def test_an_unknown_key_finds_nothing(sender: Sender) -> None:
    for key in ("0" * 24, "é", sender.path[-24:-1]):
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/hook"), ("GET", "/hook")):
            assert sender.http.request(method, f"/receiver/{key}{path}").status_code == 404


def test_without_the_setting_there_is_no_receiver(build: Build) -> None:
    key = build(receiver=True).receiver_key
    with TestClient(create_app(build())) as http:
        assert http.get(f"/receiver/{key}").status_code == 404
        assert http.post(f"/receiver/{key}/hook", json=EVENT).status_code == 404
