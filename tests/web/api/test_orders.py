"""Orders and their items one by one: read, proved, cancelled and tracked; and who sees what of another's."""

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pikepdf
import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, ledger_moves
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.text import format_iso
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room.service import record_printer_progress
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.queries import read_order
from support import factories
from support.factories import Account, Clock, make_sub_account, make_teammate, people, person, postcard, run_jobs_for
from support.orders import fact_rows, insert_orders
from support.production import ingest, mail_order, scan, tracking_codes
from support.rows import execute, run, scalar
from support.test_client import TestClient
from support.traces import metadata_text, postcard_with, send_raw, unchanged

BASE = "http://quillpost.test/api/v2"
RECIPIENT_KEYS = {
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    *(f"custom{n}" for n in range(1, 11)),
}  # fmt: skip
UNSEEN = {"place": None, "reason": None, "inferred": False}
"""Of a step that no carrier told of."""


def page_sizes(pdf: bytes) -> list[tuple[float, ...]]:
    with pikepdf.open(io.BytesIO(pdf)) as document:
        return [tuple(map(float, page.mediabox)) for page in document.pages]


def sent(account: Account, **changes: Any) -> dict[str, int]:
    order = account.send(**changes).json()["id"]
    return {"order": order, "item": account.get(f"/orders/{order}/items").json()["data"][0]["id"]}


def names(answer: Any) -> list[str]:
    return [item["recipient"]["name"] for item in answer.json()["data"]]


def ids(answer: Any) -> list[int]:
    return [item["id"] for item in answer.json()["data"]]


def total(answer: Any) -> int:
    return int(answer.json()["meta"]["total"])


def test_an_item_and_its_proof_are_its_senders_only(owner: Account, stranger: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    inside, outside = sent(owner, sub_account_id=mine), [sent(owner, sub_account_id=other), sent(owner)]
    for path in ("/orders/{order}/proof", "/order-items/{item}"):
        theirs = path.format(**inside)
        unknown = [path.format(order=n, item=n) for n in (10**9, 0, "x", 2**63, "9" * 5_000)]
        answers = [stranger.get(each) for each in (theirs, *unknown)]
        assert {(answer.status_code, answer.text) for answer in answers} == {(404, '{"message":"Not Found"}')}
        assert owner.get(theirs).status_code == teammate.get(theirs).status_code == 200
        assert [teammate.get(path.format(**each)).status_code for each in outside] == [404, 404]


@pytest.mark.usefixtures("clean_database")
def test_tracking_counts_each_status_and_lists_failures(owner: Account, container: Container, clock: Clock) -> None:
    audience = [person(), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
    order_id = owner.send(recipients=audience).json()["id"]
    run_jobs_for(container, clock, seconds=45)
    tracked, read = owner.get(f"/orders/{order_id}/track").json()["data"], owner.get(f"/orders/{order_id}").json()
    assert (tracked["id"], tracked["order"]["status"]) == (order_id, "Fulfilled")
    assert tracked["order"] == {key: value for key, value in read.items() if key != "warnings"}
    waiting = ("processing", "printed", "in_transit", "in_local_area", "processed_for_delivery", "re_routed")
    ended = {"delivered": 1, "returned_to_sender": 1, "failed": 1, "scans": 0, "multi_scans": 0}
    assert tracked["stats"] == dict.fromkeys(waiting, 0) | ended
    (failed,), (returned,) = tracked["errors"], tracked["returned"]
    assert set(failed) == set(returned) == RECIPIENT_KEYS | {"failure"}
    assert (failed["email"], returned["name"]) == ("e@example.com", "Test Returned")


def test_the_proof_shows_the_first_pieces_that_are_mailed(owner: Account, http: TestClient) -> None:
    order_id = owner.send(recipients=[{"email": "e@example.com"}, *people(4)]).json()["id"]
    proof = owner.get(f"/orders/{order_id}/proof")
    assert (proof.status_code, proof.headers["Content-Type"]) == (200, "application/pdf")
    assert len(page_sizes(proof.content)) == 6
    link = owner.get(f"/orders/{order_id}").json()["high_quality_preview"]
    assert http.get(urlsplit(link).path).content == proof.content
    owner.put(f"/orders/{order_id}/cancel")  # it has its proof still
    assert len(page_sizes(owner.get(f"/orders/{order_id}/proof").content)) == 6
    folded = owner.post("/send/notecard", {"recipients": people(2), "message": "Hi %FIRST_NAME%!"}).json()["id"]
    *sheets, first, second = page_sizes(owner.get(f"/orders/{folded}/proof").content)
    assert (len(sheets) >= 2, first, first in sheets) == (True, second, False)  # its envelopes come last


def test_nothing_is_drawn_for_a_head(
    owner: Account, container: Container, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = owner.send().json()["id"]
    link = urlsplit(owner.get(f"/orders/{order_id}").json()["high_quality_preview"]).path
    for module in ("quillpost.web.api.orders.endpoints", "quillpost.web.public.files.endpoints"):
        monkeypatch.delattr(f"{module}.draw_proof")
    monkeypatch.delattr("quillpost.web.public.files.endpoints.draw_front")
    head, linked = owner.call("HEAD", f"/orders/{order_id}/proof"), http.head(link)
    front = http.head(container.storage.permanent_path(f"front-{order_id}"))
    for answer, kind in ((head, "application/pdf"), (linked, "application/pdf"), (front, "image/png")):
        assert (answer.status_code, answer.headers["Content-Type"], answer.content) == (200, kind, b"")
        assert "Content-Length" not in answer.headers
    assert owner.call("HEAD", "/orders/999999/proof").status_code == 404
    for path in ("/files/nonsense", container.storage.permanent_path(uuid4())):
        assert http.head(path).status_code == http.get(path).status_code == 404


ODD = (
    '{"z":1,"a":{"nested":[1,{"deep":null},[]],"empty":{}},"unicode":"Grüße 漢字 🙂","big":'
    '123456789012345678901234567890,"float":1.0,"exponent":1e2,"minus":-0,"small":1E-7,"10":"ten","2":true}'
)


def test_metadata_is_returned_to_the_letter_everywhere(owner: Account) -> None:
    for place, written in enumerate((ODD, "{}", '{"":""}', '{"a":"\\u0000"}', '{"half":"\\ud800"}')):
        body = postcard_with("metadata", written).replace("Jane Doe", f"Letter{place} Doe")
        order_id = send_raw(owner, body).json()["id"]
        assert metadata_text(owner.get(f"/orders/{order_id}")) == written
        assert metadata_text(owner.get("/orders/list"), "data", "0") == written
        assert metadata_text(owner.get(f"/orders/search?name=letter{place}"), "orders", "0") == written
        assert metadata_text(owner.get(f"/orders/{order_id}/track"), "data", "order") == written
        assert metadata_text(owner.put(f"/orders/{order_id}/cancel"), "order") == written
    for without in (postcard(), postcard(metadata=None)):
        order_id = owner.post("/send/postcard", without).json()["id"]
        assert owner.get(f"/orders/{order_id}").json()["metadata"] is None
    # Spaces between the values do not count.
    spaced = send_raw(owner, postcard_with("metadata", '{ "a" : [ 1 , 2 ] ' + " " * 8_192 + "}")).json()["id"]
    assert metadata_text(owner.get(f"/orders/{spaced}")) == '{"a":[1,2]}'


@pytest.mark.usefixtures("clean_database")
def test_an_order_is_cancelled_once_and_its_money_freed(owner: Account, container: Container, clock: Clock) -> None:
    order_id = owner.send(recipients=[*people(3), {"email": "e@example.com"}], metadata={"crm": 1}).json()["id"]
    before = len(fact_rows(container, order_id))
    clock.advance(seconds=5)
    answer = owner.put(f"/orders/{order_id}/cancel")
    assert (answer.status_code, list(answer.json())) == (200, ["order"])
    order = answer.json()["order"]
    assert (order["id"], order["status"], order["cancellable"]) == (order_id, "Cancelled", False)
    assert (order["order_total"], order["grand_total"], order["authorization_total"]) == (0, 0, 327)
    assert order["metadata"] == {"crm": 1}
    items = owner.get(f"/orders/{order_id}/items")
    assert {(item["status"], item["failure"]) for item in items.json()["data"][:3]} == {("Failed", "Order cancelled")}
    stats = owner.get(f"/orders/{order_id}/track").json()["data"]["stats"]
    assert (stats["failed"], stats["processing"]) == (4, 0)
    first, *_, refused = (owner.get(f"/order-items/{item}").json()["events"] for item in ids(items))
    noon = UNSEEN | {"previous_status": None, "at": "2026-05-04T12:00:00Z"}
    ended = UNSEEN | {"status": "Failed", "previous_status": "Processing", "at": "2026-05-04T12:00:05Z"}
    assert first == [noon | {"status": "Processing"}, ended]
    assert refused == [noon | {"status": "Failed"}]
    [event] = fact_rows(container, order_id)[before:]
    event_columns = event.kind, event.item_id, event.previous, event.current
    assert event_columns == ("order.status", None, "reviewing", "cancelled")
    moves = execute(container, sa.select(ledger_moves).order_by(ledger_moves.c.id))
    assert [(m.kind, m.source, m.target, m.cents) for m in moves] == [
        ("authorise", "credit", "held", 327), ("release", "held", "credit", 327),
    ]  # fmt: skip
    with unchanged(container):
        again = owner.put(f"/orders/{order_id}/cancel")
        message = "This order can no longer be cancelled: it is Cancelled."
        assert (again.status_code, again.json()) == (400, {"message": message})
    for method, path in (("POST", "/orders/{}/cancel"), ("DELETE", "/orders/{}/cancel"), ("PUT", "/order/{}/cancel")):
        other = owner.call(method, path.format(owner.send().json()["id"]))
        assert (other.status_code, other.json()["order"]["status"]) == (200, "Cancelled")
    run_jobs_for(container, clock, seconds=30)  # none of them is made
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Cancelled"
    assert list(container.storage.store.keys("")) == []
    late = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=11)
    assert owner.get(f"/orders/{late}").json()["cancellable"] is False
    too_late = owner.put(f"/orders/{late}/cancel")
    assert (too_late.status_code, "can no longer be cancelled" in too_late.json()["message"]) == (400, True)


def test_items_are_listed_in_the_order_given_with_what_was_given(owner: Account) -> None:
    audience = [person(company="Acme", email="j@example.com", phone="1", custom10="ten"), *people(2)]
    order_id = owner.send(recipients=[*audience, {"name": "E", "email": "e@example.com"}]).json()["id"]
    owner.send()
    nested, flat = f"/orders/{order_id}/items?", f"/order-items?order_id={order_id}&"
    page = owner.get(f"{nested}items_per_page=3")
    assert names(page) == ["Jane Doe", "Person 1", "Person 2"]
    assert (total(page), page.json()["meta"]["last_page"]) == (4, 2)
    first = page.json()["data"][0]
    assert (first["recipient"]["company"], first["recipient"]["custom10"]) == ("Acme", "ten")
    assert (first["status"], first["delivery_date"], first["giftcard"]) == ("Processing", None, None)
    assert owner.get(nested).json()["data"] == owner.get(flat).json()["data"]
    assert owner.get(flat[:-1]).json()["links"]["last"] == f"{BASE}/order-items?order_id={order_id}&page=1"
    for path in (nested, flat, "/order-items?"):
        failed = owner.get(f"{path}status=failed")
        assert (names(failed), total(failed)) == (["E"], 1)
        refused = owner.get(f"{path}status=lost")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["status"])
        for name in ("items_per_page", "per_page", "limit"):
            page = owner.get(f"{path}{name}=3&page=2")
            assert (page.json()["meta"]["per_page"], len(page.json()["data"])) == (3, total(page) - 3)
            assert owner.get(f"{path}{name}=1000000").json()["meta"]["per_page"] == 100
            refused = owner.get(f"{path}{name}=0")
            assert (refused.status_code, list(refused.json()["errors"])) == (422, [name])


def test_pages_hold_every_item_once_from_both_ends(owner: Account, stranger: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    [order] = insert_orders(container, owner.id, 1, pieces=35, sub_account_id=branch)
    insert_orders(container, stranger.id, 2, pieces=2)
    for query in (f"order_id={order}", "", "status=Delivered", f"sub_account_id={branch}"):
        pages = [owner.get(f"/order-items?limit=10&page={page}&{query}") for page in range(1, 6)]
        found = [item for page in pages for item in ids(page)]
        assert (len(found), found) == (35, sorted(set(found), reverse="order_id" not in query)), query
        assert (ids(pages[-1]), {total(page) for page in pages}) == ([], {35})


def test_items_of_all_own_orders_come_newest_first(owner: Account, stranger: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    order_id = owner.send(recipients=people(2), sub_account_id=mine).json()["id"]
    owner.send(recipients=[person(name="Last"), {"email": "e@example.com", "name": "Nobody"}])
    assert names(owner.get("/order-items")) == ["Nobody", "Last", "Person 2", "Person 1"]
    assert total(owner.get(f"/order-items?sub_account_id={mine}&status=failed")) == 0
    seen, unseen = make_teammate(container, owner, mine).get("/order-items"), stranger.get("/order-items")
    assert names(seen) == names(owner.get(f"/order-items?sub_account_id={mine}")) == ["Person 2", "Person 1"]
    assert (total(seen), names(unseen), total(unseen)) == (2, [], 0)
    for refused in (
        stranger.get(f"/order-items?order_id={order_id}"),
        make_teammate(container, owner, other).get(f"/order-items?order_id={order_id}"),
        owner.get(f"/order-items?order_id={order_id}&sub_account_id={other}"),
        owner.get(f"/order-items?order_id={10**9}"),
    ):
        assert (refused.status_code, refused.json()["message"]) == (400, "Order Does Not Exist")
    for odd in ("x", "0", "-1", str(2**63)):
        refused = owner.get(f"/order-items?order_id={odd}")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["order_id"])
    assert stranger.get(f"/order-items?sub_account_id={mine}").status_code == 400


@pytest.mark.usefixtures("clean_database")
def test_an_item_tells_its_history_oldest_first(owner: Account, container: Container, clock: Clock) -> None:
    order_id = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=45)
    listed = owner.get(f"/orders/{order_id}/items").json()["data"][0]
    item = owner.get(f"/order-items/{listed['id']}").json()
    events = item.pop("events")
    assert item == listed | {"order_id": order_id, "delivery_inferred": False}
    assert events[0] == UNSEEN | {"status": "Processing", "previous_status": None, "at": "2026-05-04T12:00:00Z"}
    assert [event["place"] for event in events[:2]] == [None, None]
    assert [event["place"] for event in events[3:]] == ["Simulated P&DC, Austin, TX 78701"] * 3
    assert not any(event["inferred"] for event in events)
    assert (events[-1]["previous_status"], events[-1]["status"]) == ("Processed for Delivery", "Delivered")
    assert events[-1]["at"] > events[0]["at"]


@pytest.mark.usefixtures("clean_database")
def test_a_piece_was_printed_when_reported_or_seen_first(owner: Account, container: Container, clock: Clock) -> None:
    def dated() -> list[tuple[str, str]]:
        """Where the newest order's one piece was, and when."""
        events = owner.get(f"/order-items/{ids(owner.get('/order-items'))[0]}").json()["events"]
        return [(event["status"], event["at"]) for event in events]

    def hand_over() -> Any:
        """The piece as it is with the printer twelve seconds after it was sent."""
        owner.send()
        run_jobs_for(container, clock, seconds=12)
        assert [status for status, _ in dated()] == ["Processing"]
        return execute(container, sa.select(prints).order_by(prints.c.batch_id))[-1]

    piece = hand_over()
    printed_at = clock.now() + timedelta(minutes=20)
    clock.advance(hours=3)
    record_printer_progress(container.db, piece.batch_id, PrintProgress(printed_at=printed_at), now=clock.now())
    assert dated()[1:] == [("Printed", format_iso(printed_at))]
    assert scalar(container, sa.select(facts.c.at).filter_by(current="Printed")) == clock.now()
    piece = hand_over()
    first, second = (clock.now() + timedelta(hours=hour) for hour in (1, 2))
    clock.advance(hours=5)
    ingest(container, scan(piece.tracking, "2", second), scan(piece.tracking, "1", first))
    record_printer_progress(container.db, piece.batch_id, PrintProgress(printed_at=clock.now()), now=clock.now())
    assert dated()[1:] == [
        ("Printed", format_iso(first)), ("In Transit", format_iso(first)), ("In Local Area", format_iso(second)),
    ]  # fmt: skip


def mailed(owner: Account, container: Container) -> tuple[str, int]:
    """A piece in the mail: its tracking code and its item."""
    made = sent(owner)
    order = run(container, read_order, made["order"])
    mail_order(container, order)
    [tracking] = tracking_codes(container, order)
    return tracking, made["item"]


def test_an_inferred_delivery_is_marked_until_it_is_seen(owner: Account, container: Container, clock: Clock) -> None:
    tracking, item_id = mailed(owner, container)
    clock.advance(days=1)
    ingest(container, scan(tracking, "3a", clock.now() - timedelta(hours=2), place="Austin, TX 78701"))
    clock.advance(days=4)
    environment = replace(container.environments["test"], infer_delivery_after=timedelta(days=3))
    tracking_tasks.close_items(container.db, {"test": environment}, now=clock.now())
    item = owner.get(f"/order-items/{item_id}").json()
    assert (item["status"], item["delivery_date"], item["delivery_inferred"]) == ("Delivered", "2026-05-05", True)
    near = {"status": "Processed for Delivery", "at": "2026-05-05T10:00:00Z", "place": "Austin, TX 78701"}
    ended = {"status": "Delivered", "at": "2026-05-09T12:00:00Z", "inferred": True}
    before_each = {"previous_status": "Printed"}, {"previous_status": "Processed for Delivery"}
    assert item["events"][-2:] == [UNSEEN | near | before_each[0], UNSEEN | ended | before_each[1]]
    ingest(container, scan(tracking, "4c", clock.now() - timedelta(days=2)))
    item = owner.get(f"/order-items/{item_id}").json()
    assert (item["delivery_date"], item["delivery_inferred"]) == ("2026-05-07", False)


def test_the_reason_for_forwarding_is_shown(owner: Account, container: Container) -> None:
    tracking, item_id = mailed(owner, container)
    ingest(container, scan(tracking, "pars", container.clock(), reason="Moved, left no address"))
    item = owner.get(f"/order-items/{item_id}").json()
    assert (item["status"], item["failure"]) == ("Re-routed", None)
    assert item["events"][-1]["reason"] == "Moved, left no address"


def test_live_deliveries_are_inferred_only_where_the_settings_say_so(build: factories.Build) -> None:
    def days(**settings: int) -> tuple[timedelta | None, ...]:
        live = build(**settings).environments["live"]
        return live.infer_delivery_after, live.infer_unseen_delivery_after, live.reroute_timeout

    assert days() == (None, None, timedelta(days=30))
    chosen = days(infer_delivery_days=3, infer_unseen_days=20, reroute_ends_days=40)
    assert chosen == (timedelta(days=3), timedelta(days=20), timedelta(days=40))
