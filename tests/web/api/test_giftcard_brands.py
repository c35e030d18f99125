"""The catalogue of gift cards: what everybody may send, and what operators make of it."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.app.runtime import upgrade_database
from quillpost.orders.giftcards.rules import BRAND_GROUPS
from support.factories import Account, Clock, make_operator, make_sub_account, make_teammate, people, run_jobs_for
from support.test_client import TestClient
from support.traces import assert_refused

pytestmark = pytest.mark.usefixtures("changing_brands")

NEW: dict[str, Any] = {"title": "River Café", "group": "food", "available_amounts": [500, 1_500], "color": "#AA3311"}
PATH, BRINDLEWICK = "/giftcard-brands/river-cafe", "/giftcard-brands/brindlewick"


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http, mode="live")


def flat(account: Account) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.get("/giftcard-brands-list").json()["brands"]
    return found


def test_brands_are_shown_in_their_groups_and_in_one_list(owner: Account, container: Container) -> None:
    """`test_resource_tables.py` in `spec` compares the two."""
    assert {name: group["title"] for name, group in owner.get("/giftcard-brands").json().items()} == BRAND_GROUPS
    teammate = make_teammate(container, owner, make_sub_account(container, owner))
    assert flat(owner) == flat(teammate) == owner.get("/giftcard-brands/flat").json()["brands"]
    assert flat(owner)[1] == {
        "brand_code": "brindlewick", "title": "Brindlewick Coffee",
        "image": "http://quillpost.test/giftcards/brindlewick.png",
        "available_amounts": [500, 1_000, 1_500, 2_500, 5_000], "group": "Favorites",
    }  # fmt: skip


def test_an_operator_makes_and_changes_a_brand_that_can_be_sent(owner: Account, operator: Account) -> None:
    gift = {"giftcard_brand": "river-cafe", "giftcard_amount": 1_500}
    assert owner.send("giftcard", **gift).status_code == 422
    made = operator.put(PATH, NEW | {"issuer_code": "RC-1"})
    image = "http://quillpost.test/giftcards/river-cafe.png"
    shown = {"brand_code": "river-cafe", "title": "River Café", "image": image, "available_amounts": [500, 1_500]}
    more = {"group": "food", "color": "#aa3311", "issuer_code": "RC-1", "offered": True}
    assert (made.status_code, made.json()) == (200, shown | more)
    assert owner.get("/giftcard-brands").json()["food"]["brands"][-1] == shown
    assert owner.send("giftcard", **gift).json()["giftcard_brand_longname"] == "River Café"
    places = [brand["brand_code"] for brand in flat(operator)]
    changed = operator.put(PATH, {"available_amounts": ["700", 900]}).json()
    assert changed == made.json() | {"available_amounts": [700, 900]}
    renamed = operator.put(PATH, {"title": "Café", "issuer_code": None}).json()
    assert renamed == changed | {"title": "Café", "issuer_code": None}
    assert [brand["brand_code"] for brand in flat(operator)] == places


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"title": " "}, "title", "on one line"), ({"title": "Two\nlines"}, "title", "on one line"),
    ({"title": "x" * 61}, "title", "At most 60 characters"), ({"title": None}, "title", "cannot be null"),
    ({"group": "food and drink"}, "group", "main"), ({"available_amounts": []}, "available_amounts", "at least 1"),
    ({"available_amounts": [0]}, "available_amounts.0", "greater than or equal to 1"),
    ({"available_amounts": [1_000_001]}, "available_amounts.0", "less than or equal to 1000000"),
    ({"available_amounts": [12.5]}, "available_amounts.0", "integer"),
    ({"available_amounts": [500, 500]}, "available_amounts", "each amount once"),
    ({"available_amounts": [900, 500]}, "available_amounts", "smallest first"),
    ({"color": "brown"}, "color", "#rrggbb"), ({"issuer_code": "a\tb"}, "issuer_code", "on one line"),
]  # fmt: skip
NO_CODES = "River", "-river", "river%20cafe", "x" * 65, "caf%C3%A9", "a%00b"


def test_a_wrong_value_is_named(subtests: pytest.Subtests, operator: Account, container: Container) -> None:
    assert_refused(subtests, container, lambda changes: operator.put(PATH, NEW | changes), WRONG)
    assert_refused(subtests, container, lambda changes: operator.put(BRINDLEWICK, NEW | changes), WRONG)
    codes = [(code, "brand_code") for code in NO_CODES]
    assert_refused(subtests, container, lambda code: operator.put(f"/giftcard-brands/{code}", NEW), codes)
    assert {operator.delete(f"/giftcard-brands/{code}").status_code for code in NO_CODES} == {404}
    assert list(operator.put(PATH, {"color": "#112233"}).json()["errors"]) == ["available_amounts", "group", "title"]


def test_a_brand_that_is_taken_off_can_come_back_and_live_tokens_alone_do_either(
    owner: Account, operator: Account, container: Container, http: TestClient
) -> None:
    before = flat(owner)
    tester = make_operator(container, http, "t@example.com", mode="test")
    assert [tester.put(PATH, NEW).status_code, tester.delete(BRINDLEWICK).status_code] == [403, 403]
    for _ in range(2):
        assert operator.delete(BRINDLEWICK).json() == {"message": "success"}
    assert flat(owner) == [brand for brand in before if brand["brand_code"] != "brindlewick"]
    refused = owner.send("giftcard")
    assert "brindlewick" not in refused.json()["errors"]["giftcard_brand"][0].partition("Choose")[2]
    assert operator.put(BRINDLEWICK, {}).json()["offered"] is True
    assert flat(owner) == before


def test_what_was_sent_goes_on_as_it_was(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    sent = owner.send("giftcard", recipients=people(2)).json()
    operator.put(BRINDLEWICK, {"title": "Other", "available_amounts": [100]})
    operator.delete(BRINDLEWICK)
    before = flat(owner)
    upgrade_database(container.db.conninfo)  # leaves an operator's brands alone
    assert flat(owner) == before
    run_jobs_for(container, clock, seconds=45)
    order = owner.get(f"/orders/{sent['id']}").json()
    assert (order["status"], order["grand_total"]) == ("Fulfilled", sent["authorization_total"])
    cards = [item["giftcard"] for item in owner.get(f"/orders/{sent['id']}/items").json()["data"]]
    assert cards == [{"brand": "brindlewick", "amount": 2_500}] * 2
