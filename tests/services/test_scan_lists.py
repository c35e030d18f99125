"""Whoever scanned is on a list that the service keeps, whatever becomes of it."""

import pytest
import sqlalchemy as sa
from placing import open_account, place
from scanned import coded, come, count, counting_meanwhile, ids_of, kept_lists, rows
from tenant_rows import insert_least

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import mailing_lists, recipients, sub_accounts
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.webhooks.service import holder_of


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def test_whoever_scanned_is_on_the_list_that_we_keep_once(parts: Parts, owner: Caller, clock: Clock) -> None:
    everyone = [people(1)[0] | {"email": "one@example.com", "custom1": "blue"}, *people(3)[1:]]
    order = place(parts, owner, everyone, qrcode_url="https://shop.example.com/")
    again = coded(parts, owner, 1)
    a, b, _ = ids_of(parts, order)
    come(parts, a, b, a, *ids_of(parts, again))
    count(parts)
    assert [tuple(row) for row in kept_lists(parts)] == [(owner.account_id, None, "test", "qrscans", 2)]
    found = rows(parts, sa.select(recipients).order_by(recipients.c.id))
    assert [(p.name, p.email, p.custom1) for p in found] == [
        ("Person 1", "one@example.com", "blue"), ("Person 2", None, None)
    ]  # fmt: skip

    # Whoever is taken off comes back with the next scan, and not before.
    with parts.db.work() as tx:
        tx.execute(sa.delete(recipients).where(recipients.c.name == "Person 1"))
    come(parts, b)
    count(parts)
    assert kept_lists(parts)[0].total_recipients == 1
    clock.advance(days=1)
    come(parts, a)
    count(parts)
    assert kept_lists(parts)[0].total_recipients == 2
    [back] = rows(parts, sa.select(recipients.c.created_at).where(recipients.c.name == "Person 1"))
    assert back.created_at == parts.clock()


def test_each_home_and_mode_has_its_own_list(parts: Parts, owner: Caller) -> None:
    live = Caller(owner.account_id, "live")
    other = open_account(parts, "other@example.com")
    with parts.db.work() as tx:
        known: dict[str, object] = {"account_id": owner.account_id}
        branch, closed = (insert_least(tx, sub_accounts, known) for _ in range(2))
    for who, home in ((owner, None), (live, None), (other, None), (owner, branch), (owner, closed)):
        order = coded(parts, who, sub_account_id=home)
        if home == closed:
            with parts.db.work() as tx:
                tx.execute(
                    sa.update(sub_accounts)
                    .where(sub_accounts.c.id == closed)
                    .values(deleted_at=parts.clock())
                )
        come(parts, *ids_of(parts, order))
    count(parts)
    assert {tuple(row)[:3] for row in kept_lists(parts)} == {
        (owner.account_id, None, "test"), (owner.account_id, None, "live"),
        (other.account_id, None, "test"), (owner.account_id, branch, "test"),
    }  # fmt: skip
    assert {row.total_recipients for row in kept_lists(parts)} == {1}


def test_every_list_that_we_keep_has_a_key_that_opens_it_alone(parts: Parts, owner: Caller) -> None:
    for who in (owner, Caller(owner.account_id, "live"), open_account(parts, "other@example.com")):
        come(parts, *ids_of(parts, coded(parts, who)))
    count(parts)
    ids = [row.id for row in rows(parts, sa.select(mailing_lists.c.id))]
    assert len(ids) == 3
    keys: dict[int, str] = {}
    for _ in range(2):  # a later count leaves them as they are
        with parts.db.work() as tx:
            found = {list_id: list_service.key_of(parts.sealer, read_list(tx, list_id)) for list_id in ids}
        assert (keys or found) == found
        keys = found
        come(parts, *ids_of(parts, coded(parts, owner)))
        count(parts)
    for list_id, key in keys.items():
        holder = holder_of(parts.db, key)
        assert holder is not None
        assert holder.list_id == list_id


def test_a_list_that_is_deleted_is_made_again(parts: Parts, owner: Caller) -> None:
    order = coded(parts, owner)
    for _ in range(2):
        come(parts, *ids_of(parts, order))
        count(parts)
        [kept] = rows(parts, sa.select(mailing_lists.c.id).where(mailing_lists.c.kept_for == "test"))
        with parts.db.transaction(tenant(owner)) as tx:
            list_service.end_list(tx, kept.id)
    assert kept_lists(parts) == []


def test_a_list_that_is_deleted_at_this_moment_is_made_again(parts: Parts, owner: Caller) -> None:
    order = coded(parts, owner)
    come(parts, *ids_of(parts, order))
    count(parts)
    [kept] = rows(parts, sa.select(mailing_lists.c.id).where(mailing_lists.c.kept_for == "test"))
    come(parts, *ids_of(parts, order))
    with counting_meanwhile(parts) as (tx, begin):
        tx.execute(sa.delete(mailing_lists).where(mailing_lists.c.id == kept.id))
        begin()
    assert [row.total_recipients for row in kept_lists(parts)] == [1]
