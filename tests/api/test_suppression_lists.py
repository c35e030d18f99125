"""Suppression lists: lists like any other, whose people the account does not mail."""

import sqlalchemy as sa
from list_keeper import TAKEN, Lister, faults

from makers import Account, make_sub_account, make_teammate
from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.parts import Parts


def suppressed(parts: Parts, who: Account) -> set[tuple[str | None, str | None]]:
    """Whom the account must not mail to, as a send asks for it."""
    with parts.db.transaction(tenant(Caller(who.id, "test", who.sub_account_id))) as tx:
        asked = sa.text("select address_key, email from suppressions(:sub_account)")
        return {(key, email) for key, email in tx.execute(asked, {"sub_account": who.sub_account_id})}


def test_people_are_added_read_and_removed_as_on_any_list(owner: Account, parts: Parts) -> None:
    lists = Lister(owner)
    barred = lists.make("Do not mail", is_suppression_list=True)
    added = lists.add(barred).json()
    assert added["mailing-list"]["is_suppression_list"] is True
    assert faults(lists.add(barred)) == {"address": [TAKEN]}
    lists.add_email(barred, "Joe@example.com")
    lists.fill(lists.make("Mailed"), "9 Oak Ave")
    assert suppressed(parts, owner) == {("12MAINST||78701|US", None), (None, "joe@example.com")}
    gone = owner.post(
        "/recipients-utils/delete-by-address", {"mailing_list_id": barred, "address": "12 Main St"}
    )
    assert gone.status_code == 200
    assert suppressed(parts, owner) == {(None, "joe@example.com")}


def test_a_list_becomes_one_and_ceases_to_be(owner: Account, parts: Parts) -> None:
    lists = Lister(owner)
    list_id = lists.make()
    lists.add(list_id)
    assert suppressed(parts, owner) == set()
    for is_one, known in ((True, 1), (False, 0)):
        changed = lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": is_one})
        assert changed.json()["is_suppression_list"] is is_one
        assert len(suppressed(parts, owner)) == known


def test_the_accounts_own_holds_for_a_teammate_who_does_not_see_it(
    owner: Account, stranger: Account, parts: Parts
) -> None:
    lists = Lister(owner)
    mate = make_teammate(parts, owner, make_sub_account(parts, owner))
    barred = lists.make(is_suppression_list=True)
    lists.add(barred)
    assert mate.get(f"/mailing-lists/{barred}").status_code == 404
    assert len(suppressed(parts, mate)) == 1
    assert suppressed(parts, stranger) == set()
