"""Orders and items in lists: filters, pages, and the links + meta envelope."""

from typing import Any

import pytest

from makers import Account, Clock, carry_on, make_sub_account, people, person
from quillpost.parts import Parts

BASE = "http://quillpost.test/api/v2/orders/list"

ORDER_KEYS = {
    "id", "message", "size", "sub_account_id", "type", "display_type", "style", "front_image",
    "high_quality_preview", "authorization_total", "grand_total", "order_total",
    "total_estimated_recipients", "total_recipients", "recipient_count", "status", "method",
    "cancellable", "total_scans", "metadata", "created_at", "updated_at",
}  # fmt: skip
ITEM_KEYS = {"id", "status", "delivery_date", "scans", "failure", "recipient", "giftcard", "created_at"}
RECIPIENT_KEYS = {
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    *(f"custom{n}" for n in range(1, 11)),
}  # fmt: skip


def ids(answer: Any) -> list[int]:
    return [row["id"] for row in answer.json()["data"]]


def test_an_order_has_exactly_the_keys_of_the_interface(owner: Account) -> None:
    order_id = owner.send().json()["id"]
    (listed,) = owner.get("/orders/list").json()["data"]
    assert set(listed) == ORDER_KEYS
    assert owner.get(f"/orders/{order_id}").json() == listed | {"warnings": []}
    assert (listed["status"], listed["method"], listed["cancellable"]) == ("Reviewing", "api", True)
    assert (listed["total_recipients"], listed["recipient_count"]) == (0, 1)
    assert listed["authorization_total"] == listed["order_total"] == listed["grand_total"] == 109
    assert listed["created_at"] == "2026-05-04T12:00:00Z"


def test_an_empty_list_has_null_from_and_to(owner: Account) -> None:
    assert owner.get("/orders/list").json() == {
        "data": [],
        "links": {"first": f"{BASE}?page=1", "last": f"{BASE}?page=1", "prev": None, "next": None},
        "meta": {
            "current_page": 1,
            "from": None,
            "last_page": 1,
            "path": BASE,
            "per_page": 25,
            "to": None,
            "total": 0,
        },
    }


def test_pages_are_newest_first_and_link_to_each_other(owner: Account) -> None:
    made = [owner.send().json()["id"] for _ in range(5)][::-1]
    middle = owner.get("/orders/list?items_per_page=2&page=2&type=postcard&x=a%26b&x=c&empty=")
    assert ids(middle) == made[2:4]
    kept = "items_per_page=2&type=postcard&x=a%26b&x=c&empty=&page={}"
    assert middle.json()["links"] == {
        "first": f"{BASE}?{kept.format(1)}",
        "last": f"{BASE}?{kept.format(3)}",
        "prev": f"{BASE}?{kept.format(1)}",
        "next": f"{BASE}?{kept.format(3)}",
    }
    assert middle.json()["meta"] == {
        "current_page": 2,
        "from": 3,
        "last_page": 3,
        "path": BASE,
        "per_page": 2,
        "to": 4,
        "total": 5,
    }
    following = owner.http.get(
        middle.json()["links"]["next"], headers={"Authorization": f"Bearer {owner.token}"}
    )
    assert ids(following) == made[4:]
    assert following.json()["links"]["next"] is None
    assert following.json()["meta"]["to"] == 5


def test_a_page_beyond_the_end_is_empty_and_leads_back(owner: Account) -> None:
    owner.send()
    for page in ("7", str(10**12), "9" * 5_000):
        beyond = owner.get(f"/orders/list?page={page}").json()
        assert beyond["data"] == []
        assert (beyond["meta"]["from"], beyond["meta"]["to"], beyond["meta"]["total"]) == (None, None, 1)
        assert beyond["links"]["prev"] == beyond["links"]["last"] == f"{BASE}?page=1"
        assert beyond["links"]["next"] is None


@pytest.mark.parametrize("name", ["items_per_page", "limit"])
def test_the_page_size_is_clamped_above_and_refused_below(owner: Account, name: str) -> None:
    for given, taken in (
        ("1", 1),
        ("100", 100),
        ("101", 100),
        ("1000000000", 100),
        ("9" * 5_000, 100),
        ("", 25),
    ):
        assert owner.get(f"/orders/list?{name}={given}").json()["meta"]["per_page"] == taken
    for given in ("0", "-1", "abc", "1e9", "1.5", "%2B5", "٣", "00", "%00"):
        refused = owner.get(f"/orders/list?{name}={given}")
        assert refused.status_code == 422, given
        assert list(refused.json()["errors"]) == [name]


@pytest.mark.parametrize("given", ["0", "-1", "abc", "1.0"])
def test_a_page_that_is_no_number_is_refused(owner: Account, given: str) -> None:
    refused = owner.get(f"/orders/list?page={given}")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["page"])


@pytest.mark.parametrize("name", ["sub_account_id", "sub_account"])
def test_the_list_is_filtered_by_sub_account(
    owner: Account, stranger: Account, parts: Parts, name: str
) -> None:
    branch, theirs = make_sub_account(parts, owner), make_sub_account(parts, stranger)
    inside, outside = owner.send(sub_account_id=branch).json()["id"], owner.send().json()["id"]
    assert ids(owner.get(f"/orders/list?{name}={branch}")) == [inside]
    assert ids(owner.get("/orders/list")) == [outside, inside]
    for foreign in (theirs, 10**18):
        refused = owner.get(f"/orders/list?{name}={foreign}")
        assert (refused.status_code, refused.json()) == (400, {"message": "Sub Account ID does not exist"})
    for odd in ("x", "-1", "0", str(2**63), "9" * 5_000):
        assert owner.get(f"/orders/list?{name}={odd}").status_code == 422


def test_the_list_is_filtered_by_type_status_and_time(owner: Account, clock: Clock) -> None:
    small = owner.send().json()["id"]
    clock.advance(days=1)
    large = owner.send(size="6x11").json()["id"]
    owner.call("PUT", f"/orders/{large}/cancel")
    assert ids(owner.get("/orders/list?type=postcard6x11")) == [large]
    assert ids(owner.get("/orders/list?status=Reviewing")) == [small]
    assert ids(owner.get("/orders/list?status=cancelled")) == [large]
    assert ids(owner.get("/orders/list?created_after=2026-05-05T12:00:00Z")) == [large]
    assert ids(owner.get("/orders/list?created_before=2026-05-05T14:00:00%2B02:00")) == [small]
    assert ids(owner.get("/orders/list?created_before=2026-05-05")) == [small]
    for odd in ("type=scroll", "status=lost", "created_after=yesterday", "created_before=2026-13-01"):
        refused = owner.get(f"/orders/list?{odd}")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [odd.partition("=")[0]])


def test_both_paths_list_the_same(owner: Account) -> None:
    owner.send()
    assert owner.get("/orders").json()["data"] == owner.get("/orders/list").json()["data"]


def test_items_are_listed_in_the_order_given_with_what_was_given(owner: Account) -> None:
    audience = [person(company="Acme", email="j@example.com", phone="1", custom10="ten"), *people(3)]
    order_id = owner.send(recipients=audience).json()["id"]
    page = owner.get(f"/orders/{order_id}/items?items_per_page=3").json()
    assert [item["recipient"]["name"] for item in page["data"]] == ["Jane Doe", "Person 1", "Person 2"]
    assert (page["meta"]["total"], page["meta"]["last_page"]) == (4, 2)
    first = page["data"][0]
    assert set(first) == ITEM_KEYS
    assert set(first["recipient"]) == RECIPIENT_KEYS
    assert (first["recipient"]["company"], first["recipient"]["custom10"]) == ("Acme", "ten")
    assert (first["status"], first["delivery_date"], first["giftcard"]) == ("Processing", None, None)


def test_items_are_filtered_by_status(owner: Account) -> None:
    audience = [person(), {"name": "E", "email": "e@example.com"}]
    order_id = owner.send(recipients=audience).json()["id"]
    failed = owner.get(f"/orders/{order_id}/items?status=failed").json()
    assert [item["status"] for item in failed["data"]] == ["Failed"]
    assert owner.get(f"/orders/{order_id}/items?status=lost").status_code == 422


def test_tracking_counts_every_status_and_shows_who_was_not_reached(
    owner: Account, parts: Parts, clock: Clock
) -> None:
    audience = [person(), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
    order_id = owner.send(recipients=audience).json()["id"]
    carry_on(parts, clock, seconds=45)
    tracked = owner.get(f"/orders/{order_id}/track").json()["data"]
    assert (tracked["id"], tracked["order"]["status"]) == (order_id, "Fulfilled")
    assert set(tracked["order"]) == ORDER_KEYS
    assert tracked["stats"] == {
        "processing": 0,
        "printed": 0,
        "in_transit": 0,
        "in_local_area": 0,
        "processed_for_delivery": 0,
        "delivered": 1,
        "re_routed": 0,
        "returned_to_sender": 1,
        "failed": 1,
        "scans": 0,
        "multi_scans": 0,
    }
    (failed,), (returned,) = tracked["errors"], tracked["returned"]
    assert set(failed) == set(returned) == RECIPIENT_KEYS | {"failure"}
    assert (failed["email"], returned["name"]) == ("e@example.com", "Test Returned")
