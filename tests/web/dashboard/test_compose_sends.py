"""The composer's audience, price and end: whom it goes to, what it costs, when, and the order that comes of it."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing.service import deposit
from quillpost.core.database.tables.accounts import sessions
from quillpost.core.database.tables.base import accounts, orders
from quillpost.orders.rules import ItemStatus
from quillpost.web.application import create_app
from quillpost.web.dashboard.compose import estimates, recipients
from quillpost.web.dashboard.compose.people import PastedPeople, draw_radius_map, parse_people
from quillpost.web.security import ZONE_COOKIE, create_one_time_key
from support.factories import Build, person
from support.giftcard_orders import move_items
from support.orders import item_ids
from support.pages import ADDRESS, OWNER, AccountPages, WrongForm, assert_shows, form_errors
from support.test_client import TestClient

LOOK: dict[str, Any] = {
    "piece": "postcard-4x6", "message": "Hi %FIRST_NAME%, thank you!", "style": "1", "manner": "natural",
}  # fmt: skip
SEND, PRICE = "/compose/send", "/compose/price"
JANE = "Jane Doe, 12 Main St, Austin TX 78701"
BOB = "Bob Roe, Acme Inc, 400 Congress Ave, Austin, TX 78701"
BLOCKS = "Jane Doe\n12 Main St\nAustin, TX 78701\nUSA\n\nBob Roe\nPO Box 12345\nAustin, TX 78701"
TABS = "First name\tLast name\tAddress\tCity\tState\tZip\nJane\tDoe\t12 Main St\tAustin\tTX\t78701"
RADIUS: dict[str, Any] = {"radius_address": "1100 Congress Ave, Austin, TX 78701", "radius_count": "25"}


def pasted(text: str, **more: Any) -> dict[str, Any]:
    return {**LOOK, "audience": "people", "people": text, **more}


def all_orders(house: AccountPages) -> list[Any]:
    return house.rows(sa.select(orders).where(orders.c.account_id == house.account.id).order_by(orders.c.id))


def go_live(house: AccountPages, *, cents: int = 0, **home: Any) -> None:
    house.execute(
        sa.update(sessions).where(sessions.c.person_id == house.person(OWNER)).values(mode="live"),
        sa.update(accounts).where(accounts.c.id == house.account.id).values(**ADDRESS | home),
    )
    if cents:
        with house.parts.db.system_transaction() as tx:
            deposit(tx, house.account.id, cents=cents, key="x", note=None, now=house.parts.clock())
    house.owner._csrf = None


PASTED = (
    (f"{JANE}\n{BOB}", ["Jane Doe", "Bob Roe"], [1, 2]),
    (BLOCKS, ["Jane Doe", "Bob Roe"], [1, 6]),
    ("Name,Street,City,State,Zip\nJane Doe,12 Main St,Austin,TX,78701", ["Jane Doe"], [2]),
    (TABS, ["Jane Doe"], [2]),
    ("Jane Doe,12 Main St,Austin,TX,78701", ["Jane Doe"], [1]),
    (f"nobody\n{JANE}", ["Jane Doe"], [2]),
)


def test_people_are_read_as_they_are_pasted() -> None:
    for text, names, lines in PASTED:
        found = parse_people(text)
        assert ([row.get("name") for row in found.rows], list(found.lines)) == (names, lines)
        assert all(row.get("postal_code") or "78701" in str(row["address"]) for row in found.rows)
    blocks = parse_people("Jane Doe, 12 Main St\nAustin, TX 78701\nAnn Poe\n5 Elm St\nNowhere")
    assert (len(blocks.rows), blocks.lines) == (2, [1, 3])


def test_a_send_is_one_order_however_often_its_form_is_sent(house: AccountPages) -> None:
    # A browser would refuse the form for a field that it cannot show: the service answers by field.
    [form] = re.findall(r'<form id="composer"[^>]*>', house.owner.get("/compose").text)
    assert "novalidate" in form
    hidden = {"when": "now", "send_on": "2001-01-01T10:00", "image": "none", "front_image_url": "not a link",
              "pdf_url": "neither", "once": create_one_time_key()}  # fmt: skip
    sent = house.owner.post(SEND, **pasted(f"{JANE}\n{BOB}", **hidden), follow=False)
    [order] = all_orders(house)
    assert sent.headers["Location"] == f"/orders/{order.id}?said=composer_sent_test"
    assert (order.method, order.metadata, order.mode) == ("Card Builder", None, "test")
    answer = house.account.get(f"/orders/{order.id}/items").json()
    assert {item["recipient"]["name"] for item in answer["data"]} == {"Jane Doe", "Bob Roe"}
    assert house.owner.post(SEND, **pasted(f"{JANE}\n{BOB}", **hidden)).status_code == 409
    assert len(all_orders(house)) == 1


WRONG: list[WrongForm] = [
    ({"people": f"{JANE}\n\nno address here\n\nAnn, 5 Elm St, Nowhere"}, "people", "Line 3: no street"),
    ({"people": f"{JANE}\nAnn Poe, 5 Elm St, Nowhere, ZZ 99999"}, "people", "Line 2: "),
    ({"audience": "person", "to_name": "Jane", "to_address": "12 Main St"}, "to_city", ""),
    ({"audience": "person", "to_name": "Jane", "to_address": "12 Main St"}, "to_postal_code", ""),
    ({"audience": None}, "audience", "Choose who gets it."),
    ({"audience": "lists"}, "mailing_list_ids", "Tick at least one list"),
    ({"when": "later", "send_on": "soon"}, "send_on", ""),
    ({"when": "later", "send_on": "2001-01-01T10:00"}, "send_on", ""),
]


def test_errors_are_beside_their_fields_and_nothing_is_sent(house: AccountPages, subtests: pytest.Subtests) -> None:
    house.refuses_forms(subtests, SEND, pasted(JANE), WRONG)
    assert_shows(house.owner.post(SEND, **pasted(f"{JANE}\n\nno address here")), JANE)  # what was typed is still there
    assert house.owner.post(SEND, **pasted(JANE) | {"message": " "}).status_code == 422
    for path in (SEND, "/compose/people"):
        page = house.owner.post(path, **pasted(f"{JANE}\nBob, 1 Nowhere, XX\nname;street\n{BOB}"))
        assert re.findall(r'class="fault"[^>]*>Line (\d+)', page.text) == ["2", "3"], path
    assert_shows(house.owner.post("/compose/people", **pasted(f"{JANE}\n{BOB}")), "2 people", hides=["fault"])


def test_what_is_pasted_is_read_once_and_not_too_far(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def noted(text: str, *, limit: int) -> PastedPeople:
        found = parse_people(text, limit=limit)
        read.append(len(found.rows) + len(found.errors))
        return found

    monkeypatch.setattr(recipients, "parse_people", noted)
    most = house.parts.limits.inline_recipients
    unclosed, too_many = 'name,address\n"' + "x\n" * 80_000, "name,address\n" + "Jo,5 Elm St\n" * 20_000
    for path, text, expected in (
        (PRICE, unclosed, "is not closed"), ("/compose/people", too_many, f"more than {most:,} people"),
        (SEND, too_many, f"more than {most:,} people"),
    ):  # fmt: skip
        read.clear()
        assert_shows(house.owner.post(path, **pasted(text)), expected)
        assert read == [most + 1], path


def test_a_missing_return_address_is_requested_at_its_field(house: AccountPages) -> None:
    go_live(house, return_address=None)
    page = house.owner.post(SEND, **pasted(JANE, returns="own"))
    assert form_errors(page)["returns"].startswith("Live mail needs a return address")
    assert re.search(r'id="returns-other"[^>]* checked', page.text)
    assert "return_address" not in form_errors(page)
    half = house.owner.post(SEND, **pasted(JANE, returns="other", return_address="PO Box 1180"))
    assert "return_city" in form_errors(half)


def test_the_price_is_that_of_an_estimate(house: AccountPages) -> None:
    rows = [{"name": "Jane Doe", "address": "12 Main St, Austin TX 78701"}] * 2
    data = house.account.post("/estimate/postcard", {"recipients": rows, "message": LOOK["message"]}).json()["data"]
    shown = house.owner.post(PRICE, **pasted(f"{JANE}\n{JANE}"), headers={"HX-Request": "true"})
    assert data["duplicates"] == 1
    assert_shows(shown, f"${data['authorization_total'] / 100:.2f}", "1 twice or just mailed to")
    [asks] = re.findall(r'hx-trigger="(again, change from[^"]*)"', shown.text)
    assert {"input from:#people delay:900ms", "input from:#message delay:900ms"} < set(asks.split(", "))
    assert_shows(house.owner.post(PRICE, **pasted(JANE) | {"message": ""}), "1 piece at")  # unfinished
    assert_shows(house.owner.post(PRICE, **LOOK), "for each piece", "Choose who gets it.")


def test_lists_are_found_by_name_and_only_ones_own(house: AccountPages) -> None:
    def make(name: str, by: Any = house.account, **fields: Any) -> int:
        return int(by.post("/mailing-lists", {"description": name, **fields}).json()["id"])

    spring, autumn, _ = make("Spring"), make("Autumn"), make("Spring no", is_suppression_list=True)
    theirs = make("Spring of others", house.others)
    jane = {"mailing_list_id": spring, "name": "Jane Doe", "address": "12 Main St, Austin TX 78701"}
    assert house.account.post("/recipients", jane).status_code == 201
    shown = house.owner.post("/compose/lists", list_search="spr", mailing_list_ids=str(autumn)).text
    # What is ticked stays.
    assert re.findall(r'name="mailing_list_ids" value="(\d+)"', shown) == [str(autumn), str(spring)]
    assert house.limited.post("/compose/lists", list_search="spring").text.count('value="') == 0
    listed = {**LOOK, "audience": "lists", "mailing_list_ids": str(spring)}
    assert_shows(house.owner.post(PRICE, **listed), "1 piece at")
    with house.unchanged():
        assert house.owner.post(SEND, **listed | {"mailing_list_ids": str(theirs)}).status_code == 422
    assert house.owner.post(SEND, **listed, follow=False).status_code == 303


def test_a_radius_search_is_counted_and_drawn(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = house.owner.post("/compose/radius", **LOOK, **RADIUS, audience="radius")
    assert_shows(shown, "25 addresses</strong> found, for <strong>$1.25", "they are made up", "miles")
    [dots] = re.findall(r'class="dots" d="([^"]+)"', shown.text)
    assert 20 <= dots.count("M") <= 25  # some may lie on the same spot
    assert_shows(house.owner.post("/compose/radius", **RADIUS | {"radius_count": "many"}), "Give a number")
    sent = house.owner.post(SEND, **LOOK, **RADIUS, audience="radius", follow=False)
    [order] = all_orders(house)
    assert (sent.status_code, order.leads_fee) == (303, 125)
    for where in (estimates, recipients):
        monkeypatch.setattr(where, "LEAD_CENTS", 7)
    again = house.owner.post("/compose", **LOOK, **RADIUS, audience="radius", find="price")
    assert_shows(again, "1 to 10,000, $0.07 each", "Addresses, $0.07 each")


def test_north_is_up_and_the_ring_is_as_far_as_the_farthest() -> None:
    found = draw_radius_map((30.0, -97.0), [(30.01, -97.0), (30.0, -96.995), None])
    assert found is not None
    assert found.miles == pytest.approx(0.69)
    points = [tuple(map(int, each.split())) for each in found.dots.replace("h0", "").split("M")[1:]]
    assert (300, 40) in points
    assert any(x > 400 and y == 300 for x, y in points)
    assert found.bar / found.scale == pytest.approx(found.ring / found.miles, rel=0.01)
    assert draw_radius_map((30.0, -97.0), [None]) is None


@pytest.mark.parametrize("cents", [10_000, 0])
def test_live_mail_is_confirmed_with_its_number_of_pieces_and_needs_credit(build: Build, cents: int) -> None:
    container = build(credit_control=True)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        house = AccountPages(container, http)
        go_live(house, cents=cents)
        key = create_one_time_key()
        response = house.owner.post(SEND, **pasted(f"{JANE}\n{BOB}", once=key))
        assert_shows(response, "2 real pieces")
        [agreed] = re.findall(r'name="agreed" value="([^"]+)"', response.text)
        assert re.search(r'name="people" value="[^"]*Bob Roe', response.text)
        other = house.owner.post(SEND, **pasted(JANE, once=key, agreed=agreed))
        assert_shows(other, "1 real piece")  # what was agreed to was something else
        assert all_orders(house) == []
        sent = house.owner.post(SEND, **pasted(f"{JANE}\n{BOB}", once=key, agreed=agreed), follow=False)
        if cents:
            [order] = all_orders(house)
            assert (sent.status_code, order.mode) == (303, "live")
            assert "said=composer_sent_live" in sent.headers["Location"]
        else:
            assert (sent.status_code, all_orders(house)) == (402, [])
            assert_shows(sent, "Credit is added under Money.")


LATER: dict[str, Any] = {"when": "later", "send_on": "2026-06-01T10:00"}
IN_UTC, IN_CHICAGO = (datetime(2026, 6, 1, hour, tzinfo=UTC) for hour in (10, 15))


def zone_on(page: Any) -> tuple[str, str]:
    """The zone that goes along with the form, and the one that its words name."""
    [field] = re.findall(r'<input type="hidden" name="zone" value="([^"]*)"', page.text)
    return field, re.findall(r"<span data-zone-words>([^<]*)</span>", page.text)[0]


@pytest.mark.parametrize("form", ["/compose", "/orders/{}/change", "/orders/{}/again"])
def test_what_is_typed_as_a_time_is_in_the_zone_that_the_page_names(house: AccountPages, form: str) -> None:
    path, to, typed = form, SEND, pasted(JANE, allow_duplicates="on")
    if form != "/compose":
        order = int(house.account.send(recipients=[person()]).json()["id"])
        if form.endswith("again"):
            move_items(house.parts, item_ids(house.parts, order), ItemStatus.PRINTED)
        path = to = form.format(order)
        [agreed] = re.findall(r'name="agreed" value="([^"]*)"', house.owner.get(path).text) or [""]
        typed = {"message": "Hello again", "repeats": "on", "agreed": agreed}
    with house.unchanged():
        odd = house.owner.post(to, **typed, **LATER, zone="Mars/Olympus")
    assert form_errors(odd)["send_on"].startswith("Your browser's time zone is not known here")
    assert zone_on(odd) == ("UTC", "UTC")
    # What a script has put into the form counts without any cookie.
    for send_on, zone, cookie, expected in (
        ("2026-06-01T10:00", "America/Chicago", None, IN_CHICAGO),
        ("soon", "UTC", "America/Chicago", None),
        ("2026-06-01T10:00", "UTC", "America/Chicago", IN_UTC),
        ("2026-06-01T10:00", None, "America/Chicago", IN_CHICAGO),
    ):
        page = house.owner.get(path)
        if "again" in form and "agreed" in page.text:
            typed["agreed"] = re.findall(r'name="agreed" value="([^"]*)"', page.text)[0]
        if cookie:
            house.owner.client.cookies.set(ZONE_COOKIE, cookie)
        sent = house.owner.post(to, **typed, **LATER | {"send_on": send_on}, zone=zone, follow=False)
        if expected is None:
            assert (sent.status_code, zone_on(sent)) == (422, ("UTC", "UTC"))
        else:
            assert (sent.status_code, all_orders(house)[-1].schedule_for) == (303, expected), sent.text
    assert zone_on(house.owner.get("/compose")) == ("America/Chicago", "Chicago time (CDT)")
    if form == "/compose":
        assert "said=composer_scheduled_test" in sent.headers["Location"]
