"""The built-in receiver: it believes only what we have signed, and keeps it once. And what was sealed or signed before
the key was changed, and is out of our hands."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.users.sign_in import create_browser_token, identify_browser
from quillpost.app.container import Container
from quillpost.client import signatures
from quillpost.core import exact_json
from quillpost.core.encryption import KeyFile, key_fingerprint
from quillpost.notifications.messages import NotificationReader
from quillpost.notifications.service import encode_token
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.web.application import create_app
from quillpost.web.public.receiver import endpoints as receiver_endpoints
from support.factories import Account, Build, Clock, make_account
from support.sign_in import PASSWORD, make_user, sign_in_browser
from support.test_client import TestClient

DANA = "dana@example.com"
EVENT: dict[str, Any] = {
    "event_type": "order_item.status_update",
    "event_id": "e-1",
    "data": {
        "order_item.id": 7, "order.id": 3, "order_item.previous_status": "Printed",
        "order_item.current_status": "In Transit",
    },
}  # fmt: skip


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


def test_signed_events_are_shown_once_with_what_changed(sender: Sender, container: Container) -> None:
    assert [sender.deliver().status_code for _ in range(2)] == [204, 204]
    [first] = sender.events()
    assert first.items() >= {
        "previous": "Printed", "current": "In Transit", "order_id": 3, "item_id": 7, "verified": True,
        "received_at": "2026-05-04T12:00:00Z",
    }.items()  # fmt: skip
    url = "https://shop.example.com/hi"
    details = {"order_item.scans": 2, "recipient.name": "Jane Doe", "qrcode.url": url}
    scan = EVENT | {"event_type": "scans.scan_update", "data": {"order_item.id": 7, "order.id": 3} | details}
    assert sender.deliver(scan, event_id="e-2").status_code == 204
    [event] = sender.events(after=first["id"])  # the page asks only for what it has not seen
    assert (event["scans"], event["name"], event["leads_to"], event["previous"]) == (2, "Jane Doe", url, None)
    query = {"event_type": "order.status_update", "event_id": "e-3", "order.id": "3"}
    query |= {"order.previous_status": "reviewing", "order.current_status": "processing"}
    headers = sender.signed("e-3", b"")
    assert sender.http.get(f"{sender.path}/hook", params=query, headers=headers).status_code == 204
    event = sender.events()[-1]
    assert (event["event_type"], event["previous"], event["order_id"]) == ("order.status_update", "reviewing", "3")
    # The body is shown number for number.
    body = b'{"event_type":"order.status_update","data":{"order.metadata":{"a":1.0,"b":1e2,"c":"\\ud800"}}}'
    assert sender.deliver(body, event_id="e-4").status_code == 204
    shown = sender.events()[-1]["body"]
    assert ('"a": 1.0,' in shown, '"b": 1e2,' in shown) == (True, True)
    with container.db.system_transaction() as tx:  # a subscription made under another key holds up no other
        tx.exec_driver_sql(
            """insert into webhooks (account_id, mode, url, type, verb, status, invoke_count, created_at,
                                     updated_at, secret_sealed)
               select account_id, mode, url, type, verb, status, 0, created_at, updated_at, 'sealed elsewhere'
                 from webhooks"""
        )
    assert sender.deliver(event_id="e-5").status_code == 204


def test_only_the_latest_are_kept(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_endpoints, "MAX_STORED", 3)
    for number in range(5):
        sender.deliver(event_id=f"e-{number}")
    assert [event["event_id"] for event in sender.events()] == ["e-2", "e-3", "e-4"]


def test_what_is_forged_old_or_no_event_is_refused_and_not_kept(sender: Sender, clock: Clock, build: Build) -> None:
    hook, body = f"{sender.path}/hook", exact_json.dump_json(EVENT).encode()
    assert sender.deliver(secret=signatures.new_secret(b"x" * 32)).status_code == 401
    assert sender.http.post(hook, json=EVENT).status_code == 401
    assert sender.http.post(hook, content=b"{}", headers=sender.signed("e-1", b"{ }")).status_code == 401
    played_again = sender.signed("e-1", body)
    clock.advance(minutes=6)
    assert sender.http.post(hook, content=body, headers=played_again).status_code == 401
    for odd in (b"no json", b"[]", b"7", b'{"event_type": "x"}', b'{"data": {}}'):
        assert sender.deliver(odd).status_code == 422
    assert sender.deliver(b" " * (receiver_endpoints.MAX_BODY_BYTES + 1)).status_code == 413
    assert sender.events() == []
    for key in ("0" * 24, "é", sender.path[-24:-1]):
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/hook"), ("GET", "/hook")):
            assert sender.http.request(method, f"/receiver/{key}{path}").status_code == 404
    with TestClient(create_app(build())) as http:  # without the setting there is no receiver
        assert http.get(sender.path).status_code == 404
        assert http.post(hook, json=EVENT).status_code == 404


def test_all_that_is_out_there_is_good_until_the_former_key_is_forgotten(
    container: Container, http: TestClient, owner: Account, tmp_path: Path
) -> None:
    file, now = KeyFile(tmp_path / "home" / "secret.key"), container.clock()
    [old] = file.read_keys()
    person = make_user(container, owner.id, DANA)
    link = container.storage.signed_path("proof-1", expires_at=now + timedelta(days=1)).rpartition("/")[2]
    unsubscribe = f"/unsubscribe/{encode_token(container.encryptor, NotificationReader(owner.id, DANA))}"
    receiver = f"/receiver/{container.receiver_key}"
    known = create_browser_token(container.encryptor, person, DANA, password_changed_at=None, now=now)
    browser = sign_in_browser(http)
    word = browser.csrf()

    def are_good() -> list[bool]:
        user = identify_browser(container.encryptor, known, person, DANA, password_changed_at=None, now=now)
        signed_in = browser.post("/sign-in", email=DANA, password="wrong " + PASSWORD, csrf=word)
        return [
            container.storage.verify_token(link, now=now) == "proof-1", http.get(unsubscribe).status_code == 200,
            http.get(receiver).status_code == 200, user is not None, signed_in.status_code != 403,
        ]  # fmt: skip

    file.add_key()
    assert are_good() == [True] * 5
    file.delete_key(key_fingerprint(old))
    assert are_good() == [False] * 5
    assert http.get(f"/receiver/{container.receiver_key}").status_code == 200, "a dead address is shown"
