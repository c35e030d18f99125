"""The desk of the print room: feeds, webhooks, jobs, accounts and their credit, brands and prices."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing.queries import read_tariff
from quillpost.app.container import Container
from quillpost.core import jobs
from quillpost.core.database.tables.base import ledger_moves, prices
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.database.tables.orders import giftcard_brands
from quillpost.core.paging import PageRequest
from support.factories import Clock, run_jobs_for
from support.operator_pages import PrintRoomPages, page_text
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

FAIL = sa.text("update procrastinate_jobs set status = 'failed', attempts = 20 where task_name = :task")
JOBS = sa.text("select task_name, status, attempts, args from procrastinate_jobs order by id")


@pytest.fixture
def house(container: Container, http: TestClient) -> PrintRoomPages:
    return PrintRoomPages(container, http)


def test_feeds_tell_what_is_set_up_and_what_was_heard(house: PrintRoomPages, clock: Clock) -> None:
    assert "Nothing heard yet" in house.words("/print-room/feeds")
    assert house.account.send().status_code == 200
    run_jobs_for(house.parts, clock, seconds=60)
    words = house.words("/print-room/feeds")
    assert "Printer Good" in words
    assert "Carrier Good" in words
    assert "The simulated mail" in words
    assert "1 batch, 1 piece" in words
    assert "4 scans, 4 of pieces that we know" in words
    assert "every file could be read" in house.words("/print-room/feeds/files")
    house.look_at("live")
    words = house.words("/print-room/feeds")
    assert "Printer Not set up Set up nobody" in words
    assert "Carrier Not set up" in words
    assert "QUILLPOST_MAILER_ID is not set" in words
    assert "0 scans" in words
    assert "QUILLPOST_MAILER_ID is not set" in house.words("/print-room")


def test_failing_webhooks_are_shown_and_resumed(house: PrintRoomPages) -> None:
    assert "Every webhook answers" in house.words("/print-room/webhooks")
    made = house.others.post("/webhooks", {"url": "https://hooks.example.com/s3cret", "type": "*"})
    assert made.status_code in (200, 201), made.text
    with house.parts.db.system_transaction() as tx:
        number = tx.execute(sa.select(webhooks.c.id)).scalar_one()
        ill = {"status": "failing", "failing_since": house.parts.clock(), "last_error": "Timed out."}
        tx.execute(sa.update(webhooks).values(**ill))
    assert "1 webhook of senders cannot be delivered to." in house.words("/print-room")
    shown = house.words("/print-room/webhooks")
    assert "hooks.example.com" in shown
    assert "Timed out." in shown
    assert "stranger@example.com" in shown
    assert "s3cret" not in house.ops.get("/print-room/webhooks").text
    page = f"/print-room/webhooks/{number}/resume"
    house.look_at("live")
    assert "Every webhook answers" in house.words("/print-room/webhooks")
    assert house.ops.post(page).status_code == 404
    house.look_at("test")
    assert "The webhook is resumed." in house.ops.post(page).text
    assert house.acts() == ["webhook.resumed"]
    assert house.acts(house.others)[0] == "webhook.resumed"
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(webhooks.c.status)).scalar_one() == "active"


def test_failed_jobs_run_again_one_or_all_of_a_kind(house: PrintRoomPages) -> None:
    assert "No job has failed" in house.words("/print-room/jobs")
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs"))
        for batch in (7, 8):
            jobs.enqueue(tx, "fulfillment.poll_printer", batch_id=batch)
        for tick in (100, 160, 220):
            jobs.enqueue(tx, "fulfillment.pool_due_orders_periodic", timestamp=tick)
        for task in ("fulfillment.poll_printer", "fulfillment.pool_due_orders_periodic"):
            tx.execute(FAIL, {"task": task})
        jobs.enqueue(tx, "fulfillment.poll_printer", batch_id=8)  # booked anew meanwhile
    assert "5 jobs failed for good." in house.words("/print-room")
    words = house.words("/print-room/jobs")
    assert "fulfillment.pool_due_orders_periodic 3" in words
    assert "batch-000007" in words
    assert "1 to 5 of 5 jobs" in words
    assert "1 to 2 of 2 jobs" in house.words("/print-room/jobs?task=fulfillment.poll_printer")
    with house.parts.db.system_transaction() as tx:
        [newest, *_] = jobs.list_failed_jobs(tx, PageRequest(), task="fulfillment.poll_printer").rows
        oldest = jobs.list_failed_jobs(tx, PageRequest(), task="fulfillment.poll_printer").rows[-1]
    assert "They run again." in house.ops.post(f"/print-room/jobs/{oldest.id}/retry").text
    assert house.ops.post(f"/print-room/jobs/{oldest.id}/retry").status_code == 404
    house.ops.post(f"/print-room/jobs/{newest.id}/retry")
    house.ops.post("/print-room/jobs/retry", task="fulfillment.pool_due_orders_periodic")
    assert house.ops.post("/print-room/jobs/retry", task="nonsense").status_code == 404
    with house.parts.db.system_transaction() as tx:
        left = {(row.task_name, row.status, row.attempts, str(row.args)) for row in tx.execute(JOBS)}
    assert left == {
        ("fulfillment.poll_printer", "todo", 0, "{'batch_id': 7}"),
        ("fulfillment.poll_printer", "todo", 0, "{'batch_id': 8}"),
        ("fulfillment.pool_due_orders_periodic", "todo", 0, "{'timestamp': 220}"),
    }
    assert house.acts() == ["jobs.retried"] * 3


def test_accounts_are_found_and_credit_is_moved_once(house: PrintRoomPages, clock: Clock) -> None:
    assert house.account.send().status_code == 200
    words = house.words("/print-room/accounts")
    assert "owner@example.com" in words
    assert "stranger@example.com" in words
    assert "1 to 3 of 3 accounts" in words
    assert "1 to 1 of 1 accounts" in house.words("/print-room/accounts?find=STRANGER@")
    for odd in ("%25", "nobody", "%00_"):
        assert "No account is like that" in house.words(f"/print-room/accounts?find={odd}")
    page = f"/print-room/accounts/{house.account.id}"
    words = house.words(page)
    assert "Test orders 1" in words
    assert "authorise" in words
    assert "Switch to live" in words
    order_request: dict[str, Any] = {"amount": "$1,250.00", "way": "give", "note": "Invoice 12"}
    assert house.ops.post(f"{page}/credit", **order_request).status_code == 403
    house.look_at("live")
    before = house.everything()
    for changes, error in (
        ({"amount": "0"}, "Write dollars and cents above zero"),
        ({"way": "keep"}, "Choose whether to add it"),
        ({"note": ""}, "Say what it is for"),
        ({"way": "take"}, "does not cover a withdrawal of $1,250.00"),
    ):
        wrong = house.ops.post(f"{page}/credit", **order_request | changes)
        assert wrong.status_code == 422, error
        assert error in page_text(wrong.text), error
    assert house.everything() == before
    key = "k" * 22
    assert "The credit is added." in house.ops.post(f"{page}/credit", **order_request, once=key).text
    assert house.ops.post(f"{page}/credit", **order_request, once=key).status_code == 409
    house.ops.post(f"{page}/credit", **order_request | {"way": "take", "amount": "50"})
    words = house.words(page)
    assert "Live credit $1,200.00" in words
    assert "Invoice 12" in words
    with house.parts.db.system_transaction() as tx:
        moved = tx.execute(
            sa.select(ledger_moves.c.kind, ledger_moves.c.cents)
            .where(ledger_moves.c.mode == "live")
            .order_by(ledger_moves.c.id)
        ).all()
    assert moved == [("deposit", 125_000), ("withdrawal", 5_000)]
    assert house.acts() == ["credit.moved"] * 2
    assert house.acts(house.account)[:2] == ["credit.moved"] * 2
    assert house.is_as_if_unknown(house.ops, "/print-room/accounts/424242", 424242)
    clock.advance(hours=1)
    assert "ask for your password first" in house.words(page)
    assert f'href="/print-room/accounts/{house.runs.id}">Give ' in house.ops.get("/money").text
    assert "/print-room/accounts" not in house.owner.get("/money").text


def test_brands_are_made_changed_and_withdrawn(house: PrintRoomPages) -> None:
    assert "Switch to live" in house.words("/print-room/brands")
    for page in ("new", "brindlewick/change", "brindlewick/withdraw"):
        assert house.ops.get(f"/print-room/brands/{page}").status_code == 403
        assert house.ops.post(f"/print-room/brands/{page}").status_code == 403
    house.look_at("live")
    assert "Brindlewick" in house.words("/print-room/brands")
    order_request: dict[str, Any] = {
        "brand_code": "river-cafe", "title": "River Café", "group": "food", "available_amounts": "25, 10.50",
        "color": "#5B3A29", "issuer_code": "",
    }  # fmt: skip
    for changes, at in (
        ({"brand_code": "River"}, "brand_code"),
        ({"brand_code": "brindlewick"}, "brand_code"),
        ({"title": ""}, "title"),
        ({"group": "none"}, "group"),
        ({"available_amounts": "x"}, "available_amounts"),
        ({"available_amounts": ""}, "available_amounts"),
        ({"color": "red"}, "color"),
    ):
        wrong = house.ops.post("/print-room/brands/new", **order_request | changes)
        assert wrong.status_code == 422, changes
        assert f'id="{at}-fault"' in wrong.text, changes
    assert "The brand is saved." in house.ops.post("/print-room/brands/new", **order_request).text
    page = "/print-room/brands/river-cafe"
    assert 'value="10.50, 25.00"' in house.ops.get(f"{page}/change").text
    house.ops.post(f"{page}/change", **order_request | {"title": "River"})
    with house.parts.db.system_transaction() as tx:
        one = sa.select(giftcard_brands).where(giftcard_brands.c.code == "river-cafe")
        brand = tx.execute(one).one()
    assert (brand.title, brand.amounts, brand.accent, brand.is_offered) == ("River", [1050, 2500], "#5b3a29", True)
    assert "Withdraw River?" in house.words(f"{page}/withdraw")
    assert "offered no more" in house.ops.post(f"{page}/withdraw").text
    assert "withdrawn" in house.words("/print-room/brands")
    house.ops.post(f"{page}/change", **order_request)
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(one).one().is_offered
    assert house.acts() == ["brand.changed", "brand.retired", "brand.changed", "brand.changed"]
    assert house.ops.get("/print-room/brands/nothing/change").status_code == 404


def test_a_price_is_looked_at_set_and_taken_back_and_the_past_stays(house: PrintRoomPages, clock: Clock) -> None:
    assert house.ops.get("/print-room/prices/new").status_code == 403
    house.look_at("live")
    tomorrow = clock.now().date() + timedelta(days=1)
    page = "/print-room/prices/new"
    order_request: dict[str, Any] = {
        "piece": "postcard 4x6", "mail_class": "first", "country": "us", "price": "1.19",
        "valid_from": tomorrow.isoformat(),
    }  # fmt: skip
    before = house.everything()
    for changes, at in (
        ({"piece": "balloon"}, "piece"),
        ({"mail_class": "pigeon"}, "mail_class"),
        ({"country": "XX"}, "country"),
        ({"country": "CA", "mail_class": "standard"}, "country"),
        ({"price": "0"}, "price"),
        ({"price": "2000"}, "price"),
        ({"valid_from": clock.now().date().isoformat()}, "valid_from"),
        ({"valid_from": "2026-01-01"}, "valid_from"),
        ({"valid_from": ""}, "valid_from"),
        ({"valid_from": "2040-01-01"}, "valid_from"),
    ):
        wrong = house.ops.post(page, **order_request | changes, sure="yes")
        assert wrong.status_code == 422, changes
        assert f'id="{at}-fault"' in wrong.text, changes
    asks = page_text(house.ops.post(page, **order_request).text)
    assert "Postcard 4 × 6, first class, within the US: $1.19 a piece from 5 May 2026" in asks
    assert "Until then it costs $1.09." in asks
    assert "$0.10 a piece, or +9.2%" in asks
    assert house.everything() == before
    key = "k" * 22
    assert "The price is on the list." in house.ops.post(page, **order_request, sure="yes", once=key).text
    assert house.ops.post(page, **order_request | {"price": "9"}, sure="yes", once=key).status_code == 409
    twice = house.ops.post(page, **order_request, sure="yes")
    assert twice.status_code == 422
    assert "There is a price from that day on already" in twice.text
    canada = page_text(house.ops.post(page, **order_request | {"country": "CA"}).text)
    assert "Until then it costs $2.19." in canada
    with house.parts.db.system_transaction() as tx:
        product = {"type": "postcard", "size": "4x6", "mail_class": "first"}
        assert read_tariff(tx, **product, on=clock.now().date()).unit_cents("US") == 109
        assert read_tariff(tx, **product, on=tomorrow).unit_cents("US") == 119
        newest = tx.execute(sa.select(sa.func.max(prices.c.id))).scalar_one()
        first = tx.execute(sa.select(sa.func.min(prices.c.id))).scalar_one()
    assert "$1.19 from 5 May 2026" in house.words("/print-room/prices")
    assert house.ops.post(f"/print-room/prices/{first}/take-back").status_code == 409
    assert "Take back $1.19" in house.words(f"/print-room/prices/{newest}/take-back")
    assert "is taken back" in house.ops.post(f"/print-room/prices/{newest}/take-back").text
    assert house.everything()["prices"] == before["prices"]
    assert house.acts() == ["price.withdrawn", "price.added"]
