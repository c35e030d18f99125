"""Signatures that any Standard Webhooks library accepts."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks

from quillpost.client.signatures import new_secret, sign, verify

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
