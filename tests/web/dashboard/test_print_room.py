"""The print room's pages: feeds, webhooks, jobs, accounts, brands, prices, batches and what waits."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing.queries import read_tariff
from quillpost.core import jobs
from quillpost.core.database.tables.base import items, ledger_moves, orders, prices
from quillpost.core.database.tables.fulfillment import batches, order_verdicts
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.database.tables.orders import giftcard_brands
from quillpost.core.paging import PageRequest
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.web.application import create_app
from quillpost.web.security import ZONE_COOKIE
from support.factories import Build, Clock, make_live, people, run_jobs_for
from support.orders import HOME, create_held_order
from support.pages import PrintRoomPages, assert_hides, assert_shows, form_errors, page_text
from support.production import LIVE_SETTINGS
from support.rows import run
from support.test_client import TestClient

FAIL = sa.text("update procrastinate_jobs set status = 'failed', attempts = 20 where task_name = :task")
JOBS = sa.text("select task_name, status, attempts, args from procrastinate_jobs order by id")
POLL, POOL, ONCE = "fulfillment.poll_printer", "fulfillment.pool_due_orders_periodic", "k" * 22


@pytest.fixture
def house(clean_database: None, print_room: PrintRoomPages) -> PrintRoomPages:
    return print_room


@pytest.fixture
def live(build: Build) -> Iterator[PrintRoomPages]:
    """Live mail may be printed, by a printer who says nothing by itself."""
    container = build(**LIVE_SETTINGS, review_seconds=1)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        yield PrintRoomPages(container, http)


def test_feeds_tell_what_is_set_up_and_what_was_heard(house: PrintRoomPages, clock: Clock) -> None:
    assert_shows(house.words("/print-room/feeds"), "Nothing heard yet")
    assert house.account.send().status_code == 200
    run_jobs_for(house.parts, clock, seconds=60)
    assert_shows(
        house.words("/print-room/feeds"), "Printer Good", "Carrier Good", "The simulated mail", "1 batch, 1 piece",
        "4 scans, 4 of pieces that we know",
    )  # fmt: skip
    assert_shows(house.words("/print-room/feeds/files"), "every file could be read")
    house.look_at("live")
    not_set = "QUILLPOST_MAILER_ID is not set"
    assert_shows(
        house.words("/print-room/feeds"), "Printer Not set up Set up nobody", "Carrier Not set up", not_set, "0 scans"
    )
    assert_shows(house.words("/print-room"), not_set)


def test_failing_webhooks_are_shown_and_resumed(house: PrintRoomPages) -> None:
    every = "Every webhook answers"
    assert_shows(house.words("/print-room/webhooks"), every)
    made = house.others.post("/webhooks", {"url": "https://hooks.example.com/s3cret", "type": "*"})
    assert made.status_code == 201, made.text
    ill = {"status": "failing", "failing_since": house.parts.clock(), "last_error": "Timed out."}
    house.execute(sa.update(webhooks).values(**ill))
    assert_shows(house.words("/print-room"), "1 webhook of senders cannot be delivered to.")
    assert_shows(house.words("/print-room/webhooks"), "hooks.example.com", "Timed out.", "stranger@example.com")
    assert_hides(house.ops.get("/print-room/webhooks"), "s3cret")
    page = f"/print-room/webhooks/{made.json()['id']}/resume"
    house.look_at("live")
    assert_shows(house.words("/print-room/webhooks"), every)
    assert house.ops.post(page).status_code == 404
    house.look_at("test")
    assert_shows(house.ops.post(page), "The webhook is resumed.")
    assert (house.operator_acts(), house.acts(house.others)[0]) == (["webhook.resumed"], "webhook.resumed")
    assert house.value(sa.select(webhooks.c.status)) == "active"


def test_failed_jobs_run_again_one_or_all_of_a_kind(house: PrintRoomPages) -> None:
    assert_shows(house.words("/print-room/jobs"), "No job has failed")
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs"))
        for batch in (7, 8):
            jobs.enqueue(tx, POLL, batch_id=batch)
        for tick in (100, 160, 220):
            jobs.enqueue(tx, POOL, timestamp=tick)
        for task in (POLL, POOL):
            tx.execute(FAIL, {"task": task})
        jobs.enqueue(tx, POLL, batch_id=8)  # booked anew meanwhile
    assert_shows(house.words("/print-room"), "5 jobs failed for good.")
    assert_shows(house.words("/print-room/jobs"), f"{POOL} 3", "batch-000007", "1 to 5 of 5 jobs")
    assert_shows(house.words(f"/print-room/jobs?task={POLL}"), "1 to 2 of 2 jobs")
    newest, oldest = run(house.parts, jobs.list_failed_jobs, PageRequest(), task=POLL).rows
    assert_shows(house.ops.post(f"/print-room/jobs/{oldest.id}/retry"), "They run again.")
    assert house.ops.post(f"/print-room/jobs/{oldest.id}/retry").status_code == 404
    house.ops.post(f"/print-room/jobs/{newest.id}/retry")
    house.ops.post("/print-room/jobs/retry", task=POOL)
    assert house.ops.post("/print-room/jobs/retry", task="nonsense").status_code == 404
    left = {(row.task_name, row.status, row.attempts, *row.args.items()) for row in house.rows(JOBS)}
    assert left == {
        (POLL, "todo", 0, ("batch_id", 7)), (POLL, "todo", 0, ("batch_id", 8)), (POOL, "todo", 0, ("timestamp", 220)),
    }  # fmt: skip
    assert house.operator_acts() == ["jobs.retried"] * 3


def test_accounts_are_found_and_credited_once(house: PrintRoomPages, clock: Clock, subtests: pytest.Subtests) -> None:
    assert house.account.send().status_code == 200
    found = "/print-room/accounts"
    assert_shows(house.words(found), "owner@example.com", "stranger@example.com", "1 to 3 of 3 accounts")
    assert_shows(house.words(f"{found}?find=STRANGER@"), "1 to 1 of 1 accounts")
    for odd in ("%25", "nobody", "%00_"):
        assert_shows(house.words(f"{found}?find={odd}"), "No account is like that")
    page = f"{found}/{house.account.id}"
    assert_shows(house.words(page), "Test orders 1", "authorise", "Switch to live")
    good: dict[str, Any] = {"amount": "$1,250.00", "way": "give", "note": "Invoice 12"}
    assert house.ops.post(f"{page}/credit", **good).status_code == 403
    house.look_at("live")
    house.refuses_forms(
        subtests, f"{page}/credit", good,
        [
            ({"amount": "0"}, "amount", "Write dollars and cents above zero"),
            ({"way": "keep"}, "way", "Choose whether to add it"),
            ({"note": ""}, "note", "Say what it is for"),
            ({"way": "take"}, "amount", "does not cover a withdrawal of $1,250.00"),
        ],
        by=house.ops,
    )  # fmt: skip
    assert_shows(house.ops.post(f"{page}/credit", **good, once=ONCE), "The credit is added.")
    assert house.ops.post(f"{page}/credit", **good, once=ONCE).status_code == 409
    house.ops.post(f"{page}/credit", **good | {"way": "take", "amount": "50"})
    assert_shows(house.words(page), "Live credit $1,200.00", "Invoice 12")
    moves = sa.select(ledger_moves).where(ledger_moves.c.mode == "live").order_by(ledger_moves.c.id)
    assert [(row.kind, row.cents) for row in house.rows(moves)] == [("deposit", 125_000), ("withdrawal", 5_000)]
    assert house.operator_acts() == house.acts()[:2] == ["credit.moved"] * 2
    assert house.is_as_if_unknown(house.ops, f"{found}/424242", 424242)
    clock.advance(hours=1)
    assert_shows(house.words(page), "ask for your password first")
    assert_shows(house.ops.get("/money"), f'href="{found}/{house.runs.id}">Give ')
    assert_hides(house.owner.get("/money"), found)


def test_brands_are_made_changed_and_withdrawn(house: PrintRoomPages, subtests: pytest.Subtests) -> None:
    brands = "/print-room/brands"
    assert_shows(house.words(brands), "Switch to live")
    for page in ("new", "brindlewick/change", "brindlewick/withdraw"):
        assert house.ops.get(f"{brands}/{page}").status_code == 403
        assert house.ops.post(f"{brands}/{page}").status_code == 403
    house.look_at("live")
    assert_shows(house.words(brands), "Brindlewick")
    good: dict[str, Any] = {
        "brand_code": "river-cafe", "title": "River Café", "group": "food", "available_amounts": "25, 10.50",
        "color": "#5B3A29", "issuer_code": "",
    }  # fmt: skip
    wrong = {"brand_code": ("River", "brindlewick"), "title": ("",), "group": ("none",), "available_amounts": ("x", ""),
             "color": ("red",)}  # fmt: skip
    cases = [({field: value}, field, "") for field, values in wrong.items() for value in values]
    house.refuses_forms(subtests, f"{brands}/new", good, cases, by=house.ops)
    assert_shows(house.ops.post(f"{brands}/new", **good), "The brand is saved.")
    page = f"{brands}/river-cafe"
    assert_shows(house.ops.get(f"{page}/change"), 'value="10.50, 25.00"')
    house.ops.post(f"{page}/change", **good | {"title": "River"})
    one = sa.select(giftcard_brands).where(giftcard_brands.c.code == "river-cafe")
    [brand] = house.rows(one)
    assert (brand.title, brand.amounts, brand.accent, brand.is_offered) == ("River", [1050, 2500], "#5b3a29", True)
    assert_shows(house.words(f"{page}/withdraw"), "Withdraw River?")
    assert_shows(house.ops.post(f"{page}/withdraw"), "offered no more")
    assert_shows(house.words(brands), "withdrawn")
    house.ops.post(f"{page}/change", **good)
    [brand] = house.rows(one)
    assert brand.is_offered
    assert house.operator_acts() == ["brand.changed", "brand.retired", "brand.changed", "brand.changed"]
    assert house.ops.get(f"{brands}/nothing/change").status_code == 404


def test_a_price_is_set_and_taken_back(house: PrintRoomPages, clock: Clock, subtests: pytest.Subtests) -> None:
    page = "/print-room/prices/new"
    assert house.ops.get(page).status_code == 403
    house.look_at("live")
    today = clock.now().date()
    tomorrow = today + timedelta(days=1)
    good: dict[str, Any] = {
        "piece": "postcard 4x6", "mail_class": "first", "country": "us", "price": "1.19",
        "valid_from": tomorrow.isoformat(),
    }  # fmt: skip
    wrong = {"piece": ("balloon",), "mail_class": ("pigeon",), "country": ("XX",), "price": ("0", "2000"),
             "valid_from": (today.isoformat(), "2026-01-01", "", "2040-01-01")}  # fmt: skip
    cases: list[Any] = [({field: value}, field, "") for field, values in wrong.items() for value in values]
    cases.append(({"country": "CA", "mail_class": "standard"}, "country", ""))
    house.refuses_forms(subtests, page, good | {"sure": "yes"}, cases, by=house.ops)
    before = house.everything()
    assert_shows(
        page_text(house.ops.post(page, **good)), "Until then it costs $1.09.", "$0.10 a piece, or +9.2%",
        "Postcard 4 × 6, first class, within the US: $1.19 a piece from 5 May 2026",
    )  # fmt: skip
    assert house.everything() == before
    assert_shows(house.ops.post(page, **good, sure="yes", once=ONCE), "The price is on the list.")
    assert house.ops.post(page, **good | {"price": "9"}, sure="yes", once=ONCE).status_code == 409
    assert_shows(house.ops.post(page, **good, sure="yes"), "There is a price from that day on already", status=422)
    assert_shows(page_text(house.ops.post(page, **good | {"country": "CA"})), "Until then it costs $2.19.")
    product = {"type": "postcard", "size": "4x6", "mail_class": "first"}
    tariffs = [run(house.parts, read_tariff, **product, on=day).unit_cents("US") for day in (today, tomorrow)]
    assert tariffs == [109, 119]
    first, newest = (house.value(sa.select(of(prices.c.id))) for of in (sa.func.min, sa.func.max))
    assert_shows(house.words("/print-room/prices"), "$1.19 from 5 May 2026")
    assert house.ops.post(f"/print-room/prices/{first}/take-back").status_code == 409
    assert_shows(house.words(f"/print-room/prices/{newest}/take-back"), "Take back $1.19")
    assert_shows(house.ops.post(f"/print-room/prices/{newest}/take-back"), "is taken back")
    assert house.everything()["prices"] == before["prices"]
    assert house.operator_acts() == ["price.withdrawn", "price.added"]


def hand_over(house: PrintRoomPages, clock: Clock) -> int:
    """A live batch of five pieces that the printer has."""
    sent = make_live(house.parts, house.account).send(recipients=people(5), **HOME)
    assert sent.status_code == 200, sent.text
    run_jobs_for(house.parts, clock, seconds=4)
    house.look_at("live")
    return int(house.value(sa.select(sa.func.max(batches.c.id))))


def status_of(house: PrintRoomPages, batch_id: int) -> str:
    return str(house.value(sa.select(batches.c.status).where(batches.c.id == batch_id)))


def item_statuses(house: PrintRoomPages) -> list[str]:
    return [row.status for row in house.rows(sa.select(items.c.status).order_by(items.c.id))]


def test_batches_are_found_taken_along_and_marked(live: PrintRoomPages, clock: Clock) -> None:
    number = hand_over(live, clock)
    name, page = batch_reference(number), f"/print-room/batches/{number}"
    for query in ("", "?show=open", "?piece=postcard-4x6", "?since=2026-05-04&until=2026-05-04", "?page=x&since=x"):
        assert_shows(live.words(f"/print-room/batches{query}"), name, "Postcard 4 × 6, first class")
    for query in ("?show=trouble", "?show=mailed", "?piece=letter", "?since=2026-05-05", "?until=2026-05-03"):
        assert_shows(live.words(f"/print-room/batches{query}"), "No batch is like that")
    assert live.ops.get(f"/print-room/batches?find={name}", follow=False).headers["Location"] == page
    assert_shows(live.words(page), "With the printer", "Processing 5", "Person 1", "1 to 5 of 5 pieces", "Mark printed")
    assert_shows(live.ops.get(f"{page}/live"), "With the printer")
    assert_shows(live.words("/print-room"), "Pieces put into batches 5 1 batch", "With the printer 1 5")
    pdf = live.ops.get(f"{page}/files/print.pdf")
    assert (pdf.content[:4], pdf.headers["Cache-Control"]) == (b"%PDF", "no-store")
    assert pdf.headers["Content-Disposition"] == f'attachment; filename="{name}-print.pdf"'
    assert live.ops.get(f"{page}/files/manifest.csv").text.count("\r\n") == 6
    ticket = json.loads(live.ops.get(f"{page}/ticket/ticket.json").content)
    assert (ticket["reference"], ticket["pieces"]) == (name, 5)
    for nothing in ("files/ticket.json", "files/..%2Fsecret.key", "ticket/print.pdf"):
        assert live.ops.get(f"{page}/{nothing}").status_code == 404
    live.look_at("test")
    assert_hides(live.words("/print-room/batches"), name)
    assert live.is_as_if_unknown(live.ops, page, number)
    assert live.ops.get(f"{page}/files/print.pdf").status_code == 404
    assert live.operator_acts() == ["print_file.downloaded"] * 3
    for browser in (live.owner, live.stranger, live.member):
        assert browser.get(page).status_code == 404
    live.look_at("live")
    with live.unchanged():
        soon = clock.now() + timedelta(minutes=1)  # in UTC; an hour ago, were it in Paris
        live.ops.client.cookies.set(ZONE_COOKIE, "Europe/Paris")
        for at, error in ((f"{soon:%Y-%m-%dT%H:%M}", "must not lie in the future"), ("soon", "Choose a day")):
            wrong = live.ops.post(f"{page}/mark", status="printed", at=at, seen="handed", zone="UTC")
            assert (wrong.status_code, error in form_errors(wrong)["at"]) == (422, True)
    assert status_of(live, number) == "handed"
    assert_shows(live.ops.post(f"{page}/mark", status="printed", seen="handed"), "The batch is marked as printed.")
    assert set(item_statuses(live)) == {"Printed"}
    stale = live.ops.post(f"{page}/mark", status="printed", seen="handed")
    assert stale.status_code == 409
    assert_shows(page_text(stale), "Meanwhile the batch has moved on: it is “Printed” now")
    assert live.ops.post(f"{page}/retry", seen="handed").status_code == 409
    live.ops.post(f"{page}/mark", status="mailed", seen="printed")
    assert status_of(live, number) == "mailed"
    assert live.ops.post(f"{page}/retry", seen="mailed").status_code == 409
    assert live.operator_acts()[:2] == ["batch.marked", "batch.marked"]


def test_spoiled_pieces_fail_or_are_printed_anew(live: PrintRoomPages, clock: Clock, subtests: pytest.Subtests) -> None:
    number = hand_over(live, clock)
    page, name = f"/print-room/batches/{number}", batch_reference(number)
    assert_shows(live.words(f"{page}/spoiled"), "is given up")
    torn = {"by": "places", "reason": "Torn"}
    live.refuses_forms(
        subtests, f"{page}/spoiled", torn,
        [
            ({"which": ""}, "which", "Say which pieces"), ({"which": "two"}, "which", "two is no number"),
            ({"which": "5-2"}, "which", "runs backward"), ({"which": "1-9000"}, "which", "At most 5,000 pieces"),
            ({"which": "4, 6"}, "which", f"There is no piece 6 in batch {number}."),
        ],
        by=live.ops,
    )  # fmt: skip
    assert_shows(live.ops.post(f"{page}/spoiled", which="two", by="places", reason="Torn"), 'value="Torn"')
    assert "Failed" not in item_statuses(live)
    done = live.ops.post(f"{page}/spoiled", which="1", by="places", reason="Torn")
    assert_shows(done, "The spoiled pieces are marked.", "Torn", "Mark spoiled")
    assert item_statuses(live).count("Failed") == 1
    good: dict[str, Any] = {"which": "1-3", "by": "places", "reason": "Cut askew"}
    live.refuses_forms(
        subtests, f"{page}/reprint", good,
        [
            ({"reason": " "}, "reason", "Give a reason"),
            ({"which": "2, 9"}, "which", f"{name} has no piece 9."),
            ({"which": "1"}, "which", "None of these can be printed again. 1: Ended already (Failed)."),
        ],
        by=live.ops,
    )  # fmt: skip
    confirmation = page_text(live.ops.post(f"{page}/reprint", **good))
    assert_shows(confirmation, "Print 2 pieces again?", "Left out: 1. Ended already")
    assert len(live.rows(sa.select(batches.c.id))) == 1
    done = live.ops.post(f"{page}/reprint", **good, sure="yes", once=ONCE)
    assert_shows(page_text(done), "printed again in this batch", f"Reprint of {name}")
    again = live.ops.post(f"{page}/reprint", **good | {"which": "4"}, sure="yes", once=ONCE)
    assert (again.status_code, "This was done already" in again.text) == (409, True)
    assert live.value(sa.select(batches.c.item_count).where(batches.c.reprint_of == number)) == 2
    assert_shows(live.words(page), "Void 2 pieces")
    assert live.operator_acts() == ["batch.reprinted", "batch.marked"]
    assert_shows(
        live.words("/print-room"), "Pieces put into batches 4 2 batches Pieces printed 0 Pieces mailed 0",
        "With the printer 1 2",
    )  # fmt: skip
    # The fifth piece by its item.
    gone = live.ops.post(f"{page}/spoiled", which=str(live.value(sa.select(sa.func.max(items.c.id)))), by="items").text
    assert item_statuses(live).count("Failed") == 2
    for status, seen in (("printed", "handed"), ("mailed", "printed")):
        live.ops.post(f"{page}/mark", status=status, seen=seen)
    assert_shows(live.words("/print-room"), "Pieces printed 1 Pieces mailed 1")
    live.execute(sa.update(items).where(items.c.status != "Failed").values(status="In Transit"))
    now = live.words(page)
    for words in ("Print again", "Mark spoiled"):
        assert (words in gone, words in now) == (True, False), words


def test_a_failing_batch_is_shown_and_retried(live: PrintRoomPages, clock: Clock) -> None:
    number = hand_over(live, clock)
    stuck = {"status": "composed", "handed_at": None, "trouble": "The printer is away.", "partner": "ftp://old"}
    live.execute(sa.update(batches).values(**stuck))
    page = f"/print-room/batches/{number}"
    assert_shows(live.words("/print-room"), "1 batch cannot go on.")
    assert_shows(live.words("/print-room/feeds"), "could not be handed over")
    for path in ("/print-room/batches?show=trouble", page):
        assert_shows(live.words(path), "The printer is away.")
    assert live.ops.post(f"{page}/mark", status="printed", seen="composed").status_code == 409
    assert_shows(live.ops.post(f"{page}/retry", seen="composed"), "The batch is tried again now.")
    assert_shows(live.words(f"{page}/anew"), "people are mailed twice")
    live.ops.post(f"{page}/anew", seen="composed")
    assert live.value(sa.select(batches.c.partner)) is None
    assert live.operator_acts() == ["batch.retried", "batch.retried"]


def test_held_orders_are_released_or_refused_with_a_reason(house: PrintRoomPages, clock: Clock) -> None:
    first, second = (create_held_order(house.account, house.parts, clock) for _ in range(2))
    assert_shows(house.words("/print-room"), "2 orders on hold")
    assert_shows(house.words("/print-room/held"), f"Order {first}", "has nothing for %COMPANY%", "owner@example.com")
    assert house.ops.get(f"/print-room/held/{first}/proof").content.startswith(b"%PDF")
    release = f"/print-room/held/{first}/release"
    assert_shows(house.words(release), "Held because:")
    assert_shows(house.ops.post(release, reason="They like it so."), "The order is released.")
    assert_shows(house.ops.post(release), "Only a paused order can be released", status=409)
    page = f"/print-room/held/{second}/refuse"
    for reason, error in (("", "Give a reason: the sender reads it."), ("x" * 501, "At most 500 characters")):
        wrong = house.ops.post(page, reason=reason)
        assert (wrong.status_code, error in form_errors(wrong)["reason"]) == (422, True)
    assert house.ops.post(page, reason="Not yours to print.").status_code == 200
    decisions = house.rows(sa.select(order_verdicts.c.verdict, order_verdicts.c.reason))
    assert decisions == [("released", "They like it so."), ("refused", "Not yours to print.")]
    assert house.value(sa.select(orders.c.status).where(orders.c.id == second)) == "error"
    assert_shows(house.words("/print-room/held"), "No order is held")
    assert house.operator_acts() == ["order.refused", "order.released"]
    house.look_at("live")
    for way in ("proof", "release", "refuse"):
        assert house.is_as_if_unknown(house.ops, f"/print-room/held/{second}/{way}", second)


def test_what_waits_is_pooled_or_rushed(live: PrintRoomPages, clock: Clock) -> None:
    order = make_live(live.parts, live.account).send(recipients=people(4), **HOME).json()["id"]
    waiting = {"status": "processing", "pool_at": clock.now().replace(hour=20), "n_processing": 4}
    live.execute(sa.update(orders).values(**waiting))
    live.look_at("live")
    assert_shows(live.words("/print-room"), "4 pieces of 1 order.", "Postcard 4 × 6, first class 1 4")
    for typed, error in (("", "Say which"), ("abc", "abc is no number"), ("999", "There is no order 999.")):
        wrong = live.ops.post("/print-room/rush", orders=typed)
        assert (wrong.status_code, error in form_errors(wrong)["orders"]) == (422, True)
    for words in ("go before all others now", "Nothing changed"):
        assert_shows(live.ops.post("/print-room/rush", orders=f"{order}"), words)
    live.execute(sa.update(orders).values(pool_at=clock.now().replace(hour=20)))
    for words in ("batches are made of it now", "nothing to bring forward"):
        assert_shows(live.ops.post("/print-room/pool"), words)
    assert live.operator_acts() == ["orders.pooled", "orders.rushed"]
