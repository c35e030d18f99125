"""Taking someone off a list by address or e-mail."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.factories import make_account
from support.mailing_lists import NO_LIST, ListOwner, field_errors, ids, message
from support.shared_lists import shared_lists

PATHS = ("/recipients-utils/delete-by-address", "/recipients/delete-by-address")


@pytest.fixture(scope="module")
def service(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ListOwner, Container]]:
    with shared_lists(postgres, template, tmp_path_factory.mktemp("leaving")) as found:
        yield found


@pytest.fixture
def lists(service: tuple[ListOwner, Container]) -> ListOwner:
    return service[0]


def remove(lists: ListOwner, list_id: int, **given: Any) -> Response:
    return lists.account.post(PATHS[0], {"mailing_list_id": list_id} | given)


@pytest.mark.parametrize(
    "given",
    [
        {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"},
        {"address": "12 MAIN ST.", "postal_code": "78701-1234"},
        {"address": "12 main st, Austin, Texas 78701"},
        {"address": "12 Main St"},
        {"address": "12 Main St", "city": "AUSTIN", "province": "Texas", "country": "USA"},
        {"address": "12 Main St", "email": "JANE@example.com"},
        {"email": " Jane@Example.com "},
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_the_matching_recipient_is_deleted(lists: ListOwner, path: str, given: dict[str, Any]) -> None:
    list_id = lists.make()
    jane = lists.add(list_id, email="jane@example.com").json()["id"]
    [stays] = lists.fill(list_id, "12 Main Ave")
    answer = lists.account.post(path, {"mailing_list": list_id} | given)
    assert (answer.status_code, answer.json()) == (200, {"status": f"Recipient {jane} Deleted"})
    assert ids(lists.on(list_id)) == [stays]


@pytest.mark.parametrize(
    "given",
    [
        {"address": "12 Main"},
        {"address": "12 Main St, Austin, TX 78702"},
        {"address": "12 Main St", "postal_code": "78701", "address2": "Apt 2"},
        {"address": "12 Main St", "city": "Dallas"},
        {"address": "12 Main St", "email": "joe@example.com"},
        {"address": "12 Main St", "country": "CA"},
        {"address": "%"},
        {"email": "joe@example.com"},
    ],
)
def test_nobody_else_leaves(lists: ListOwner, given: dict[str, Any]) -> None:
    list_id = lists.make()
    lists.add(list_id, email="jane@example.com")
    assert remove(lists, list_id, **given).status_code == 404
    assert remove(lists, lists.make(), address="12 Main St").status_code == 404
    assert lists.read(list_id)["total_recipients"] == 1


def test_a_street_that_several_share_asks_for_more(lists: ListOwner) -> None:
    list_id = lists.make()
    for place in ({}, {"address2": "Apt 2"}, {"city": "Dallas", "postal_code": "75201"}):
        lists.add(list_id, **place)
    assert set(field_errors(remove(lists, list_id, address="12 Main St"))) == {"postal_code", "address2", "city"}
    assert set(field_errors(remove(lists, list_id, address="12 Main St", city="Austin"))) == {"address2"}
    assert remove(lists, list_id, address="12 Main St", city="dallas").status_code == 200
    # With its ZIP code an address is one door: the one without a unit.
    assert remove(lists, list_id, address="12 Main St", postal_code="78701").status_code == 200
    assert [one["address2"] for one in lists.on(list_id)] == ["Apt 2"]


def test_an_email_that_several_share_asks_for_more(lists: ListOwner) -> None:
    list_id = lists.make()
    lists.add(list_id, email="doe@example.com")
    lists.add(list_id, email="doe@example.com", address="9 Oak Ave")
    assert set(field_errors(remove(lists, list_id, email="doe@example.com"))) == {"address"}
    assert remove(lists, list_id, email="doe@example.com", address="9 Oak Ave").status_code == 200


def test_those_whom_nothing_tells_apart_are_left_to_their_ids(lists: ListOwner) -> None:
    list_id = lists.make()
    lists.add_email(list_id, "doe@example.com")
    lists.add_email(list_id, "doe@example.com")
    assert "ids" in field_errors(remove(lists, list_id, email="doe@example.com"))["email"][0]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "address"),
        ({"address": " ", "email": ""}, "address"),
        ({"city": "Austin"}, "address"),
        ({"address": "12 Main St", "country": "Narnia"}, "country"),
        ({"address": 5}, "address"),
        ({"email": "x" * 301}, "email"),
        ({"mailing_list_id": None}, "mailing_list_id"),
    ],
)
def test_a_wrong_question_is_named(lists: ListOwner, given: dict[str, Any], field: str) -> None:
    assert list(field_errors(remove(lists, lists.make(), **given))) == [field]


def test_another_accounts_list_is_unknown(lists: ListOwner, service: tuple[ListOwner, Container]) -> None:
    other = ListOwner(make_account(service[1], lists.account.http, "stranger@example.com"))
    list_id = lists.make()
    lists.add(list_id)
    assert message(remove(other, list_id, address="12 Main St")) == (400, NO_LIST)
    assert lists.read(list_id)["total_recipients"] == 1
