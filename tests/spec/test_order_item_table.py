"""The specification's table "Order item", row by row, in every list and read of items."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.orders.rules import ItemStatus
from support.read_only_service import reading_service

Test = Callable[[Any], bool]
Items = dict[str, list[dict[str, Any]]]

RECIPIENT = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    "custom1", "custom2", "custom3", "custom4", "custom5", "custom6", "custom7", "custom8", "custom9",
    "custom10",
)  # fmt: skip


def integer(value: Any) -> bool:
    return type(value) is int


def matches(pattern: str) -> Test:
    return lambda value: type(value) is str and re.fullmatch(pattern, value) is not None


def or_null(holds: Test) -> Test:
    return lambda value: value is None or holds(value)


def recipient(value: Any) -> bool:
    return tuple(value) == RECIPIENT and all(text is None or type(text) is str for text in value.values())


# fmt: off
TABLE: list[tuple[str, Test]] = [
    # Field            Type and notes
    ("id",             integer),
    ("status",         lambda value: value in list(ItemStatus)),
    ("delivery_date",  or_null(matches(r"\d{4}-\d\d-\d\d"))),
    ("scans",          integer),
    ("failure",        or_null(matches(r".+"))),
    ("recipient",      recipient),
    ("giftcard",       lambda value: value is None),
    ("created_at",     matches(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")),
]
# fmt: on
OPERATIONS = {
    "GET /orders/{id}/items": set[str](),
    "GET /order-items?order_id=": set[str](),
    "GET /order-items": set[str](),
    "GET /order-items/{id}": {"order_id", "events", "delivery_inferred"},
    "GET /orders/search": {"order_id"},
}
"""What each adds to the table."""


@pytest.fixture(scope="module")
def shown(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Items]:
    """The delivered, the returned and the refused item from every operation that shows items."""
    with reading_service(postgres, template, tmp_path_factory.mktemp("item_table")) as service:
        owner, order_id = service.owner, service.order_id
        listed = owner.get(f"/orders/{order_id}/items").json()["data"]
        searches = ("name=jane", "name=test", "email=e@example.com")
        yield {
            "GET /orders/{id}/items": listed,
            "GET /order-items?order_id=": owner.get(f"/order-items?order_id={order_id}").json()["data"],
            "GET /order-items": owner.get("/order-items").json()["data"][::-1],
            "GET /order-items/{id}": [owner.get(f"/order-items/{item['id']}").json() for item in listed],
            "GET /orders/search": [
                item
                for search in searches
                for item in owner.get(f"/orders/search?{search}").json()["matched_order_items"]
            ],
        }


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("field", "holds"), TABLE, ids=[field for field, _ in TABLE])
def test_a_row_of_the_table(shown: Items, operation: str, field: str, holds: Test) -> None:
    assert len(shown[operation]) == 3
    for item in shown[operation]:
        assert holds(item[field]), item[field]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_there_is_no_other_field(shown: Items, operation: str) -> None:
    for item in shown[operation]:
        assert set(item) == {field for field, _ in TABLE} | OPERATIONS[operation]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_says_the_same_of_an_item(shown: Items, operation: str) -> None:
    fields = [field for field, _ in TABLE]
    assert [[item[field] for field in fields] for item in shown[operation]] == [
        [item[field] for field in fields] for item in shown["GET /orders/{id}/items"]
    ]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_delivery_date_is_null_until_delivered_and_failure_else_null(shown: Items, operation: str) -> None:
    delivered, returned, refused = shown[operation]
    assert (delivered["status"], delivered["delivery_date"], delivered["failure"]) == ("Delivered", "2026-05-04", None)
    assert (returned["status"], returned["delivery_date"]) == ("Returned to Sender", None)
    assert (refused["status"], refused["delivery_date"]) == ("Failed", None)
    assert refused["failure"] == "There is no mailing address, only an e-mail."
