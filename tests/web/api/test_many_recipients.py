"""Adding many recipients at once: each row for itself."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.engine import MAX_PLAIN_INSERTS
from support.factories import make_account, make_sub_account, people, person
from support.mailing_lists import NO_LIST, TAKEN, ListOwner, field_errors
from support.shared_lists import shared_lists

PATHS = ("/recipients-utils/create-multiple", "/recipients_multi")


@pytest.fixture(scope="module")
def service(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ListOwner, Container]]:
    with shared_lists(postgres, template, tmp_path_factory.mktemp("many")) as found:
        yield found


@pytest.fixture
def lists(service: tuple[ListOwner, Container]) -> ListOwner:
    return service[0]


@pytest.fixture
def container(service: tuple[ListOwner, Container]) -> Container:
    return service[1]


def rows_for(list_id: int, how_many: int) -> list[dict[str, Any]]:
    return [one | {"mailing_list_id": list_id} for one in people(how_many)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("how_many", [2, MAX_PLAIN_INSERTS + 30])
def test_each_row_is_answered_in_its_order(lists: ListOwner, path: str, wrapped: bool, how_many: int) -> None:
    list_id = lists.make()
    rows = rows_for(list_id, how_many)
    answer = lists.account.post(path, {"recipients": rows} if wrapped else rows)
    assert answer.status_code == 201
    assert [row["address"] for row in answer.json()] == [row["address"] for row in rows]
    assert answer.json()[-1] == lists.account.get(f"/recipients/{answer.json()[-1]['id']}").json()
    assert answer.json()[0]["mailing-list"]["total_recipients"] == how_many


def test_a_refused_row_says_why_and_the_rest_are_stored(lists: ListOwner) -> None:
    list_id, other = lists.make(), lists.make()
    lists.add(list_id, address="5 Elm St")
    rows = [
        person(mailing_list_id=list_id, address="1 Elm St"),
        person(mailing_list_id=list_id, address="1 ELM ST.", name="Double"),
        person(mailing_list=other, address="1 Elm St"),
        person(mailing_list_id=list_id, address="5 elm st"),
        person(mailing_list_id=list_id, postal_code="1", province="ZZ"),
        person(mailing_list_id=10**9),
        person(),
        {"mailing_list_id": list_id, "name": "Nobody"},
        {"mailing_list_id": list_id, "email": "jane@example.com", "dob": "02/30/1980"},
        {"mailing_list_id": list_id, "email": "jane@example.com"},
        person(mailing_list_id=list_id, address="2 Elm St", custom1="x" * 301),
        person(mailing_list_id=list_id, address="1 Elm St, Austin, TX 78701", city=None, postal_code=None),
    ]
    answer = lists.account.post(PATHS[0], rows).json()
    assert [row.get("error") for row in answer] == [
        None,
        f"address: {TAKEN}",
        None,
        f"address: {TAKEN}",
        "province: This is not a state of the US; use two letters.",
        NO_LIST,
        "mailing_list_id: This field is required.",
        "address: Give an address, or at least an email.",
        "dob: Write the date as YYYY-MM-DD or MM/DD/YYYY; it must exist.",
        None,
        "custom1: At most 300 characters, please.",
        f"address: {TAKEN}",
    ]
    assert answer[1] == rows[1] | {"error": f"address: {TAKEN}"}
    assert answer[6] == rows[6] | {"error": "mailing_list_id: This field is required."}
    assert [row["mailing_list_id"] for row in (answer[0], answer[2])] == [list_id, other]
    assert lists.read(list_id)["total_recipients"] == 3
    assert lists.read(other)["total_recipients"] == 1


def test_another_accounts_list_is_unknown_in_a_row(lists: ListOwner, container: Container) -> None:
    theirs = ListOwner(make_account(container, lists.account.http, "stranger@example.com")).make()
    [row] = lists.account.post(PATHS[0], [person(mailing_list_id=theirs)]).json()
    assert row == person(mailing_list_id=theirs) | {"error": NO_LIST}


def test_rows_carry_their_lists_sub_account(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    lists.account.post(PATHS[0], rows_for(lists.make(sub_account_id=branch), MAX_PLAIN_INSERTS + 1))
    found = lists.account.get(f"/recipients?sub_account_id={branch}").json()
    assert found["meta"]["total"] == MAX_PLAIN_INSERTS + 1


def test_what_means_nothing_is_named_once(lists: ListOwner) -> None:
    rows = [row | {"fax": "1", "mailing_list": {"id": 5}} for row in rows_for(lists.make(), 2)]
    answer = lists.account.post(PATHS[0], {"recipients": rows, "source": "x"})
    assert answer.status_code == 201
    assert answer.headers["X-Ignored-Fields"] == "recipients.*.fax, recipients.*.mailing_list, source"


def test_the_lists_other_name_is_no_field_that_means_nothing(lists: ListOwner) -> None:
    row = person(mailing_list=lists.make())
    answer = lists.account.post(PATHS[0], [row, row])
    assert "X-Ignored-Fields" not in answer.headers
    assert answer.json()[1] == row | {"error": f"address: {TAKEN}"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "recipients"),
        ({"recipients": None}, "recipients"),
        ({"recipients": {}}, "recipients"),
        ("text", "body"),
        (5, "body"),
    ],
)
def test_what_is_no_array_of_rows_is_refused_whole(lists: ListOwner, body: Any, field: str) -> None:
    assert list(field_errors(lists.account.post(PATHS[0], body))) == [field]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (5, "This must be an object."),
        (None, "This must be an object."),
        ({"name": 5}, "name: This must be a string."),
        ({"mailing_list_id": "x"}, "mailing_list_id: This must be an integer."),
        ({"mailing_list_id": 2**63}, "mailing_list_id: "),
        ({"name": "a\x00"}, "name: This text holds a NUL character"),
    ],
)
def test_a_row_of_a_wrong_form_is_refused_by_itself(lists: ListOwner, row: Any, why: str) -> None:
    list_id = lists.make()
    good = rows_for(list_id, 2)
    if isinstance(row, dict):
        row = {"mailing_list_id": list_id} | row
    answer = lists.account.post(PATHS[0], [good[0], row, good[1]])
    assert answer.status_code == 201
    first, refused, last = answer.json()
    assert refused["error"].startswith(why)
    assert ("error" in first, "error" in last) == (False, False)
    assert lists.read(list_id)["total_recipients"] == 2


def test_an_empty_list_of_rows_is_accepted(lists: ListOwner) -> None:
    answer = lists.account.post(PATHS[0], [])
    assert (answer.status_code, answer.json()) == (201, [])


def test_more_than_the_limit_is_refused_and_the_limit_is_not(lists: ListOwner, container: Container) -> None:
    list_id, most = lists.make(), container.limits.inline_recipients
    refused = lists.account.post(PATHS[0], rows_for(list_id, most + 1))
    assert field_errors(refused) == {"recipients": ["At most 5,000 recipients in one call, please."]}
    assert lists.read(list_id)["total_recipients"] == 0
    answer = lists.account.post(PATHS[0], rows_for(list_id, most)).json()
    assert [row["name"] for row in answer] == [f"Person {n}" for n in range(1, most + 1)]
    stored = {row["id"]: row["name"] for row in answer}
    with container.db.system_transaction() as tx:
        known = tx.execute(sa.text("select id, name from recipients where mailing_list_id = :l"), {"l": list_id})
        assert dict(known.all()) == stored
