"""Money on pages: what there is, every move of it, and what things cost."""

import csv
import re
from datetime import date, timedelta
from io import StringIO

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.billing import queries as billing_queries
from quillpost.accounts.billing import service as billing_service
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import ledger_moves, prices
from quillpost.core.database.tables.orders import account_credit
from support.factories import Clock, make_live, people, run_jobs_for
from support.orders import HOME
from support.pages import AccountPages, assert_hides, assert_shows, form_errors
from support.sign_in import Browser

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


def test_what_there_is_and_what_was_spent(house: AccountPages, clock: Clock) -> None:
    live = make_live(house.parts, house.account)
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


def test_every_move_in_words_with_what_there_was_after_it(house: AccountPages, clock: Clock) -> None:
    live = make_live(house.parts, house.account)
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


def test_older_pages_go_on_where_the_last_one_ended(house: AccountPages, clock: Clock) -> None:
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
def test_what_is_held_is_what_the_moves_add_up_to(house: AccountPages, clock: Clock) -> None:
    """It is worked out from sums that are kept; here it is added up."""
    for someone in people(3):
        house.account.send(recipients=[someone])
    run_jobs_for(house.parts, clock, seconds=3)
    house.account.send("giftcard")
    clock.advance(hours=2)
    run_jobs_for(house.parts, clock, seconds=2)
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
    assert_shows(table, "$1.11", "$1.75", "not offered")
    assert_hides(table, "$1.09", "$1.27")
    assert_shows(coming, "$1.27", "1 July 2026")
