"""The specification's table "Pagination envelopes": the links + meta style of orders and items, row by row.

The page-number style is that of recipients; tests/web/api/test_page_envelopes.py has it key for key.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.read_only_service import Reader, reading_service

LISTS = ("/orders/list", "/orders", "/orders/{order_id}/items", "/order-items")

# fmt: off
LINKS = [
    # Field    page 2 of 3   the first and only page
    ("first",  1,            1),
    ("last",   3,            1),
    ("prev",   1,            None),
    ("next",   3,            None),
]
META = [
    # Field           page 2 of 3   beyond the end
    ("current_page",  2,            9),
    ("from",          2,            None),
    ("last_page",     3,            3),
    ("per_page",      1,            1),
    ("to",            2,            None),
    ("total",         3,            3),
]
PARAMETERS = [
    # Given                          per_page or the status of the refusal
    ("",                             25),
    ("items_per_page=",              25),
    ("items_per_page=7",             7),
    ("items_per_page=100",           100),
    ("items_per_page=101",           100),
    ("items_per_page=1000000000",    100),
    ("limit=7",                      7),
    ("items_per_page=0",             422),
    ("items_per_page=-1",            422),
    ("items_per_page=1e9",           100),
    ("items_per_page=7.0",           7),
    ("items_per_page=7.5",           422),
    ("items_per_page=abc",           422),
    ("page=0",                       422),
    ("page=-1",                      422),
    ("page=abc",                     422),
    ("sub_account_id=999",           400),
    ("sub_account_id=abc",           422),
]
# fmt: on


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """One order of three items; `lists` adds two more."""
    with reading_service(postgres, template, tmp_path_factory.mktemp("pagination_table")) as reader:
        yield reader


@pytest.fixture(scope="module")
def lists(service: Reader) -> dict[str, str]:
    for _ in range(2):
        service.owner.send()
    return {path: path.format(order_id=service.order_id) for path in LISTS}


def page(service: Reader, path: str, query: str) -> dict[str, Any]:
    found: dict[str, Any] = service.owner.get(f"{path}?{query}").json()
    return found


@pytest.mark.parametrize("path", LISTS[:3])
@pytest.mark.parametrize(("field", "of_middle", "of_only"), LINKS)
def test_a_row_of_links(
    service: Reader, lists: dict[str, str], path: str, field: str, of_middle: int, of_only: int | None
) -> None:
    for query, number in (("items_per_page=1&page=2", of_middle), ("items_per_page=50", of_only)):
        url = page(service, lists[path], query)["links"][field]
        size = query.partition("&")[0]
        base = f"http://quillpost.test/api/v2{lists[path]}?{size}"
        assert url == (None if number is None else f"{base}&page={number}")


@pytest.mark.parametrize("path", LISTS[:3])
@pytest.mark.parametrize(("field", "of_middle", "of_beyond"), META)
def test_a_row_of_meta(
    service: Reader, lists: dict[str, str], path: str, field: str, of_middle: int, of_beyond: int | None
) -> None:
    assert page(service, lists[path], "items_per_page=1&page=2")["meta"][field] == of_middle
    assert page(service, lists[path], "items_per_page=1&page=9")["meta"][field] == of_beyond


@pytest.mark.parametrize("path", LISTS)
def test_the_path_is_the_address_without_its_query(service: Reader, lists: dict[str, str], path: str) -> None:
    shown = page(service, lists[path], "items_per_page=1&page=2")
    assert shown["meta"]["path"] == f"http://quillpost.test/api/v2{lists[path]}"
    assert set(shown) == {"data", "links", "meta"}
    assert set(shown["links"]) == {field for field, *_ in LINKS}
    assert set(shown["meta"]) == {field for field, *_ in META} | {"path"}


# An order is of one sub account: its own items are not filtered by any.
CASES = [
    (path, given, taken)
    for path in LISTS
    for given, taken in PARAMETERS
    if not ("order_id" in path and "sub_account" in given)
]


@pytest.mark.parametrize(("path", "given", "taken"), CASES)
def test_a_shared_query_parameter(service: Reader, lists: dict[str, str], path: str, given: str, taken: int) -> None:
    answer = service.owner.get(f"{lists[path]}?{given}")
    if taken < 400:
        assert answer.json()["meta"]["per_page"] == taken
        assert type(answer.json()["meta"]["per_page"]) is int
    else:
        assert answer.status_code == taken
