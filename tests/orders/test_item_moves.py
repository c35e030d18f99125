"""Pieces on their way: every sequence of wishes, and two that wish at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus
from support.factories import people
from support.orders import create_order, end_review, fact_rows, item_ids, item_rows, order_row
from support.waiting import is_lock_awaited, wait_until

S = ItemStatus
DAY = date(2026, 5, 9)
PIECES = 3

ROUNDS = st.lists(st.dictionaries(st.integers(0, PIECES - 1), st.sampled_from(ItemStatus), min_size=1), max_size=14)
"""Rounds; in each, some of the pieces are asked to move."""


def processing_order(container: Container, caller: Caller, pieces: int = PIECES) -> Order:
    order = create_order(container, caller, people(pieces))
    end_review(container, order)
    return order


def move(container: Container, *moves: StatusChange) -> None:
    with container.db.system_transaction() as tx:
        change_item_statuses(tx, moves, now=container.clock())


def check_order(container: Container, order: Order, expected: list[ItemStatus]) -> None:
    """Items, counts and dates say the same."""
    row, pieces = order_row(container, order), item_rows(container, order)
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
    events, pieces = fact_rows(container, order), item_rows(container, order)
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
    container: Container, caller: Caller, rounds: list[dict[int, ItemStatus]]
) -> None:
    order = processing_order(container, caller)
    ids = item_ids(container, order)
    expected = [S.PROCESSING] * PIECES
    for changes in rounds:
        move(
            container, *(StatusChange(ids[n], to, delivery_date=DAY, reason="so it went") for n, to in changes.items())
        )
        for n, to in changes.items():
            expected[n] = to if to in NEXT_STATUSES[expected[n]] else expected[n]
        check_order(container, order, expected)
    check_history(container, order)


def test_a_failure_carries_its_reason_and_an_ordinary_step_none(container: Container, caller: Caller) -> None:
    order, under_review = processing_order(container, caller, 1), create_order(container, caller)
    [item_id], [waiting] = item_ids(container, order), item_ids(container, under_review)
    unknown = StatusChange(item_id + 1_000, S.PRINTED)
    move(container, StatusChange(item_id, S.PRINTED, reason="second attempt"), unknown, StatusChange(waiting, S.FAILED))
    assert item_rows(container, order)[0].failure is None
    assert order_row(container, under_review).status == "reviewing", "its pieces do not end it"
    move(container, StatusChange(item_id, S.RETURNED_TO_SENDER, reason="No such number"))
    assert item_rows(container, order)[0].failure == "No such number"


def test_pieces_of_many_orders_move_in_one_go(container: Container, caller: Caller) -> None:
    several = [processing_order(container, caller, 2) for _ in range(3)]
    ids = [item_id for order in several for item_id in item_ids(container, order)]
    move(container, *(StatusChange(item_id, S.PRINTED) for item_id in ids))
    move(container, *(StatusChange(item_id, S.DELIVERED, delivery_date=DAY) for item_id in ids[:-1]))
    check_order(container, several[0], [S.DELIVERED, S.DELIVERED])
    check_order(container, several[2], [S.DELIVERED, S.PRINTED])


def both_at_once(container: Container, *moves: list[StatusChange]) -> None:
    start = Barrier(2)

    def hurry(changes: list[StatusChange]) -> None:
        start.wait()
        move(container, *changes)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(hurry, moves))


def test_of_two_that_make_the_same_move_one_wins(container: Container, caller: Caller) -> None:
    order = processing_order(container, caller)
    ids = item_ids(container, order)
    for to in (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED):
        changes = [StatusChange(item_id, to, delivery_date=DAY) for item_id in ids]
        both_at_once(container, changes, changes)
        check_order(container, order, [to] * PIECES)
    check_history(container, order)
    assert sum(fact.item_id is not None for fact in fact_rows(container, order)) == 6 * PIECES


@pytest.mark.parametrize(("pieces", "before"), [(1, S.IN_TRANSIT), (2, S.DELIVERED)])
def test_a_scan_that_arrives_beside_another_is_not_lost_and_the_last_ends_the_order(
    container: Container, caller: Caller, pieces: int, before: ItemStatus
) -> None:
    order = processing_order(container, caller, pieces)
    ids = item_ids(container, order)
    move(container, *(StatusChange(item_id, S.PRINTED) for item_id in ids))
    with ThreadPoolExecutor(1) as pool, container.db.system_transaction() as first:
        change_item_statuses(first, [StatusChange(ids[0], before, delivery_date=DAY)], now=container.clock())
        second = pool.submit(move, container, StatusChange(ids[-1], S.DELIVERED, delivery_date=DAY))
        wait_until(lambda: is_lock_awaited(container))
        first.commit()
        second.result()
    check_order(container, order, [S.DELIVERED] * pieces)
    check_history(container, order)


def test_two_that_move_pieces_of_the_same_orders_never_block_each_other_for_good(
    container: Container, caller: Caller
) -> None:
    several = [processing_order(container, caller, 2) for _ in range(6)]
    firsts, seconds = zip(*(item_ids(container, order) for order in several), strict=True)
    for to in (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.DELIVERED):
        onward = [StatusChange(item_id, to, delivery_date=DAY) for item_id in firsts]
        backward = [StatusChange(item_id, to, delivery_date=DAY) for item_id in reversed(seconds)]
        both_at_once(container, onward, backward)
    for order in several:
        check_order(container, order, [S.DELIVERED, S.DELIVERED])
