"""A radius search in the words of other clients, and one that does not say how many."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.web.api.responses import IGNORED_HEADER
from support.factories import Account, make_account, postcard
from support.radius_addresses import CENTRE, make_address, radius_search, store_addresses
from support.test_client import TestClient

COUNT, BUY = "/mailing-lists-utils/count-radius-search", "/mailing-lists-utils/buy-radius-search"
CENTER = {"address": "100 Sample Oak St", "city": "Austin", "state": "TX", "zip": "78701"}
PRICE, FEE = 109, 5
MILE = 36.2
"""Houses that lie within a mile of the first, in one direction."""


@pytest.fixture
def dana(container: Container, http: TestClient) -> Account:
    store_addresses(container, [make_address(number) for number in range(100, 251)])
    return make_account(container, http, "dana@example.com")


def card(**changes: Any) -> dict[str, Any]:
    sent = postcard(**changes)
    del sent["recipients"]
    return sent


@pytest.mark.parametrize("center", [CENTER, {"address": CENTRE}, CENTRE])
def test_everyone_within_the_distance_is_mailed(dana: Account, center: Any) -> None:
    body = card(radius_center=center, radius_distance_miles=1)
    estimate = dana.post("/estimate/postcard", body)
    data = estimate.json()["data"]
    assert (estimate.headers.get(IGNORED_HEADER), data["total_recipients"]) == (None, int(MILE))
    assert (data["leads_fee"], data["authorization_total"]) == (FEE * 36, (FEE + PRICE) * 36)
    sent = dana.post("/send/postcard", body)
    assert sent.status_code == 200, sent.text
    assert sent.json()["total_estimated_recipients"] == 36
    assert sent.json()["authorization_total"] == data["authorization_total"]
    list_id = sent.json()["mailing_list_ids_used"]
    rows = dana.get(f"/mailing-lists/{list_id}/recipients?items_per_page=100").json()["data"]
    assert {int(row["address"].split()[0]) for row in rows} == set(range(101, 137))


def test_it_is_capped_at_a_hundred_or_the_given_count(dana: Account) -> None:
    far = card(radius_center=CENTER, radius_distance_miles=50)
    assert dana.post("/estimate/postcard", far).json()["data"]["total_recipients"] == 100
    few = dana.post("/estimate/postcard", far | {"record_count": 7}).json()["data"]
    assert (few["total_recipients"], few["leads_fee"]) == (7, 7 * FEE)
    no_distance = dana.post("/estimate/postcard", card(radius_center=CENTER, record_types="all"))
    assert no_distance.json()["data"]["total_recipients"] == 100


def test_a_search_without_a_count_finds_a_hundred(dana: Account) -> None:
    without = {"address": CENTRE}
    assert dana.post(COUNT, without).json()["count"] == 100
    assert dana.post(COUNT, without | {"record_count": None}).json()["count"] == 100
    bought = dana.post(BUY, without).json()
    assert (bought["count"], bought["leads_fee"]) == (100, 100 * FEE)
    sent = dana.post("/send/postcard", card(radius_search={"address": CENTRE}))
    assert sent.json()["total_estimated_recipients"] == 100


def test_searches_by_themselves_take_both(dana: Account) -> None:
    theirs = dana.post(COUNT, {"radius_center": CENTER, "radius_distance_miles": 1})
    assert (theirs.json()["count"], theirs.headers.get(IGNORED_HEADER)) == (36, None)
    assert dana.post(COUNT, radius_search(10, distance_miles=0.1)).json()["count"] == 3
    bought = dana.post(BUY, {"radius_center": CENTRE, "radius_distance_miles": 0.5})
    assert bought.json()["count"] == 18
    refused = dana.post(COUNT, {"radius_center": {"city": "Austin"}})
    assert list(refused.json()["errors"]) == ["radius_center.address"]


def test_the_specified_search_wins(dana: Account) -> None:
    both = card(radius_search=radius_search(3), radius_center={"address": "nowhere"}, radius_distance_miles=2)
    sent = dana.post("/estimate/postcard", both)
    assert sent.json()["data"]["total_recipients"] == 3
    assert sent.headers[IGNORED_HEADER] == "radius_center, radius_distance_miles"
    idle = dana.post("/estimate/postcard", postcard(record_count=5))
    assert idle.headers[IGNORED_HEADER] == "record_count"


def test_an_empty_radius_or_an_unknown_address_is_refused(dana: Account) -> None:
    nobody = dana.post("/send/postcard", card(radius_center=CENTER, radius_distance_miles=0.01))
    assert (nobody.status_code, nobody.json()["failure"]) == (400, True)
    assert "within 0.01 miles" in nobody.json()["message"]
    unknown = dana.post("/send/postcard", card(radius_center={"address": "Nowhere"}))
    assert list(unknown.json()["errors"]) == ["radius_center.address"]
    automation = {"name": "a", "trigger": "scan", "send": {"piece": "postcard", "radius_center": CENTER}}
    assert "send.radius_center" in dana.post("/automations", automation).json()["errors"]
