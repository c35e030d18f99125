"""The specification's table "Order", row by row, from every operation that shows an order."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.read_only_service import METADATA, reading_service

Test = Callable[[Any], bool]
Orders = dict[str, dict[str, Any]]

DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TYPES = ("postcard", "postcard6x11", "letter", "notecard", "giftcard", "windowlessletter")


def integer(value: Any) -> bool:
    return type(value) is int


def string(value: Any) -> bool:
    return type(value) is str


def url(value: Any) -> bool:
    return string(value) and value.startswith("http://quillpost.test/")


def date_time(value: Any) -> bool:
    return string(value) and DATE_TIME.fullmatch(value) is not None


def one_of(*values: object) -> Test:
    return lambda value: value in values and type(value) in {type(each) for each in values}


# fmt: off
TABLE: list[tuple[str, Test]] = [
    # Field                          Type and notes
    ("id",                           integer),
    ("message",                      one_of("Hi %FIRST_NAME%, see you soon!")),
    ("size",                         one_of("4x6")),
    ("sub_account_id",               one_of(None)),
    ("type",                         one_of(*TYPES)),
    ("display_type",                 one_of("Postcard-4x6")),
    ("style",                        integer),
    ("front_image",                  url),
    ("high_quality_preview",         url),
    ("authorization_total",          integer),
    ("grand_total",                  integer),
    ("order_total",                  integer),
    ("total_estimated_recipients",   integer),
    ("total_recipients",             integer),
    ("recipient_count",              integer),
    ("status",                       one_of("Reviewing", "Printing", "Mailed", "Fulfilled", "Cancelled")),
    ("method",                       one_of("api")),
    ("cancellable",                  one_of(True, False)),
    ("total_scans",                  integer),
    ("metadata",                     lambda value: value == METADATA),
    ("created_at",                   date_time),
    ("updated_at",                   date_time),
]
# fmt: on


@pytest.fixture(scope="module")
def shown(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    """The same kind of order from every operation that shows one."""
    with reading_service(postgres, template, tmp_path_factory.mktemp("order_table")) as service:
        owner, order_id = service.owner, service.order_id
        (listed,) = owner.get("/orders/list").json()["data"]
        read = owner.get(f"/orders/{order_id}").json()
        tracked = owner.get(f"/orders/{order_id}/track").json()["data"]["order"]
        other = owner.send(metadata=METADATA).json()["id"]
        cancelled = owner.call("PUT", f"/orders/{other}/cancel").json()["order"]
        yield {"List Orders": listed, "Read Order": read, "Track Order": tracked, "Cancel Order": cancelled}


@pytest.mark.parametrize("operation", ["List Orders", "Read Order", "Track Order", "Cancel Order"])
@pytest.mark.parametrize(("field", "holds"), TABLE, ids=[field for field, _ in TABLE])
def test_a_row_of_the_table(shown: Orders, operation: str, field: str, holds: Test) -> None:
    assert holds(shown[operation][field]), shown[operation][field]


@pytest.mark.parametrize("operation", ["List Orders", "Track Order", "Cancel Order"])
def test_there_is_no_other_field(shown: Orders, operation: str) -> None:
    assert set(shown[operation]) == {field for field, _ in TABLE}


def test_a_read_adds_warnings_and_nothing_else(shown: Orders) -> None:
    assert set(shown["Read Order"]) == {field for field, _ in TABLE} | {"warnings"}
