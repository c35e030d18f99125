"""Recipients made, changed and read one by one, and how sure it is that mail arrives."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.engine import MAX_PLAIN_INSERTS
from quillpost.core.database.tables.base import recipients
from quillpost.recipients.addresses.rules import INCOMPLETE_ADDRESS, NO_ADDRESS
from support.factories import Account, make_sub_account, make_teammate, people, person
from support.mailing_lists import NO_LIST, TAKEN, ListOwner, field_errors, ids, message
from support.rows import execute, scalar
from support.traces import FORM, assert_refused, unchanged

MANY = ("/recipients-utils/create-multiple", "/recipients_multi")


def test_a_recipient_is_stored_from_every_form_and_shown_with_its_list(lists: ListOwner) -> None:
    list_id = lists.make()
    added = lists.add(list_id, email=" Jane@example.com ", custom10="ten", fax="1", dob="1980-02-29")
    assert (added.status_code, added.headers["X-Ignored-Fields"]) == (201, "fax")
    body = added.json()
    assert (body["mailing_list_id"], body["country"], body["email"]) == (list_id, "US", "Jane@example.com")
    assert body["mailing-list"] == body["mailing_list"] == lists.read(list_id)
    assert body["mailing_list"]["total_recipients"] == 1
    assert lists.account.get(f"/recipients/{body['id']}").json() == body
    put = lists.put(f"/recipients/{body['id']}", body)  # what was read can be sent back
    assert (put.status_code, put.json()) == (200, body)
    assert put.headers["X-Ignored-Fields"] == (
        "can_deliver, created_at, deliverability, deliverability_reasons, id, mailing-list, mailing_list, updated_at"
    )
    list_id = lists.make()
    form = f"mailing_list_id={list_id}&email=jane%40example.com&name=Jane".encode()
    added = lists.account.call("POST", "/recipients", content=form, headers={"Content-Type": FORM})
    assert (added.status_code, added.json()["name"]) == (201, "Jane")
    line = {"mailing_list": str(list_id), "address": "9 Oak Ave, Dallas, Texas 752011234"}
    added = lists.account.post("/recipients", line)
    assert (added.status_code, added.json()["mailing_list_id"]) == (201, list_id)
    parts = [added.json()[name] for name in ("address", "city", "province", "postal_code")]
    assert parts == ["9 Oak Ave", "Dallas", "TX", "75201-1234"]
    for day in ("dob", "anniversary"):
        for text in ("1980-02-29", "02/29/1980"):
            added = lists.add(lists.make(), **{day: text}).json()
            assert added[day] == lists.account.get(f"/recipients/{added['id']}").json()[day] == "1980-02-29"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"address": None}, "address"), ({"address": "  "}, "address"), ({"email": "jane"}, "email"),
    ({"province": "ZZ"}, "province"), ({"country": "Narnia"}, "country"), ({"name": 5}, "name"),
    ({"name": "x" * 301}, "name"), ({"custom7": "a\x00"}, "custom7"), ({"mailing_list_id": None}, "mailing_list_id"),
    ({"mailing_list_id": "x"}, "mailing_list_id"), ({"mailing_list_id": 0}, "mailing_list_id"),
]  # fmt: skip
BAD_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"address": None}, "address"), ({"postal_code": "1"}, "postal_code"), ({"email": "x"}, "email"),
    ({"anniversary": "02/30/2000"}, "anniversary"), ({"phone": 5}, "phone"),
    ({"mailing_list_id": None}, "mailing_list_id"),
]  # fmt: skip
NO_DAYS = ("1981-02-29", "02/30/1980", "13/01/1980", "1980-00-10", "soon")


def test_every_wrong_field_is_named_once(subtests: pytest.Subtests, lists: ListOwner, container: Container) -> None:
    list_id = lists.make()
    changed = lists.add(lists.make()).json()["id"]
    days = [({day: text}, day, "it must exist") for day in ("dob", "anniversary") for text in NO_DAYS]
    assert_refused(subtests, container, lambda fields: lists.add(list_id, **fields), [*BAD, *days])
    assert_refused(subtests, container, partial(lists.put, f"/recipients/{changed}"), BAD_CHANGES)
    assert list(field_errors(lists.add(list_id, province="ZZ", postal_code="1"))) == ["province", "postal_code"]
    without_list = field_errors(lists.account.post("/recipients", person()))
    assert without_list == {"mailing_list_id": ["This field is required."]}


def test_an_address_may_lack_what_is_not_known_yet(lists: ListOwner) -> None:
    """A list and an address are all that is required; it is mailed to once it is whole."""
    known: dict[str, str]
    for known in (
        {"address": "12 Main St"}, {"address": "12 Main St", "email": "jane@example.com"},
        {"address": "12 Main St", "city": "Austin", "province": "TX"},
        {"address": "12 Main St", "city": "Austin", "postal_code": "78701"}, {"address": "1 Rue X", "country": "FR"},
    ):  # fmt: skip
        body = known | {"mailing_list_id": (list_id := lists.make())}
        added = lists.account.post("/recipients", body)
        assert added.status_code == 201, added.text
        assert field_errors(lists.account.post("/recipients", body)) == {"address": [TAKEN]}
        rest = {"city": "Paris"} if "country" in known else {"city": "X", "province": "TX", "postal_code": "78701"}
        can_deliver = [lists.on(list_id)[0]["can_deliver"]]
        for change in (rest, {"city": None}):
            assert lists.put(f"/recipients/{added.json()['id']}", change).status_code == 200
            can_deliver.append(lists.on(list_id)[0]["can_deliver"])
        assert can_deliver == [False, True, False]
        where = {"mailing_list_id": list_id, "address": known["address"]}
        assert lists.account.post("/recipients/delete-by-address", where).status_code == 200


def test_an_address_is_on_a_list_once_and_an_email_as_often_as_it_is_given(lists: ListOwner) -> None:
    list_id = lists.make()
    with ThreadPoolExecutor(4) as crowd:
        answers = list(crowd.map(lambda n: lists.add(list_id, name=f"Jane {n}"), range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 422, 422, 422]
    answers.append(lists.add(list_id, name="Other", address="12 MAIN St.", postal_code="78701-1234"))
    assert [field_errors(answer) for answer in answers if answer.status_code != 201] == [{"address": [TAKEN]}] * 4
    assert lists.add(lists.make()).status_code == 201
    assert lists.add(list_id, address2="Apt 2").status_code == 201
    assert lists.add_email(list_id, "a@example.com") != lists.add_email(list_id, "a@example.com")
    assert lists.read(list_id)["total_recipients"] == 4
    # Addresses of any length and script are distinguished.
    long = "".join(chr(0x4E00 + n * 37 % 20_000) for n in range(300))
    place = {"address": long, "address2": long[::-1], "postal_code": long, "city": "X", "country": "CN"}
    assert lists.add(list_id, **place).status_code == 201
    assert field_errors(lists.add(list_id, **place)) == {"address": [TAKEN]}
    assert lists.add(list_id, **place | {"postal_code": long[1:]}).status_code == 201


def test_a_change_leaves_what_it_does_not_name_and_meets_the_addresses_of_the_list(lists: ListOwner) -> None:
    list_id = lists.make()
    added = lists.add(list_id, email="a@example.com", dob="1980-01-01", custom2="x").json()
    changes = {"name": "Joe", "dob": None, "custom2": None}
    assert lists.put(f"/recipients/{added['id']}", changes).json() == added | changes
    # A line replaces the whole address.
    dallas = "9 Oak Ave, Dallas, TX 75201"
    assert lists.put(f"/recipients/{added['id']}", {"address": dallas}).json()["city"] == "Dallas"
    again = lists.add(list_id, address=dallas, city=None, province=None, postal_code=None)
    assert field_errors(again) == {"address": [TAKEN]}
    other = lists.add(list_id)
    assert other.status_code == 201
    assert field_errors(lists.put(f"/recipients/{other.json()['id']}", {"address": dallas})) == {"address": [TAKEN]}
    shouted = lists.put(f"/recipients/{other.json()['id']}", {"address": "12 MAIN ST"})
    assert shouted.json()["address"] == "12 MAIN ST"


def test_someone_moves_to_another_list_is_removed_and_found_by_email(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    old, new, full = lists.make(), lists.make(sub_account_id=branch), lists.make()
    path = f"/recipients/{lists.add(old).json()['id']}"
    lists.add(full)
    assert field_errors(lists.put(path, {"mailing_list_id": full})) == {"address": [TAKEN]}
    moved = lists.put(path, {"mailing_list": new}).json()
    assert moved["mailing_list_id"] == moved["mailing-list"]["id"] == new
    assert [lists.read(n)["total_recipients"] for n in (old, new, full)] == [0, 1, 1]
    assert ids(lists.account.get(f"/recipients?sub_account_id={branch}").json()["data"]) == [moved["id"]]
    assert message(lists.put(path, {"mailing_list_id": 10**9})) == (400, NO_LIST)
    removed = lists.delete(path)
    assert (removed.status_code, removed.json()) == (200, {"message": "success"})
    assert lists.delete(path).status_code == lists.account.get(path).status_code == 404
    assert lists.read(new)["total_recipients"] == 0
    assert lists.add(new).status_code == 201
    lists.add_email(lists.make(), "Lookup@example.com")
    newest = lists.add_email(lists.make(), "lookup@example.com")
    found = lists.account.post("/recipients/lookup", {"email": " LOOKUP@example.com"})
    assert (found.status_code, found.json()["id"]) == (200, newest)
    assert lists.account.post("/recipients/lookup", {"email": "nobody@example.com"}).status_code == 404
    for body in ({}, {"email": ""}, {"email": None}):
        assert list(field_errors(lists.account.post("/recipients/lookup", body))) == ["email"]


def test_another_accounts_recipient_looks_like_none(lists: ListOwner, stranger: Account) -> None:
    other, list_id = ListOwner(stranger), lists.make()
    added = lists.add(list_id, email="mine@example.com").json()["id"]
    own = other.add(other.make()).json()["id"]
    for n in (added, 10**9, "x", 2**63):
        for method, body in (("GET", None), ("PUT", {"name": "X"}), ("DELETE", None)):
            answer = stranger.call(method, f"/recipients/{n}", json=body)
            assert (answer.status_code, answer.text) == (404, '{"message":"Not Found"}')
    assert stranger.post("/recipients/lookup", {"email": "mine@example.com"}).status_code == 404
    assert ids(stranger.get("/recipients").json()["data"]) == [own]
    for refused in (
        other.add(list_id),
        other.put(f"/recipients/{own}", {"mailing_list_id": list_id}),
        stranger.get(f"/recipients?mailing_list_id={list_id}"),
    ):
        assert message(refused) == (400, NO_LIST)
    [row] = stranger.post(MANY[0], [person(mailing_list_id=list_id)]).json()
    assert row == person(mailing_list_id=list_id) | {"error": NO_LIST}
    assert lists.account.get(f"/recipients/{added}").json()["name"] == "Jane Doe"


def test_a_teammate_of_one_sub_account_keeps_to_its_people(lists: ListOwner, container: Container) -> None:
    mate = ListOwner(make_teammate(container, lists.account, make_sub_account(container, lists.account)))
    lists.add(everyones := lists.make(), email="hidden@example.com")
    own = mate.add(mate.make()).json()["id"]
    assert ids(mate.account.get("/recipients").json()["data"]) == [own]
    assert mate.account.post("/recipients/lookup", {"email": "hidden@example.com"}).status_code == 404
    assert message(mate.put(f"/recipients/{own}", {"mailing_list_id": everyones})) == (400, NO_LIST)


def test_an_answer_with_a_lists_key_is_kept_sealed(lists: ListOwner, container: Container) -> None:
    body = person(mailing_list_id=lists.make())
    key = {"Idempotency-Key": "recipients-1"}
    first, again = (lists.account.post("/recipients", body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    kept = "select sealed from idempotency_keys where key = 'recipients-1' and account_id = :account_id"
    assert scalar(container, kept, account_id=lists.account.id) is True


def rows_for(list_id: int, how_many: int) -> list[dict[str, Any]]:
    return [one | {"mailing_list_id": list_id} for one in people(how_many)]


def test_each_row_is_answered_in_its_order(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    for path, how_many in ((MANY[0], 2), (MANY[1], 2), (MANY[1], MAX_PLAIN_INSERTS + 30)):
        for is_wrapped in (False, True):
            rows = rows_for(lists.make(sub_account_id=branch), how_many)
            answer = lists.account.post(path, {"recipients": rows} if is_wrapped else rows)
            assert answer.status_code == 201
            assert [row["address"] for row in answer.json()] == [row["address"] for row in rows]
            assert answer.json()[-1] == lists.account.get(f"/recipients/{answer.json()[-1]['id']}").json()
            assert answer.json()[0]["mailing-list"]["total_recipients"] == how_many
    of_branch = lists.account.get(f"/recipients?sub_account_id={branch}").json()
    assert of_branch["meta"]["total"] == 2 * (2 + 2 + MAX_PLAIN_INSERTS + 30)
    empty = lists.account.post(MANY[0], [])
    assert (empty.status_code, empty.json()) == (201, [])


def test_a_refused_row_says_why_and_the_rest_are_stored(lists: ListOwner) -> None:
    list_id, other = lists.make(), lists.make()
    lists.add(list_id, address="5 Elm St")
    here, taken, required = (
        {"mailing_list_id": list_id}, f"address: {TAKEN}", "mailing_list_id: This field is required.",
    )  # fmt: skip
    cases: list[tuple[Any, str | None]] = [
        (person(**here, address="1 Elm St"), None),
        (person(**here, address="1 ELM ST.", name="Double"), taken),
        (person(mailing_list=other, address="1 Elm St"), None),
        (person(**here, address="5 elm st"), taken),
        (person(**here, postal_code="1", province="ZZ"), "province: This is not a state of the US; use two letters."),
        (person(mailing_list_id=10**9), NO_LIST),
        (person(), required),
        (here | {"name": "Nobody"}, "address: Give an address, or at least an email."),
        (
            here | {"email": "jane@example.com", "dob": "02/30/1980"},
            "dob: Write the date as YYYY-MM-DD or MM/DD/YYYY; it must exist.",
        ),
        (here | {"email": "jane@example.com"}, None),
        (person(**here, address="2 Elm St", custom1="x" * 301), "custom1: At most 300 characters, please."),
        (person(**here, address="1 Elm St, Austin, TX 78701", city=None, postal_code=None), taken),
        (5, "This must be an object."),
        (None, "This must be an object."),
        (here | {"name": 5}, "name: This must be a string."),
        (here | {"mailing_list_id": "x"}, "mailing_list_id: This must be an integer."),
        (here | {"mailing_list_id": 2**63}, "mailing_list_id: "),
        (here | {"name": "a\x00"}, "name: This text holds a NUL character"),
    ]
    answer = lists.account.post(MANY[0], [row for row, _ in cases])
    assert answer.status_code == 201
    for (row, error), shown in zip(cases, answer.json(), strict=True):
        assert ("error" in shown) is (error is not None), shown
        assert shown.get("error", "").startswith(error or ""), row
    assert answer.json()[1] == cases[1][0] | {"error": taken}
    assert answer.json()[6] == cases[6][0] | {"error": required}
    assert [answer.json()[place]["mailing_list_id"] for place in (0, 2)] == [list_id, other]
    assert [lists.read(each)["total_recipients"] for each in (list_id, other)] == [3, 1]


def test_what_means_nothing_is_named_once(lists: ListOwner) -> None:
    rows = [row | {"fax": "1", "mailing_list": {"id": 5}} for row in rows_for(lists.make(), 2)]
    answer = lists.account.post(MANY[0], {"recipients": rows, "source": "x"})
    assert answer.status_code == 201
    assert answer.headers["X-Ignored-Fields"] == "recipients.*.fax, recipients.*.mailing_list, source"
    row = person(mailing_list=lists.make())  # the list's other name means something
    answer = lists.account.post(MANY[0], [row, row])
    assert "X-Ignored-Fields" not in answer.headers
    assert answer.json()[1] == row | {"error": f"address: {TAKEN}"}


def test_no_array_or_a_long_one_is_refused(subtests: pytest.Subtests, lists: ListOwner, container: Container) -> None:
    list_id, most = lists.make(), container.limits.inline_recipients
    no_rows = [({}, "recipients"), ({"recipients": None}, "recipients"), ({"recipients": {}}, "recipients")]
    assert_refused(subtests, container, partial(lists.account.post, MANY[0]), [*no_rows, ("text", "body"), (5, "body")])
    with unchanged(container):
        refused = lists.account.post(MANY[0], rows_for(list_id, most + 1))
        assert field_errors(refused) == {"recipients": ["At most 5,000 recipients in one call, please."]}
    answer = lists.account.post(MANY[0], rows_for(list_id, most)).json()
    assert [row["name"] for row in answer] == [f"Person {n}" for n in range(1, most + 1)]
    known = execute(container, sa.select(recipients.c.id, recipients.c.name).filter_by(mailing_list_id=list_id))
    assert {row["id"]: row["name"] for row in answer} == dict(known)


# A ZIP code of Texas, a city of Maine.
ELSEWHERE = {"city": "Portland", "province": "TX", "postal_code": "78701"}


def assessment(recipient: dict[str, Any]) -> tuple[str, bool, list[str]]:
    return recipient["deliverability"], recipient["can_deliver"], recipient["deliverability_reasons"]


def doubtful_reason(lists: ListOwner) -> str:
    """What is said of an address whose parts do not belong together."""
    made = lists.add(lists.make(), **ELSEWHERE).json()
    assert made["deliverability"] == "doubtful"
    return str(made["deliverability_reasons"][0])


def estimate(lists: ListOwner, list_id: int) -> Any:
    body = {"mailing_list_ids": [list_id], "message": "Hello!"}
    return lists.account.post("/estimate/postcard", body).json()["data"]


def test_a_recipient_says_whether_mail_arrives_and_why_not(lists: ListOwner) -> None:
    into, why = lists.make(), doubtful_reason(lists)
    assert assessment(lists.add(into).json()) == ("deliverable", True, [])
    half = {"address": "9 Elm St", "city": None, "province": None, "postal_code": None}
    assert assessment(lists.add(into, **half).json()) == ("undeliverable", False, [INCOMPLETE_ADDRESS])
    email = lists.account.post("/recipients", {"mailing_list_id": into, "email": "e@example.com"}).json()
    assert assessment(email) == ("undeliverable", False, [NO_ADDRESS])
    assert assessment(lists.add(into, address="7 Oak St", **ELSEWHERE).json()) == ("doubtful", True, [why])
    known = ["deliverable", "undeliverable", "undeliverable", "doubtful"]
    assert [assessment(row)[0] for row in lists.on(into)] == known
    # The address is shown as it was given.
    made = lists.add(into, address="12 Main Street", city="austin", postal_code="78702").json()
    assert (made["address"], made["city"]) == ("12 Main Street", "austin")
    whole = {"address": "12 Oak Street", "city": "Austin", "postal_code": "78702"}
    changed = lists.put(f"/recipients/{made['id']}", whole).json()
    assert (changed["address"], changed["deliverability"]) == ("12 Oak Street", "deliverable")


def test_a_send_warns_of_doubtful_addresses_in_few_words(lists: ListOwner) -> None:
    why = doubtful_reason(lists)
    whom = [person(address=f"{n} Oak St", **ELSEWHERE) for n in range(2)]
    warning = f"2 addresses are doubtful: {why}"
    body = {"recipients": [person(), *whom], "message": "Hi!", "allow_duplicates": True}
    assert warning in lists.account.post("/estimate/postcard", body).json()["data"]["warnings"]
    sent = lists.account.post("/send/postcard", body)
    assert warning in sent.headers["X-Warnings"]
    assert warning in lists.account.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    into = lists.make()
    for n in range(3):
        lists.add(into, address=f"{n} Oak St", **ELSEWHERE)
    lists.add(into, address="1 Elm St")
    lists.add_email(into, "e@example.com")
    data = estimate(lists, into)
    assert (data["total_recipients"], data["undeliverable"]) == (4, 1)
    assert f"3 addresses are doubtful: {why}" in data["warnings"]


OWN_WORDS = sa.text(
    """update recipients set deliverability = case when id % 2 = 0 then 'doubtful' else 'undeliverable' end,
              reasons = array['Nobody knows ' || address || '.'] where mailing_list_id = :list"""
)
UNCHECKED = sa.text("update recipients set deliverability = null, reasons = null where mailing_list_id = :list")


def test_many_reasons_make_few_warnings_and_an_unchecked_row_is_mailed(lists: ListOwner, container: Container) -> None:
    """What is wrong may name the very address: then every one has words of its own."""
    into, other = lists.make(), lists.make()
    lists.fill(into, *(f"{n} Ash St" for n in range(20)))
    lists.add(other)
    lists.add_email(other, "e@example.com")
    execute(container, OWN_WORDS, list=into)
    execute(container, UNCHECKED, list=other)
    data = estimate(lists, into)
    assert (data["total_recipients"], data["undeliverable"]) == (10, 10)
    [summary] = [warning for warning in data["warnings"] if "doubtful" in warning]
    assert summary.startswith("10 addresses are doubtful: Nobody knows ")
    assert summary.count("Nobody knows") == 3
    assert [assessment(row) for row in lists.on(other)] == [("deliverable", True, []), ("undeliverable", False, [])]
