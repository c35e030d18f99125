"""The clients against the service itself, and the events that it sends them."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from PIL import Image
from standardwebhooks import Webhook

from quillpost.app.container import Container
from quillpost.client import (
    AsyncQuillpost,
    AuthenticationError,
    ConflictError,
    NotFoundError,
    Quillpost,
    SignatureError,
    ValidationError,
    about,
    verify_webhook,
)
from quillpost.client.recipients import ListedRecipient
from quillpost.client.send import GiftcardSend
from quillpost.client.signatures import new_secret, sign
from support import factories
from support.client_transports import BASE, InProcessTransport, LossyTransport
from support.factories import Account, Clock, make_inline_recipient, make_inline_recipients, person
from support.test_client import TestClient
from support.webhooks import deliver

pytestmark = pytest.mark.usefixtures("clean_database")

METADATA = {"zeta": 1.0, "alpha": [100.0, 123456789012345678901234567890], "ü": {"nested": None, "flag": True}}


@pytest.fixture
def client(owner: Account, http: TestClient) -> Iterator[Quillpost]:
    with Quillpost(owner.token, BASE, transport=InProcessTransport(http)) as client:
        yield client


def same(found: Any, expected: Any) -> bool:
    """Equal, and of the same types: 1 is not 1.0."""
    return repr(found) == repr(expected)


def test_an_order_from_its_preview_to_its_end(client: Quillpost) -> None:
    card: dict[str, Any] = {"recipients": [person()], "message": "Hi %FIRST_NAME%!", "size": "6x9"}
    assert client.ping()["test_mode"]
    preview = client.preview("postcard", **card)["data"]
    assert preview["sides"] == ["front", "back"]
    assert all(client.download(link).startswith(b"\x89PNG") for link in preview["previews"])

    sent = client.send.postcard(**card, metadata=METADATA)
    order = client.orders.read(sent["id"])
    assert (order["size"], order["status"]) == ("6x9", "Reviewing")
    assert same(order["metadata"], METADATA)
    [item] = client.orders.items(sent["id"])
    assert item["recipient"]["name"] == "Jane Doe"
    assert client.orders.track(sent["id"])["data"]["stats"]["processing"] == 1
    cancelled = client.orders.cancel(sent["id"])["order"]
    assert cancelled["status"] == "Cancelled"
    assert same(cancelled["metadata"], METADATA)


def test_a_gift_card_comes_and_goes(client: Quillpost, http: TestClient, container: Container, clock: Clock) -> None:
    brand = client.giftcards.brands()["main"]["brands"][1]
    assert {**brand, "group": "Favorites"} in client.giftcards.brand_list()["brands"]
    card: GiftcardSend = {
        "recipients": [make_inline_recipient()],
        "message": "Hi!",
        "giftcard_brand": brand["brand_code"],
        "giftcard_amount": brand["available_amounts"][0],
    }
    assert client.estimate("giftcard", **card)["data"]["giftcard_total"] == 500
    sent = client.send.giftcard(**card)
    factories.run_jobs_for(container, clock, seconds=45)
    [item] = client.orders.items(sent["id"])
    assert item["giftcard"] == {"brand": brand["brand_code"], "amount": 500}
    void = client.giftcards.invalidate(item["id"])
    assert (void["giftcard"], void["reissued_as"]) == (None, None)
    token = factories.make_operator(container, http, mode="live").token
    with Quillpost(token, BASE, transport=InProcessTransport(http)) as operator:
        assert operator.giftcards.put_brand(brand["brand_code"], title="Other")["title"] == "Other"
        assert operator.giftcards.delete_brand(brand["brand_code"]) == {"message": "success"}
    assert brand["brand_code"] not in [each["brand_code"] for each in client.giftcards.brand_list()["brands"]]


def test_what_the_headers_say_is_with_the_answer(client: Quillpost) -> None:
    misspelt: dict[str, Any] = {"recipients": [make_inline_recipient()], "message": "Hi 你好!", "mesage": "Hi"}
    sent = client.send.postcard(**misspelt)
    assert about(sent).ignored_fields == ("mesage",)
    assert any("你" in warning or "\\u4f60" in warning for warning in about(sent).warnings)
    assert about(sent).request_id
    plain = client.send.postcard(recipients=[make_inline_recipient(address="14 Main St")], message="Hi!")
    assert (about(plain).ignored_fields, about(plain).warnings) == ((), ())
    with pytest.raises(TypeError):
        about(sent["recipients"])


def test_a_list_is_read_no_further_than_needed(client: Quillpost, http: TestClient, owner: Account) -> None:
    sent = client.send.postcard(recipients=make_inline_recipients(5), message="Hi!")
    items = client.orders.items(sent["id"], items_per_page=2)
    assert [item["recipient"]["name"] for item in items] == [f"Person {n}" for n in range(1, 6)]
    assert len(list(items)) == 5, "each walk starts anew"
    assert [page["meta"]["current_page"] for page in items.pages()] == [1, 2, 3]

    requests: list[httpx2.Request] = []

    class Noting(InProcessTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            requests.append(request)
            return super().handle_request(request)

    with Quillpost(owner.token, f"{BASE}/api/v2/", transport=Noting(http)) as noted:
        next(iter(noted.orders.items(sent["id"], items_per_page=2)))
    assert len(requests) == 1


def test_a_lost_answer_makes_no_second_order(owner: Account, http: TestClient, container: Container) -> None:
    slept: list[float] = []
    with Quillpost(owner.token, BASE, transport=LossyTransport(http, 2), sleep=slept.append) as client:
        sent = client.send.postcard(recipients=[make_inline_recipient()], message="Hi!")
    assert len(slept) == 2
    assert factories.count_rows(container)["orders"] == 1
    assert owner.get(f"/orders/{sent['id']}").status_code == 200
    with Quillpost(owner.token, BASE, transport=LossyTransport(http, 1), sleep=slept.append) as client:
        assert client.orders.cancel(sent["id"])["order"]["status"] == "Cancelled"
    assert len(slept) == 3


def test_a_key_of_ones_own_sends_once(client: Quillpost) -> None:
    card: dict[str, Any] = {"recipients": [person()], "message": "Hi!"}
    first = client.send.postcard(idempotency_key="order 4711", **card)
    assert client.send.postcard(idempotency_key="order 4711", **card) == first
    with pytest.raises(ConflictError) as clash:
        client.send.postcard(idempotency_key="order 4711", recipients=[make_inline_recipient()], message="Ho!")
    assert clash.value.status == 409


def test_failures_say_what_is_wrong(client: Quillpost, http: TestClient) -> None:
    with pytest.raises(ValidationError) as invalid:
        client.send.postcard(recipients=[make_inline_recipient(postal_code=code) for code in ("x", "78701", "y")])
    assert {"recipients.0.postal_code", "recipients.2.postal_code", "message"} <= set(invalid.value.errors)
    assert invalid.value.status == 422
    assert invalid.value.request_id
    wrong: dict[str, Any] = {"recipients": [make_inline_recipient()], "mesage": "Hi!"}
    with pytest.raises(ValidationError, match="Not known there: mesage") as misspelt:
        client.send.postcard(**wrong)
    assert misspelt.value.ignored_fields == ("mesage",)
    with pytest.raises(NotFoundError):
        client.orders.read(4711)
    with (
        Quillpost("qp_test_nobody", BASE, transport=InProcessTransport(http)) as stranger,
        pytest.raises(AuthenticationError) as unknown,
    ):
        stranger.ping()
    assert unknown.value.message == "Unauthenticated."
    for nothing in ("", ".", ".."):
        with pytest.raises(ValueError, match="An id is missing"):
            client.orders.read(nothing)
    with pytest.raises(NotFoundError):
        client.orders.read("1/track")


def test_a_subscription_comes_goes_and_is_replayed(client: Quillpost, container: Container, clock: Clock) -> None:
    made = client.webhooks.create("https://example.com/hook", "order_item.delivered", description="Ours")
    assert made["secret"].startswith("whsec_")
    assert [hook["id"] for hook in client.webhooks.list()] == [made["id"]]
    assert client.webhooks.delete(made["id"]) == {"message": "success"}
    assert list(client.webhooks.list()) == []
    hook = client.webhooks.create("https://example.com/hook")
    assert client.webhooks.rotate_secret(hook["id"])["secret"] != hook["secret"]
    event = client.webhooks.test(hook["id"])["event_id"]
    [delivery] = client.webhooks.deliveries(hook["id"], status="pending")
    assert delivery["event_id"] == event
    assert client.webhooks.delivery(hook["id"], delivery["id"]) == delivery
    assert client.webhooks.retry(hook["id"], delivery["id"])["status"] == "pending"
    client.send.postcard(recipients=[make_inline_recipient()], message="Hi!")
    started = clock.now()
    clock.advance(minutes=1)
    replayed = client.webhooks.replay(hook["id"], started, clock.now())
    assert (replayed["from"], replayed["events"]) == ("2026-05-04T12:00:00Z", 2)
    factories.run_due_jobs(container)
    assert len(list(client.webhooks.deliveries(hook["id"], event_type="order_item.status_update"))) == 1
    with pytest.raises(ValidationError) as refused:
        client.webhooks.replay(hook["id"], "2020-01-01")
    assert list(refused.value.errors) == ["from"]


def test_a_saved_list_is_filled_walked_and_mailed_to(client: Quillpost) -> None:
    saved = client.mailing_lists.create("Neighbours")
    rows: list[ListedRecipient] = [{"mailing_list_id": saved["id"], **one} for one in make_inline_recipients(3)]
    stored = client.recipients.create_multiple([*rows, {"mailing_list_id": saved["id"]}])
    assert [row.get("error") is None for row in stored] == [True, True, True, False]
    on_it = client.mailing_lists.recipients(saved["id"], items_per_page=2)
    assert [row["name"] for row in on_it] == ["Person 1", "Person 2", "Person 3"]
    assert [page["current_page"] for page in on_it.pages()] == [1, 2]
    assert b"Person 2" in client.mailing_lists.export(saved["id"])

    card: dict[str, Any] = {"mailing_list_ids": [saved["id"]], "message": "Hi!", "metadata": {"crm": 7}}
    assert client.estimate("postcard", **card)["data"]["total_recipients"] == 3
    waiting = client.stored_send("postcard", **card)["stored_send_url"]
    sent = client.send_stored(waiting)
    assert client.send_stored(waiting)["id"] == sent["id"]
    assert [order["id"] for order in client.orders.list(metadata={"crm": "7"})] == [sent["id"]]
    assert list(client.orders.list(metadata={"crm": "8"})) == []


def test_a_front_is_uploaded_from_memory_and_from_a_file(client: Quillpost, tmp_path: Path) -> None:
    picture = BytesIO()
    Image.new("RGB", (1875, 1275), "teal").save(picture, "PNG")
    first = client.image_templates.create("postcard", "Spring", picture.getvalue())
    assert client.download(first["image"]).startswith(b"\x89PNG")
    file = tmp_path / "spring.png"
    file.write_bytes(picture.getvalue())
    changed = client.image_templates.update(first["id"], image=file, name="Summer")
    assert (changed["id"], changed["name"]) == (first["id"], "Summer")


def test_an_operator_decides_on_held(client: Quillpost, http: TestClient, container: Container, clock: Clock) -> None:
    sent = [
        client.send.postcard(recipients=[one], message="Hello %COMPANY%!")["id"] for one in make_inline_recipients(3)
    ]
    factories.run_jobs_for(container, clock, seconds=11)
    token = factories.make_operator(container, http).token
    with Quillpost(token, BASE, transport=InProcessTransport(http)) as operator:
        held = list(operator.print_room.held(items_per_page=2))
        assert [order["id"] for order in held] == sent
        assert held[0]["reasons"] == client.orders.read(sent[0])["warnings"]
        operator.orders.release(sent[0])
        operator.orders.refuse(sent[1], reason="No.")
        assert [order["id"] for order in operator.print_room.held()] == sent[2:]


def test_the_awaited_client_does_the_same(app: FastAPI, owner: Account) -> None:
    async def journey() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with AsyncQuillpost(owner.token, BASE, transport=transport) as client:
            pong, hands = await asyncio.gather(client.ping(), client.handwriting_styles.list().pages().__anext__())
            assert pong["message"] == "pong"
            assert hands["data"]
            sent = await client.send.postcard(recipients=make_inline_recipients(3), message="Hi!", metadata=METADATA)
            names = [item["recipient"]["name"] async for item in client.orders.items(sent["id"], items_per_page=2)]
            assert names == ["Person 1", "Person 2", "Person 3"]
            preview = await client.preview("postcard", recipients=[make_inline_recipient()], message="Hi!")
            assert (await client.download(preview["data"]["previews"][0])).startswith(b"\x89PNG")
            with pytest.raises(ValidationError):
                await client.send.postcard(message="To nobody")
            [order] = [order async for order in client.orders.list()]
            assert same(order["metadata"], METADATA)

    asyncio.run(journey())


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
    assert verify_webhook(BODY, signed_elsewhere(at=datetime.now(UTC)), SECRET)["event_type"] == "order.status_update"
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
def test_events_of_our_own_are_genuine(owner: Account, http: TestClient, container: Container, clock: Clock) -> None:
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
