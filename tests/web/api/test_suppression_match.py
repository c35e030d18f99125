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
BARRED = {
    "address": {"jane", "her brother", "her lodger", "resident", "the neighbour", "joe"},
    "household": {"jane", "her brother", "the neighbour", "joe"},
    "email": {"jane", "jane elsewhere", "joe"},
}


def asked_inline(who: Account) -> set[str]:
    """Whom a call that names people finds barred, each asked for alone."""
    found = {
        name: who.post("/estimate/postcard", postcard(recipients=[one])).json()["data"]["suppressed"]
        for name, one in PEOPLE.items()
    }
    return {name for name, n in found.items() if n}


def asked_of_lists(who: Account, lists: dict[str, int]) -> set[str]:
    wanted = {"recipients": None}
    found = {
        name: who.post("/estimate/postcard", postcard(**wanted, mailing_list_ids=[each])).json()["data"]
        for name, each in lists.items()
    }
    return {name for name, data in found.items() if data["suppressed"]}


def asked_when_due(container: Container, pieces: dict[int, str]) -> set[str]:
    with container.db.system_transaction() as tx:
        orders = sa.select(items.c.order_id).where(items.c.id.in_(pieces)).distinct()
        found = sa.text("select id from suppressed_items(:orders) as found (id)")
        return {pieces[item] for item in tx.execute(found, {"orders": list(tx.execute(orders).scalars())}).scalars()}


def lists_of_each(who: Account) -> dict[str, int]:
    lister = ListOwner(who)
    made = {name: lister.make(name) for name in PEOPLE}
    for name, list_id in made.items():
        assert who.post("/recipients", PEOPLE[name] | {"mailing_list_id": list_id}).status_code == 201
    return made


def pieces_of_each(container: Container, who: Account) -> dict[int, str]:
    """A piece for each, accepted before anyone is barred."""
    sent = {name: who.send(recipients=[one], allow_duplicates=True).json()["id"] for name, one in PEOPLE.items()}
    with container.db.system_transaction() as tx:
        by_order = {row.order_id: row.id for row in tx.execute(sa.select(items))}
    return {by_order[order]: name for name, order in sent.items()}


@pytest.mark.parametrize("by", BARRED)
def test_calls_lists_and_pieces_that_wait_are_asked_alike(owner: Account, container: Container, by: str) -> None:
    lists, pieces = lists_of_each(owner), pieces_of_each(container, owner)
    barred = ListOwner(owner).make("Never", is_suppression_list=True, suppress_by=by)
    for entry in ENTRIES:
        assert owner.post("/recipients", entry | {"mailing_list_id": barred}).status_code == 201
    assert asked_inline(owner) == BARRED[by]
    assert asked_of_lists(owner, lists) == BARRED[by]
    assert asked_when_due(container, pieces) == BARRED[by]


@pytest.mark.parametrize(
    ("kind", "key", "barred"),
    [
        ("address", "12MAIN ST||78701|US", {"jane", "her brother", "her lodger", "resident"}),
        ("household", "12MAIN ST||78701|US||DOE", {"jane", "her brother"}),
        ("email", "jane@example.com", {"jane", "jane elsewhere"}),
    ],
)
def test_whoever_was_forgotten_stays_barred(
    owner: Account, stranger: Account, container: Container, kind: str, key: str, barred: set[str]
) -> None:
    lists, pieces = lists_of_each(owner), pieces_of_each(container, owner)
    bar(container, owner, kind, key)
    assert asked_inline(owner) == asked_of_lists(owner, lists) == asked_when_due(container, pieces) == barred
    assert asked_inline(stranger) == set()


def bar(container: Container, who: Account, kind: str, key: str, *, sub_account_id: int | None = None) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.insert(barred_digests).values(
                account_id=who.id,
                sub_account_id=sub_account_id,
                kind=kind,
                digest=sa.func.bar_digest(who.id, kind, key),
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
    assert [asked_inline(who) for who in mates] == [{"jane", "her brother"}, {"joe"}]
    assert asked_inline(owner) == {"jane", "her brother", "joe"}
    whole = lists.make(is_suppression_list=True, suppress_by="email")
    lists.add_email(whole, "jane@example.com")
    both = {"jane", "jane elsewhere"}
    assert [asked_inline(who) for who in mates] == [both | {"her brother"}, both | {"joe"}]


def test_of_one_address_the_first_who_is_not_barred_is_mailed(owner: Account) -> None:
    barred = ListOwner(owner).make(is_suppression_list=True, suppress_by="household")
    owner.post("/recipients", JANE | {"mailing_list_id": barred})
    four = [PEOPLE[name] for name in ("jane", "her lodger", "her brother", "resident")]
    order = owner.send(recipients=four).json()["id"]
    found = [item["failure"] for item in owner.get(f"/orders/{order}/items").json()["data"]]
    assert sorted(found, key=str) == sorted([SUPPRESSED, None, SUPPRESSED, SAME_ADDRESS], key=str)
    lists = ListOwner(owner)
    listed = [lists.make(name) for name in ("one", "two", "three")]
    for list_id, someone in zip(listed, four, strict=False):
        owner.post("/recipients", someone | {"mailing_list_id": list_id})
    asked = postcard(recipients=None, mailing_list_ids=listed, allow_duplicates=True)
    data = owner.post("/estimate/postcard", asked).json()["data"]
    assert (data["total_recipients"], data["suppressed"], data["duplicates"]) == (1, 2, 0)


def test_it_is_told_and_changed_like_any_field(owner: Account, container: Container) -> None:
    lists = ListOwner(owner)
    plain, barred = lists.make(), lists.make(is_suppression_list=True)
    assert (lists.read(plain)["suppress_by"], lists.read(barred)["suppress_by"]) == (None, "address")
    for by in ("email", "household", "address"):
        changed = lists.put(f"/mailing-lists/{barred}", {"suppress_by": by})
        assert changed.json()["suppress_by"] == by
    before = traces(container)
    told = "Only a suppression list bars anyone: set is_suppression_list, or leave this out."
    for body in ({"suppress_by": "email"}, {"suppress_by": "email", "is_suppression_list": False}):
        assert field_errors(lists.put(f"/mailing-lists/{plain}", body)) == {"suppress_by": [told]}
        assert field_errors(owner.post("/mailing-lists", body | {"description": "No"})) == {"suppress_by": [told]}
    for wrong in ("phone", "", 1, ["email"], True):
        odd = {"suppress_by": wrong, "is_suppression_list": True}
        assert list(field_errors(lists.put(f"/mailing-lists/{barred}", odd))) == ["suppress_by"]
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
        barred = lists.make(is_suppression_list=True, suppress_by=by)
        for someone in (jane, *others):
            assert owner.post("/recipients", someone | {"mailing_list_id": barred}).status_code == 201
        again = owner.post("/recipients", doubled | {"mailing_list_id": barred})
        assert field_errors(again) == {"address": [TAKEN]}
        rows = owner.post("/recipients_multi", [one | {"mailing_list_id": barred} for one in (jane, *others)])
        assert [row["error"] for row in rows.json()] == [f"address: {TAKEN}"] * 2
        second = lists.on(barred)[1]["id"]
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
    barred, known = hook.list_id, lists.add(plain).json()["id"]
    before = traces(container)
    assert field_errors(lists.add(barred)) == {"email": [EMAIL_REQUIRED]}
    [row] = owner.post("/recipients_multi", [person(mailing_list_id=barred)]).json()
    assert row["error"] == f"email: {EMAIL_REQUIRED}"
    [told] = hook.rows([person()])
    assert (told["result"], told["error"]) == ("refused", f"email: {EMAIL_REQUIRED}")
    moved = owner.put(f"/recipients/{known}", {"mailing_list_id": barred})
    assert field_errors(moved) == {"email": [EMAIL_REQUIRED]}
    body = {"is_suppression_list": True, "suppress_by": "email"}
    sentence = "1 on this list have no e-mail, and would bar nobody: complete them."
    assert field_errors(lists.put(f"/mailing-lists/{plain}", body)) == {"is_suppression_list": [sentence]}
    assert traces(container) == before
    address = lists.make(is_suppression_list=True)
    lists.add(address)
    changed = lists.put(f"/mailing-lists/{address}", {"suppress_by": "email"})
    assert field_errors(changed) == {"suppress_by": [sentence]}


def test_entries_that_share_an_address_keep_a_list_from_barring_by_it(owner: Account) -> None:
    lists = ListOwner(owner)
    barred = lists.make(is_suppression_list=True, suppress_by="household")
    lists.add(barred)
    smith = lists.add(barred, name="Bob Smith").json()["id"]
    told = "1 addresses have several entries on this list, and could have one: remove some first."
    for body, field in (
        ({"suppress_by": "address"}, "suppress_by"),
        ({"is_suppression_list": False}, "is_suppression_list"),
    ):
        assert field_errors(lists.put(f"/mailing-lists/{barred}", body)) == {field: [told]}
    owner.delete(f"/recipients/{smith}")
    assert lists.put(f"/mailing-lists/{barred}", {"suppress_by": "address"}).status_code == 200
    assert field_errors(lists.add(barred, name="Bob Smith")) == {"address": [TAKEN]}


def test_lists_merge_with_those_that_bar_by_the_same(owner: Account) -> None:
    lists = ListOwner(owner)
    by = {name: lists.make(is_suppression_list=True, suppress_by=name) for name in BARRED}
    for name, other in (("address", "email"), ("household", "address")):
        merged = owner.post(f"/mailing-lists/{by[name]}/merge", {"into": by[other]})
        told = f"It bars by {other}, the other by {name}: set one suppress_by first."
        assert field_errors(merged) == {"into": [told]}
    more = lists.make(is_suppression_list=True, suppress_by="household")
    for list_id, name in ((by["household"], "Jane Doe"), (more, "Jim Doe"), (more, "Bob Smith")):
        lists.add(list_id, name=name)
    assert owner.post(f"/mailing-lists/{more}/merge", {"into": by["household"]}).status_code == 200
    assert [one["name"] for one in lists.on(by["household"])] == ["Jane Doe", "Bob Smith"]


def test_doubles_of_an_email_go_whatever_their_address(owner: Account) -> None:
    lists = ListOwner(owner)
    barred = lists.make(is_suppression_list=True, suppress_by="email")
    first = lists.add(barred, email="jane@example.com").json()["id"]
    lists.add(barred, email="Jane@example.com", address="9 Oak Ave")
    lists.add_email(barred, "jane@example.com")
    assert owner.post(f"/mailing-lists/{barred}/dedupe").json()["removed"] == 2
    assert [one["id"] for one in lists.on(barred)] == [first]
