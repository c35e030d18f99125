"""Deliveries are believed only with a good signature of just now."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from quillpost.app.container import Container
from quillpost.client import Quillpost, SignatureError, verify_webhook
from quillpost.client.signatures import new_secret, sign
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from support.client_transports import BASE, InProcessTransport
from support.factories import Account, Clock
from support.test_client import TestClient

SECRET, OTHER = new_secret(bytes(range(32))), new_secret(bytes(range(32, 64)))
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
BODY = '{"event_type": "order.status_update", "data": {"order.metadata": {"ü": 1.0}}}'


def signed_elsewhere(secret: str = SECRET, *, at: datetime = NOW, body: str = BODY) -> dict[str, str]:
    """By a package that is not ours."""
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": Webhook(secret).sign("msg_1", at, body),
    }


@pytest.mark.parametrize("body", [BODY, BODY.encode()])
def test_a_genuine_delivery_gives_its_event(body: str | bytes) -> None:
    assert verify_webhook(body, signed_elsewhere(), SECRET, now=NOW) == json.loads(BODY)


def test_the_time_is_now_unless_given() -> None:
    headers = signed_elsewhere(at=datetime.now(UTC))
    assert verify_webhook(BODY, headers, SECRET)["event_type"] == "order.status_update"
    with pytest.raises(SignatureError):
        verify_webhook(BODY, signed_elsewhere(at=NOW), SECRET)


def test_during_a_rotation_either_secret_will_do() -> None:
    for signer in (SECRET, OTHER):
        assert verify_webhook(BODY, signed_elsewhere(signer), [OTHER, SECRET], now=NOW)
    both = sign([OTHER, SECRET], message_id="msg_1", at=NOW, body=BODY.encode())
    assert verify_webhook(BODY, both, SECRET, now=NOW)


@pytest.mark.parametrize(
    ("age", "tolerance", "is_good"),
    [(299, 300, True), (301, 300, False), (-301, 300, False), (301, 600, True), (5, 1, False)],
)
def test_how_old_a_delivery_may_be(age: int, tolerance: float, is_good: bool) -> None:
    headers = signed_elsewhere(at=NOW - timedelta(seconds=age))
    if is_good:
        assert verify_webhook(BODY, headers, SECRET, tolerance=tolerance, now=NOW)
    else:
        with pytest.raises(SignatureError, match="too old"):
            verify_webhook(BODY, headers, SECRET, tolerance=tolerance, now=NOW)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Webhook-Signature": "v1,bm9uc2Vuc2U="}, "not of this body"),
        ({"Webhook-Signature": signed_elsewhere()["Webhook-Signature"].replace("v1,", "v2,")}, "not of this"),
        ({"Webhook-Signature": "é"}, "not of this body"),
        ({"Webhook-Signature": ""}, "no webhook-signature"),
        ({"Webhook-Id": "msg_2"}, "not of this body"),
        ({"Webhook-Id": ""}, "no webhook-id"),
        ({"Webhook-Timestamp": str(int(NOW.timestamp()) + 1)}, "not of this body"),
        ({"Webhook-Timestamp": "yesterday"}, "is no time"),
        ({"Webhook-Timestamp": "9" * 40}, "is no time"),
    ],
)
def test_what_is_not_genuine_is_refused(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(SignatureError, match=reason):
        verify_webhook(BODY, signed_elsewhere() | changes, SECRET, now=NOW)


def test_another_secret_another_body_and_no_event_are_refused() -> None:
    with pytest.raises(SignatureError):
        verify_webhook(BODY, signed_elsewhere(), OTHER, now=NOW)
    with pytest.raises(SignatureError):
        verify_webhook(BODY + " ", signed_elsewhere(), SECRET, now=NOW)
    with pytest.raises(SignatureError):
        verify_webhook(BODY, signed_elsewhere(), [], now=NOW)
    with pytest.raises(SignatureError, match="no event"):
        verify_webhook(b"", signed_elsewhere(body=""), SECRET, now=NOW)


class Mailbox:
    """Takes whatever the pump posts."""

    def __init__(self) -> None:
        self.taken: list[tuple[Mapping[str, str], bytes]] = []
        self.is_full = asyncio.Event()

    async def post(self, _url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        self.taken.append((headers, body))
        if len(self.taken) == 2:
            self.is_full.set()
        return PostResult(200)

    async def close(self) -> None: ...


def test_events_from_our_own_dispatcher_are_genuine(
    owner: Account, http: TestClient, container: Container, clock: Clock
) -> None:
    with Quillpost(owner.token, BASE, transport=InProcessTransport(http)) as client:
        secret = client.webhooks.create("https://example.com/hook")["secret"]
    order_id = owner.send(metadata={"big": 123456789012345678901234567890}).json()["id"]

    async def deliver() -> list[tuple[Mapping[str, str], bytes]]:
        mailbox, stop = Mailbox(), asyncio.Event()
        dispatcher = Dispatcher(
            container.db, container.encryptor, mailbox, container.clock, response_timeout=timedelta(seconds=15)
        )
        running = asyncio.create_task(dispatcher.run(stop))
        async with asyncio.timeout(20):
            await mailbox.is_full.wait()
        stop.set()
        await running
        return mailbox.taken

    events = [verify_webhook(body, headers, secret, now=clock.now()) for headers, body in asyncio.run(deliver())]
    assert {event["event_type"] for event in events} == {"order.status_update", "order_item.status_update"}
    for event in events:
        assert event["data"]["order.id"] == order_id
        assert event["data"]["order.metadata"] == {"big": 123456789012345678901234567890}
