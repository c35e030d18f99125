"""Money on pages: what there is, every move of it, and what things cost."""

import csv
import re
from datetime import date, timedelta
from io import StringIO
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing import queries as billing_queries
from quillpost.accounts.billing import service as billing_service
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import ledger_moves, prices
from quillpost.core.database.tables.orders import account_credit
from support.account_pages import AccountPages
from support.factories import Clock, make_live, run_jobs_for
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

HOME: dict[str, Any] = {
    "return_name": "Dana",
    "return_address": "1 Oak Ave",
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78701",
}
"""Live mail has a sender."""


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def deposit(house: AccountPages, cents: int, note: str | None = None) -> None:
    with house.parts.db.system_transaction() as tx:
        key = f"{cents} {note}"
        billing_service.deposit(tx, house.account.id, cents=cents, key=key, note=note, now=house.parts.clock())


def look_live(house: AccountPages) -> None:
    house.owner.post("/session/switch", mode="live", next="/money")


def figures(page: str) -> dict[str, str]:
    """By what they are called, the numbers at the head of the page."""
    found = re.findall(r"<dt>(?:<a [^>]*>)?([^<]+)(?:</a>)?</dt>\s*<dd>([^<]+)", page)
    return dict(found)


def lines(page: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r'class="told">(.*?)</td>', page, re.S)]


def test_what_there_is_and_what_was_spent(house: AccountPages, clock: Clock) -> None:
    live = make_live(house.parts, house.account)
    assert "No money has moved yet" in house.owner.get("/money/ledger").text
    deposit(house, 10_000, "Invoice 7")
    assert live.send(**HOME, sub_account_id=house.branch).status_code == 200
    look_live(house)
    page = house.owner.get("/money").text
    assert figures(page) == {
        "Credit": "$98.91", "Held": "$1.09", "Spent this month": "$0.00", "Spent in all": "$0.00",
    }  # fmt: skip
    assert "Invoice 7" in page
    clock.advance(days=30)
    limited = house.limited
    limited.post("/session/switch", mode="live", next="/money")
    alone = limited.get("/money").text
    assert figures(alone)["Held"] == "$1.09"
    assert "$98.91" not in alone
    assert "Invoice 7" not in alone
    assert "$98.91" not in house.stranger.get("/money").text
    assert "play money" in house.member.get("/money").text


def test_every_move_in_words_with_what_there_was_after_it(house: AccountPages, clock: Clock) -> None:
    live = make_live(house.parts, house.account)
    deposit(house, 10_000, "=1+1")
    clock.advance(days=2)
    order = live.send(**HOME).json()["id"]
    other = live.send(**HOME).json()["id"]
    assert live.put(f"/orders/{order}/cancel").status_code == 200
    house.account.send()  # as a test: in the other mode's books
    look_live(house)
    page = house.owner.get("/money/ledger").text
    assert lines(page) == [
        f"Given back from order {order}", f"Held for order {other}", f"Held for order {order}",
        "Credit added=1+1",
    ]  # fmt: skip
    after = re.findall(r'data-label="Credit after" class="amount">([^<]+)<', page)
    assert after == ["$98.91", "$97.82", "$98.91", "$100.00"]
    assert "+$1.09" in page
    assert "−$1.09" in page

    path = "/money/ledger?kind=authorise"
    assert len(lines(house.owner.get(path).text)) == 2
    assert "Credit after" not in house.owner.get(path).text
    assert len(lines(house.owner.get(f"/money/ledger?order={order}").text)) == 2
    day = clock.now().date()
    assert len(lines(house.owner.get(f"/money/ledger?since={day}").text)) == 3
    assert lines(house.owner.get(f"/money/ledger?until={day - timedelta(days=1)}").text) == ["Credit added=1+1"]
    assert "No money moved that fits" in house.owner.get("/money/ledger?kind=refund").text
    odd = house.owner.get("/money/ledger?since=yesterday&order=none&kind=nonsense")
    assert odd.status_code == 422
    assert 'id="since-fault"' in odd.text
    assert 'id="order-fault"' in odd.text

    entries = list(csv.DictReader(StringIO(house.owner.get("/money/ledger.csv").text)))
    assert [(row["kind"], row["amount"], row["credit_change"]) for row in entries] == [
        ("release", "1.09", "1.09"), ("authorise", "1.09", "-1.09"), ("authorise", "1.09", "-1.09"),
        ("deposit", "100.00", "100.00"),
    ]  # fmt: skip
    assert entries[-1]["note"] == "'=1+1"
    kept = list(csv.DictReader(StringIO(house.owner.get(f"/money/ledger.csv?order={order}").text)))
    assert len(kept) == 2
    assert list(csv.DictReader(StringIO(house.stranger.get("/money/ledger.csv").text))) == []
    assert lines(house.stranger.get(f"/money/ledger?order={order}").text) == []


def test_older_pages_go_on_where_the_last_one_ended(house: AccountPages, clock: Clock) -> None:
    for n in range(60):
        if n % 3:
            clock.advance(seconds=1)  # some at the same moment
        deposit(house, 100 + n)
    look_live(house)
    first = house.owner.get("/money/ledger").text
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = house.owner.get(older[1].replace("&amp;", "&")).text
    amounts = re.findall(r"\+\$(\d+\.\d\d)", first) + re.findall(r"\+\$(\d+\.\d\d)", second)
    assert amounts == [f"{(100 + n) / 100:.2f}" for n in reversed(range(60))]
    assert "$1.00</td>" in second  # all that there was after the first of them
    stranger = house.stranger
    stranger.post("/session/switch", mode="live", next="/money")
    assert "Credit added" not in stranger.get(older[1]).text.partition("<tbody>")[2]


def test_what_is_held_is_what_the_moves_add_up_to(house: AccountPages, clock: Clock) -> None:
    """It is worked out from sums that are kept; here it is added up."""
    for n in range(3):
        house.account.send(recipients=[{"name": "J", "address": f"{n} Main St", "city": "Austin",
                                        "province": "TX", "postal_code": "78701"}])  # fmt: skip
    run_jobs_for(house.parts, clock, seconds=3)
    house.account.send("giftcard")
    clock.advance(hours=2)
    run_jobs_for(house.parts, clock, seconds=2)
    whose = Tenant(house.account.id, None, "test")
    with house.parts.db.system_transaction() as tx:
        held = tx.execute(
            sa.select(
                sa.func.coalesce(
                    sa.func.sum(
                        sa.case(
                            (ledger_moves.c.target == "held", ledger_moves.c.cents),
                            (ledger_moves.c.source == "held", -ledger_moves.c.cents),
                            else_=0,
                        )
                    ),
                    0,
                )
            ).where(ledger_moves.c.account_id == house.account.id)
        ).scalar_one()
        has = tx.execute(sa.select(sa.func.sum(account_credit.c.cents))).scalar_one()
    with house.parts.db.transaction(whose) as tx:
        sums = billing_queries.read_balance(tx, whose)
    assert (sums.held, sums.credit) == (held, has)
    assert sums.spent + sums.held == -sums.credit > 0


def test_prices_are_those_in_force_and_those_to_come(house: AccountPages) -> None:
    now = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US"}
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.insert(prices).values(**now, unit_cents=111, valid_from=date(2026, 5, 4)))
        tx.execute(sa.insert(prices).values(**now, unit_cents=127, valid_from=date(2026, 7, 1)))
        tx.execute(sa.insert(prices).values(**now | {"country": "CA"}, unit_cents=175, valid_from=date(2026, 1, 1)))
    page = house.member.get("/money/prices").text
    table, _, coming = page.partition("Coming changes")
    assert "$1.11" in table
    assert "$1.09" not in table
    assert "$1.75" in table
    assert "$1.27" not in table
    assert "$1.27" in coming
    assert "1 July 2026" in coming
    assert "not offered" in table
