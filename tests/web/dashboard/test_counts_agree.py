"""How many recipients an order has, how many get a piece, and why the others do not: the same everywhere."""

import re
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, items, orders
from quillpost.core.paging import PageRequest
from quillpost.fulfillment.review.service import list_paused_orders
from quillpost.recipients.addresses.rules import NO_ADDRESS
from quillpost.recipients.rules import RECENTLY_MAILED, SAME_ADDRESS, SUPPRESSED
from support.factories import (
    Account,
    Clock,
    make_live,
    make_operator,
    people,
    person,
    postcard,
    run_due_jobs,
    run_jobs_for,
)
from support.operator_pages import PrintRoomPages, page_text
from support.production import sweep_due_orders
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

HOME = {
    "return_name": "Dana", "return_address": "1 Elm St", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78702",
}  # fmt: skip
GOOD = 6
TOO_LONG = person(name="Long", company="Endless " * 30, address="99 " + "Somewhere " * 24)
NOT_BILLED = ("scans", "multi_scans")


@pytest.fixture
def house(container: Container, http: TestClient) -> PrintRoomPages:
    return PrintRoomPages(container, http)


def make_list(account: Account, whom: list[dict[str, Any]], **how: Any) -> int:
    made = int(account.post("/mailing-lists", {"description": "People", **how}).json()["id"])
    rows = [someone | {"mailing_list_id": made} for someone in whom]
    added = account.post("/recipients-utils/create-multiple", rows)
    assert all("error" not in row for row in added.json()), added.text
    return made


def mixed(account: Account) -> dict[str, Any]:
    """A send to some who get it, and to one of every kind who does not."""
    make_list(account, [person(name="Barred", address="70 Main St")], is_suppression_list=True)
    account.send(recipients=[person(name="Had it", address="71 Main St")], allow_duplicates=False, **HOME)
    listed = make_list(
        account,
        [
            *people(GOOD),
            person(name="Barred", address="70 Main St"),
            person(name="Had it", address="71 Main St"),
            person(name="Twice", address="72 Main St"),
            {"name": "Mail only", "email": "m@example.com"},
            TOO_LONG,
        ],
    )
    inline = [person(name="Twice", address="72 Main St"), person(name="Twice", address="72 Main Street")]
    return postcard(recipients=inline, mailing_list_ids=[listed], allow_duplicates=False, **HOME)


def of_api(account: Account, order_id: int) -> dict[str, Any]:
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


def on_pages(house: PrintRoomPages, order_id: int) -> dict[str, Any]:
    """What the sender's pages say: the number of pieces, and of those who are not mailed to."""
    page = house.owner.get(f"/orders/{order_id}").text
    [pieces] = re.findall(r"<dt>(?:<a [^>]*>)?Pieces(?:</a>)?</dt>\s*<dd>(?:<a [^>]*>)?([\d,]+)", page)
    left = re.findall(r"Not mailed: ([\d,]+)<", page)
    reasons = re.findall(r"<li>([\d,]+): ([^<]+)</li>", page)
    home = page_text(house.owner.get("/").text)
    listed = page_text(house.owner.get(f"/orders?q={order_id}").text)
    return {
        "pieces": int(pieces),
        "not_mailed": int(left[0]) if left else 0,
        "reasons": sum(int(n) for n, _ in reasons),
        "home": home,
        "list": listed,
    }


def test_a_mixed_order_has_the_same_counts_everywhere(house: PrintRoomPages, clock: Clock) -> None:
    account = house.account
    body = mixed(account)
    estimate = account.post("/estimate/postcard", body).json()["data"]
    everyone, mailed = GOOD + 7, GOOD + 2
    assert estimate["total_recipients"] == mailed
    left_out = estimate["suppressed"] + estimate["duplicates"] + estimate["undeliverable"]
    assert (estimate["suppressed"], estimate["duplicates"], estimate["undeliverable"]) == (1, 3, 1)
    assert estimate["total_recipients"] + left_out == everyone

    sent = account.post("/send/postcard", body).json()
    order = int(sent["id"])
    assert sent["total_estimated_recipients"] == mailed
    for made in (False, True):  # before its lists are pieces, and after
        if made:
            run_due_jobs(house.parts)
        api_counts = of_api(account, order)
        assert (api_counts["recipient_count"], api_counts["total_estimated_recipients"]) == (everyone, mailed)
        assert api_counts["total_recipients"] == 0
        shown = on_pages(house, order)
        assert (shown["pieces"], shown["not_mailed"], shown["reasons"]) == (mailed, left_out, left_out)
        assert f"{mailed} pieces, {left_out} not mailed" in shown["home"]
        assert f"{mailed} {left_out} not mailed" in shown["list"]
    assert api_counts["not_mailed"] == {SAME_ADDRESS: 2, RECENTLY_MAILED: 1, SUPPRESSED: 1, NO_ADDRESS: 1}

    # One of the addresses does not fit: that is found out when it is drawn.
    run_jobs_for(house.parts, clock, seconds=60)
    api_counts, shown = of_api(account, order), on_pages(house, order)
    mailed, left_out = mailed - 1, left_out + 1
    assert (api_counts["recipient_count"], api_counts["total_recipients"]) == (everyone, mailed)
    assert (api_counts["items"], api_counts["stats"], api_counts["errors"]) == (everyone, everyone, left_out)
    assert len(api_counts["not_mailed"]) == 5
    assert (shown["pieces"], shown["not_mailed"], shown["reasons"]) == (mailed, left_out, left_out)
    assert f"{mailed} pieces, {left_out} not mailed" in shown["home"]
    stats, usage = account.get("/orders/stats").json(), account.get("/account").json()["usage"]
    assert stats["total_sent"] == usage["pieces"] == mailed + 1  # and the one who had it before


def test_a_cancelled_order_mails_to_nobody_everywhere(house: PrintRoomPages) -> None:
    account = house.account
    order = int(account.post("/send/postcard", mixed(account)).json()["id"])
    everyone = GOOD + 7
    run_due_jobs(house.parts)
    account.call("PUT", f"/orders/{order}/cancel")
    api_counts, shown = of_api(account, order), on_pages(house, order)
    assert (api_counts["recipient_count"], api_counts["total_recipients"]) == (everyone, 0)
    assert (sum(api_counts["not_mailed"].values()), api_counts["not_mailed"]["Order cancelled"]) == (everyone, GOOD + 2)
    assert (shown["pieces"], shown["not_mailed"], shown["reasons"]) == (0, everyone, everyone)
    assert f"{everyone} pieces not mailed" in shown["home"]


def test_the_print_room_counts_what_would_be_printed(house: PrintRoomPages, clock: Clock) -> None:
    live = make_live(house.parts, house.account)
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).values(test_mode=False))
    order = int(live.post("/send/postcard", mixed(live)).json()["id"])
    run_due_jobs(house.parts)
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == order).values(due_at=clock.now()))
    sweep_due_orders(house.parts, clock)
    house.look_at("live")
    mailed = GOOD + 2
    assert f"to {mailed} people" in house.words("/print-room/held")
    assert f"{mailed} pieces for" in house.words(f"/print-room/held/{order}/release")
    runs = make_operator(house.parts, house.http, "live@example.com", mode="live")
    [held] = [each for each in runs.get("/print/held").json()["data"] if each["id"] == order]
    assert (held["pieces"], held["recipient_count"]) == (mailed, GOOD + 7)
    with house.parts.db.system_transaction() as tx:
        [kept] = [each for each in list_paused_orders(tx, "live", PageRequest()).rows if each.id == order]
    assert kept.pieces == mailed


def test_what_is_lost_in_the_mail_was_mailed(house: PrintRoomPages, clock: Clock) -> None:
    account = house.account
    order = int(account.send(recipients=[person(name="Test Lost"), *people(2)]).json()["id"])
    run_jobs_for(house.parts, clock, seconds=60)
    api_counts, shown = of_api(account, order), on_pages(house, order)
    assert (api_counts["recipient_count"], api_counts["total_recipients"]) == (3, 3)
    assert (api_counts["errors"], shown["pieces"], shown["not_mailed"]) == (1, 3, 0)
    assert account.get("/orders/stats").json()["total_sent"] == 3
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).where(items.c.is_mailed)).scalar_one() == 3
