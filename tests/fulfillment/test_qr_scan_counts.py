"""What scans add up to: on items, orders and lists."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import fact_queue, items, mailing_lists, recipients, sub_accounts
from quillpost.fulfillment.qr_scans import tasks as scan_tasks
from quillpost.orders.items.queries import list_item_steps, read_item
from quillpost.orders.queries import change_status
from quillpost.orders.rules import OrderStatus
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.webhooks.service import find_key_owner
from support.factories import Clock, people
from support.list_rows import make_list
from support.orders import create_order, fact_rows, item_rows, open_account, order_row
from support.qr_scans import (
    count_during_transaction,
    count_scans,
    ids_of,
    inbox_rows,
    order_with_codes,
    record_scans,
    rows,
    scanner_lists,
    visit_rows,
)
from support.tenant_rows import insert_least

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def list_row(container: Container, list_id: int) -> tuple[Any, ...]:
    names = ("total_scans", "unique_scans", "last_scan")
    return rows(container, sa.select(*(mailing_lists.c[n] for n in names)).where(mailing_lists.c.id == list_id))[0]


def test_every_count_follows_from_the_scans(container: Container, owner: Caller, clock: Clock) -> None:
    list_id = make_list(container, owner, people(3))
    order = order_with_codes(container, owner, 3, list_id=list_id)
    a, b, c = ids_of(container, order)
    first = container.clock()
    record_scans(container, a)
    clock.advance(minutes=1)
    record_scans(container, b, a, a)
    last = container.clock()
    clock.advance(seconds=3)
    assert (count_scans(container), count_scans(container), inbox_rows(container)) == (4, 0, [])

    with container.db.system_transaction() as tx:
        assert [row.scans for row in item_rows(tx, order)] == [3, 1, 0]
        assert (order_row(tx, order).total_scans, order_row(tx, order).multi_scans) == (4, 1)
    assert list_row(container, list_id) == (4, 2, last)
    assert [(v.item_id, v.at, v.kind) for v in visit_rows(container)] == [
        (a, first, "person"), (b, last, "person"), (a, last, "person"), (a, last, "person"),
    ]  # fmt: skip

    record_scans(container, b, c)
    assert count_scans(container) == 2
    with container.db.system_transaction() as tx:
        assert [row.scans for row in item_rows(tx, order)] == [3, 2, 1]
        assert (order_row(tx, order).total_scans, order_row(tx, order).multi_scans) == (6, 2)
    assert list_row(container, list_id)[:2] == (6, 3)


def test_each_scan_is_a_fact_that_says_how_many_there_were(container: Container, owner: Caller, clock: Clock) -> None:
    order = order_with_codes(container, owner, 2)
    a, b = ids_of(container, order)
    record_scans(container, a, b, a)
    scanned_at = container.clock()
    clock.advance(hours=1)
    count_scans(container)
    record_scans(container, a)
    count_scans(container)
    with container.db.system_transaction() as tx:
        events = [fact for fact in fact_rows(tx, order) if fact.kind == "item.scan"]
        waiting = set(tx.execute(sa.select(fact_queue.c.fact_id)).scalars())
    assert [(f.item_id, f.scans, f.previous, f.current, f.order_status) for f in events] == [
        (a, 1, None, "Processing", "reviewing"),
        (b, 1, None, "Processing", "reviewing"),
        (a, 2, None, "Processing", "reviewing"),
        (a, 3, None, "Processing", "reviewing"),
    ]
    assert [fact.at for fact in events] == [scanned_at] * 3 + [scanned_at + timedelta(hours=1)]
    assert {fact.id for fact in events} <= waiting
    assert len({fact.event_id for fact in events}) == 4


@pytest.mark.parametrize("kind", ["bot", "preview"])
def test_machines_count_for_nothing(container: Container, owner: Caller, kind: str) -> None:
    list_id = make_list(container, owner, people(1))
    order = order_with_codes(container, owner, list_id=list_id)
    [piece] = ids_of(container, order)
    with container.db.system_transaction() as tx:
        before = order_row(tx, order), item_rows(tx, order), fact_rows(tx, order)
    record_scans(container, piece, piece, kind=kind)  # type: ignore[arg-type]
    assert count_scans(container) == 2
    with container.db.system_transaction() as tx:
        assert (order_row(tx, order), item_rows(tx, order), fact_rows(tx, order)) == before
    assert list_row(container, list_id) == (0, 0, None)
    assert scanner_lists(container) == []
    assert [visit.kind for visit in visit_rows(container)] == [kind] * 2
    # Nor do they move the numbers of those that count.
    record_scans(container, piece)
    record_scans(container, piece, kind=kind)  # type: ignore[arg-type]
    record_scans(container, piece)
    count_scans(container)
    with container.db.system_transaction() as tx:
        assert [f.scans for f in fact_rows(tx, order) if f.kind == "item.scan"] == [1, 2]


def test_a_count_that_crashes_is_rolled_back_and_repeated(
    container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_with_codes(container, owner)
    record_scans(container, *ids_of(container, order))

    def die(*_given: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("quillpost.fulfillment.qr_scans.queries.insert_scan_news", die)
        with pytest.raises(KeyboardInterrupt):
            count_scans(container)
    assert (len(inbox_rows(container)), visit_rows(container), scanner_lists(container)) == (1, [], [])
    assert count_scans(container) == 1
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).total_scans == 1


def test_of_two_that_count_one_does(container: Container, owner: Caller) -> None:
    record_scans(container, *ids_of(container, order_with_codes(container, owner)))
    with container.db.system_transaction() as tx:
        assert scan_tasks.count_scans(tx, container.encryptor, container.clock, limit=10) == 1
        assert count_scans(container) == 0
    assert len(visit_rows(container)) == 1


def test_much_is_counted_in_parts(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner, 3)
    record_scans(container, *ids_of(container, order) * 3)
    assert [count_scans(container, most=4) for _ in range(4)] == [4, 4, 1, 0]
    with container.db.system_transaction() as tx:
        assert [row.scans for row in item_rows(tx, order)] == [3, 3, 3]
        assert (order_row(tx, order).total_scans, order_row(tx, order).multi_scans) == (9, 3)


def test_scans_of_what_is_gone_are_dropped(container: Container, owner: Caller) -> None:
    gone, here = order_with_codes(container, owner), order_with_codes(container, owner)
    record_scans(container, *ids_of(container, gone), *ids_of(container, here), 4_711)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from orders where id = :id"), {"id": gone.id})
    assert (count_scans(container), inbox_rows(container)) == (3, [])
    assert [visit.order_id for visit in visit_rows(container)] == [here.id]


def test_scans_of_a_list_that_is_gone_count_for_the_order(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner, list_id=4_711)
    record_scans(container, *ids_of(container, order))
    assert count_scans(container) == 1
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).total_scans == 1


def test_whoever_merges_a_list_meanwhile_waits_in_no_circle(container: Container, owner: Caller) -> None:
    """Lists before orders: the merge has the list and goes on to the order while the count waits."""
    list_id = make_list(container, owner, people(1))
    order = order_with_codes(container, owner, list_id=list_id)
    record_scans(container, *ids_of(container, order))
    with count_during_transaction(container) as (tx, begin):
        tx.execute(sa.select(mailing_lists.c.id).where(mailing_lists.c.id == list_id).with_for_update())
        begin()
        tx.execute(sa.text("select id from orders where id = :id for no key update nowait"), {"id": order.id})
    assert list_row(container, list_id)[:2] == (1, 1)


def test_orders_are_taken_in_the_order_of_their_ids(container: Container, owner: Caller) -> None:
    lower, higher = order_with_codes(container, owner), order_with_codes(container, owner)
    record_scans(container, *ids_of(container, higher), *ids_of(container, lower))
    hold = sa.text("select id from orders where id = :id for no key update nowait")
    with count_during_transaction(container) as (tx, begin):
        tx.execute(hold, {"id": lower.id})
        begin()
        tx.execute(hold, {"id": higher.id})
    assert len(visit_rows(container)) == 2


def test_a_scan_changes_nothing_of_where_a_piece_has_been(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner)
    [piece] = ids_of(container, order)
    with container.db.system_transaction() as tx:
        before = list_item_steps(tx, read_item(tx, piece))
    record_scans(container, piece)
    count_scans(container)
    with container.db.system_transaction() as tx:
        assert list_item_steps(tx, read_item(tx, piece)) == before


def test_a_scan_of_a_cancelled_piece_does_not_hide_that_it_was(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner)
    [piece] = ids_of(container, order)
    now = container.clock()
    with container.db.system_transaction() as tx:
        change_status(tx, [order.id], expected=[OrderStatus.REVIEWING], new_status=OrderStatus.CANCELLED, now=now)
        tx.execute(sa.update(items).where(items.c.id == piece).values(status="Failed", failure="Order cancelled"))
        tx.execute(
            sa.text(
                """insert into facts (account_id, mode, kind, order_id, order_status, previous, current, at)
                   values (:account, 'test', 'order.status', :order, 'cancelled', 'reviewing', 'cancelled',
                           :now)"""
            ),
            {"account": owner.account_id, "order": order.id, "now": now},
        )
        before = list_item_steps(tx, read_item(tx, piece))
        assert [step.status for step in before] == ["Processing", "Failed"]
    record_scans(container, piece)
    count_scans(container)
    with container.db.system_transaction() as tx:
        assert list_item_steps(tx, read_item(tx, piece)) == before


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
