"""The catalogue of gift cards: what everybody may send, and what operators make of it."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.app.runtime import upgrade_database
from quillpost.orders.giftcards.rules import BRAND_GROUPS
from support.factories import (
    Account,
    Clock,
    make_account,
    make_operator,
    make_sub_account,
    make_teammate,
    people,
    run_jobs_for,
)
from support.test_client import TestClient

NEW: dict[str, Any] = {"title": "River Café", "group": "food", "available_amounts": [500, 1_500], "color": "#AA3311"}
PATH = "/giftcard-brands/river-cafe"


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http, mode="live")


def flat(account: Account) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.get("/giftcard-brands-list").json()["brands"]
    return found


def test_brands_are_shown_in_their_groups_and_in_one_list(owner: Account) -> None:
    groups = owner.get("/giftcard-brands").json()
    assert {name: group["title"] for name, group in groups.items()} == BRAND_GROUPS
    assert all(group["brands"] for group in groups.values())
    grouped = [brand | {"group": group["title"]} for group in groups.values() for brand in group["brands"]]
    assert flat(owner) == grouped
    assert owner.get("/giftcard-brands/flat").json() == {"brands": grouped}
    assert grouped[1] == {
        "brand_code": "brindlewick",
        "title": "Brindlewick Coffee",
        "image": "http://quillpost.test/giftcards/brindlewick.png",
        "available_amounts": [500, 1_000, 1_500, 2_500, 5_000],
        "group": "Favorites",
    }


def test_whoever_is_limited_to_a_sub_account_sees_the_same(owner: Account, container: Container) -> None:
    teammate = make_teammate(container, owner, make_sub_account(container, owner))
    assert flat(teammate) == flat(owner)


def test_an_operator_makes_a_brand_that_can_be_sent(owner: Account, operator: Account) -> None:
    gift = {"giftcard_brand": "river-cafe", "giftcard_amount": 1_500}
    assert owner.send("giftcard", **gift).status_code == 422
    made = operator.put(PATH, NEW | {"issuer_code": "RC-1"})
    shown = {
        "brand_code": "river-cafe",
        "title": "River Café",
        "image": "http://quillpost.test/giftcards/river-cafe.png",
        "available_amounts": [500, 1_500],
    }
    more = {"group": "food", "color": "#aa3311", "issuer_code": "RC-1", "offered": True}
    assert (made.status_code, made.json()) == (200, shown | more)
    assert owner.get("/giftcard-brands").json()["food"]["brands"][-1] == shown
    assert owner.send("giftcard", **gift).json()["giftcard_brand_longname"] == "River Café"


def test_a_change_keeps_what_it_does_not_name(operator: Account) -> None:
    made = operator.put(PATH, NEW | {"issuer_code": "RC-1"}).json()
    places = [brand["brand_code"] for brand in flat(operator)]
    changed = operator.put(PATH, {"available_amounts": ["700", 900]}).json()
    assert changed == made | {"available_amounts": [700, 900]}
    assert operator.put(PATH, {"title": "Café", "issuer_code": None}).json() == changed | {
        "title": "Café",
        "issuer_code": None,
    }
    assert [brand["brand_code"] for brand in flat(operator)] == places


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"title": " "}, "title", "on one line"),
        ({"title": "Two\nlines"}, "title", "on one line"),
        ({"title": "x" * 61}, "title", "At most 60 characters"),
        ({"title": None}, "title", "cannot be null"),
        ({"group": "food and drink"}, "group", "main"),
        ({"available_amounts": []}, "available_amounts", "at least 1"),
        ({"available_amounts": [0]}, "available_amounts.0", "greater than or equal to 1"),
        ({"available_amounts": [1_000_001]}, "available_amounts.0", "less than or equal to 1000000"),
        ({"available_amounts": [12.5]}, "available_amounts.0", "integer"),
        ({"available_amounts": [500, 500]}, "available_amounts", "each amount once"),
        ({"available_amounts": [900, 500]}, "available_amounts", "smallest first"),
        ({"color": "brown"}, "color", "#rrggbb"),
        ({"issuer_code": "a\tb"}, "issuer_code", "on one line"),
    ],
)
def test_a_wrong_value_is_named(operator: Account, changes: dict[str, Any], field: str, sentence: str) -> None:
    for path in (PATH, "/giftcard-brands/brindlewick"):
        refused = operator.put(path, NEW | changes)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])
        assert sentence in refused.json()["errors"][field][0]
    assert [brand["title"] for brand in flat(operator)][1] == "Brindlewick Coffee"


def test_a_new_brand_needs_a_title_a_group_and_amounts(operator: Account) -> None:
    refused = operator.put(PATH, {"color": "#112233"})
    assert list(refused.json()["errors"]) == ["available_amounts", "group", "title"]


@pytest.mark.parametrize("code", ["River", "-river", "river%20cafe", "x" * 65, "caf%C3%A9", "a%00b"])
def test_a_code_is_small_letters_and_digits(operator: Account, code: str) -> None:
    refused = operator.put(f"/giftcard-brands/{code}", NEW)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["brand_code"])
    assert operator.delete(f"/giftcard-brands/{code}").status_code == 404


def test_a_brand_that_is_taken_off_can_come_back(owner: Account, operator: Account) -> None:
    before = flat(owner)
    for _ in range(2):
        assert operator.delete("/giftcard-brands/brindlewick").json() == {"message": "success"}
    assert flat(owner) == [brand for brand in before if brand["brand_code"] != "brindlewick"]
    refused = owner.send("giftcard")
    assert "brindlewick" not in refused.json()["errors"]["giftcard_brand"][0].partition("Choose")[2]
    assert operator.put("/giftcard-brands/brindlewick", {}).json()["offered"] is True
    assert flat(owner) == before


def test_what_was_sent_goes_on_as_it_was(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    sent = owner.send("giftcard", recipients=people(2)).json()
    operator.put("/giftcard-brands/brindlewick", {"title": "Other", "available_amounts": [100]})
    operator.delete("/giftcard-brands/brindlewick")
    run_jobs_for(container, clock, seconds=45)
    order = owner.get(f"/orders/{sent['id']}").json()
    assert (order["status"], order["grand_total"]) == ("Fulfilled", sent["authorization_total"])
    cards = [item["giftcard"] for item in owner.get(f"/orders/{sent['id']}/items").json()["data"]]
    assert cards == [{"brand": "brindlewick", "amount": 2_500}] * 2


def test_an_upgrade_leaves_an_operators_brands_alone(owner: Account, operator: Account, conninfo: str) -> None:
    operator.put("/giftcard-brands/brindlewick", {"title": "Other"})
    operator.delete("/giftcard-brands/pomberry")
    before = flat(owner)
    upgrade_database(conninfo)
    assert flat(owner) == before


def test_nobody_else_changes_brands(owner: Account, container: Container, http: TestClient, operator: Account) -> None:
    teammate = make_teammate(container, operator, make_sub_account(container, operator), mode="live")
    reader = make_operator(container, http, "r@example.com", mode="live", scopes=["templates:read"])
    tester = make_operator(container, http, "t@example.com", mode="test")
    stranger = make_account(container, http, "stranger@example.com")
    before = flat(owner)
    for account in (owner, stranger, teammate, reader, tester):
        assert account.put(PATH, NEW).status_code == 403
        assert account.delete("/giftcard-brands/brindlewick").status_code == 403
    assert flat(owner) == before
