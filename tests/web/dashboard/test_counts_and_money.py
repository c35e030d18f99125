"""Numbers on pages. How many recipients an order has, how many get a piece, and where those are: the same everywhere.
What money there is, every move of it, and what things cost."""

import csv
import re
from collections import Counter
from datetime import date, timedelta
from io import StringIO
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.billing import queries as billing_queries
from quillpost.accounts.billing import service as billing_service
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import accounts, items, ledger_moves, orders, prices
from quillpost.core.database.tables.orders import account_credit
from quillpost.core.paging import PageRequest
from quillpost.fulfillment.review.service import list_paused_orders
from quillpost.orders.products import DISPLAY_TYPES, ORDER_TYPES
from quillpost.recipients.addresses.rules import NO_ADDRESS
from quillpost.recipients.rules import RECENTLY_MAILED, SAME_ADDRESS, SUPPRESSED
from quillpost.web.dashboard.compose.forms import PRODUCT_CHOICES
from quillpost.web.dashboard.labels import PRODUCT_NAMES, TYPE_NAMES, product_name
from quillpost.web.dashboard.orders import maps
from quillpost.web.dashboard.orders.labels import TYPE_LABELS
from quillpost.web.dashboard.orders.maps import LOST_STATUS, MAP_HEIGHT, MAP_WIDTH, MapGroup
from quillpost.web.dashboard.print_room.accounts import PRODUCT_LABELS as PRICED
from quillpost.web.dashboard.templates.forms import IMAGE_TYPES, MESSAGE_TYPES
from support import factories
from support.orders import HOME
from support.pages import AccountPages, PrintRoomPages, assert_hides, assert_shows, form_errors, page_text
from support.production import sweep_due_orders
from support.sign_in import Browser

AUSTIN = "78701"
GOOD = 6
EVERYONE, MAILED = GOOD + 7, GOOD + 2
TOO_LONG = factories.person(name="Long", company="Endless " * 30, address="99 " + "Somewhere " * 24)
NOT_BILLED = ("scans", "multi_scans")


def make_list(account: factories.Account, whom: list[dict[str, Any]], **how: Any) -> int:
    made = int(account.post("/mailing-lists", {"description": "People", **how}).json()["id"])
    added = account.post("/recipients-utils/create-multiple", [someone | {"mailing_list_id": made} for someone in whom])
    assert all("error" not in row for row in added.json()), added.text
    return made


def mixed(account: factories.Account) -> dict[str, Any]:
    """A send to some who get it, and to one of every kind who does not."""
    never, had_it, twice = (
        factories.person(name=name, address=f"{n} Main St")
        for n, name in ((70, "Barred"), (71, "Had it"), (72, "Twice"))
    )
    make_list(account, [never], is_suppression_list=True)
    account.send(recipients=[had_it], allow_duplicates=False, **HOME)
    mail_only = {"name": "Mail only", "email": "m@example.com"}
    listed = make_list(account, [*factories.people(GOOD), never, had_it, twice, mail_only, TOO_LONG])
    inline = [twice, twice | {"address": "72 Main Street"}]
    return factories.postcard(recipients=inline, mailing_list_ids=[listed], allow_duplicates=False, **HOME)


def of_api(account: factories.Account, order_id: int) -> dict[str, Any]:
    """What every read of the API says."""
    order = account.get(f"/orders/{order_id}").json()
    tracked = account.get(f"/orders/{order_id}/track").json()["data"]
    [listed] = [each for each in account.get("/orders/list").json()["data"] if each["id"] == order_id]
    names = ("total_estimated_recipients", "total_recipients", "recipient_count")
    shown = {name: order[name] for name in names}
    assert shown == {name: tracked["order"][name] for name in names} == {name: listed[name] for name in names}
    return shown | {
        "not_mailed": Counter(each["failure"] for each in tracked["errors"]),
        "items": account.get(f"/orders/{order_id}/items").json()["meta"]["total"],
        "stats": sum(n for name, n in tracked["stats"].items() if name not in NOT_BILLED),
        "errors": len(tracked["errors"]),
    }


def on_pages(house: PrintRoomPages, order_id: int, *words: str) -> tuple[int, int]:
    """What the sender's pages say: the number of pieces, and of those who are not mailed to. Home has the first of
    these words, and the list of orders the second."""
    page = house.owner.get(f"/orders/{order_id}").text
    [pieces] = re.findall(r"<dt>(?:<a [^>]*>)?Pieces(?:</a>)?</dt>\s*<dd>(?:<a [^>]*>)?([\d,]+)", page)
    left = sum(map(int, re.findall(r"Not mailed: ([\d,]+)<", page)))
    assert sum(int(n) for n in re.findall(r"<li>([\d,]+): [^<]+</li>", page)) == left, "each for a reason"
    for path, expected in zip(("/", f"/orders?q={order_id}"), words, strict=False):
        assert expected in page_text(house.owner.get(path))
    return int(pieces), left


@pytest.mark.usefixtures("clean_database")
def test_a_mixed_order_has_the_same_counts_everywhere(print_room: PrintRoomPages, clock: factories.Clock) -> None:
    house, account = print_room, print_room.account
    body = mixed(account)
    estimate = account.post("/estimate/postcard", body).json()["data"]
    not_mailed = (estimate["suppressed"], estimate["duplicates"], estimate["undeliverable"])
    assert (estimate["total_recipients"], not_mailed) == (MAILED, (1, 3, 1))
    left_out = sum(not_mailed)
    assert MAILED + left_out == EVERYONE
    sent = account.post("/send/postcard", body).json()
    order = int(sent["id"])
    assert sent["total_estimated_recipients"] == MAILED
    for made in (False, True):  # before its lists are pieces, and after
        if made:
            factories.run_due_jobs(house.parts)
        counts = of_api(account, order)
        assert (counts["recipient_count"], counts["total_estimated_recipients"]) == (EVERYONE, MAILED)
        assert counts["total_recipients"] == 0
        words = (f"{MAILED} pieces, {left_out} not mailed", f"{MAILED} {left_out} not mailed")
        assert on_pages(house, order, *words) == (MAILED, left_out)
    assert counts["not_mailed"] == {SAME_ADDRESS: 2, RECENTLY_MAILED: 1, SUPPRESSED: 1, NO_ADDRESS: 1}

    # One of the addresses does not fit: that is found out when it is drawn.
    factories.run_jobs_for(house.parts, clock, seconds=60)
    counts, mailed, left_out = of_api(account, order), MAILED - 1, left_out + 1
    assert (counts["recipient_count"], counts["total_recipients"]) == (EVERYONE, mailed)
    assert (counts["items"], counts["stats"], counts["errors"]) == (EVERYONE, EVERYONE, left_out)
    assert len(counts["not_mailed"]) == 5
    assert on_pages(house, order, f"{mailed} pieces, {left_out} not mailed") == (mailed, left_out)
    stats, usage = account.get("/orders/stats").json(), account.get("/account").json()["usage"]
    assert stats["total_sent"] == usage["pieces"] == mailed + 1  # and the one who had it before


@pytest.mark.usefixtures("clean_database")
def test_a_canceled_order_mails_to_nobody_everywhere(print_room: PrintRoomPages) -> None:
    account = print_room.account
    order = int(account.post("/send/postcard", mixed(account)).json()["id"])
    factories.run_due_jobs(print_room.parts)
    account.call("PUT", f"/orders/{order}/cancel")
    counts = of_api(account, order)
    assert (counts["recipient_count"], counts["total_recipients"]) == (EVERYONE, 0)
    assert (counts["not_mailed"].total(), counts["not_mailed"]["Order cancelled"]) == (EVERYONE, MAILED)
    assert on_pages(print_room, order, f"{EVERYONE} pieces not mailed") == (0, EVERYONE)


@pytest.mark.usefixtures("clean_database")
def test_the_print_room_counts_what_would_be_printed(print_room: PrintRoomPages, clock: factories.Clock) -> None:
    house, live = print_room, factories.make_live(print_room.parts, print_room.account)
    house.execute(sa.update(accounts).values(test_mode=False))
    order = int(live.post("/send/postcard", mixed(live)).json()["id"])
    factories.run_due_jobs(house.parts)
    house.execute(sa.update(orders).where(orders.c.id == order).values(due_at=clock.now()))
    sweep_due_orders(house.parts, clock)
    house.look_at("live")
    assert f"to {MAILED} people" in house.words("/print-room/held")
    assert f"{MAILED} pieces for" in house.words(f"/print-room/held/{order}/release")
    runs = factories.make_operator(house.parts, house.http, "live@example.com", mode="live")
    [held] = [each for each in runs.get("/print/held").json()["data"] if each["id"] == order]
    assert (held["pieces"], held["recipient_count"]) == (MAILED, EVERYONE)
    with house.parts.db.system_transaction() as tx:
        [kept] = [each for each in list_paused_orders(tx, "live", PageRequest()).rows if each.id == order]
    assert kept.pieces == MAILED


@pytest.mark.usefixtures("clean_database")
def test_what_is_lost_in_the_mail_was_mailed(print_room: PrintRoomPages, clock: factories.Clock) -> None:
    account = print_room.account
    order = int(account.send(recipients=[factories.person(name="Test Lost"), *factories.people(2)]).json()["id"])
    factories.run_jobs_for(print_room.parts, clock, seconds=60)
    counts = of_api(account, order)
    assert (counts["recipient_count"], counts["total_recipients"], counts["errors"]) == (3, 3, 1)
    assert on_pages(print_room, order) == (3, 0)
    assert account.get("/orders/stats").json()["total_sent"] == 3
    assert print_room.value(sa.select(sa.func.count()).where(items.c.is_mailed)) == 3


PLACES = (
    (40.7128, -74.0060, 869.8, 215.7), (37.7749, -122.4194, 34.8, 261.4), (30.2672, -97.7431, 464.0, 497.5),
    (61.2181, -149.9003, 112.3, 544.2), (21.3069, -157.8583, 267.0, 549.2),
    (38.7, -96.6, MAP_WIDTH / 2, MAP_HEIGHT / 2),
)  # fmt: skip


def test_known_cities_lie_where_the_map_has_them_and_what_is_not_in_the_states_is_not_on_it() -> None:
    for latitude, longitude, x, y in PLACES:
        assert maps.project_to_map(latitude, longitude) == pytest.approx((x, y), abs=0.3)
    for elsewhere in ((18.47, -66.11), (13.44, 144.79), (48.85, 2.35), (51.05, -114.07)):
        assert maps.project_to_map(*elsewhere) is None


def test_a_piece_is_where_the_mail_last_saw_it_and_once_delivered_at_its_address() -> None:
    found = maps.build_order_map(
        [
            ("Delivered", "US", AUSTIN, None, 3), ("In Transit", "US", AUSTIN, "Chicago P&DC, Chicago, IL 60601", 2),
            ("In Local Area", "US", AUSTIN, None, 1), ("In Transit", "US", AUSTIN, None, 4),
            ("Returned to Sender", "US", AUSTIN, "ZIP 60601", 1), ("Delivered", "CA", "K1A", None, 5),
            ("Delivered", "US", "00901", None, 6), ("Processing", "US", AUSTIN, None, 7),
            ("Printed", "US", None, None, 8), ("Failed", "US", AUSTIN, None, 9), (LOST_STATUS, "US", AUSTIN, None, 10),
        ]
    )  # fmt: skip
    assert found.sampled_count == 56
    counts = {town.name: town.counts for town in found.towns}
    assert counts["Austin, TX"] == {MapGroup.DELIVERED: 3, MapGroup.IN_TRANSIT: 1}
    assert counts["Chicago, IL"] == {MapGroup.IN_TRANSIT: 2, MapGroup.RETURNED: 1}
    assert sorted(circle.label for circle in found.circles) == [
        "Austin, TX: 1 on the way", "Austin, TX: 3 delivered", "Chicago, IL: 1 came back", "Chicago, IL: 2 on the way",
    ]  # fmt: skip
    assert found.off_map_counts == {
        "somewhere that the mail has not told": 4, "outside this map": 11, "not mailed yet": 7,
        "printed, and not scanned by the mail yet": 8, "not mailed": 9, "lost in the mail": 10,
    }  # fmt: skip
    near = maps.build_order_map([("Delivered", "US", zip5, None, 1) for zip5 in ("10001", "10002", "07030", AUSTIN)])
    assert len(near.circles) == 2
    assert any("and around: 3 delivered" in circle.label for circle in near.circles)


def test_every_piece_has_one_name_on_all_pages() -> None:
    assert [product_name(*each) for each in DISPLAY_TYPES] == list(PRODUCT_NAMES.values())
    assert {each.layout_name: each.title for each in PRODUCT_CHOICES.values()} == PRODUCT_NAMES
    assert list(PRICED.values()) == list(PRODUCT_NAMES.values())
    assert TYPE_NAMES.keys() == dict(TYPE_LABELS).keys() == set(ORDER_TYPES)
    assert {*IMAGE_TYPES, *MESSAGE_TYPES} <= set(TYPE_NAMES.items())
    # What only an operator's prices know is called as it is.
    assert (product_name("scroll", None), product_name("banner", "9x9")) == ("scroll", "banner 9x9")


LEDGER = "/money/ledger"


def deposit(house: AccountPages, cents: int, note: str | None = None) -> None:
    with house.parts.db.system_transaction() as tx:
        key = f"{cents} {note}"
        billing_service.deposit(tx, house.account.id, cents=cents, key=key, note=note, now=house.parts.clock())


def look_live(browser: Browser) -> Browser:
    browser.post("/session/switch", mode="live", next="/money")
    return browser


def figures(page: Response) -> dict[str, str]:
    """By what they are called, the numbers at the head of the page."""
    return dict(re.findall(r"<dt>(?:<a [^>]*>)?([^<]+)(?:</a>)?</dt>\s*<dd>([^<]+)", page.text))


def lines(browser: Browser, query: str = "") -> list[str]:
    cells = re.findall(r'class="told">(.*?)</td>', browser.get(f"{LEDGER}{query}").text, re.S)
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in cells]


def file_rows(browser: Browser, query: str = "") -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(browser.get(f"{LEDGER}.csv{query}").text)))


def test_what_there_is_and_what_was_spent(house: AccountPages, clock: factories.Clock) -> None:
    live = factories.make_live(house.parts, house.account)
    assert_shows(house.owner.get(LEDGER), "No money has moved yet")
    assert_shows(house.member.get("/money"), "play money")
    deposit(house, 10_000, "Invoice 7")
    assert live.send(**HOME, sub_account_id=house.branch).status_code == 200
    page = look_live(house.owner).get("/money")
    assert figures(page) == {"Credit": "$98.91", "Held": "$1.09", "Spent this month": "$0.00", "Spent in all": "$0.00"}
    assert_shows(page, "Invoice 7")
    clock.advance(days=30)
    limited = look_live(house.limited).get("/money")
    assert figures(limited)["Held"] == "$1.09"
    assert_hides(limited, "$98.91", "Invoice 7")
    assert_hides(house.stranger.get("/money"), "$98.91")


def test_every_move_in_words_with_what_there_was_after_it(house: AccountPages, clock: factories.Clock) -> None:
    live = factories.make_live(house.parts, house.account)
    deposit(house, 10_000, "=1+1")
    clock.advance(days=2)
    order, other = (live.send(**HOME).json()["id"] for _ in range(2))
    assert live.put(f"/orders/{order}/cancel").status_code == 200
    house.account.send()  # as a test: in the other mode's books
    owner, day = look_live(house.owner), clock.now().date()
    every = [f"Given back from order {order}", f"Held for order {other}", f"Held for order {order}", "Credit added=1+1"]
    page = owner.get(LEDGER).text
    after = re.findall(r'data-label="Credit after" class="amount">([^<]+)<', page)
    assert after == ["$98.91", "$97.82", "$98.91", "$100.00"]
    assert_shows(page, "+$1.09", "−$1.09")
    for query, found in {
        "": every, "?kind=authorise": every[1:3], f"?order={order}": [every[0], every[2]], f"?since={day}": every[:3],
        f"?until={day - timedelta(days=1)}": every[3:],
    }.items():  # fmt: skip
        assert lines(owner, query) == found, query
    assert_hides(owner.get(f"{LEDGER}?kind=authorise"), "Credit after")
    assert_shows(owner.get(f"{LEDGER}?kind=refund"), "No money moved that fits")
    odd = owner.get(f"{LEDGER}?since=yesterday&order=none&kind=nonsense")
    assert (odd.status_code, set(form_errors(odd))) == (422, {"since", "order"})
    entries = file_rows(owner)
    assert [(row["kind"], row["amount"], row["credit_change"]) for row in entries] == [
        ("release", "1.09", "1.09"), ("authorise", "1.09", "-1.09"), ("authorise", "1.09", "-1.09"),
        ("deposit", "100.00", "100.00"),
    ]  # fmt: skip
    assert entries[-1]["note"] == "'=1+1"
    assert len(file_rows(owner, f"?order={order}")) == 2
    stranger = look_live(house.stranger)
    assert (file_rows(stranger), lines(stranger, f"?order={order}")) == ([], [])


def test_older_pages_go_on_where_the_last_one_ended(house: AccountPages, clock: factories.Clock) -> None:
    for n in range(60):
        if n % 3:
            clock.advance(seconds=1)  # some at the same moment
        deposit(house, 100 + n)
    first = look_live(house.owner).get(LEDGER).text
    [older] = re.findall(r'rel="next" href="([^"]+)"', first)
    second = house.owner.get(older.replace("&amp;", "&")).text
    amounts = re.findall(r"\+\$(\d+\.\d\d)", first) + re.findall(r"\+\$(\d+\.\d\d)", second)
    assert amounts == [f"{(100 + n) / 100:.2f}" for n in reversed(range(60))]
    assert_shows(second, "$1.00</td>")  # all that there was after the first of them
    assert_hides(look_live(house.stranger).get(older).text.partition("<tbody>")[2], "Credit added")


@pytest.mark.usefixtures("clean_database")
def test_what_is_held_is_what_the_moves_add_up_to(house: AccountPages, clock: factories.Clock) -> None:
    """It is worked out from sums that are kept; here it is added up."""
    for someone in factories.people(3):
        house.account.send(recipients=[someone])
    factories.run_jobs_for(house.parts, clock, seconds=3)
    house.account.send("giftcard")
    clock.advance(hours=2)
    factories.run_jobs_for(house.parts, clock, seconds=2)
    moves = house.rows(sa.select(ledger_moves).where(ledger_moves.c.account_id == house.account.id))
    held = sum(each.cents * ((each.target == "held") - (each.source == "held")) for each in moves)
    credit = house.value(sa.select(sa.func.sum(account_credit.c.cents)))
    own = Tenant(house.account.id, None, "test")
    with house.parts.db.transaction(own) as tx:
        sums = billing_queries.read_balance(tx, own)
    assert (sums.held, sums.credit) == (held, credit)
    assert sums.spent + sums.held == -sums.credit > 0


@pytest.mark.usefixtures("clean_database")
def test_prices_are_those_in_force_and_those_to_come(house: AccountPages) -> None:
    here = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US"}
    for changes, cents, valid_from in (
        ({}, 111, date(2026, 5, 4)), ({}, 127, date(2026, 7, 1)), ({"country": "CA"}, 175, date(2026, 1, 1)),
    ):  # fmt: skip
        house.execute(sa.insert(prices).values(**here | changes, unit_cents=cents, valid_from=valid_from))
    table, _, coming = house.member.get("/money/prices").text.partition("Coming changes")
    assert_shows(table, "$1.11", "$1.75", "not offered", hides=["$1.09", "$1.27"])
    assert_shows(coming, "$1.27", "1 July 2026")
