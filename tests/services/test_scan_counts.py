"""Scans are counted once, everywhere alike, whatever comes in between."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from listing import make_list
from placing import fact_rows, item_rows, open_account, order_row
from scanned import coded, come, count, counting_meanwhile, ids_of, inbox, kept_lists, rows, visited

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import fact_queue, items, mailing_lists
from quillpost.fulfillment.qr_scans import tasks as scan_tasks
from quillpost.orders.items import swap_status
from quillpost.orders.queries import history, read_item
from quillpost.orders.rules import OrderStatus


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def list_row(parts: Parts, list_id: int) -> tuple[Any, ...]:
    names = ("total_scans", "unique_scans", "last_scan")
    return rows(parts, sa.select(*(mailing_lists.c[n] for n in names)).where(mailing_lists.c.id == list_id))[
        0
    ]


def test_every_count_follows_from_the_scans(parts: Parts, owner: Caller, clock: Clock) -> None:
    list_id = make_list(parts, owner, people(3))
    order = coded(parts, owner, 3, list_id=list_id)
    a, b, c = ids_of(parts, order)
    first = parts.clock()
    come(parts, a)
    clock.advance(minutes=1)
    come(parts, b, a, a)
    last = parts.clock()
    clock.advance(seconds=3)
    assert (count(parts), count(parts), inbox(parts)) == (4, 0, [])

    with parts.db.work() as tx:
        assert [row.scans for row in item_rows(tx, order)] == [3, 1, 0]
        assert (order_row(tx, order).total_scans, order_row(tx, order).multi_scans) == (4, 1)
    assert list_row(parts, list_id) == (4, 2, last)
    assert [(v.item_id, v.at, v.kind) for v in visited(parts)] == [
        (a, first, "person"), (b, last, "person"), (a, last, "person"), (a, last, "person"),
    ]  # fmt: skip

    come(parts, b, c)
    assert count(parts) == 2
    with parts.db.work() as tx:
        assert [row.scans for row in item_rows(tx, order)] == [3, 2, 1]
        assert (order_row(tx, order).total_scans, order_row(tx, order).multi_scans) == (6, 2)
    assert list_row(parts, list_id)[:2] == (6, 3)


def test_each_scan_is_a_fact_that_says_how_many_there_were(parts: Parts, owner: Caller, clock: Clock) -> None:
    order = coded(parts, owner, 2)
    a, b = ids_of(parts, order)
    come(parts, a, b, a)
    scanned_at = parts.clock()
    clock.advance(hours=1)
    count(parts)
    come(parts, a)
    count(parts)
    with parts.db.work() as tx:
        told = [fact for fact in fact_rows(tx, order) if fact.kind == "item.scan"]
        waiting = set(tx.execute(sa.select(fact_queue.c.fact_id)).scalars())
    assert [(f.item_id, f.scans, f.previous, f.current, f.order_status) for f in told] == [
        (a, 1, None, "Processing", "reviewing"),
        (b, 1, None, "Processing", "reviewing"),
        (a, 2, None, "Processing", "reviewing"),
        (a, 3, None, "Processing", "reviewing"),
    ]
    assert [fact.at for fact in told] == [scanned_at] * 3 + [scanned_at + timedelta(hours=1)]
    assert {fact.id for fact in told} <= waiting
    assert len({fact.event_id for fact in told}) == 4


@pytest.mark.parametrize("kind", ["bot", "preview"])
def test_machines_count_for_nothing(parts: Parts, owner: Caller, kind: str) -> None:
    list_id = make_list(parts, owner, people(1))
    order = coded(parts, owner, list_id=list_id)
    [piece] = ids_of(parts, order)
    with parts.db.work() as tx:
        before = order_row(tx, order), item_rows(tx, order), fact_rows(tx, order)
    come(parts, piece, piece, kind=kind)  # type: ignore[arg-type]
    assert count(parts) == 2
    with parts.db.work() as tx:
        assert (order_row(tx, order), item_rows(tx, order), fact_rows(tx, order)) == before
    assert list_row(parts, list_id) == (0, 0, None)
    assert kept_lists(parts) == []
    assert [visit.kind for visit in visited(parts)] == [kind] * 2
    # Nor do they move the numbers of those that count.
    come(parts, piece)
    come(parts, piece, kind=kind)  # type: ignore[arg-type]
    come(parts, piece)
    count(parts)
    with parts.db.work() as tx:
        assert [f.scans for f in fact_rows(tx, order) if f.kind == "item.scan"] == [1, 2]


def test_what_cannot_be_told_is_not_counted_and_what_dies_is_counted_again(
    parts: Parts, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = coded(parts, owner)
    come(parts, *ids_of(parts, order))

    def die(*_given: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("quillpost.fulfillment.qr_scans.queries.note", die)
        with pytest.raises(KeyboardInterrupt):
            count(parts)
    assert (len(inbox(parts)), visited(parts), kept_lists(parts)) == (1, [], [])
    assert count(parts) == 1
    with parts.db.work() as tx:
        assert order_row(tx, order).total_scans == 1


def test_of_two_that_count_one_does(parts: Parts, owner: Caller) -> None:
    come(parts, *ids_of(parts, coded(parts, owner)))
    with parts.db.work() as tx:
        assert scan_tasks.count(tx, parts.sealer, parts.clock, most=10) == 1
        assert count(parts) == 0
    assert len(visited(parts)) == 1


def test_much_is_counted_in_parts(parts: Parts, owner: Caller) -> None:
    order = coded(parts, owner, 3)
    come(parts, *ids_of(parts, order) * 3)
    assert [count(parts, most=4) for _ in range(4)] == [4, 4, 1, 0]
    with parts.db.work() as tx:
        assert [row.scans for row in item_rows(tx, order)] == [3, 3, 3]
        assert (order_row(tx, order).total_scans, order_row(tx, order).multi_scans) == (9, 3)


def test_scans_of_what_is_gone_are_dropped(parts: Parts, owner: Caller) -> None:
    gone, here = coded(parts, owner), coded(parts, owner)
    come(parts, *ids_of(parts, gone), *ids_of(parts, here), 4_711)
    with parts.db.work() as tx:
        tx.execute(sa.text("delete from orders where id = :id"), {"id": gone.id})
    assert (count(parts), inbox(parts)) == (3, [])
    assert [visit.order_id for visit in visited(parts)] == [here.id]


def test_scans_of_a_list_that_is_gone_count_for_the_order(parts: Parts, owner: Caller) -> None:
    order = coded(parts, owner, list_id=4_711)
    come(parts, *ids_of(parts, order))
    assert count(parts) == 1
    with parts.db.work() as tx:
        assert order_row(tx, order).total_scans == 1


def test_whoever_merges_a_list_meanwhile_waits_in_no_circle(parts: Parts, owner: Caller) -> None:
    """Lists before orders: the merge has the list and goes on to the order while the count waits."""
    list_id = make_list(parts, owner, people(1))
    order = coded(parts, owner, list_id=list_id)
    come(parts, *ids_of(parts, order))
    with counting_meanwhile(parts) as (tx, begin):
        tx.execute(sa.select(mailing_lists.c.id).where(mailing_lists.c.id == list_id).with_for_update())
        begin()
        tx.execute(sa.text("select id from orders where id = :id for no key update nowait"), {"id": order.id})
    assert list_row(parts, list_id)[:2] == (1, 1)


def test_orders_are_taken_in_the_order_of_their_ids(parts: Parts, owner: Caller) -> None:
    lower, higher = coded(parts, owner), coded(parts, owner)
    come(parts, *ids_of(parts, higher), *ids_of(parts, lower))
    hold = sa.text("select id from orders where id = :id for no key update nowait")
    with counting_meanwhile(parts) as (tx, begin):
        tx.execute(hold, {"id": lower.id})
        begin()
        tx.execute(hold, {"id": higher.id})
    assert len(visited(parts)) == 2


def test_a_scan_changes_nothing_of_where_a_piece_has_been(parts: Parts, owner: Caller) -> None:
    order = coded(parts, owner)
    [piece] = ids_of(parts, order)
    with parts.db.work() as tx:
        before = history(tx, read_item(tx, piece))
    come(parts, piece)
    count(parts)
    with parts.db.work() as tx:
        assert history(tx, read_item(tx, piece)) == before


def test_a_scan_of_a_cancelled_piece_does_not_hide_that_it_was(parts: Parts, owner: Caller) -> None:
    order = coded(parts, owner)
    [piece] = ids_of(parts, order)
    now = parts.clock()
    with parts.db.work() as tx:
        swap_status(tx, [order.id], expected=[OrderStatus.REVIEWING], to=OrderStatus.CANCELLED, now=now)
        tx.execute(
            sa.update(items).where(items.c.id == piece).values(status="Failed", failure="Order cancelled")
        )
        tx.execute(
            sa.text(
                """insert into facts (account_id, mode, kind, order_id, order_status, previous, current, at)
                   values (:account, 'test', 'order.status', :order, 'cancelled', 'reviewing', 'cancelled',
                           :now)"""
            ),
            {"account": owner.account_id, "order": order.id, "now": now},
        )
        before = history(tx, read_item(tx, piece))
        assert [step.status for step in before] == ["Processing", "Failed"]
    come(parts, piece)
    count(parts)
    with parts.db.work() as tx:
        assert history(tx, read_item(tx, piece)) == before
