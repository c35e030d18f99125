"""Deliveries are believed only with a good signature of just now."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from quillpost.app.container import Container
from quillpost.client import Quillpost, SignatureError, verify_webhook
from quillpost.client.signatures import new_secret, sign
from support.client_transports import BASE, InProcessTransport
from support.factories import Account, Clock
from support.test_client import TestClient
from support.webhooks import deliver

SECRET, OTHER = new_secret(bytes(range(32))), new_secret(bytes(range(32, 64)))
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
BODY = '{"event_type": "order.status_update", "data": {"order.metadata": {"ü": 1.0}}}'


def signed_elsewhere(secret: str = SECRET, *, at: datetime = NOW, body: str = BODY) -> dict[str, str]:
    """By a package that is not ours."""
    headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(int(at.timestamp()))}
    return headers | {"Webhook-Signature": Webhook(secret).sign("msg_1", at, body)}


def test_a_genuine_delivery_of_just_now_gives_its_event() -> None:
    for body in (BODY, BODY.encode()):
        assert verify_webhook(body, signed_elsewhere(), SECRET, now=NOW) == json.loads(BODY)
    headers = signed_elsewhere(at=datetime.now(UTC))
    assert verify_webhook(BODY, headers, SECRET)["event_type"] == "order.status_update"
    with pytest.raises(SignatureError):
        verify_webhook(BODY, signed_elsewhere(at=NOW), SECRET)


def test_during_a_rotation_either_secret_will_do() -> None:
    for signer in (SECRET, OTHER):
        assert verify_webhook(BODY, signed_elsewhere(signer), [OTHER, SECRET], now=NOW)
    both = sign([OTHER, SECRET], message_id="msg_1", at=NOW, body=BODY.encode())
    assert verify_webhook(BODY, both, SECRET, now=NOW)


def test_how_old_a_delivery_may_be() -> None:
    def verify(age: int, tolerance: float) -> object:
        headers = signed_elsewhere(at=NOW - timedelta(seconds=age))
        return verify_webhook(BODY, headers, SECRET, tolerance=tolerance, now=NOW)

    assert verify(299, 300)
    assert verify(301, 600)
    for age, tolerance in ((301, 300), (-301, 300), (5, 1)):
        with pytest.raises(SignatureError, match="too old"):
            verify(age, tolerance)


def test_what_is_not_genuine_is_refused(subtests: pytest.Subtests) -> None:
    good = signed_elsewhere()
    cases = [
        ({"Webhook-Signature": "v1,bm9uc2Vuc2U="}, "not of this body"),
        ({"Webhook-Signature": good["Webhook-Signature"].replace("v1,", "v2,")}, "not of this"),
        ({"Webhook-Signature": "é"}, "not of this body"),
        ({"Webhook-Signature": ""}, "no webhook-signature"),
        ({"Webhook-Id": "msg_2"}, "not of this body"),
        ({"Webhook-Id": ""}, "no webhook-id"),
        ({"Webhook-Timestamp": str(int(NOW.timestamp()) + 1)}, "not of this body"),
        ({"Webhook-Timestamp": "yesterday"}, "is no time"),
        ({"Webhook-Timestamp": "9" * 40}, "is no time"),
    ]
    for changes, reason in cases:
        with subtests.test(**changes), pytest.raises(SignatureError, match=reason):
            verify_webhook(BODY, good | changes, SECRET, now=NOW)
    others: list[tuple[str, str | list[str]]] = [(BODY, OTHER), (f"{BODY} ", SECRET), (BODY, [])]
    for body, secret in others:
        with pytest.raises(SignatureError):
            verify_webhook(body, good, secret, now=NOW)
    with pytest.raises(SignatureError, match="no event"):
        verify_webhook(b"", signed_elsewhere(body=""), SECRET, now=NOW)


@pytest.mark.usefixtures("clean_database")
def test_events_from_our_own_dispatcher_are_genuine(
    owner: Account, http: TestClient, container: Container, clock: Clock
) -> None:
    with Quillpost(owner.token, BASE, transport=InProcessTransport(http)) as client:
        secret = client.webhooks.create("https://example.com/hook")["secret"]
    metadata = {"big": 123456789012345678901234567890}
    order_id = owner.send(metadata=metadata).json()["id"]
    sent = deliver(container, 200, 200)
    bodies = zip(sent.headers, [body for _, body in sent.requests], strict=True)
    events = [verify_webhook(body, headers, secret, now=clock.now()) for headers, body in bodies]
    assert {event["event_type"] for event in events} == {"order.status_update", "order_item.status_update"}
    for event in events:
        assert (event["data"]["order.id"], event["data"]["order.metadata"]) == (order_id, metadata)
