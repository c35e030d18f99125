"""Pieces that nobody sees any more: inferred, where the operator wants that, or left where they stand."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from placing import fact_rows, item_rows, open_account, order_row, place
from travelling import codes, ingest, mail, mailed, scan, statuses, told

from makers import Clock, people, person
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.print_room import batches
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.models import Order

NEVER: dict[str, Any] = {"infer_after": None, "infer_unseen_after": None}
AFTER_SORTING = NEVER | {"infer_after": timedelta(days=3)}
AFTER_SILENCE = NEVER | {"infer_unseen_after": timedelta(days=20)}


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def world(parts: Parts, **changes: Any) -> World:
    return replace(parts.worlds["test"], **changes)


def close(parts: Parts, **changes: Any) -> None:
    tracking_tasks.close(parts.db, {"test": world(parts, **changes)}, now=parts.clock())


def seen(parts: Parts, order: Order, *phases: str) -> None:
    """Every piece is seen in these phases, an hour after each other, from now on."""
    for tracking in codes(parts, order):
        moments = (parts.clock() + timedelta(hours=hour) for hour in range(len(phases)))
        scans = [scan(tracking, phase, at) for phase, at in zip(phases, moments, strict=True)]
        ingest(parts, *scans)


def settled(parts: Parts) -> list[bool]:
    with parts.db.work() as tx:
        return [row.settled_at is not None for row in tx.execute(sa.select(batches).order_by(batches.c.id))]


def test_a_delivery_is_inferred_some_days_after_the_piece_was_sorted_for_it(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    order = mailed(parts, owner)
    clock.advance(days=2)
    seen(parts, order, "1", "3a")
    clock.advance(days=3)
    close(parts, **AFTER_SORTING)
    assert statuses(parts, order) == ["Processed for Delivery"]
    clock.advance(hours=1)
    close(parts, **AFTER_SORTING)
    with parts.db.work() as tx:
        [piece] = item_rows(tx, order)
        fact = [row for row in fact_rows(tx, order) if row.item_id is not None][-1]
        assert (piece.status, piece.delivery_date) == ("Delivered", date(2026, 5, 6))
        assert piece.delivery_inferred
        assert (fact.current, fact.inferred, fact.seen_at) == ("Delivered", True, None)
        assert order_row(tx, order).status == "fulfilled"
    assert settled(parts) == [True]


def test_nothing_is_inferred_where_nobody_wants_it(parts: Parts, clock: Clock, owner: Caller) -> None:
    order = mailed(parts, owner)
    seen(parts, order, "3a")
    clock.advance(days=100)
    close(parts, **NEVER)
    assert statuses(parts, order) == ["Processed for Delivery"]
    assert settled(parts) == [False]


@pytest.mark.parametrize("phases", [[], ["1"], ["1", "2"], ["3a"], ["99z"]])
def test_a_delivery_is_inferred_after_a_long_silence_wherever_the_piece_was(
    parts: Parts, clock: Clock, owner: Caller, phases: list[str]
) -> None:
    order = mailed(parts, owner)
    clock.advance(days=5)
    seen(parts, order, *phases)
    quiet = 20 if phases else 15
    clock.advance(days=quiet, hours=-1)
    close(parts, **AFTER_SILENCE)
    assert "Delivered" not in statuses(parts, order)
    clock.advance(hours=3)
    close(parts, **AFTER_SILENCE)
    assert statuses(parts, order) == ["Delivered"]
    with parts.db.work() as tx:
        [piece] = item_rows(tx, order)
    day = date(2026, 5, 9) if phases == ["3a"] else parts.clock().date()
    assert (piece.delivery_date, piece.delivery_inferred) == (day, True)


def test_a_delivery_that_is_seen_later_confirms_the_inferred_one_and_nobody_is_told_twice(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    order = mailed(parts, owner)
    seen(parts, order, "3a")
    clock.advance(days=4)
    close(parts, **AFTER_SORTING)
    before = told(parts, order)
    seen(parts, order, "4c")
    with parts.db.work() as tx:
        [piece] = item_rows(tx, order)
    assert (piece.status, piece.delivery_date) == ("Delivered", date(2026, 5, 8))
    assert not piece.delivery_inferred
    assert told(parts, order) == before


def test_a_return_overrides_an_inferred_delivery_and_no_seen_one(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    inferred, delivered = mailed(parts, owner), mailed(parts, owner)
    seen(parts, inferred, "3a")
    seen(parts, delivered, "3a", "4c")
    clock.advance(days=4)
    close(parts, **AFTER_SORTING)
    assert statuses(parts, inferred) == statuses(parts, delivered) == ["Delivered"]
    for order in (inferred, delivered):
        [tracking] = codes(parts, order)
        ingest(parts, scan(tracking, "returned", parts.clock(), reason="Vacant"))
    assert statuses(parts, delivered) == ["Delivered"]
    with parts.db.work() as tx:
        [piece] = item_rows(tx, inferred)
        row = order_row(tx, inferred)
    assert (piece.status, piece.failure, piece.delivery_date) == ("Returned to Sender", "Vacant", None)
    assert not piece.delivery_inferred
    assert (row.n_delivered, row.n_returned_to_sender, row.status) == (0, 1, "fulfilled")


def test_a_late_word_on_the_way_changes_nothing_about_an_inferred_delivery(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    order = mailed(parts, owner)
    seen(parts, order, "3a")
    clock.advance(days=4)
    close(parts, **AFTER_SORTING)
    seen(parts, order, "2", "pars")
    with parts.db.work() as tx:
        [piece] = item_rows(tx, order)
    assert (piece.status, piece.delivery_inferred) == ("Delivered", True)


def test_a_re_routed_piece_that_is_not_seen_again_stays_so_and_its_order_ends(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    order = mailed(parts, owner, 2)
    first, second = codes(parts, order)
    ingest(parts, scan(first, "pars", parts.clock()), scan(second, "4c", parts.clock()))
    clock.advance(days=29)
    close(parts)
    with parts.db.work() as tx:
        assert order_row(tx, order).status == "mailed"
    clock.advance(days=1)
    close(parts)
    close(parts)
    with parts.db.work() as tx:
        row, pieces = order_row(tx, order), item_rows(tx, order)
        endings = [fact for fact in fact_rows(tx, order) if fact.current == "fulfilled"]
    assert (row.status, row.n_over, row.n_re_routed) == ("fulfilled", 1, 1)
    assert [piece.is_over for piece in pieces] == [True, False]
    assert len(endings) == 1
    assert settled(parts) == [True]
    ingest(parts, scan(first, "1", parts.clock()))
    assert statuses(parts, order) == ["Re-routed", "Delivered"]


def test_a_re_routed_piece_that_is_seen_again_goes_on(parts: Parts, clock: Clock, owner: Caller) -> None:
    order = mailed(parts, owner)
    seen(parts, order, "pars")
    clock.advance(days=25)
    seen(parts, order, "pars", "99z")
    clock.advance(days=10)
    close(parts, **AFTER_SILENCE)
    assert statuses(parts, order) == ["Re-routed"]
    seen(parts, order, "1")
    assert statuses(parts, order) == ["In Transit"]


def test_a_batch_is_settled_once_nothing_of_it_is_on_its_way(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    arrived, waiting = mailed(parts, owner, 2), mailed(parts, owner)
    seen(parts, arrived, "4c")
    clock.advance(days=2)
    close(parts)
    assert settled(parts) == [True, False]
    clock.advance(days=tracking_tasks.LONGEST.days)
    close(parts)
    assert settled(parts) == [True, True]
    assert statuses(parts, waiting) == ["Printed"]


@pytest.mark.parametrize(
    ("days", "how", "looked"),
    [
        (2, AFTER_SORTING | {"infer_unseen_after": timedelta(days=20)}, []),
        (4, AFTER_SORTING | {"infer_unseen_after": timedelta(days=20)}, [tracking_tasks.SORTED]),
        (
            21,
            AFTER_SORTING | {"infer_unseen_after": timedelta(days=20)},
            [tracking_tasks.SORTED, tracking_tasks.UNSEEN],
        ),
        (21, AFTER_SILENCE, [tracking_tasks.UNSEEN]),
        (29, NEVER, []),
        (31, NEVER, [tracking_tasks.REROUTED]),
    ],
)
def test_pieces_are_looked_at_only_by_what_can_be_due(
    parts: Parts,
    clock: Clock,
    owner: Caller,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    how: dict[str, Any],
    looked: list[tracking_tasks.Rule],
) -> None:
    mailed(parts, owner)
    asked: list[tracking_tasks.Rule] = []

    def run(rule: tracking_tasks.Rule, *_: object, **__: object) -> int:
        asked.append(rule)
        return 0

    monkeypatch.setattr(tracking_tasks.Rule, "run", run)
    clock.advance(days=days)
    close(parts, **how)
    assert asked == looked


def test_what_is_found_is_asked_again_when_nobody_else_can_move_it(
    parts: Parts, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = mailed(parts, owner)
    clock.advance(days=21)
    usual = tracking_tasks.UNSEEN._ends.run

    def after_a_scan(*args: Any, **more: Any) -> int:
        seen(parts, order, "1")
        return usual(*args, **more)

    monkeypatch.setattr(tracking_tasks.UNSEEN._ends, "run", after_a_scan)
    close(parts, **AFTER_SILENCE)
    assert statuses(parts, order) == ["In Transit"]


def test_what_went_abroad_is_neither_inferred_nor_waited_for(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    order = place(parts, owner, [person(country="CA", postal_code="K1A 0B1", province="ON", city="Ottawa")])
    mail(parts, order)
    clock.advance(days=40)
    close(parts, **AFTER_SILENCE)
    assert statuses(parts, order) == ["Printed"]
    assert settled(parts) == [True]


def test_many_batches_are_looked_through(
    parts: Parts, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_tasks, "AT_ONCE", 2)
    several = [mailed(parts, owner) for _ in range(5)]
    clock.advance(days=21)
    close(parts, **AFTER_SILENCE)
    assert [statuses(parts, order) for order in several] == [["Delivered"]] * 5
    assert settled(parts) == [True] * 5


@pytest.mark.parametrize(("wait", "booked"), [(timedelta(seconds=20), 1), (timedelta(days=3), 0)])
def test_a_fast_world_is_looked_at_again_soon(
    parts: Parts, owner: Caller, wait: timedelta, booked: int
) -> None:
    mailed(parts, owner)
    close(parts, infer_after=wait)
    with parts.db.work() as tx:
        looks = sa.text("select count(*) from procrastinate_jobs where task_name = 'tracking.close'")
        assert tx.execute(looks).scalar_one() == booked


def test_people_of_many_orders_end_together(parts: Parts, clock: Clock, owner: Caller) -> None:
    order = place(parts, owner, people(20))
    mail(parts, order)
    clock.advance(days=21)
    close(parts, **AFTER_SILENCE)
    with parts.db.work() as tx:
        row = order_row(tx, order)
    assert (row.n_delivered, row.n_printed, row.status) == (20, 0, "fulfilled")
