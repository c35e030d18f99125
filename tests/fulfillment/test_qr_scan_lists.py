"""Whoever scanned is on a list that the service keeps, whatever becomes of it."""

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists, recipients, sub_accounts
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.webhooks.service import find_key_owner
from support.factories import Clock, people
from support.orders import create_order, open_account
from support.qr_scans import (
    count_during_transaction,
    count_scans,
    ids_of,
    order_with_codes,
    record_scans,
    rows,
    scanner_lists,
)
from support.tenant_rows import insert_least

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def test_whoever_scanned_is_on_the_list_that_we_keep_once(container: Container, owner: Caller, clock: Clock) -> None:
    everyone = [people(1)[0] | {"email": "one@example.com", "custom1": "blue"}, *people(3)[1:]]
    order = create_order(container, owner, everyone, qrcode_url="https://shop.example.com/")
    again = order_with_codes(container, owner, 1)
    a, b, _ = ids_of(container, order)
    record_scans(container, a, b, a, *ids_of(container, again))
    count_scans(container)
    assert [tuple(row) for row in scanner_lists(container)] == [(owner.account_id, None, "test", "qrscans", 2)]
    found = rows(container, sa.select(recipients).order_by(recipients.c.id))
    assert [(p.name, p.email, p.custom1) for p in found] == [
        ("Person 1", "one@example.com", "blue"), ("Person 2", None, None)
    ]  # fmt: skip

    # Whoever is taken off comes back with the next scan, and not before.
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(recipients).where(recipients.c.name == "Person 1"))
    record_scans(container, b)
    count_scans(container)
    assert scanner_lists(container)[0].total_recipients == 1
    clock.advance(days=1)
    record_scans(container, a)
    count_scans(container)
    assert scanner_lists(container)[0].total_recipients == 2
    [back] = rows(container, sa.select(recipients.c.created_at).where(recipients.c.name == "Person 1"))
    assert back.created_at == container.clock()


def test_each_home_and_mode_has_its_own_list(container: Container, owner: Caller) -> None:
    live = Caller(owner.account_id, "live")
    other = open_account(container, "other@example.com")
    with container.db.system_transaction() as tx:
        known: dict[str, object] = {"account_id": owner.account_id}
        branch, closed = (insert_least(tx, sub_accounts, known) for _ in range(2))
    for caller, home in ((owner, None), (live, None), (other, None), (owner, branch), (owner, closed)):
        order = order_with_codes(container, caller, sub_account_id=home)
        if home == closed:
            with container.db.system_transaction() as tx:
                tx.execute(
                    sa.update(sub_accounts).where(sub_accounts.c.id == closed).values(deleted_at=container.clock())
                )
        record_scans(container, *ids_of(container, order))
    count_scans(container)
    assert {tuple(row)[:3] for row in scanner_lists(container)} == {
        (owner.account_id, None, "test"), (owner.account_id, None, "live"),
        (other.account_id, None, "test"), (owner.account_id, branch, "test"),
    }  # fmt: skip
    assert {row.total_recipients for row in scanner_lists(container)} == {1}


def test_every_list_that_we_keep_has_a_key_that_opens_it_alone(container: Container, owner: Caller) -> None:
    for caller in (owner, Caller(owner.account_id, "live"), open_account(container, "other@example.com")):
        record_scans(container, *ids_of(container, order_with_codes(container, caller)))
    count_scans(container)
    ids = [row.id for row in rows(container, sa.select(mailing_lists.c.id))]
    assert len(ids) == 3
    keys: dict[int, str] = {}
    for _ in range(2):  # a later count leaves them as they are
        with container.db.system_transaction() as tx:
            found = {
                list_id: list_service.decrypt_list_key(container.encryptor, read_list(tx, list_id)) for list_id in ids
            }
        assert (keys or found) == found
        keys = found
        record_scans(container, *ids_of(container, order_with_codes(container, owner)))
        count_scans(container)
    for list_id, key in keys.items():
        holder = find_key_owner(container.db, key)
        assert holder is not None
        assert holder.list_id == list_id


def test_a_list_that_is_deleted_is_made_again(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner)
    for _ in range(2):
        record_scans(container, *ids_of(container, order))
        count_scans(container)
        [kept] = rows(container, sa.select(mailing_lists.c.id).where(mailing_lists.c.kept_for == "test"))
        with container.db.transaction(build_tenant(owner)) as tx:
            list_service.remove_list(tx, kept.id)
    assert scanner_lists(container) == []


def test_a_list_that_is_deleted_at_this_moment_is_made_again(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner)
    record_scans(container, *ids_of(container, order))
    count_scans(container)
    [kept] = rows(container, sa.select(mailing_lists.c.id).where(mailing_lists.c.kept_for == "test"))
    record_scans(container, *ids_of(container, order))
    with count_during_transaction(container) as (tx, begin):
        tx.execute(sa.delete(mailing_lists).where(mailing_lists.c.id == kept.id))
        begin()
    assert [row.total_recipients for row in scanner_lists(container)] == [1]
