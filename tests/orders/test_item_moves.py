"""Pieces on their way: every sequence of wishes, and two that wish at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Barrier

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus
from support.factories import people
from support.orders import create_order, end_review, fact_rows, item_ids, item_rows, open_account, order_row
from support.waiting import wait_until

S = ItemStatus
DAY = date(2026, 5, 9)
PIECES = 3

ROUNDS = st.lists(st.dictionaries(st.integers(0, PIECES - 1), st.sampled_from(ItemStatus), min_size=1), max_size=14)
"""Rounds; in each, some of the pieces are asked to move."""


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def processing_order(container: Container, caller: Caller, pieces: int = PIECES) -> Order:
    order = create_order(container, caller, people(pieces))
    end_review(container, order)
    return order


def move(container: Container, *moves: StatusChange) -> None:
    with container.db.system_transaction() as tx:
        change_item_statuses(tx, moves, now=container.clock())


def ids_of(container: Container, order: Order) -> list[int]:
    with container.db.system_transaction() as tx:
        return item_ids(tx, order)


def check_order(container: Container, order: Order, expected: list[ItemStatus]) -> None:
    """Items, counts and dates say the same."""
    with container.db.system_transaction() as tx:
        row, pieces = order_row(tx, order), item_rows(tx, order)
    assert [piece.status for piece in pieces] == expected
    for piece in pieces:
        assert piece.delivery_date == (DAY if piece.status == S.DELIVERED else None)
    counted = Counter(expected)
    assert {s: row._mapping[f"n_{s.count_name}"] for s in ItemStatus} == {s: counted[s] for s in ItemStatus}
    assert row.recipient_count == len(expected)
    has_all = not {S.PROCESSING, S.PRINTED} & set(expected)
    made = "mailed" if has_all else "processing"
    assert row.status == ("fulfilled" if set(expected) <= set(FINAL_STATUSES) else made)


def check_history(container: Container, order: Order) -> None:
    """Each fact takes up where the one before left off, along allowed steps, to where the item stands."""
    with container.db.system_transaction() as tx:
        events, pieces = fact_rows(tx, order), item_rows(tx, order)
    for piece in pieces:
        history = [(fact.previous, fact.current) for fact in events if fact.item_id == piece.id]
        assert history[0] == (None, S.PROCESSING)
        assert [previous for previous, _ in history[1:]] == [current for _, current in history[:-1]]
        assert all(S(after) in NEXT_STATUSES[S(before)] for before, after in history[1:])
        assert history[-1][1] == piece.status
    steps = [fact.current for fact in events if fact.item_id is None]
    assert steps.count("fulfilled") == all(piece.status in FINAL_STATUSES for piece in pieces)
    assert steps.count("mailed") == (steps[-1] in ("mailed", "fulfilled") and any(p.is_mailed for p in pieces))


@given(rounds=ROUNDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_only_ever_take_allowed_steps(
    container: Container, owner: Caller, rounds: list[dict[int, ItemStatus]]
) -> None:
    order = processing_order(container, owner)
    ids = ids_of(container, order)
    expected = [S.PROCESSING] * PIECES
    for changes in rounds:
        move(
            container, *(StatusChange(ids[n], to, delivery_date=DAY, reason="so it went") for n, to in changes.items())
        )
        for n, to in changes.items():
            expected[n] = to if to in NEXT_STATUSES[expected[n]] else expected[n]
        check_order(container, order, expected)
    check_history(container, order)


def test_a_failure_carries_its_reason(container: Container, owner: Caller) -> None:
    order = processing_order(container, owner, 1)
    [item_id] = ids_of(container, order)
    move(container, StatusChange(item_id, S.PRINTED), StatusChange(item_id + 1_000, S.PRINTED))
    move(container, StatusChange(item_id, S.RETURNED_TO_SENDER, reason="No such number"))
    with container.db.system_transaction() as tx:
        assert item_rows(tx, order)[0].failure == "No such number"


def test_a_reason_given_with_an_ordinary_step_is_no_failure(container: Container, owner: Caller) -> None:
    order = processing_order(container, owner, 1)
    [item_id] = ids_of(container, order)
    move(container, StatusChange(item_id, S.PRINTED, reason="second attempt"))
    with container.db.system_transaction() as tx:
        assert item_rows(tx, order)[0].failure is None


def test_an_order_under_review_is_not_ended_by_its_pieces(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    [item_id] = ids_of(container, order)
    move(container, StatusChange(item_id, S.FAILED))
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).status == "reviewing"


def test_pieces_of_many_orders_move_in_one_go(container: Container, owner: Caller) -> None:
    several = [processing_order(container, owner, 2) for _ in range(3)]
    ids = [item_id for order in several for item_id in ids_of(container, order)]
    move(container, *(StatusChange(item_id, S.PRINTED) for item_id in ids))
    move(container, *(StatusChange(item_id, S.DELIVERED, delivery_date=DAY) for item_id in ids[:-1]))
    check_order(container, several[0], [S.DELIVERED, S.DELIVERED])
    check_order(container, several[2], [S.DELIVERED, S.PRINTED])


def test_of_two_that_make_the_same_move_one_wins(container: Container, owner: Caller) -> None:
    order = processing_order(container, owner)
    ids = ids_of(container, order)
    start = Barrier(2)

    def hurry(to: ItemStatus) -> None:
        start.wait()
        move(container, *(StatusChange(item_id, to, delivery_date=DAY) for item_id in ids))

    with ThreadPoolExecutor(2) as pool:
        for to in (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED):
            list(pool.map(hurry, [to, to]))
            check_order(container, order, [to] * PIECES)
    check_history(container, order)
    with container.db.system_transaction() as tx:
        assert sum(fact.item_id is not None for fact in fact_rows(tx, order)) == 6 * PIECES


def test_a_scan_that_arrives_beside_another_is_not_lost(container: Container, owner: Caller) -> None:
    order = processing_order(container, owner, 1)
    [item_id] = ids_of(container, order)
    move(container, StatusChange(item_id, S.PRINTED))
    with ThreadPoolExecutor(1) as pool, container.db.system_transaction() as first:
        change_item_statuses(first, [StatusChange(item_id, S.IN_TRANSIT)], now=container.clock())
        second = pool.submit(move, container, StatusChange(item_id, S.DELIVERED, delivery_date=DAY))
        wait_until(lambda: is_anyone_waiting(container))
        first.commit()
        second.result()
    check_order(container, order, [S.DELIVERED])
    check_history(container, order)


def test_the_last_two_pieces_end_the_order_once_when_they_end_at_once(container: Container, owner: Caller) -> None:
    order = processing_order(container, owner, 2)
    one, other = ids_of(container, order)
    move(container, StatusChange(one, S.PRINTED), StatusChange(other, S.PRINTED))
    with ThreadPoolExecutor(1) as pool, container.db.system_transaction() as first:
        change_item_statuses(first, [StatusChange(one, S.DELIVERED, delivery_date=DAY)], now=container.clock())
        second = pool.submit(move, container, StatusChange(other, S.DELIVERED, delivery_date=DAY))
        wait_until(lambda: is_anyone_waiting(container))
        first.commit()
        second.result()
    check_order(container, order, [S.DELIVERED, S.DELIVERED])
    check_history(container, order)


def test_two_that_move_pieces_of_the_same_orders_never_block_each_other_for_good(
    container: Container, owner: Caller
) -> None:
    several = [processing_order(container, owner, 2) for _ in range(6)]
    ids = [ids_of(container, order) for order in several]
    start = Barrier(2)

    def hurry(moves: list[StatusChange]) -> None:
        start.wait()
        move(container, *moves)

    with ThreadPoolExecutor(2) as pool:
        for to in (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.DELIVERED):
            onward = [StatusChange(pair[0], to, delivery_date=DAY) for pair in ids]
            backward = [StatusChange(pair[1], to, delivery_date=DAY) for pair in reversed(ids)]
            list(pool.map(hurry, [onward, backward]))
    for order in several:
        check_order(container, order, [S.DELIVERED, S.DELIVERED])


def is_anyone_waiting(container: Container) -> bool:
    with container.db.system_transaction() as tx:
        return bool(tx.execute(sa.text("select 1 from pg_locks where not granted")).first())
