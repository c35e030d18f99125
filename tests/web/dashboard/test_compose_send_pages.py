"""The composer's audience, price and end: whom it goes to, what it costs, and the order that comes of it."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing.service import deposit
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import sessions
from quillpost.core.database.tables.base import accounts, orders
from quillpost.web.dashboard.compose import estimates, recipients
from quillpost.web.dashboard.compose.people import PastedPeople, draw_radius_map, parse_people
from quillpost.web.security import create_one_time_key
from support.account_pages import AccountPages
from support.browser_sessions import Browser
from support.factories import Build
from support.test_client import TestClient

LOOK: dict[str, Any] = {
    "piece": "postcard-4x6",
    "message": "Hi %FIRST_NAME%, thank you!",
    "style": "1",
    "realism": "on",
}
JANE = "Jane Doe, 12 Main St, Austin TX 78701"
BOB = "Bob Roe, Acme Inc, 400 Congress Ave, Austin, TX 78701"
BLOCKS = "Jane Doe\n12 Main St\nAustin, TX 78701\nUSA\n\nBob Roe\nPO Box 12345\nAustin, TX 78701"
TABS = "First name\tLast name\tAddress\tCity\tState\tZip\nJane\tDoe\t12 Main St\tAustin\tTX\t78701"
RADIUS: dict[str, Any] = {"radius_address": "1100 Congress Ave, Austin, TX 78701", "radius_count": "25"}


@pytest.fixture
def container(build: Build) -> Container:
    return build(credit_control=True)


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def pasted(text: str, **more: Any) -> dict[str, Any]:
    return {**LOOK, "audience": "people", "people": text, **more}


def all_orders(house: AccountPages) -> list[Any]:
    with house.parts.db.system_transaction() as tx:
        return list(tx.execute(sa.select(orders).order_by(orders.c.id)))


def goes_live(house: AccountPages, browser: Browser, *, cents: int = 0) -> None:
    home = {"return_address": "PO Box 1180", "return_city": "Austin", "return_state": "TX"}
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(sessions).values(mode="live"))
        tx.execute(sa.update(accounts).values(**home, return_postal_code="78701"))
        if cents:
            deposit(tx, house.account.id, cents=cents, key="x", note=None, now=house.parts.clock())
    browser._csrf = None


@pytest.mark.parametrize(
    ("text", "names", "lines"),
    [
        (f"{JANE}\n{BOB}", ["Jane Doe", "Bob Roe"], [1, 2]),
        (BLOCKS, ["Jane Doe", "Bob Roe"], [1, 6]),
        ("Name,Street,City,State,Zip\nJane Doe,12 Main St,Austin,TX,78701", ["Jane Doe"], [2]),
        (TABS, ["Jane Doe"], [2]),
        ("Jane Doe,12 Main St,Austin,TX,78701", ["Jane Doe"], [1]),
        (f"nobody\n{JANE}", ["Jane Doe"], [2]),
    ],
    ids=["lines", "blocks", "csv", "tabs", "csv without a header", "a line too many"],
)  # fmt: skip
def test_people_are_read_as_they_are_pasted(text: str, names: list[str], lines: list[int]) -> None:
    found = parse_people(text)
    assert ([row.get("name") for row in found.rows], list(found.lines)) == (names, lines)
    assert all(row.get("postal_code") or "78701" in str(row["address"]) for row in found.rows)


def test_a_send_is_one_order_however_often_its_form_is_sent(house: AccountPages) -> None:
    key = create_one_time_key()
    sent = house.owner.post("/compose/send", **pasted(f"{JANE}\n{BOB}", once=key), follow=False)
    [order] = all_orders(house)
    assert sent.headers["Location"] == f"/orders/{order.id}?said=composer_sent_test"
    assert (order.method, order.metadata, order.mode) == ("Card Builder", None, "test")
    answer = house.account.get(f"/orders/{order.id}/items").json()
    assert {item["recipient"]["name"] for item in answer["data"]} == {"Jane Doe", "Bob Roe"}
    again = house.owner.post("/compose/send", **pasted(f"{JANE}\n{BOB}", once=key))
    assert again.status_code == 409
    assert len(all_orders(house)) == 1


def test_errors_are_shown_beside_their_fields_and_nothing_is_sent(house: AccountPages) -> None:
    before = house.everything()
    lines = house.owner.post("/compose/send", **pasted(f"{JANE}\n\nno address here\n\nAnn, 5 Elm St, Nowhere"))
    assert lines.status_code == 422
    assert re.search(r'id="people-fault"[^>]*>Line 3: no street', lines.text)
    assert JANE in lines.text  # what was typed is still there
    unread = house.owner.post("/compose/send", **pasted(f"{JANE}\nAnn Poe, 5 Elm St, Nowhere, ZZ 99999"))
    assert "Line 2: " in unread.text
    one = house.owner.post("/compose/send", **LOOK, audience="person", to_name="Jane", to_address="12 Main St")
    assert 'id="to_city-fault"' in one.text
    assert 'id="to_postal_code-fault"' in one.text
    none = house.owner.post("/compose/send", **LOOK)
    assert "Choose who gets it." in none.text
    unlisted = house.owner.post("/compose/send", **LOOK, audience="lists")
    assert re.search(r'id="mailing_list_ids-fault"[^>]*>Tick at least one list', unlisted.text)
    late = house.owner.post("/compose/send", **pasted(JANE, when="later", send_on="soon"))
    assert 'id="send_on-fault"' in late.text
    blank = house.owner.post("/compose/send", **pasted(JANE) | {"message": " "})
    assert blank.status_code == 422
    assert house.everything() == before


def test_people_that_cannot_be_mailed_are_listed_by_line(house: AccountPages) -> None:
    text = f"{JANE}\nBob, 1 Nowhere, XX\nname;street\n{BOB}"
    for path in ("/compose/send", "/compose/people"):
        page = house.owner.post(path, **pasted(text)).text
        assert re.findall(r'class="fault"[^>]*>Line (\d+)', page) == ["2", "3"], path
    mended = house.owner.post("/compose/people", **pasted(f"{JANE}\n{BOB}")).text
    assert ("fault" in mended, "2 people" in mended) == (False, True)
    blocks = parse_people("Jane Doe, 12 Main St\nAustin, TX 78701\nAnn Poe\n5 Elm St\nNowhere")
    assert (len(blocks.rows), blocks.lines) == (2, [1, 3])


def test_what_is_pasted_is_read_once_and_not_far_beyond_what_may_be(
    house: AccountPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def noted(text: str, *, limit: int) -> PastedPeople:
        found = parse_people(text, limit=limit)
        read.append(len(found.rows) + len(found.errors))
        return found

    monkeypatch.setattr(recipients, "parse_people", noted)
    most = house.parts.limits.inline_recipients
    unclosed, too_many = 'name,address\n"' + "x\n" * 80_000, "name,address\n" + "Jo,5 Elm St\n" * 20_000
    for path, text, expected in (
        ("/compose/price", unclosed, "is not closed"),
        ("/compose/people", too_many, f"more than {most:,} people"),
        ("/compose/send", too_many, f"more than {most:,} people"),
    ):
        read.clear()
        page = house.owner.post(path, **pasted(text)).text
        assert (read, expected in page) == ([most + 1], True), path


def test_what_is_out_of_sight_stops_nobody(house: AccountPages) -> None:
    """A browser would refuse the form for a field that it cannot show: the service answers by field."""
    [form] = re.findall(r'<form id="composer"[^>]*>', house.owner.get("/compose").text)
    assert "novalidate" in form
    hidden = {
        "when": "now",
        "send_on": "2001-01-01T10:00",
        "image": "none",
        "front_image_url": "not a link",
        "pdf_url": "neither",
    }
    assert house.owner.post("/compose/send", **pasted(JANE, **hidden), follow=False).status_code == 303
    past = house.owner.post("/compose/send", **pasted(BOB, **hidden | {"when": "later"}))
    assert 'id="send_on-fault"' in past.text


def test_a_missing_return_address_is_requested_at_its_field(house: AccountPages) -> None:
    goes_live(house, house.owner)
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).values(return_address=None))
    page = house.owner.post("/compose/send", **pasted(JANE, returns="own")).text
    assert re.search(r'id="returns-fault"[^>]*>Live mail needs a return address', page)
    assert re.search(r'id="returns-other"[^>]* checked', page)
    assert 'id="return_address-fault"' not in page
    half = house.owner.post("/compose/send", **pasted(JANE, returns="other", return_address="PO Box 1180")).text
    assert 'id="return_city-fault"' in half


def test_the_price_is_that_of_an_estimate(house: AccountPages) -> None:
    rows = [{"name": "Jane Doe", "address": "12 Main St, Austin TX 78701"}] * 2
    body = {"recipients": rows, "message": LOOK["message"]}
    data = house.account.post("/estimate/postcard", body).json()["data"]
    shown = house.owner.post("/compose/price", **pasted(f"{JANE}\n{JANE}"), headers={"HX-Request": "true"}).text
    cents = data["authorization_total"]
    assert f"${cents // 100}.{cents % 100:02d}" in shown
    assert (data["duplicates"], "1 twice or just mailed to" in shown) == (1, True)
    [asks] = re.findall(r'hx-trigger="(change from[^"]*)"', shown)
    assert {"input from:#people delay:900ms", "input from:#message delay:900ms"} < set(asks.split(", "))
    unfinished = house.owner.post("/compose/price", **pasted(JANE) | {"message": ""})
    assert "1 piece at" in unfinished.text
    nobody = house.owner.post("/compose/price", **LOOK)
    assert "for each piece" in nobody.text
    assert "Choose who gets it." in nobody.text


def test_lists_are_found_by_name_and_only_ones_own(house: AccountPages) -> None:
    own = {name: house.account.post("/mailing-lists", {"description": name}).json() for name in ("Spring", "Autumn")}
    suppression_list = house.account.post(
        "/mailing-lists", {"description": "Spring no", "is_suppression_list": True}
    ).json()
    theirs = house.others.post("/mailing-lists", {"description": "Spring of others"}).json()
    person = {"mailing_list_id": own["Spring"]["id"], "name": "Jane Doe", "address": "12 Main St, Austin TX 78701"}
    assert house.account.post("/recipients", person).status_code in (200, 201)
    shown = house.owner.post("/compose/lists", list_search="spr", mailing_list_ids=str(own["Autumn"]["id"])).text
    ids = re.findall(r'name="mailing_list_ids" value="(\d+)"', shown)
    assert ids == [str(own[name]["id"]) for name in ("Autumn", "Spring")]  # what is ticked stays
    assert str(suppression_list["id"]) not in ids
    assert house.limited.post("/compose/lists", list_search="spring").text.count('value="') == 0
    listed = {**LOOK, "audience": "lists", "mailing_list_ids": str(own["Spring"]["id"])}
    assert "1 piece at" in house.owner.post("/compose/price", **listed).text
    before = house.everything()
    foreign = house.owner.post("/compose/send", **listed | {"mailing_list_ids": str(theirs["id"])})
    assert foreign.status_code == 422
    assert house.everything() == before
    assert house.owner.post("/compose/send", **listed, follow=False).status_code == 303


def test_a_radius_search_is_counted_and_drawn(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = house.owner.post("/compose/radius", **LOOK, **RADIUS, audience="radius").text
    assert "25 addresses</strong> found, for <strong>$1.25" in shown
    assert "they are made up" in shown
    [dots] = re.findall(r'class="dots" d="([^"]+)"', shown)
    assert 20 <= dots.count("M") <= 25  # some may lie on the same spot
    assert "miles" in shown
    wrong = house.owner.post("/compose/radius", **RADIUS | {"radius_count": "many"}).text
    assert "Give a number" in wrong
    sent = house.owner.post("/compose/send", **LOOK, **RADIUS, audience="radius", follow=False)
    [order] = all_orders(house)
    assert (sent.status_code, order.leads_fee) == (303, 125)
    for where in (estimates, recipients):
        monkeypatch.setattr(where, "LEAD_CENTS", 7)
    again = house.owner.post("/compose", **LOOK, **RADIUS, audience="radius", find="price").text
    assert ("1 to 10,000, $0.07 each" in again, "Addresses, $0.07 each" in again) == (True, True)


def test_north_is_up_and_the_ring_is_as_far_as_the_farthest() -> None:
    found = draw_radius_map((30.0, -97.0), [(30.01, -97.0), (30.0, -96.995), None])
    assert found is not None
    assert found.miles == pytest.approx(0.69)
    points = [tuple(map(int, each.split())) for each in found.dots.replace("h0", "").split("M")[1:]]
    assert (300, 40) in points
    assert any(x > 400 and y == 300 for x, y in points)
    assert found.bar / found.scale == pytest.approx(found.ring / found.miles, rel=0.01)
    assert draw_radius_map((30.0, -97.0), [None]) is None


def test_a_day_is_that_of_the_readers_clock(house: AccountPages) -> None:
    house.owner.client.cookies.set("quillpost_zone", "America/Chicago")
    when = {"when": "later", "send_on": "2026-06-01T09:30"}
    sent = house.owner.post("/compose/send", **pasted(JANE, **when), follow=False)
    assert "said=composer_scheduled_test" in sent.headers["Location"]
    assert all_orders(house)[0].due_at == datetime(2026, 6, 1, 14, 30, tzinfo=UTC)


def test_live_mail_is_confirmed_with_its_number_of_pieces(house: AccountPages) -> None:
    goes_live(house, house.owner, cents=10_000)
    key = create_one_time_key()
    response = house.owner.post("/compose/send", **pasted(f"{JANE}\n{BOB}", once=key))
    assert "2 real pieces" in response.text
    assert all_orders(house) == []
    [agreed] = re.findall(r'name="agreed" value="([^"]+)"', response.text)
    assert re.search(r'name="people" value="[^"]*Bob Roe', response.text)
    other = house.owner.post("/compose/send", **pasted(JANE, once=key, agreed=agreed))
    assert "1 real piece" in other.text  # what was agreed to was something else
    assert all_orders(house) == []
    sent = house.owner.post("/compose/send", **pasted(f"{JANE}\n{BOB}", once=key, agreed=agreed), follow=False)
    [order] = all_orders(house)
    assert (sent.status_code, order.mode) == (303, "live")
    assert "said=composer_sent_live" in sent.headers["Location"]


def test_without_credit_the_page_says_how_to_add_some(house: AccountPages) -> None:
    goes_live(house, house.owner)
    response = house.owner.post("/compose/send", **pasted(JANE))
    assert "does not cover" in response.text or "real piece" in response.text
    [agreed] = re.findall(r'name="agreed" value="([^"]+)"', response.text)
    refused = house.owner.post("/compose/send", **pasted(JANE, agreed=agreed))
    assert refused.status_code == 402
    assert "Credit is added under Money." in refused.text
    assert all_orders(house) == []
