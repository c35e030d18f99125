"""Numbers in query strings: whatever name they have, each that is given is read, and blank is not given."""

from collections.abc import Iterator

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.described_operations import OPERATIONS, Operation
from support.factories import Account
from support.shared_service import shared_account

NUMBERS = {
    "page", "items_per_page", "limit", "per_page", "sub_account_id", "sub_account", "order_id",
    "mailing_list",
}  # fmt: skip


@pytest.fixture(scope="module")
def caller(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with shared_account(postgres, template, tmp_path_factory.mktemp("queries")) as (owner, _):
        yield owner


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if NUMBERS & set(each.query)], ids=str)
def test_they_are_described_as_integers_from_1(operation: Operation) -> None:
    for parameter in operation.described["parameters"]:
        if parameter["in"] == "query" and parameter["name"] in NUMBERS:
            schema = parameter["schema"]
            assert (schema["type"], schema["minimum"]) == ("integer", 1)


@pytest.mark.parametrize(
    ("query", "per_page"),
    [
        ("items_per_page=7&limit=9", 7),
        ("items_per_page=&limit=9", 9),
        ("items_per_page=%20&limit=", 25),
        ("limit=1000", 100),
    ],
)
def test_the_first_name_that_says_something_counts(caller: Account, query: str, per_page: int) -> None:
    assert caller.get(f"/webhooks?{query}").json()["meta"]["per_page"] == per_page


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/webhooks?items_per_page=7&limit=0", "limit"),
        ("/webhooks?limit=8.5", "limit"),
        ("/order-items?items_per_page=7&per_page=x", "per_page"),
        ("/orders/list?sub_account_id=&sub_account=-1", "sub_account"),
        ("/orders/list?sub_account_id=1&sub_account=x", "sub_account"),
        (f"/order-items?order_id={2**63}", "order_id"),
    ],
)
def test_another_name_is_no_way_around_the_check(caller: Account, path: str, wrong: str) -> None:
    refused = caller.get(path)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [wrong])


@pytest.mark.parametrize("path", ["/image-templates", "/message-templates", "/orders/list"])
def test_a_blank_type_is_none(caller: Account, path: str) -> None:
    assert caller.get(f"{path}?type=").status_code == 200
    assert caller.get(f"{path}?type=x").status_code == 422
