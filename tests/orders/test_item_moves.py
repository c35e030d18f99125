"""Pieces on their way: every sequence of moves, two that move at once, and what the ledger says of them."""

from calendar import isleap
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from threading import Barrier
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, STATUS_COUNT_COLUMNS, ledger_moves
from quillpost.core.errors import Refused
from quillpost.orders import changes
from quillpost.orders.automations import rules as automation_rules
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order, OrderRequest
from quillpost.orders.products import DISPLAY_TYPES, POSTCARD
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus, OrderStatus
from support.factories import people, person
from support.orders import CENTS, balances, create_order, end_review, fact_rows, item_ids, item_rows, order_row
from support.rows import execute, run, run_as
from support.waiting import is_lock_awaited, wait_until

BORN = st.dates(date(1900, 1, 1), date(2020, 12, 31))
OFFSETS = st.integers(-automation_rules.MAX_DAYS_OFFSET, automation_rules.MAX_DAYS_OFFSET)
YEARS = st.integers(2021, 2060)


def days_of(year: int, offset: int) -> list[date]:
    """Every day on which a birthday of that year could be mailed for."""
    first = date(year, 1, 1) + timedelta(days=offset)
    return [first + timedelta(days=n) for n in range(366 if isleap(year) else 365)]


@given(BORN, YEARS, OFFSETS)
def test_every_birthday_is_mailed_for_on_exactly_one_day(born: date, year: int, offset: int) -> None:
    found = [
        each
        for each in automation_rules.find_occasions(days_of(year, offset), offset)
        if each.month_day == born.month * 100 + born.day and each.occasion_date.year == year
    ]
    [occasion] = found
    assert occasion.mailing_date - occasion.occasion_date == timedelta(days=offset)
    is_moved = (born.month, born.day) == (2, 29) and not isleap(year)
    assert (occasion.occasion_date.month, occasion.occasion_date.day) == (
        (2, 28) if is_moved else (born.month, born.day)
    )


def test_downtime_is_looked_back_at_in_days_of_the_place_and_given_up_after_seven() -> None:
    days = [date(2026, 12, 30), date(2026, 12, 31), date(2027, 1, 1), date(2027, 1, 2)]
    assert automation_rules.list_days_to_check(date(2027, 1, 2)) == days
    zone, new_year = ZoneInfo("America/New_York"), datetime(2027, 1, 1, 2, tzinfo=UTC)
    assert automation_rules.local_date(new_year, zone) == date(2026, 12, 31)
    assert automation_rules.start_of_day(date(2026, 12, 31), zone) == datetime(2026, 12, 31, 5, tzinfo=UTC)
    now, delays = datetime(2026, 5, 4, tzinfo=UTC), automation_rules.RETRY_DELAYS
    waits = [automation_rules.next_attempt_at(tries, now=now) - now for tries in range(1, 51)]
    assert waits == sorted(waits)
    assert waits == [*delays, *[delays[-1]] * (50 - len(delays))]
    week = timedelta(days=7)
    assert not automation_rules.should_give_up(now, now=now + week - timedelta(seconds=1))
    assert automation_rules.should_give_up(now, now=now + week)


S = ItemStatus
WAY = (S.PROCESSING, S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED)
MAILED = (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY)


def test_every_status_says_what_may_follow_it() -> None:
    assert set(NEXT_STATUSES) == set(ItemStatus)
    assert set(FINAL_STATUSES) == {S.DELIVERED, S.RETURNED_TO_SENDER, S.FAILED}
    assert all(status not in following for status, following in NEXT_STATUSES.items()), "a repeated scan never follows"
    assert NEXT_STATUSES[S.PROCESSING] == {S.PRINTED, S.FAILED}, "nothing is mailed that was not printed"
    assert all(S.PROCESSING not in following for following in NEXT_STATUSES.values())
    for status in MAILED:
        ahead = set(WAY[WAY.index(status) + 1 :])
        assert NEXT_STATUSES[status] == ahead | {S.RE_ROUTED, S.RETURNED_TO_SENDER, S.FAILED}
    again = {S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED}
    assert NEXT_STATUSES[S.RE_ROUTED] == again | {S.RETURNED_TO_SENDER, S.FAILED}, "it travels again"
    assert tuple(f"n_{status.count_name}" for status in ItemStatus) == STATUS_COUNT_COLUMNS


@given(scans=st.lists(st.sampled_from(ItemStatus)))
def test_on_the_usual_way_a_piece_never_goes_backwards(scans: list[ItemStatus]) -> None:
    standing, furthest = S.PROCESSING, 0
    for scan in scans:
        if scan not in NEXT_STATUSES[standing]:
            continue
        # A piece that is sent on starts again from wherever it turns up.
        furthest = 0 if standing is S.RE_ROUTED else furthest
        standing = scan
        if standing in WAY:
            assert WAY.index(standing) > furthest
            furthest = WAY.index(standing)


def test_only_an_order_that_waits_can_be_cancelled() -> None:
    held_back = {status for status in OrderStatus if status.is_held_back}
    assert held_back == {OrderStatus.REVIEWING, OrderStatus.PAUSED} == set(CHANGEABLE_ORDER_STATUSES)


def test_large_postcards_are_a_type_of_their_own() -> None:
    for size, kind in {"4x6": "postcard", "6x9": "postcard", "6x11": "postcard6x11"}.items():
        assert OrderRequest(product=POSTCARD, size=size).type == kind
        assert DISPLAY_TYPES[kind, size] == f"Postcard-{size}"


DAY = date(2026, 5, 9)
PIECES = 3

ROUNDS = st.lists(st.dictionaries(st.integers(0, PIECES - 1), st.sampled_from(ItemStatus), min_size=1), max_size=14)
"""Rounds; in each, some of the pieces are asked to move."""


def processing_order(container: Container, caller: Caller, pieces: int = PIECES) -> Order:
    order = create_order(container, caller, people(pieces))
    end_review(container, order)
    return order


def move(container: Container, *moves: StatusChange) -> None:
    run(container, change_item_statuses, moves, now=container.clock())


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
def test_pieces_take_allowed_steps(container: Container, caller: Caller, rounds: list[dict[int, ItemStatus]]) -> None:
    order = processing_order(container, caller)
    ids = item_ids(container, order)
    expected = [S.PROCESSING] * PIECES
    for asked in rounds:
        steps = [StatusChange(ids[n], to, delivery_date=DAY, reason="so it went") for n, to in asked.items()]
        move(container, *steps)
        for n, to in asked.items():
            expected[n] = to if to in NEXT_STATUSES[expected[n]] else expected[n]
    check_order(container, order, expected)
    check_history(container, order)


def test_a_failure_has_its_reason_and_pieces_of_many_orders_move_at_once(container: Container, caller: Caller) -> None:
    order, under_review = processing_order(container, caller, 1), create_order(container, caller)
    [item_id], [waiting] = item_ids(container, order), item_ids(container, under_review)
    unknown = StatusChange(item_id + 1_000, S.PRINTED)
    move(container, StatusChange(item_id, S.PRINTED, reason="second attempt"), unknown, StatusChange(waiting, S.FAILED))
    assert item_rows(container, order)[0].failure is None
    assert order_row(container, under_review).status == "reviewing", "its pieces do not end it"
    move(container, StatusChange(item_id, S.RETURNED_TO_SENDER, reason="No such number"))
    assert item_rows(container, order)[0].failure == "No such number"
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


def test_two_that_move_pieces_of_the_same_orders_never_deadlock(container: Container, caller: Caller) -> None:
    several = [processing_order(container, caller, 2) for _ in range(6)]
    firsts, seconds = zip(*(item_ids(container, order) for order in several), strict=True)
    for to in (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.DELIVERED):
        onward = [StatusChange(item_id, to, delivery_date=DAY) for item_id in firsts]
        backward = [StatusChange(item_id, to, delivery_date=DAY) for item_id in reversed(seconds)]
        both_at_once(container, onward, backward)
    for order in several:
        check_order(container, order, [S.DELIVERED, S.DELIVERED])


# The ledger


def kinds(container: Container, order: Order) -> list[tuple[str, int]]:
    moves = sa.select(ledger_moves.c.kind, ledger_moves.c.cents).where(ledger_moves.c.order_id == order.id)
    return execute(container, moves.order_by(ledger_moves.c.kind))


def test_a_cancelled_order_gives_everything_back_once(container: Container, caller: Caller) -> None:
    order = create_order(container, caller, people(3))
    run_as(container, caller, changes.cancel_order, order.id, now=container.clock())
    with container.db.transaction(build_tenant(caller)) as tx, pytest.raises(Refused, match="it is Cancelled"):
        changes.cancel_order(tx, order.id, now=container.clock())
    assert kinds(container, order) == [("authorise", 3 * CENTS), ("release", 3 * CENTS)]


def test_pieces_that_move_together_are_one_entry(container: Container, caller: Caller) -> None:
    order = create_order(container, caller, people(3))
    end_review(container, order)
    lost, *printed = item_ids(container, order)
    move(container, StatusChange(lost, S.FAILED), *(StatusChange(n, S.PRINTED) for n in printed))
    assert kinds(container, order) == [("authorise", 3 * CENTS), ("capture", 2 * CENTS), ("release", CENTS)]
    row = order_row(container, order)
    assert (row.authorization_total, row.order_total) == (3 * CENTS, 2 * CENTS)
    assert balances(container, order) == {"credit": -2 * CENTS, "held": 0, "earned": 2 * CENTS}
    for status in (S.IN_TRANSIT, S.FAILED):  # one is lost
        for _ in range(2):
            move(container, StatusChange(printed[0], status))
    assert balances(container, order) == {"credit": -CENTS, "held": 0, "earned": CENTS}


def test_refused_recipients_are_not_paid_for_and_no_entry_is_made_twice(container: Container, caller: Caller) -> None:
    refused = create_order(container, caller, [{"email": "jane@example.com"}])
    assert (kinds(container, refused), order_row(container, refused).authorization_total) == ([], 0)
    double = create_order(container, caller, [person(), person(company="Same Door")])
    assert kinds(container, double) == [("authorise", CENTS)]
    order = create_order(container, caller)
    [entry] = execute(container, sa.select(ledger_moves).where(ledger_moves.c.order_id == order.id))
    again = {name: value for name, value in entry._mapping.items() if name != "id"}
    with pytest.raises(sa.exc.IntegrityError, match="ledger_moves_key_key"):
        execute(container, sa.insert(ledger_moves).values(**again))
