"""Suppression lists: lists like any other, whose people the account does not mail."""

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.recipients.rules import INEFFECTIVE_ENTRY, SUPPRESSED, check_recipient
from support.factories import Account, Clock, make_sub_account, make_teammate, person, postcard, run_jobs_for
from support.mailing_lists import TAKEN, ListOwner, field_errors
from support.traces import traces

JOE = "joe@example.com"


JANE, NEIGHBOUR = (check_recipient(person(address=street))[0] for street in ("12 Main St", "14 Main St"))
LOOKUPS = ("Jane", JANE.address_key, None), ("a neighbour", NEIGHBOUR.address_key, None), ("Joe", None, JOE)


def suppressed(container: Container, account: Account) -> set[str]:
    """Of those at two addresses and one with an e-mail, whom the account must not mail to, as a send asks."""
    _, keys, emails = zip(*LOOKUPS, strict=True)
    query = sa.text(
        "select suppressed_places(:sub_account, 'test', cast(:keys as text[]), cast(:none as text[]),"
        " cast(:emails as text[]))"
    )
    with container.db.transaction(build_tenant(Caller(account.id, "test", account.sub_account_id))) as tx:
        places = tx.execute(
            query,
            {
                "sub_account": account.sub_account_id,
                "keys": list(keys),
                "none": [None] * len(keys),
                "emails": list(emails),
            },
        )
        return {LOOKUPS[place - 1][0] for place in places.scalars()}


def test_people_are_added_read_and_removed_as_on_any_list(owner: Account, container: Container) -> None:
    lists = ListOwner(owner)
    suppression_list = lists.make("Do not mail", is_suppression_list=True)
    added = lists.add(suppression_list).json()
    assert added["mailing-list"]["is_suppression_list"] is True
    assert field_errors(lists.add(suppression_list)) == {"address": [TAKEN]}
    lists.add_email(suppression_list, "Joe@example.com")
    lists.fill(lists.make("Mailed"), "9 Oak Ave")
    assert suppressed(container, owner) == {"Jane", "Joe"}
    gone = owner.post(
        "/recipients-utils/delete-by-address", {"mailing_list_id": suppression_list, "address": "12 Main St"}
    )
    assert gone.status_code == 200
    assert suppressed(container, owner) == {"Joe"}


def test_a_list_becomes_one_and_ceases_to_be(owner: Account, container: Container) -> None:
    lists = ListOwner(owner)
    list_id = lists.make()
    lists.add(list_id)
    assert suppressed(container, owner) == set()
    for is_one, known in ((True, {"Jane"}), (False, set())):
        changed = lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": is_one})
        assert changed.json()["is_suppression_list"] is is_one
        assert suppressed(container, owner) == known


def test_the_accounts_own_list_applies_to_teammates_without_access(
    owner: Account, stranger: Account, container: Container
) -> None:
    lists = ListOwner(owner)
    mate = make_teammate(container, owner, make_sub_account(container, owner))
    suppression_list = lists.make(is_suppression_list=True)
    lists.add(suppression_list)
    assert mate.get(f"/mailing-lists/{suppression_list}").status_code == 404
    assert suppressed(container, mate) == {"Jane"}
    assert suppressed(container, stranger) == set()


HALF = {"address": "12 Main St", "city": "Austin", "province": "TX"}


def test_half_an_address_bars_by_its_email(owner: Account) -> None:
    """A street may be in many places: it bars none of them."""
    lists = ListOwner(owner)
    suppression_list = lists.make(is_suppression_list=True)
    jane, joe = person(email="jane@example.com"), person(email="joe@example.com")
    added = owner.post("/recipients", HALF | {"email": "Jane@example.com", "mailing_list_id": suppression_list})
    assert added.status_code == 201, added.text
    listed = [lists.make(), lists.make()]
    for list_id, someone in zip(listed, (jane, joe), strict=True):
        owner.post("/recipients", someone | {"mailing_list_id": list_id})
    for audience, suppressed in (
        ({"recipients": [jane]}, 1),
        ({"recipients": [joe]}, 0),
        ({"recipients": None, "mailing_list_ids": listed[:1]}, 1),
        ({"recipients": None, "mailing_list_ids": listed[1:]}, 0),
    ):
        estimate = owner.post("/estimate/postcard", postcard(**audience)).json()["data"]
        assert (estimate["suppressed"], estimate["total_recipients"]) == (suppressed, 1 - suppressed)


@pytest.mark.usefixtures("clean_database")
def test_half_an_address_that_comes_onto_the_list_later_stops_the_piece(
    owner: Account, container: Container, clock: Clock
) -> None:
    order = owner.send(recipients=[person(email="jane@example.com")]).json()["id"]
    suppression_list = ListOwner(owner).make(is_suppression_list=True)
    owner.post("/recipients", HALF | {"email": "jane@example.com", "mailing_list_id": suppression_list})
    run_jobs_for(container, clock, seconds=15)
    [item] = owner.get(f"/orders/{order}/items").json()["data"]
    assert (item["status"], item["failure"]) == ("Failed", SUPPRESSED)


def test_an_entry_that_would_suppress_nobody_is_refused(owner: Account, container: Container) -> None:
    lists = ListOwner(owner)
    suppression_list, plain = lists.make(is_suppression_list=True), lists.make()
    before = traces(container)
    assert field_errors(owner.post("/recipients", HALF | {"mailing_list_id": suppression_list})) == {
        "address": [INEFFECTIVE_ENTRY]
    }
    [row] = owner.post("/recipients_multi", [HALF | {"mailing_list_id": suppression_list}]).json()
    assert row["error"] == f"address: {INEFFECTIVE_ENTRY}"
    assert traces(container) == before
    half = owner.post("/recipients", HALF | {"mailing_list_id": plain}).json()["id"]
    moved = owner.put(f"/recipients/{half}", {"mailing_list_id": suppression_list})
    assert field_errors(moved) == {"address": [INEFFECTIVE_ENTRY]}
    changed = lists.put(f"/mailing-lists/{plain}", {"is_suppression_list": True})
    assert list(field_errors(changed)) == ["is_suppression_list"]
    owner.put(f"/recipients/{half}", {"postal_code": "78701"})
    assert lists.put(f"/mailing-lists/{plain}", {"is_suppression_list": True}).status_code == 200
