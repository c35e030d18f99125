"""Suppression lists that bar by address, by household or by e-mail: whoever asks hears the same."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import barred_digests, items
from quillpost.recipients.rules import EMAIL_REQUIRED, SAME_ADDRESS, SUPPRESSED
from support.factories import Account, make_sub_account, make_teammate, person, postcard
from support.list_webhook import create_list_webhook
from support.mailing_lists import TAKEN, ListOwner, field_errors
from support.traces import traces

JANE = person(name="Jane Doe", email="jane@example.com")
PEOPLE = {
    "jane": JANE,
    "her brother": person(name="Jim doe"),
    "her lodger": person(name="Bob Smith"),
    "resident": person(name=None),
    "jane elsewhere": person(name="Jane Doe", address="77 Pine St", email="JANE@example.com"),
    "the neighbour": person(name="Ann Lee", address="9 Oak Ave"),
    "joe": person(name="Joe Roe", address="5 Elm St", email="joe@example.com"),
}
"""The first four have one address."""

ENTRIES: tuple[dict[str, Any], ...] = (
    JANE,
    person(name=None, address="9 Oak Ave", email="oak@example.com"),
    {"email": "joe@example.com"},
)
SUPPRESSED_BY = {
    "address": {"jane", "her brother", "her lodger", "resident", "the neighbour", "joe"},
    "household": {"jane", "her brother", "the neighbour", "joe"},
    "email": {"jane", "jane elsewhere", "joe"},
}


def suppressed_inline(account: Account) -> set[str]:
    """Whom a call that names people finds barred, each asked for alone."""
    found = {
        name: account.post("/estimate/postcard", postcard(recipients=[one])).json()["data"]["suppressed"]
        for name, one in PEOPLE.items()
    }
    return {name for name, n in found.items() if n}


def suppressed_on_lists(account: Account, lists: dict[str, int]) -> set[str]:
    body = {"recipients": None}
    found = {
        name: account.post("/estimate/postcard", postcard(**body, mailing_list_ids=[each])).json()["data"]
        for name, each in lists.items()
    }
    return {name for name, data in found.items() if data["suppressed"]}


def suppressed_when_due(container: Container, pieces: dict[int, str]) -> set[str]:
    with container.db.system_transaction() as tx:
        orders = sa.select(items.c.order_id).where(items.c.id.in_(pieces)).distinct()
        found = sa.text("select id from suppressed_items(:orders) as found (id)")
        return {pieces[item] for item in tx.execute(found, {"orders": list(tx.execute(orders).scalars())}).scalars()}


def lists_of_each(account: Account) -> dict[str, int]:
    lister = ListOwner(account)
    made = {name: lister.make(name) for name in PEOPLE}
    for name, list_id in made.items():
        assert account.post("/recipients", PEOPLE[name] | {"mailing_list_id": list_id}).status_code == 201
    return made


def pieces_of_each(container: Container, account: Account) -> dict[int, str]:
    """A piece for each, accepted before anyone is barred."""
    sent = {name: account.send(recipients=[one], allow_duplicates=True).json()["id"] for name, one in PEOPLE.items()}
    with container.db.system_transaction() as tx:
        by_order = {row.order_id: row.id for row in tx.execute(sa.select(items))}
    return {by_order[order]: name for name, order in sent.items()}


@pytest.mark.parametrize("by", SUPPRESSED_BY)
def test_calls_lists_and_waiting_pieces_are_suppressed_alike(owner: Account, container: Container, by: str) -> None:
    lists, pieces = lists_of_each(owner), pieces_of_each(container, owner)
    suppression_list = ListOwner(owner).make("Never", is_suppression_list=True, suppress_by=by)
    for entry in ENTRIES:
        assert owner.post("/recipients", entry | {"mailing_list_id": suppression_list}).status_code == 201
    assert suppressed_inline(owner) == SUPPRESSED_BY[by]
    assert suppressed_on_lists(owner, lists) == SUPPRESSED_BY[by]
    assert suppressed_when_due(container, pieces) == SUPPRESSED_BY[by]


@pytest.mark.parametrize(
    ("kind", "key", "expected"),
    [
        ("address", "12MAIN ST||78701|US", {"jane", "her brother", "her lodger", "resident"}),
        ("household", "12MAIN ST||78701|US||DOE", {"jane", "her brother"}),
        ("email", "jane@example.com", {"jane", "jane elsewhere"}),
    ],
)
def test_erased_people_stay_suppressed(
    owner: Account, stranger: Account, container: Container, kind: str, key: str, expected: set[str]
) -> None:
    lists, pieces = lists_of_each(owner), pieces_of_each(container, owner)
    bar(container, owner, kind, key)
    assert (
        suppressed_inline(owner)
        == suppressed_on_lists(owner, lists)
        == suppressed_when_due(container, pieces)
        == expected
    )
    assert suppressed_inline(stranger) == set()


def bar(container: Container, account: Account, kind: str, key: str, *, sub_account_id: int | None = None) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.insert(barred_digests).values(
                account_id=account.id,
                sub_account_id=sub_account_id,
                kind=kind,
                digest=sa.func.bar_digest(account.id, kind, key),
                at=container.clock(),
            )
        )


def test_a_sub_account_has_its_own_and_heeds_the_accounts(owner: Account, container: Container) -> None:
    """An order of no sub account heeds them all."""
    lists, ours, theirs = (
        ListOwner(owner),
        make_sub_account(container, owner),
        make_sub_account(container, owner, "Other"),
    )
    mates = [make_teammate(container, owner, each) for each in (ours, theirs)]
    one = lists.make(is_suppression_list=True, suppress_by="household", sub_account_id=ours)
    lists.add(one)
    bar(container, owner, "email", "joe@example.com", sub_account_id=theirs)
    assert [suppressed_inline(account) for account in mates] == [{"jane", "her brother"}, {"joe"}]
    assert suppressed_inline(owner) == {"jane", "her brother", "joe"}
    whole = lists.make(is_suppression_list=True, suppress_by="email")
    lists.add_email(whole, "jane@example.com")
    both = {"jane", "jane elsewhere"}
    assert [suppressed_inline(account) for account in mates] == [both | {"her brother"}, both | {"joe"}]


def test_the_first_unsuppressed_person_of_an_address_is_mailed(owner: Account) -> None:
    suppression_list = ListOwner(owner).make(is_suppression_list=True, suppress_by="household")
    owner.post("/recipients", JANE | {"mailing_list_id": suppression_list})
    four = [PEOPLE[name] for name in ("jane", "her lodger", "her brother", "resident")]
    order = owner.send(recipients=four).json()["id"]
    found = [item["failure"] for item in owner.get(f"/orders/{order}/items").json()["data"]]
    assert sorted(found, key=str) == sorted([SUPPRESSED, None, SUPPRESSED, SAME_ADDRESS], key=str)
    lists = ListOwner(owner)
    listed = [lists.make(name) for name in ("one", "two", "three")]
    for list_id, someone in zip(listed, four, strict=False):
        owner.post("/recipients", someone | {"mailing_list_id": list_id})
    body = postcard(recipients=None, mailing_list_ids=listed, allow_duplicates=True)
    data = owner.post("/estimate/postcard", body).json()["data"]
    assert (data["total_recipients"], data["suppressed"], data["duplicates"]) == (1, 2, 0)


def test_suppress_by_is_read_and_changed_like_any_field(owner: Account, container: Container) -> None:
    lists = ListOwner(owner)
    plain, suppression_list = lists.make(), lists.make(is_suppression_list=True)
    assert (lists.read(plain)["suppress_by"], lists.read(suppression_list)["suppress_by"]) == (None, "address")
    for by in ("email", "household", "address"):
        changed = lists.put(f"/mailing-lists/{suppression_list}", {"suppress_by": by})
        assert changed.json()["suppress_by"] == by
    before = traces(container)
    error = "Only a suppression list bars anyone: set is_suppression_list, or leave this out."
    for body in ({"suppress_by": "email"}, {"suppress_by": "email", "is_suppression_list": False}):
        assert field_errors(lists.put(f"/mailing-lists/{plain}", body)) == {"suppress_by": [error]}
        assert field_errors(owner.post("/mailing-lists", body | {"description": "No"})) == {"suppress_by": [error]}
    for wrong in ("phone", "", 1, ["email"], True):
        odd = {"suppress_by": wrong, "is_suppression_list": True}
        assert list(field_errors(lists.put(f"/mailing-lists/{suppression_list}", odd))) == ["suppress_by"]
        assert list(field_errors(owner.post("/mailing-lists", odd | {"description": "No"}))) == ["suppress_by"]
    assert traces(container) == before
    read_back = lists.read(plain)
    assert lists.put(f"/mailing-lists/{plain}", {"suppress_by": read_back["suppress_by"]}).status_code == 200
    both = lists.put(f"/mailing-lists/{plain}", {"suppress_by": "household", "is_suppression_list": True})
    assert both.json()["suppress_by"] == "household"
    ended = lists.put(f"/mailing-lists/{plain}", {"is_suppression_list": False}).json()
    assert (ended["is_suppression_list"], ended["suppress_by"]) == (False, None)


def test_each_family_and_each_email_of_an_address_has_an_entry(owner: Account) -> None:
    lists = ListOwner(owner)
    jane, jim, bob = JANE, person(name="Jim Doe"), person(name="Bob Smith", email="bob@example.com")
    for by, doubled, others in (("household", jim, [bob]), ("email", JANE | {"name": "J."}, [bob])):
        suppression_list = lists.make(is_suppression_list=True, suppress_by=by)
        for someone in (jane, *others):
            assert owner.post("/recipients", someone | {"mailing_list_id": suppression_list}).status_code == 201
        again = owner.post("/recipients", doubled | {"mailing_list_id": suppression_list})
        assert field_errors(again) == {"address": [TAKEN]}
        rows = owner.post("/recipients_multi", [one | {"mailing_list_id": suppression_list} for one in (jane, *others)])
        assert [row["error"] for row in rows.json()] == [f"address: {TAKEN}"] * 2
        second = lists.on(suppression_list)[1]["id"]
        assert field_errors(owner.put(f"/recipients/{second}", doubled)) == {"address": [TAKEN]}
        assert owner.put(f"/recipients/{second}", {"city": "Dallas"}).status_code == 200


def test_a_hook_adds_families_and_emails_and_overwrites_none(owner: Account) -> None:
    jane, bob = JANE, person(name="Bob Smith", email="bob@example.com")
    for by in ("household", "email"):
        hook = create_list_webhook(owner, is_suppression_list=True, suppress_by=by)
        assert hook.results([jane, bob]) == ["added", "added"]
        assert hook.results([bob, jane]) == ["unchanged", "unchanged"]
        assert [(one["name"], one["email"]) for one in hook.people()] == [
            ("Jane Doe", "jane@example.com"),
            ("Bob Smith", "bob@example.com"),
        ]


def test_without_an_email_nobody_comes_onto_a_list_that_bars_by_it(owner: Account, container: Container) -> None:
    lists = ListOwner(owner)
    hook, plain = create_list_webhook(owner, is_suppression_list=True, suppress_by="email"), lists.make()
    suppression_list, known = hook.list_id, lists.add(plain).json()["id"]
    before = traces(container)
    assert field_errors(lists.add(suppression_list)) == {"email": [EMAIL_REQUIRED]}
    [row] = owner.post("/recipients_multi", [person(mailing_list_id=suppression_list)]).json()
    assert row["error"] == f"email: {EMAIL_REQUIRED}"
    [hook_row] = hook.rows([person()])
    assert (hook_row["result"], hook_row["error"]) == ("refused", f"email: {EMAIL_REQUIRED}")
    moved = owner.put(f"/recipients/{known}", {"mailing_list_id": suppression_list})
    assert field_errors(moved) == {"email": [EMAIL_REQUIRED]}
    body = {"is_suppression_list": True, "suppress_by": "email"}
    sentence = "1 on this list have no e-mail, and would bar nobody: complete them."
    assert field_errors(lists.put(f"/mailing-lists/{plain}", body)) == {"is_suppression_list": [sentence]}
    assert traces(container) == before
    address = lists.make(is_suppression_list=True)
    lists.add(address)
    changed = lists.put(f"/mailing-lists/{address}", {"suppress_by": "email"})
    assert field_errors(changed) == {"suppress_by": [sentence]}


def test_a_list_with_shared_addresses_cannot_suppress_by_address(owner: Account) -> None:
    lists = ListOwner(owner)
    suppression_list = lists.make(is_suppression_list=True, suppress_by="household")
    lists.add(suppression_list)
    smith = lists.add(suppression_list, name="Bob Smith").json()["id"]
    error = "1 addresses have several entries on this list, and could have one: remove some first."
    for body, field in (
        ({"suppress_by": "address"}, "suppress_by"),
        ({"is_suppression_list": False}, "is_suppression_list"),
    ):
        assert field_errors(lists.put(f"/mailing-lists/{suppression_list}", body)) == {field: [error]}
    owner.delete(f"/recipients/{smith}")
    assert lists.put(f"/mailing-lists/{suppression_list}", {"suppress_by": "address"}).status_code == 200
    assert field_errors(lists.add(suppression_list, name="Bob Smith")) == {"address": [TAKEN]}


def test_lists_merge_with_those_that_bar_by_the_same(owner: Account) -> None:
    lists = ListOwner(owner)
    by = {name: lists.make(is_suppression_list=True, suppress_by=name) for name in SUPPRESSED_BY}
    for name, other in (("address", "email"), ("household", "address")):
        merged = owner.post(f"/mailing-lists/{by[name]}/merge", {"into": by[other]})
        error = f"It bars by {other}, the other by {name}: set one suppress_by first."
        assert field_errors(merged) == {"into": [error]}
    more = lists.make(is_suppression_list=True, suppress_by="household")
    for list_id, name in ((by["household"], "Jane Doe"), (more, "Jim Doe"), (more, "Bob Smith")):
        lists.add(list_id, name=name)
    assert owner.post(f"/mailing-lists/{more}/merge", {"into": by["household"]}).status_code == 200
    assert [one["name"] for one in lists.on(by["household"])] == ["Jane Doe", "Bob Smith"]


def test_doubles_of_an_email_go_whatever_their_address(owner: Account) -> None:
    lists = ListOwner(owner)
    suppression_list = lists.make(is_suppression_list=True, suppress_by="email")
    first = lists.add(suppression_list, email="jane@example.com").json()["id"]
    lists.add(suppression_list, email="Jane@example.com", address="9 Oak Ave")
    lists.add_email(suppression_list, "jane@example.com")
    assert owner.post(f"/mailing-lists/{suppression_list}/dedupe").json()["removed"] == 2
    assert [one["id"] for one in lists.on(suppression_list)] == [first]
