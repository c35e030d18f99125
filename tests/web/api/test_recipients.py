"""Adding, reading, changing and removing recipients one by one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.factories import make_account, make_sub_account, make_teammate, person
from support.mailing_lists import NO_LIST, TAKEN, ListOwner, field_errors, ids, message
from support.shared_lists import shared_lists


@pytest.fixture(scope="module")
def service(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ListOwner, Container]]:
    with shared_lists(postgres, template, tmp_path_factory.mktemp("recipients")) as found:
        yield found


@pytest.fixture
def lists(service: tuple[ListOwner, Container]) -> ListOwner:
    return service[0]


@pytest.fixture
def container(service: tuple[ListOwner, Container]) -> Container:
    return service[1]


@pytest.fixture(scope="module")
def other(service: tuple[ListOwner, Container]) -> ListOwner:
    """Someone of another account."""
    lists, parts = service
    return ListOwner(make_account(parts, lists.account.http, "stranger@example.com"))


def test_a_recipient_is_stored_and_shown_with_its_list(lists: ListOwner) -> None:
    list_id = lists.make()
    added = lists.add(list_id, email=" Jane@example.com ", custom10="ten", fax="1")
    assert added.status_code == 201
    assert added.headers["X-Ignored-Fields"] == "fax"
    body = added.json()
    assert (body["mailing_list_id"], body["country"], body["email"]) == (list_id, "US", "Jane@example.com")
    assert body["mailing-list"] == body["mailing_list"] == lists.read(list_id)
    assert body["mailing_list"]["total_recipients"] == 1
    assert lists.account.get(f"/recipients/{body['id']}").json() == body


def test_what_was_read_can_be_sent_back(lists: ListOwner) -> None:
    added = lists.add(lists.make(), dob="1980-02-29").json()
    put = lists.put(f"/recipients/{added['id']}", added)
    assert (put.status_code, put.json()) == (200, added)
    assert put.headers["X-Ignored-Fields"] == (
        "can_deliver, created_at, deliverability, deliverability_reasons, id, mailing-list, mailing_list, updated_at"
    )


def test_the_list_has_two_names(lists: ListOwner) -> None:
    list_id = lists.make()
    added = lists.account.post("/recipients", person() | {"mailing_list": str(list_id)})
    assert (added.status_code, added.json()["mailing_list_id"]) == (201, list_id)


def test_a_form_adds_a_recipient_too(lists: ListOwner) -> None:
    added = lists.account.call(
        "POST",
        "/recipients",
        content=f"mailing_list_id={lists.make()}&email=jane%40example.com&name=Jane".encode(),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (added.status_code, added.json()["name"]) == (201, "Jane")


def test_an_address_on_one_line_is_taken_apart(lists: ListOwner) -> None:
    body = {"mailing_list_id": lists.make(), "address": "9 Oak Ave, Dallas, Texas 752011234"}
    added = lists.account.post("/recipients", body).json()
    assert [added[name] for name in ("address", "city", "province", "postal_code")] == [
        "9 Oak Ave", "Dallas", "TX", "75201-1234",
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["dob", "anniversary"])
@pytest.mark.parametrize("text", ["1980-02-29", "02/29/1980"])
def test_a_day_is_stored_in_the_iso_form(lists: ListOwner, field: str, text: str) -> None:
    added = lists.add(lists.make(), **{field: text}).json()
    assert added[field] == "1980-02-29"
    assert lists.account.get(f"/recipients/{added['id']}").json()[field] == "1980-02-29"


@pytest.mark.parametrize("field", ["dob", "anniversary"])
@pytest.mark.parametrize("text", ["1981-02-29", "02/30/1980", "13/01/1980", "1980-00-10", "soon"])
def test_a_day_that_does_not_exist_is_refused(lists: ListOwner, field: str, text: str) -> None:
    [(named, [sentence])] = field_errors(lists.add(lists.make(), **{field: text})).items()
    assert named == field
    assert "it must exist" in sentence


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"address": None}, ["address"]),
        ({"address": "  "}, ["address"]),
        ({"email": "jane"}, ["email"]),
        ({"province": "ZZ", "postal_code": "1"}, ["province", "postal_code"]),
        ({"province": "ZZ"}, ["province"]),
        ({"country": "Narnia"}, ["country"]),
        ({"name": 5}, ["name"]),
        ({"name": "x" * 301}, ["name"]),
        ({"custom7": "a\x00"}, ["custom7"]),
        ({"mailing_list_id": None}, ["mailing_list_id"]),
        ({"mailing_list_id": "x"}, ["mailing_list_id"]),
        ({"mailing_list_id": 0}, ["mailing_list_id"]),
    ],
)
def test_every_wrong_field_is_named_at_once(lists: ListOwner, fields: dict[str, Any], named: list[str]) -> None:
    list_id = lists.make()
    assert list(field_errors(lists.add(list_id, **fields))) == named
    assert lists.read(list_id)["total_recipients"] == 0


def test_a_recipient_needs_a_list(lists: ListOwner) -> None:
    assert field_errors(lists.account.post("/recipients", person())) == {"mailing_list_id": ["This field is required."]}


@pytest.mark.parametrize(
    "known",
    [
        {"address": "12 Main St"},
        {"address": "12 Main St", "email": "jane@example.com"},
        {"address": "12 Main St", "city": "Austin", "province": "TX"},
        {"address": "12 Main St", "city": "Austin", "postal_code": "78701"},
        {"address": "1 Rue X", "country": "FR"},
    ],
)
def test_an_address_may_lack_what_is_not_known_yet(lists: ListOwner, known: dict[str, str]) -> None:
    """A list and an address are all that is required; it is mailed to once it is whole."""
    list_id = lists.make()
    added = lists.account.post("/recipients", known | {"mailing_list_id": list_id})
    assert added.status_code == 201, added.text
    place = f"/recipients/{added.json()['id']}"

    def can_deliver() -> bool:
        [row] = lists.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
        return bool(row["can_deliver"])

    assert not can_deliver()
    assert field_errors(lists.account.post("/recipients", known | {"mailing_list_id": list_id})) == {"address": [TAKEN]}
    rest = {"city": "Paris"} if "country" in known else {"city": "X", "province": "TX", "postal_code": "78701"}
    assert lists.put(place, rest).status_code == 200
    assert can_deliver()
    assert lists.put(place, {"city": None}).status_code == 200
    assert not can_deliver()
    where = {"mailing_list_id": list_id, "address": known["address"]}
    assert lists.account.post("/recipients/delete-by-address", where).status_code == 200


def test_an_address_is_on_a_list_once(lists: ListOwner) -> None:
    list_id = lists.make()
    lists.add(list_id)
    refused = lists.add(list_id, name="Other", address="12 MAIN St.", postal_code="78701-1234")
    assert field_errors(refused) == {"address": [TAKEN]}
    assert lists.add(lists.make()).status_code == 201
    assert lists.add(list_id, address2="Apt 2").status_code == 201
    assert lists.read(list_id)["total_recipients"] == 2


def test_an_address_added_several_times_at_once_is_stored_once(lists: ListOwner) -> None:
    list_id = lists.make()
    with ThreadPoolExecutor(4) as crowd:
        answers = list(crowd.map(lambda n: lists.add(list_id, name=f"Jane {n}"), range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 422, 422, 422]
    assert {a.json()["errors"]["address"][0] for a in answers if a.status_code == 422} == {TAKEN}
    assert lists.read(list_id)["total_recipients"] == 1


def test_an_email_may_be_on_a_list_twice(lists: ListOwner) -> None:
    list_id = lists.make()
    assert lists.add_email(list_id, "a@example.com") != lists.add_email(list_id, "a@example.com")


def test_addresses_of_any_length_and_script_are_distinguished(lists: ListOwner) -> None:
    list_id = lists.make()
    long = "".join(chr(0x4E00 + n * 37 % 20_000) for n in range(300))
    place = {"address": long, "address2": long[::-1], "postal_code": long, "city": "X", "country": "CN"}
    assert lists.add(list_id, **place).status_code == 201
    assert field_errors(lists.add(list_id, **place)) == {"address": [TAKEN]}
    assert lists.add(list_id, **place | {"postal_code": long[1:]}).status_code == 201


def test_a_change_leaves_what_it_does_not_name_and_null_clears(lists: ListOwner) -> None:
    added = lists.add(lists.make(), email="a@example.com", dob="1980-01-01", custom2="x").json()
    changed = lists.put(f"/recipients/{added['id']}", {"name": "Joe", "dob": None, "custom2": None}).json()
    assert changed == added | {"name": "Joe", "dob": None, "custom2": None}


def test_a_line_replaces_the_whole_address(lists: ListOwner) -> None:
    added = lists.add(lists.make()).json()
    changed = lists.put(f"/recipients/{added['id']}", {"address": "9 Oak Ave, Dallas, TX 75201"}).json()
    assert changed["city"] == "Dallas"
    assert field_errors(lists.add(added["mailing_list_id"], address="9 Oak Ave, Dallas, TX 75201", city=None,
                            province=None, postal_code=None)) == {"address": [TAKEN]}  # fmt: skip
    assert lists.add(added["mailing_list_id"]).status_code == 201


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"address": None}, "address"),
        ({"postal_code": "1"}, "postal_code"),
        ({"email": "x"}, "email"),
        ({"anniversary": "02/30/2000"}, "anniversary"),
        ({"phone": 5}, "phone"),
        ({"mailing_list_id": None}, "mailing_list_id"),
    ],
)
def test_a_change_is_checked_like_a_new_one(lists: ListOwner, fields: dict[str, Any], named: str) -> None:
    added = lists.add(lists.make()).json()
    assert list(field_errors(lists.put(f"/recipients/{added['id']}", fields))) == [named]
    assert lists.account.get(f"/recipients/{added['id']}").json() == added


def test_a_change_meets_the_addresses_of_the_list(lists: ListOwner) -> None:
    list_id = lists.make()
    first, second = lists.fill(list_id, "1 Main St", "2 Main St")
    assert field_errors(lists.put(f"/recipients/{second}", {"address": "1 main st."})) == {"address": [TAKEN]}
    assert lists.put(f"/recipients/{first}", {"address": "1 MAIN ST"}).json()["address"] == "1 MAIN ST"


def test_someone_moves_to_another_list(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    old, new, full = lists.make(), lists.make(sub_account_id=branch), lists.make()
    added = lists.add(old).json()
    lists.add(full)
    assert field_errors(lists.put(f"/recipients/{added['id']}", {"mailing_list_id": full})) == {"address": [TAKEN]}
    moved = lists.put(f"/recipients/{added['id']}", {"mailing_list": new}).json()
    assert moved["mailing_list_id"] == moved["mailing-list"]["id"] == new
    assert [lists.read(n)["total_recipients"] for n in (old, new, full)] == [0, 1, 1]
    assert ids(lists.account.get(f"/recipients?sub_account_id={branch}").json()["data"]) == [added["id"]]
    assert message(lists.put(f"/recipients/{added['id']}", {"mailing_list_id": 10**9})) == (400, NO_LIST)


def test_a_removed_recipient_is_gone(lists: ListOwner) -> None:
    list_id = lists.make()
    added = lists.add(list_id).json()["id"]
    removed = lists.delete(f"/recipients/{added}")
    assert (removed.status_code, removed.json()) == (200, {"message": "success"})
    assert lists.delete(f"/recipients/{added}").status_code == 404
    assert lists.account.get(f"/recipients/{added}").status_code == 404
    assert lists.read(list_id)["total_recipients"] == 0
    assert lists.add(list_id).status_code == 201


def test_someone_is_found_by_email(lists: ListOwner) -> None:
    lists.add_email(lists.make(), "Lookup@example.com")
    newest = lists.add_email(lists.make(), "lookup@example.com")
    found = lists.account.post("/recipients/lookup", {"email": " LOOKUP@example.com"})
    assert (found.status_code, found.json()["id"]) == (200, newest)
    assert lists.account.post("/recipients/lookup", {"email": "nobody@example.com"}).status_code == 404
    for body in ({}, {"email": ""}, {"email": None}):
        assert list(field_errors(lists.account.post("/recipients/lookup", body))) == ["email"]


def test_another_accounts_recipient_looks_like_none(lists: ListOwner, other: ListOwner) -> None:
    list_id = lists.make()
    added = lists.add(list_id, email="mine@example.com").json()["id"]
    own = other.add(other.make()).json()["id"]
    for n in (added, added + 10_000, "x", 2**63):
        for method, body in (("GET", None), ("PUT", {"name": "X"}), ("DELETE", None)):
            answer = other.account.call(method, f"/recipients/{n}", json=body)
            assert (answer.status_code, answer.text) == (404, '{"message":"Not Found"}')
    assert other.account.post("/recipients/lookup", {"email": "mine@example.com"}).status_code == 404
    assert ids(other.account.get("/recipients").json()["data"]) == [own]
    for refused in (
        other.add(list_id),
        other.put(f"/recipients/{own}", {"mailing_list_id": list_id}),
        other.account.get(f"/recipients?mailing_list_id={list_id}"),
    ):
        assert message(refused) == (400, NO_LIST)
    assert lists.account.get(f"/recipients/{added}").json()["name"] == "Jane Doe"


def test_a_teammate_of_one_sub_account_keeps_to_its_people(lists: ListOwner, container: Container) -> None:
    mine = make_sub_account(container, lists.account)
    mate = ListOwner(make_teammate(container, lists.account, mine))
    everyones = lists.make()
    hidden = lists.add(everyones, email="hidden@example.com").json()["id"]
    own = mate.add(mate.make()).json()["id"]
    assert ids(mate.account.get("/recipients").json()["data"]) == [own]
    assert mate.account.get(f"/recipients/{hidden}").status_code == 404
    assert mate.account.post("/recipients/lookup", {"email": "hidden@example.com"}).status_code == 404
    assert message(mate.add(everyones)) == (400, NO_LIST)
    assert message(mate.put(f"/recipients/{own}", {"mailing_list_id": everyones})) == (400, NO_LIST)


def test_an_answer_with_a_lists_key_is_kept_sealed(lists: ListOwner, container: Container) -> None:
    list_id = lists.make()
    key = {"Idempotency-Key": "recipients-1"}
    body = person(mailing_list_id=list_id)
    first, again = (lists.account.post("/recipients", body, headers=key) for _ in range(2))
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    with container.db.system_transaction() as tx:
        kept = tx.exec_driver_sql("select sealed from idempotency_keys where key = 'recipients-1'").scalar_one()
    assert kept is True
