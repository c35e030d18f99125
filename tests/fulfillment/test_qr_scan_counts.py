"""What scans add up to: on items, orders and lists."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import fact_queue, facts, items, mailing_lists, recipients, sub_accounts
from quillpost.fulfillment.qr_scans import tasks as scan_tasks
from quillpost.fulfillment.qr_scans.rules import VisitorKind
from quillpost.orders.items.queries import HistoryStep, list_item_steps, read_item
from quillpost.orders.models import Order
from quillpost.orders.queries import change_status
from quillpost.orders.rules import OrderStatus
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.webhooks.service import find_key_owner
from support.factories import Clock, people
from support.mailing_lists import make_list
from support.orders import create_order, fact_rows, item_ids, item_rows, open_account, order_row
from support.qr_scans import (
    count_during_transaction,
    count_scans,
    inbox_rows,
    order_with_codes,
    record_scans,
    scanner_lists,
    visit_rows,
)
from support.rows import execute, scalar, scalars
from support.tenant_rows import insert_least

pytestmark = pytest.mark.usefixtures("clean_database")


def list_row(container: Container, list_id: int) -> tuple[Any, ...]:
    """How often its people have scanned, how many of them, and when the last did."""
    counts = (mailing_lists.c[name] for name in ("total_scans", "unique_scans", "last_scan"))
    return tuple(execute(container, sa.select(*counts).where(mailing_lists.c.id == list_id))[0])


def order_counts(container: Container, order: Order) -> tuple[list[int], int, int]:
    """Scans of each item, of all, and how many items were scanned more than once."""
    row = order_row(container, order)
    return [item.scans for item in item_rows(container, order)], row.total_scans, row.multi_scans


def scan_facts(container: Container, order: Order) -> list[sa.Row[Any]]:
    return [fact for fact in fact_rows(container, order) if fact.kind == "item.scan"]


def count_of(container: Container, *item_ids: int) -> None:
    """They are scanned and counted."""
    record_scans(container, *item_ids)
    assert count_scans(container) == len(item_ids)


def test_every_count_follows_from_the_scans(container: Container, caller: Caller, clock: Clock) -> None:
    list_id = make_list(container, caller, people(3))
    order = order_with_codes(container, caller, 3, list_id=list_id)
    a, b, c = item_ids(container, order)
    first = container.clock()
    record_scans(container, a)
    clock.advance(minutes=1)
    record_scans(container, b, a, a)
    last = container.clock()
    clock.advance(seconds=3)
    assert (count_scans(container), count_scans(container), inbox_rows(container)) == (4, 0, [])
    assert order_counts(container, order) == ([3, 1, 0], 4, 1)
    assert list_row(container, list_id) == (4, 2, last)
    assert [(v.item_id, v.at, v.kind) for v in visit_rows(container)] == [
        (a, first, "person"), (b, last, "person"), (a, last, "person"), (a, last, "person"),
    ]  # fmt: skip
    count_of(container, b, c)
    assert order_counts(container, order) == ([3, 2, 1], 6, 2)
    assert list_row(container, list_id)[:2] == (6, 3)


def test_each_scan_is_a_fact_that_says_how_many_there_were(container: Container, caller: Caller, clock: Clock) -> None:
    order = order_with_codes(container, caller, 2)
    a, b = item_ids(container, order)
    record_scans(container, a, b, a)
    scanned_at = container.clock()
    clock.advance(hours=1)
    count_scans(container)
    count_of(container, a)
    events = scan_facts(container, order)
    assert [(f.item_id, f.scans, f.previous, f.current, f.order_status) for f in events] == [
        (item, scans, None, "Processing", "reviewing") for item, scans in ((a, 1), (b, 1), (a, 2), (a, 3))
    ]
    assert [fact.at for fact in events] == [scanned_at] * 3 + [scanned_at + timedelta(hours=1)]
    assert {fact.id for fact in events} <= set(scalars(container, sa.select(fact_queue.c.fact_id)))
    assert len({fact.event_id for fact in events}) == 4


@pytest.mark.parametrize("kind", ["bot", "preview"])
def test_machines_count_for_nothing(container: Container, caller: Caller, kind: VisitorKind) -> None:
    list_id = make_list(container, caller, people(1))
    order = order_with_codes(container, caller, list_id=list_id)
    [piece] = item_ids(container, order)
    known = (order_row, item_rows, fact_rows)
    before = [look(container, order) for look in known]
    record_scans(container, piece, piece, kind=kind)
    assert count_scans(container) == 2
    assert [look(container, order) for look in known] == before
    assert (list_row(container, list_id), scanner_lists(container)) == ((0, 0, None), [])
    assert [visit.kind for visit in visit_rows(container)] == [kind] * 2
    # Nor do they move the numbers of those that count.
    record_scans(container, piece)
    record_scans(container, piece, kind=kind)
    record_scans(container, piece)
    assert count_scans(container) == 3
    assert [fact.scans for fact in scan_facts(container, order)] == [1, 2]


def test_a_crashed_count_is_repeated(container: Container, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    order = order_with_codes(container, caller)
    record_scans(container, *item_ids(container, order))

    def die(*_given: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("quillpost.fulfillment.qr_scans.queries.insert_scan_news", die)
        with pytest.raises(KeyboardInterrupt):
            count_scans(container)
    assert (len(inbox_rows(container)), visit_rows(container), scanner_lists(container)) == (1, [], [])
    assert count_scans(container) == 1
    assert order_row(container, order).total_scans == 1


def test_of_two_that_count_one_does(container: Container, caller: Caller) -> None:
    record_scans(container, *item_ids(container, order_with_codes(container, caller)))
    with container.db.system_transaction() as tx:
        assert scan_tasks.count_scans(tx, container.encryptor, container.clock, limit=10) == 1
        assert count_scans(container) == 0
    assert len(visit_rows(container)) == 1


def test_much_is_counted_in_parts(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller, 3)
    record_scans(container, *item_ids(container, order) * 3)
    assert [count_scans(container, most=4) for _ in range(4)] == [4, 4, 1, 0]
    assert order_counts(container, order) == ([3, 3, 3], 9, 3)


def test_scans_of_what_is_gone_are_dropped(container: Container, caller: Caller) -> None:
    gone, here = order_with_codes(container, caller), order_with_codes(container, caller, list_id=4_711)
    record_scans(container, *item_ids(container, gone), *item_ids(container, here), 4_711)
    execute(container, "delete from orders where id = :id", id=gone.id)
    assert (count_scans(container), inbox_rows(container)) == (3, [])
    assert [visit.order_id for visit in visit_rows(container)] == [here.id]
    assert order_row(container, here).total_scans == 1, "though its list is gone"


def test_whoever_merges_a_list_meanwhile_waits_in_no_circle(container: Container, caller: Caller) -> None:
    """Lists before orders: the merge has the list and goes on to the order while the count waits."""
    list_id = make_list(container, caller, people(1))
    order = order_with_codes(container, caller, list_id=list_id)
    record_scans(container, *item_ids(container, order))
    with count_during_transaction(container) as (tx, begin):
        tx.execute(sa.select(mailing_lists.c.id).where(mailing_lists.c.id == list_id).with_for_update())
        begin()
        tx.execute(sa.text("select id from orders where id = :id for no key update nowait"), {"id": order.id})
    assert list_row(container, list_id)[:2] == (1, 1)


def test_orders_are_taken_in_the_order_of_their_ids(container: Container, caller: Caller) -> None:
    lower, higher = order_with_codes(container, caller), order_with_codes(container, caller)
    record_scans(container, *item_ids(container, higher), *item_ids(container, lower))
    hold = sa.text("select id from orders where id = :id for no key update nowait")
    with count_during_transaction(container) as (tx, begin):
        tx.execute(hold, {"id": lower.id})
        begin()
        tx.execute(hold, {"id": higher.id})
    assert len(visit_rows(container)) == 2


def test_a_scan_hides_neither_where_a_piece_was_nor_that_it_ended(container: Container, caller: Caller) -> None:
    order, now = order_with_codes(container, caller), container.clock()
    [piece] = item_ids(container, order)

    def steps() -> list[HistoryStep]:
        with container.db.system_transaction() as tx:
            return list(list_item_steps(tx, read_item(tx, piece)))

    before = steps()
    count_of(container, piece)
    assert steps() == before
    with container.db.system_transaction() as tx:
        change_status(tx, [order.id], expected=[OrderStatus.REVIEWING], new_status=OrderStatus.CANCELLED, now=now)
    execute(container, sa.update(items).where(items.c.id == piece).values(status="Failed", failure="Order cancelled"))
    cancelled = {"mode": "test", "kind": "order.status", "order_status": "cancelled", "previous": "reviewing"}
    whose = {"account_id": caller.account_id, "order_id": order.id, "current": "cancelled", "at": now}
    execute(container, sa.insert(facts).values(**cancelled, **whose))
    before = steps()
    assert [step.status for step in before] == ["Processing", "Failed"]
    count_of(container, piece)
    assert steps() == before


def test_whoever_scanned_is_on_the_list_that_we_keep_once(container: Container, caller: Caller, clock: Clock) -> None:
    everyone = [people(1)[0] | {"email": "one@example.com", "custom1": "blue"}, *people(3)[1:]]
    order = create_order(container, caller, everyone, qrcode_url="https://shop.example.com/")
    again = order_with_codes(container, caller, 1)
    a, b, _ = item_ids(container, order)
    count_of(container, a, b, a, *item_ids(container, again))
    assert [tuple(row) for row in scanner_lists(container)] == [(caller.account_id, None, "test", "qrscans", 2)]
    found = execute(container, sa.select(recipients).order_by(recipients.c.id))
    assert [(p.name, p.email, p.custom1) for p in found] == [
        ("Person 1", "one@example.com", "blue"), ("Person 2", None, None)
    ]  # fmt: skip

    # Whoever is taken off comes back with the next scan, and not before.
    execute(container, sa.delete(recipients).where(recipients.c.name == "Person 1"))
    count_of(container, b)
    assert scanner_lists(container)[0].total_recipients == 1
    clock.advance(days=1)
    count_of(container, a)
    assert scanner_lists(container)[0].total_recipients == 2
    back = sa.select(recipients.c.created_at).where(recipients.c.name == "Person 1")
    assert scalar(container, back) == container.clock()


def test_each_home_and_mode_has_its_own_list(container: Container, caller: Caller) -> None:
    live = Caller(caller.account_id, "live")
    other = open_account(container, "other@example.com")
    with container.db.system_transaction() as tx:
        known: dict[str, object] = {"account_id": caller.account_id}
        branch, closed = (insert_least(tx, sub_accounts, known) for _ in range(2))
    for sender, home in ((caller, None), (live, None), (other, None), (caller, branch), (caller, closed)):
        order = order_with_codes(container, sender, sub_account_id=home)
        if home == closed:
            execute(container, "update sub_accounts set deleted_at = created_at where id = :id", id=closed)
        count_of(container, *item_ids(container, order))
    assert {tuple(row)[:3] for row in scanner_lists(container)} == {
        (caller.account_id, None, "test"), (caller.account_id, None, "live"),
        (other.account_id, None, "test"), (caller.account_id, branch, "test"),
    }  # fmt: skip
    assert {row.total_recipients for row in scanner_lists(container)} == {1}


def test_every_list_that_we_keep_has_a_key_that_opens_it_alone(container: Container, caller: Caller) -> None:
    for sender in (caller, Caller(caller.account_id, "live"), open_account(container, "other@example.com")):
        count_of(container, *item_ids(container, order_with_codes(container, sender)))
    ids = scalars(container, sa.select(mailing_lists.c.id))
    assert len(ids) == 3

    def keys() -> dict[int, str]:
        with container.db.system_transaction() as tx:
            return {key: list_service.decrypt_list_key(container.encryptor, read_list(tx, key)) for key in ids}

    before = keys()
    count_of(container, *item_ids(container, order_with_codes(container, caller)))
    assert keys() == before, "a later count leaves them as they are"
    for list_id, key in before.items():
        holder = find_key_owner(container.db, key)
        assert holder is not None
        assert holder.list_id == list_id


def test_a_list_that_is_deleted_at_this_moment_is_made_again(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller)
    count_of(container, *item_ids(container, order))
    record_scans(container, *item_ids(container, order))
    with count_during_transaction(container) as (tx, begin):
        tx.execute(sa.delete(mailing_lists).where(mailing_lists.c.kept_for == "test"))
        begin()
    assert [row.total_recipients for row in scanner_lists(container)] == [1]
