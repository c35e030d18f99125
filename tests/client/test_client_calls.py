"""The clients against the service itself."""

import asyncio
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from PIL import Image

from quillpost.app.container import Container
from quillpost.client import (
    AsyncQuillpost,
    AuthenticationError,
    ConflictError,
    NotFoundError,
    Quillpost,
    ValidationError,
    about,
)
from quillpost.client.recipients import ListedRecipient
from quillpost.client.send import GiftcardSend
from support.client_transports import BASE, InProcessTransport, LossyTransport
from support.factories import (
    Account,
    Clock,
    count_rows,
    make_inline_recipient,
    make_inline_recipients,
    make_operator,
    person,
    run_due_jobs,
    run_jobs_for,
)
from support.test_client import TestClient

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


def test_a_gift_card_is_chosen_sent_and_taken_back(
    client: Quillpost, http: TestClient, container: Container, clock: Clock
) -> None:
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
    run_jobs_for(container, clock, seconds=45)
    [item] = client.orders.items(sent["id"])
    assert item["giftcard"] == {"brand": brand["brand_code"], "amount": 500}
    void = client.giftcards.invalidate(item["id"])
    assert (void["giftcard"], void["reissued_as"]) == (None, None)
    token = make_operator(container, http, mode="live").token
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


def test_a_list_is_read_page_by_page_and_no_further_than_needed(
    client: Quillpost, http: TestClient, owner: Account
) -> None:
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


def test_an_answer_that_is_lost_makes_no_second_order_and_a_cancellation_is_one(
    owner: Account, http: TestClient, container: Container
) -> None:
    slept: list[float] = []
    with Quillpost(owner.token, BASE, transport=LossyTransport(http, 2), sleep=slept.append) as client:
        sent = client.send.postcard(recipients=[make_inline_recipient()], message="Hi!")
    assert len(slept) == 2
    assert count_rows(container)["orders"] == 1
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


def test_a_subscription_comes_and_goes_and_its_deliveries_can_be_listed_and_replayed(
    client: Quillpost, container: Container, clock: Clock
) -> None:
    made = client.webhooks.create("https://example.com/hook", "order_item.delivered", description="Ours")
    assert made["secret"].startswith("whsec_")
    assert [hook["id"] for hook in client.webhooks.list()] == [made["id"]]
    assert client.webhooks.delete(made["id"]) == {"message": "success"}
    assert list(client.webhooks.list()) == []
    hook = client.webhooks.create("https://example.com/hook")
    rotated = client.webhooks.rotate_secret(hook["id"])
    assert rotated["secret"] != hook["secret"]
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
    run_due_jobs(container)
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


def test_an_operator_walks_what_is_held_and_decides(
    client: Quillpost, http: TestClient, container: Container, clock: Clock
) -> None:
    sent = [
        client.send.postcard(recipients=[one], message="Hello %COMPANY%!")["id"] for one in make_inline_recipients(3)
    ]
    run_jobs_for(container, clock, seconds=11)
    token = make_operator(container, http).token
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
