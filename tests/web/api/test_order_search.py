"""Finding orders by whom their pieces went to."""

from collections.abc import Iterator

import pytest

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.orders.items import queries as item_queries
from support.bulk_orders import insert_orders
from support.factories import Account, make_account, make_sub_account, make_teammate, person
from support.shared_service import shared_account

PEOPLE = [
    person(name="Jane Doe", address="12 Main St.", email="Jane@Example.com"),
    person(name="JANET DOE", address="12 Main Street", address2="Apt 3", email="janet@example.com"),
    person(name="Ana_Ö%rtiz", address="7 North-Gate Rd", email="ana@example.com"),
    {"name": "Only Mail", "email": "only@example.com"},
]


@pytest.fixture(scope="module")
def finder(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Someone with one order to these people; searching leaves nothing behind."""
    with shared_account(postgres, template, tmp_path_factory.mktemp("order_search")) as (owner, parts):
        owner.send(recipients=PEOPLE)
        make_account(parts, owner.http, "stranger@example.com").send(recipients=PEOPLE)
        yield owner


def found(account: Account, **params: str | int) -> list[str]:
    answer = account.get("/orders/search", params=params).json()
    return [item["recipient"]["name"] for item in answer["matched_order_items"]]


JANE, JANET, ANA, ONLY = (each["name"] for each in PEOPLE)


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"street_address": "12 main st"}, [JANET, JANE]),
        ({"street_address": "12 Main Street"}, [JANET, JANE]),
        ({"street_address": "12 Main St #3"}, [JANET]),
        ({"street_address": "12 Main"}, [JANET, JANE]),
        ({"street_address": "12, MAIN ST."}, [JANET, JANE]),
        ({"street_address": "12 Main St, Austin, TX 78701"}, [JANET, JANE]),
        ({"street_address": "7 north gate"}, [ANA]),
        ({"street_address": "main st"}, []),
        ({"name": "jane"}, [JANET, JANE]),
        ({"name": "Jane D"}, [JANE]),
        ({"name": "jane doe "}, [JANE]),
        ({"name": "doe"}, []),
        ({"name": "ana_ö%"}, [ANA]),
        ({"name": "ana%"}, []),
        ({"name": "%"}, []),
        ({"name": "' or 1=1 --"}, []),
        ({"email": "JANE@example.com"}, [JANE]),
        ({"email": "jane@example"}, []),
        ({"email": "only@example.com"}, [ONLY]),
        ({"name": "jane", "email": "janet@example.com"}, [JANET]),
        ({"name": "ana", "email": "janet@example.com"}, []),
        ({"name": "jane", "street_address": "12 main street apt 3", "email": ""}, [JANET]),
    ],
)
def test_all_that_is_given_must_be_true(finder: Account, params: dict[str, str | int], names: list[str]) -> None:
    assert found(finder, **params) == names


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("", ["street_address", "email", "name"]),
        ("name=%20&email=", ["street_address", "email", "name"]),
        ("street_address=--", ["street_address"]),
        ("name=" + "x" * 301, ["name"]),
        ("name=%00&email=%00", ["email", "name"]),
        ("sub_account_id=x&name=y", ["sub_account_id"]),
    ],
)
def test_a_search_for_nothing_is_refused(finder: Account, query: str, fields: list[str]) -> None:
    refused = finder.get(f"/orders/search?{query}")
    assert (refused.status_code, sorted(refused.json()["errors"])) == (422, sorted(fields))


def test_the_newest_come_first_and_each_order_once(owner: Account) -> None:
    older = owner.send(recipients=[person(name="Zoe A", address=f"{n} Elm St") for n in (1, 2)]).json()["id"]
    newer = owner.send(recipients=[person(name="Zoe B", address="3 Elm St")]).json()["id"]
    answer = owner.get("/orders/search?name=zoe").json()
    assert list(answer) == ["matched_order_items", "orders", "truncated"]
    assert [item["order_id"] for item in answer["matched_order_items"]] == [newer, older, older]
    assert answer["orders"] == owner.get("/orders/list").json()["data"]
    assert answer["truncated"] is False


def test_what_is_cut_says_so(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_queries, "MAX_SEARCH_RESULTS", 3)
    oldest, newest = insert_orders(container, owner.id, 2, pieces=2)
    cut = owner.get("/orders/search?name=person").json()
    assert [item["order_id"] for item in cut["matched_order_items"]] == [newest, newest, oldest]
    assert (len(cut["orders"]), cut["truncated"]) == (2, True)
    monkeypatch.setattr(item_queries, "MAX_SEARCH_RESULTS", 4)
    whole = owner.get("/orders/search?name=person").json()
    assert (len(whole["matched_order_items"]), whole["truncated"]) == (4, False)


def test_everyone_finds_their_own(owner: Account, stranger: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    for name, sub_account in (("Jo Inside", mine), ("Jo Other", other), ("Jo Whole", None)):
        owner.send(recipients=[person(name=name, address=f"{name} 1 St")], sub_account_id=sub_account)
    with container.db.system_transaction() as tx:
        tx.exec_driver_sql("update items set mode = 'live' where name = 'Jo Whole'")
    assert found(owner, name="jo") == ["Jo Other", "Jo Inside"]
    assert found(owner, name="jo", sub_account_id=mine) == ["Jo Inside"]
    assert found(teammate, name="jo") == ["Jo Inside"]
    assert stranger.get("/orders/search?name=jo").json() == {
        "matched_order_items": [],
        "orders": [],
        "truncated": False,
    }
    for account, foreign in ((teammate, other), (stranger, mine), (owner, 999)):
        refused = account.get(f"/orders/search?name=jo&sub_account_id={foreign}")
        assert (refused.status_code, refused.json()) == (400, {"message": "Sub Account ID does not exist"})
