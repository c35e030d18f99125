"""How many recipients an order has, how many get a piece, and where those are: the same everywhere."""

import re
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.core.database.tables.base import accounts, items, orders
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
from support.factories import Account, Clock, make_live, make_operator, people, person, postcard, run_due_jobs
from support.factories import run_jobs_for as run_jobs
from support.orders import HOME
from support.pages import PrintRoomPages, page_text
from support.production import sweep_due_orders

AUSTIN = "78701"
GOOD = 6
EVERYONE, MAILED = GOOD + 7, GOOD + 2
TOO_LONG = person(name="Long", company="Endless " * 30, address="99 " + "Somewhere " * 24)
NOT_BILLED = ("scans", "multi_scans")


def make_list(account: Account, whom: list[dict[str, Any]], **how: Any) -> int:
    made = int(account.post("/mailing-lists", {"description": "People", **how}).json()["id"])
    added = account.post("/recipients-utils/create-multiple", [someone | {"mailing_list_id": made} for someone in whom])
    assert all("error" not in row for row in added.json()), added.text
    return made


def mixed(account: Account) -> dict[str, Any]:
    """A send to some who get it, and to one of every kind who does not."""
    never, had_it, twice = (
        person(name=name, address=f"{n} Main St") for n, name in ((70, "Barred"), (71, "Had it"), (72, "Twice"))
    )
    make_list(account, [never], is_suppression_list=True)
    account.send(recipients=[had_it], allow_duplicates=False, **HOME)
    mail_only = {"name": "Mail only", "email": "m@example.com"}
    listed = make_list(account, [*people(GOOD), never, had_it, twice, mail_only, TOO_LONG])
    inline = [twice, twice | {"address": "72 Main Street"}]
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
def test_a_mixed_order_has_the_same_counts_everywhere(print_room: PrintRoomPages, clock: Clock) -> None:
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
            run_due_jobs(house.parts)
        counts = of_api(account, order)
        assert (counts["recipient_count"], counts["total_estimated_recipients"]) == (EVERYONE, MAILED)
        assert counts["total_recipients"] == 0
        words = (f"{MAILED} pieces, {left_out} not mailed", f"{MAILED} {left_out} not mailed")
        assert on_pages(house, order, *words) == (MAILED, left_out)
    assert counts["not_mailed"] == {SAME_ADDRESS: 2, RECENTLY_MAILED: 1, SUPPRESSED: 1, NO_ADDRESS: 1}

    # One of the addresses does not fit: that is found out when it is drawn.
    run_jobs(house.parts, clock, seconds=60)
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
    run_due_jobs(print_room.parts)
    account.call("PUT", f"/orders/{order}/cancel")
    counts = of_api(account, order)
    assert (counts["recipient_count"], counts["total_recipients"]) == (EVERYONE, 0)
    assert (counts["not_mailed"].total(), counts["not_mailed"]["Order cancelled"]) == (EVERYONE, MAILED)
    assert on_pages(print_room, order, f"{EVERYONE} pieces not mailed") == (0, EVERYONE)


@pytest.mark.usefixtures("clean_database")
def test_the_print_room_counts_what_would_be_printed(print_room: PrintRoomPages, clock: Clock) -> None:
    house, live = print_room, make_live(print_room.parts, print_room.account)
    house.execute(sa.update(accounts).values(test_mode=False))
    order = int(live.post("/send/postcard", mixed(live)).json()["id"])
    run_due_jobs(house.parts)
    house.execute(sa.update(orders).where(orders.c.id == order).values(due_at=clock.now()))
    sweep_due_orders(house.parts, clock)
    house.look_at("live")
    assert f"to {MAILED} people" in house.words("/print-room/held")
    assert f"{MAILED} pieces for" in house.words(f"/print-room/held/{order}/release")
    runs = make_operator(house.parts, house.http, "live@example.com", mode="live")
    [held] = [each for each in runs.get("/print/held").json()["data"] if each["id"] == order]
    assert (held["pieces"], held["recipient_count"]) == (MAILED, EVERYONE)
    with house.parts.db.system_transaction() as tx:
        [kept] = [each for each in list_paused_orders(tx, "live", PageRequest()).rows if each.id == order]
    assert kept.pieces == MAILED


@pytest.mark.usefixtures("clean_database")
def test_what_is_lost_in_the_mail_was_mailed(print_room: PrintRoomPages, clock: Clock) -> None:
    account = print_room.account
    order = int(account.send(recipients=[person(name="Test Lost"), *people(2)]).json()["id"])
    run_jobs(print_room.parts, clock, seconds=60)
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
