"""Batches at the print room's pages: looked at, taken along, marked, spoiled, printed again, tried again."""

import json
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.fulfillment import batches, order_verdicts
from quillpost.fulfillment.batches.rules import batch_reference
from support.factories import Build, Clock, make_live, people, run_jobs_for
from support.operator_pages import PrintRoomPages, page_text
from support.print_room import HOME, create_held_order
from support.production import LIVE_SETTINGS
from support.test_client import TestClient


@pytest.fixture
def container(build: Build) -> Container:
    """Live mail may be printed, by a printer who says nothing by itself."""
    return build(**LIVE_SETTINGS, review_seconds=1)


@pytest.fixture
def house(container: Container, http: TestClient) -> PrintRoomPages:
    return PrintRoomPages(container, http)


def handed(house: PrintRoomPages, clock: Clock, how_many: int = 5) -> int:
    """A live batch that the printer has."""
    sent = make_live(house.parts, house.account).send(recipients=people(how_many), **HOME)
    assert sent.status_code == 200, sent.text
    run_jobs_for(house.parts, clock, seconds=4)
    house.look_at("live")
    with house.parts.db.system_transaction() as tx:
        return int(tx.execute(sa.select(sa.func.max(batches.c.id))).scalar_one())


def status_of(house: PrintRoomPages, batch_id: int) -> str:
    with house.parts.db.system_transaction() as tx:
        return str(tx.execute(sa.select(batches.c.status).where(batches.c.id == batch_id)).scalar_one())


def item_statuses(house: PrintRoomPages) -> list[str]:
    with house.parts.db.system_transaction() as tx:
        return list(tx.execute(sa.select(items.c.status).order_by(items.c.id)).scalars())


def test_batches_are_found_and_one_is_shown_with_all_that_is_known(house: PrintRoomPages, clock: Clock) -> None:
    number = handed(house, clock)
    name, page = batch_reference(number), f"/print-room/batches/{number}"
    for query in ("", "?show=open", "?piece=postcard-4x6", "?since=2026-05-04&until=2026-05-04", "?page=x&since=x"):
        listed = house.words(f"/print-room/batches{query}")
        assert name in listed, query
        assert "Postcard 4 × 6, first class" in listed, query
    for query in ("?show=trouble", "?show=mailed", "?piece=letter", "?since=2026-05-05", "?until=2026-05-03"):
        assert "No batch is like that" in house.words(f"/print-room/batches{query}"), query
    assert house.ops.get(f"/print-room/batches?find={name}", follow=False).headers["Location"] == page
    words = house.words(page)
    for text in ("With the printer", "Processing 5", "Person 1", "1 to 5 of 5 pieces", "Mark printed"):
        assert text in words, text
    assert "With the printer" in house.ops.get(f"{page}/live").text
    today = house.words("/print-room")
    assert "Pieces put into batches 5 1 batch" in today
    assert "With the printer 1 5" in today
    house.look_at("test")
    assert name not in house.words("/print-room/batches")
    assert house.is_as_if_unknown(house.ops, page, number)
    for browser in (house.owner, house.stranger, house.member):
        assert browser.get(page).status_code == 404


def test_files_and_the_ticket_are_taken_along_and_that_is_noted(house: PrintRoomPages, clock: Clock) -> None:
    number = handed(house, clock)
    page = f"/print-room/batches/{number}"
    pdf = house.ops.get(f"{page}/files/print.pdf")
    assert pdf.content.startswith(b"%PDF")
    assert pdf.headers["Cache-Control"] == "no-store"
    assert pdf.headers["Content-Disposition"] == f'attachment; filename="{batch_reference(number)}-print.pdf"'
    assert house.ops.get(f"{page}/files/manifest.csv").text.count("\r\n") == 6
    ticket = json.loads(house.ops.get(f"{page}/ticket/ticket.json").content)
    assert (ticket["reference"], ticket["pieces"]) == (batch_reference(number), 5)
    assert house.acts() == ["print_file.downloaded"] * 3
    for nothing in ("files/ticket.json", "files/..%2Fsecret.key", "ticket/print.pdf"):
        assert house.ops.get(f"{page}/{nothing}").status_code == 404
    house.look_at("test")
    assert house.ops.get(f"{page}/files/print.pdf").status_code == 404
    assert len(house.acts()) == 3


def test_a_batch_is_marked_and_a_stale_form_is_refused(house: PrintRoomPages, clock: Clock) -> None:
    number = handed(house, clock)
    page = f"/print-room/batches/{number}"
    before = house.everything()
    soon = clock.now() + timedelta(minutes=1)  # in UTC; an hour ago, were it in Paris
    for at, error in ((f"{soon:%Y-%m-%dT%H:%M}", "must not lie in the future"), ("soon", "Choose a day")):
        house.ops.client.cookies.set("quillpost_zone", "Europe/Paris")
        wrong = house.ops.post(f"{page}/mark", status="printed", at=at, seen="handed", zone="UTC")
        assert wrong.status_code == 422
        assert error in wrong.text
        assert 'id="at-fault"' in wrong.text
    assert (house.everything(), status_of(house, number)) == (before, "handed")
    done = house.ops.post(f"{page}/mark", status="printed", seen="handed")
    assert "The batch is marked as printed." in done.text
    assert set(item_statuses(house)) == {"Printed"}
    stale = house.ops.post(f"{page}/mark", status="printed", seen="handed")
    assert stale.status_code == 409
    assert "Meanwhile the batch has moved on: it is “Printed” now" in page_text(stale.text)
    assert house.ops.post(f"{page}/retry", seen="handed").status_code == 409
    house.ops.post(f"{page}/mark", status="mailed", seen="printed")
    assert status_of(house, number) == "mailed"
    assert house.ops.post(f"{page}/retry", seen="mailed").status_code == 409
    assert house.acts() == ["batch.marked", "batch.marked"]


def test_spoiled_pieces_are_given_up(house: PrintRoomPages, clock: Clock) -> None:
    number = handed(house, clock)
    page = f"/print-room/batches/{number}/spoiled"
    assert "is given up" in house.words(page)
    for which, error in (
        ("", "Say which pieces"),
        ("two", "two is no number"),
        ("5-2", "runs backward"),
        ("1-9000", "At most 5,000 pieces"),
        ("4, 6", f"There is no piece 6 in batch {number}."),
    ):
        wrong = house.ops.post(page, which=which, by="places", reason="Torn")
        assert wrong.status_code == 422, which
        assert error in page_text(wrong.text), which
        assert 'id="which-fault"' in wrong.text
        assert 'value="Torn"' in wrong.text
    assert "Failed" not in item_statuses(house)
    done = house.ops.post(page, which="1, 3-4", by="places", reason="Torn")
    assert "The spoiled pieces are marked." in done.text
    assert item_statuses(house).count("Failed") == 3
    assert "Torn" in done.text
    with house.parts.db.system_transaction() as tx:
        left = tx.execute(sa.select(sa.func.max(items.c.id)).where(items.c.status != "Failed")).scalar_one()
    assert "Mark spoiled" in done.text
    gone = house.ops.post(page, which=str(left), by="items").text
    assert item_statuses(house).count("Failed") == 4
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(items).where(items.c.status != "Failed").values(status="In Transit"))
    for words in ("Print again", "Mark spoiled"):
        assert words in gone
        assert words not in house.words(f"/print-room/batches/{number}"), words
    assert house.acts() == ["batch.marked", "batch.marked"]


def test_pieces_are_reprinted_after_their_number_is_confirmed(house: PrintRoomPages, clock: Clock) -> None:
    number = handed(house, clock)
    page = f"/print-room/batches/{number}/reprint"
    house.ops.post(f"/print-room/batches/{number}/spoiled", which="1", by="places")
    order_request: dict[str, Any] = {"which": "1-3", "by": "places", "reason": "Cut askew"}
    for changes, error in (
        ({"reason": " "}, "Give a reason"),
        ({"which": "2, 9"}, f"{batch_reference(number)} has no piece 9."),
        ({"which": "1"}, "None of these can be printed again. 1: Ended already (Failed)."),
    ):
        wrong = house.ops.post(page, **order_request | changes)
        assert wrong.status_code == 422, error
        assert error in page_text(wrong.text), error
    asks = house.ops.post(page, **order_request)
    assert "Print 2 pieces again?" in asks.text
    assert "Left out: 1. Ended already" in page_text(asks.text)
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(batches)).scalar_one() == 1
    key = "k" * 22
    done = house.ops.post(page, **order_request, sure="yes", once=key)
    assert "printed again in this batch" in done.text
    assert f"Reprint of {batch_reference(number)}" in page_text(done.text)
    again = house.ops.post(page, **order_request | {"which": "4"}, sure="yes", once=key)
    assert again.status_code == 409
    assert "This was done already" in again.text
    with house.parts.db.system_transaction() as tx:
        made = tx.execute(sa.select(batches.c.item_count).where(batches.c.reprint_of == number)).scalars().all()
    assert made == [2]
    assert "Void 2 pieces" in house.words(f"/print-room/batches/{number}")
    assert house.acts() == ["batch.reprinted", "batch.marked"]
    today = house.words("/print-room")
    assert "Pieces put into batches 4 2 batches Pieces printed 0 Pieces mailed 0" in today
    assert "With the printer 1 2" in today
    for status, seen in (("printed", "handed"), ("mailed", "printed")):
        house.ops.post(f"/print-room/batches/{number}/mark", status=status, seen=seen)
    assert "Pieces printed 2 Pieces mailed 2" in house.words("/print-room")


def test_a_failing_batch_is_shown_and_retried(house: PrintRoomPages, clock: Clock) -> None:
    number = handed(house, clock)
    stuck = {"status": "composed", "handed_at": None, "trouble": "The printer is away.", "partner": "ftp://old"}
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(**stuck))
    page = f"/print-room/batches/{number}"
    assert "1 batch cannot go on." in house.words("/print-room")
    assert "The printer is away." in house.words("/print-room/batches?show=trouble")
    assert "could not be handed over" in house.words("/print-room/feeds")
    assert "The printer is away." in house.words(page)
    assert house.ops.post(f"{page}/mark", status="printed", seen="composed").status_code == 409
    done = house.ops.post(f"{page}/retry", seen="composed")
    assert "The batch is tried again now." in done.text
    assert "people are mailed twice" in house.words(f"{page}/anew")
    house.ops.post(f"{page}/anew", seen="composed")
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(batches.c.partner)).scalar_one() is None
    assert house.acts() == ["batch.retried", "batch.retried"]


def test_held_orders_are_released_or_refused_with_a_reason(house: PrintRoomPages, clock: Clock) -> None:
    first, second = (create_held_order(house.account, house.parts, clock) for _ in range(2))
    assert "2 orders on hold" in house.words("/print-room")
    words = house.words("/print-room/held")
    assert f"Order {first}" in words
    assert "has nothing for %COMPANY%" in words
    assert "owner@example.com" in words
    assert house.ops.get(f"/print-room/held/{first}/proof").content.startswith(b"%PDF")
    assert "Held because:" in house.words(f"/print-room/held/{first}/release")
    released = house.ops.post(f"/print-room/held/{first}/release", reason="They like it so.")
    assert "The order is released." in released.text
    late = house.ops.post(f"/print-room/held/{first}/release")
    assert late.status_code == 409
    assert "Only a paused order can be released" in late.text
    page = f"/print-room/held/{second}/refuse"
    for reason, error in (("", "Give a reason: the sender reads it."), ("x" * 501, "At most 500 characters")):
        wrong = house.ops.post(page, reason=reason)
        assert wrong.status_code == 422
        assert error in wrong.text
        assert 'id="reason-fault"' in wrong.text
    assert house.ops.post(page, reason="Not yours to print.").status_code == 200
    with house.parts.db.system_transaction() as tx:
        decisions = tx.execute(sa.select(order_verdicts.c.verdict, order_verdicts.c.reason)).all()
        status = tx.execute(sa.select(orders.c.status).where(orders.c.id == second)).scalar_one()
    assert decisions == [("released", "They like it so."), ("refused", "Not yours to print.")]
    assert status == "error"
    assert "No order is held" in house.words("/print-room/held")
    assert house.acts() == ["order.refused", "order.released"]
    house.look_at("live")
    for way in ("proof", "release", "refuse"):
        assert house.is_as_if_unknown(house.ops, f"/print-room/held/{second}/{way}", second)


def test_what_waits_is_pooled_or_rushed(container: Container, build: Build, clock: Clock, http: TestClient) -> None:
    house = PrintRoomPages(container, http)
    order = make_live(container, house.account).send(recipients=people(4), **HOME).json()["id"]
    with container.db.system_transaction() as tx:
        waiting = {"status": "processing", "pool_at": clock.now().replace(hour=20), "n_processing": 4}
        tx.execute(sa.update(orders).values(**waiting))
    house.look_at("live")
    words = house.words("/print-room")
    assert "4 pieces of 1 order." in words
    assert "Postcard 4 × 6, first class 1 4" in words
    for typed, error in (("", "Say which"), ("abc", "abc is no number"), ("999", "There is no order 999.")):
        wrong = house.ops.post("/print-room/rush", orders=typed)
        assert wrong.status_code == 422
        assert error in wrong.text
        assert 'id="orders-fault"' in wrong.text
    assert "go before all others now" in house.ops.post("/print-room/rush", orders=f"{order}").text
    assert "Nothing changed" in house.ops.post("/print-room/rush", orders=f"{order}").text
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(pool_at=clock.now().replace(hour=20)))
    assert "batches are made of it now" in house.ops.post("/print-room/pool").text
    assert "nothing to bring forward" in house.ops.post("/print-room/pool").text
    assert house.acts() == ["orders.pooled", "orders.rushed"]
