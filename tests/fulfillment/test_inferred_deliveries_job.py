"""Pieces that nobody sees any more: inferred, where the operator wants that, or left where they stand."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import batches
from quillpost.fulfillment.models import Environment
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.models import Order
from support.carrier_scans import (
    ingest,
    item_statuses_recorded,
    mail_order,
    mailed_order,
    scan,
    statuses,
    tracking_codes,
)
from support.factories import Clock, people, person
from support.orders import create_order, fact_rows, item_rows, open_account, order_row

pytestmark = pytest.mark.usefixtures("clean_database")

NEVER: dict[str, Any] = {"infer_delivery_after": None, "infer_unseen_delivery_after": None}
AFTER_SORTING = NEVER | {"infer_delivery_after": timedelta(days=3)}
AFTER_SILENCE = NEVER | {"infer_unseen_delivery_after": timedelta(days=20)}


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def environment(container: Container, **changes: Any) -> Environment:
    return replace(container.environments["test"], **changes)


def close(container: Container, **changes: Any) -> None:
    tracking_tasks.close_items(container.db, {"test": environment(container, **changes)}, now=container.clock())


def seen(container: Container, order: Order, *phases: str) -> None:
    """Every piece is seen in these phases, an hour after each other, from now on."""
    for tracking in tracking_codes(container, order):
        moments = (container.clock() + timedelta(hours=hour) for hour in range(len(phases)))
        scans = [scan(tracking, phase, at) for phase, at in zip(phases, moments, strict=True)]
        ingest(container, *scans)


def settled(container: Container) -> list[bool]:
    with container.db.system_transaction() as tx:
        return [row.settled_at is not None for row in tx.execute(sa.select(batches).order_by(batches.c.id))]


def test_a_delivery_is_inferred_some_days_after_the_piece_was_sorted_for_it(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = mailed_order(container, owner)
    clock.advance(days=2)
    seen(container, order, "1", "3a")
    clock.advance(days=3)
    close(container, **AFTER_SORTING)
    assert statuses(container, order) == ["Processed for Delivery"]
    clock.advance(hours=1)
    close(container, **AFTER_SORTING)
    with container.db.system_transaction() as tx:
        [piece] = item_rows(tx, order)
        fact = [row for row in fact_rows(tx, order) if row.item_id is not None][-1]
        assert (piece.status, piece.delivery_date) == ("Delivered", date(2026, 5, 6))
        assert piece.delivery_inferred
        assert (fact.current, fact.inferred, fact.seen_at) == ("Delivered", True, None)
        assert order_row(tx, order).status == "fulfilled"
    assert settled(container) == [True]


def test_nothing_is_inferred_where_nobody_wants_it(container: Container, clock: Clock, owner: Caller) -> None:
    order = mailed_order(container, owner)
    seen(container, order, "3a")
    clock.advance(days=100)
    close(container, **NEVER)
    assert statuses(container, order) == ["Processed for Delivery"]
    assert settled(container) == [False]


@pytest.mark.parametrize("phases", [[], ["1"], ["1", "2"], ["3a"], ["99z"]])
def test_a_delivery_is_inferred_after_a_long_silence_wherever_the_piece_was(
    container: Container, clock: Clock, owner: Caller, phases: list[str]
) -> None:
    order = mailed_order(container, owner)
    clock.advance(days=5)
    seen(container, order, *phases)
    quiet = 20 if phases else 15
    clock.advance(days=quiet, hours=-1)
    close(container, **AFTER_SILENCE)
    assert "Delivered" not in statuses(container, order)
    clock.advance(hours=3)
    close(container, **AFTER_SILENCE)
    assert statuses(container, order) == ["Delivered"]
    with container.db.system_transaction() as tx:
        [piece] = item_rows(tx, order)
    day = date(2026, 5, 9) if phases == ["3a"] else container.clock().date()
    assert (piece.delivery_date, piece.delivery_inferred) == (day, True)


def test_a_delivery_seen_later_confirms_the_inferred_one_without_a_second_event(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = mailed_order(container, owner)
    seen(container, order, "3a")
    clock.advance(days=4)
    close(container, **AFTER_SORTING)
    before = item_statuses_recorded(container, order)
    seen(container, order, "4c")
    with container.db.system_transaction() as tx:
        [piece] = item_rows(tx, order)
    assert (piece.status, piece.delivery_date) == ("Delivered", date(2026, 5, 8))
    assert not piece.delivery_inferred
    assert item_statuses_recorded(container, order) == before


def test_a_return_overrides_an_inferred_delivery_and_no_seen_one(
    container: Container, clock: Clock, owner: Caller
) -> None:
    inferred, delivered = mailed_order(container, owner), mailed_order(container, owner)
    seen(container, inferred, "3a")
    seen(container, delivered, "3a", "4c")
    clock.advance(days=4)
    close(container, **AFTER_SORTING)
    assert statuses(container, inferred) == statuses(container, delivered) == ["Delivered"]
    for order in (inferred, delivered):
        [tracking] = tracking_codes(container, order)
        ingest(container, scan(tracking, "returned", container.clock(), reason="Vacant"))
    assert statuses(container, delivered) == ["Delivered"]
    with container.db.system_transaction() as tx:
        [piece] = item_rows(tx, inferred)
        row = order_row(tx, inferred)
    assert (piece.status, piece.failure, piece.delivery_date) == ("Returned to Sender", "Vacant", None)
    assert not piece.delivery_inferred
    assert (row.n_delivered, row.n_returned_to_sender, row.status) == (0, 1, "fulfilled")


def test_a_late_word_on_the_way_changes_nothing_about_an_inferred_delivery(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = mailed_order(container, owner)
    seen(container, order, "3a")
    clock.advance(days=4)
    close(container, **AFTER_SORTING)
    seen(container, order, "2", "pars")
    with container.db.system_transaction() as tx:
        [piece] = item_rows(tx, order)
    assert (piece.status, piece.delivery_inferred) == ("Delivered", True)


def test_a_re_routed_piece_that_is_not_seen_again_stays_so_and_its_order_ends(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = mailed_order(container, owner, 2)
    first, second = tracking_codes(container, order)
    ingest(container, scan(first, "pars", container.clock()), scan(second, "4c", container.clock()))
    clock.advance(days=29)
    close(container)
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).status == "mailed"
    clock.advance(days=1)
    close(container)
    close(container)
    with container.db.system_transaction() as tx:
        row, pieces = order_row(tx, order), item_rows(tx, order)
        endings = [fact for fact in fact_rows(tx, order) if fact.current == "fulfilled"]
    assert (row.status, row.n_over, row.n_re_routed) == ("fulfilled", 1, 1)
    assert [piece.is_over for piece in pieces] == [True, False]
    assert len(endings) == 1
    assert settled(container) == [True]
    ingest(container, scan(first, "1", container.clock()))
    assert statuses(container, order) == ["Re-routed", "Delivered"]


def test_a_re_routed_piece_that_is_seen_again_goes_on(container: Container, clock: Clock, owner: Caller) -> None:
    order = mailed_order(container, owner)
    seen(container, order, "pars")
    clock.advance(days=25)
    seen(container, order, "pars", "99z")
    clock.advance(days=10)
    close(container, **AFTER_SILENCE)
    assert statuses(container, order) == ["Re-routed"]
    seen(container, order, "1")
    assert statuses(container, order) == ["In Transit"]


def test_a_batch_is_settled_once_nothing_of_it_is_on_its_way(container: Container, clock: Clock, owner: Caller) -> None:
    arrived, waiting = mailed_order(container, owner, 2), mailed_order(container, owner)
    seen(container, arrived, "4c")
    clock.advance(days=2)
    close(container)
    assert settled(container) == [True, False]
    clock.advance(days=tracking_tasks.MAX_TRACKED_TIME.days)
    close(container)
    assert settled(container) == [True, True]
    assert statuses(container, waiting) == ["Printed"]


@pytest.mark.parametrize(
    ("days", "how", "looked"),
    [
        (2, AFTER_SORTING | {"infer_unseen_delivery_after": timedelta(days=20)}, []),
        (4, AFTER_SORTING | {"infer_unseen_delivery_after": timedelta(days=20)}, [tracking_tasks.INFER_SORTED]),
        (
            21,
            AFTER_SORTING | {"infer_unseen_delivery_after": timedelta(days=20)},
            [tracking_tasks.INFER_SORTED, tracking_tasks.INFER_UNSEEN],
        ),
        (21, AFTER_SILENCE, [tracking_tasks.INFER_UNSEEN]),
        (29, NEVER, []),
        (31, NEVER, [tracking_tasks.END_REROUTED]),
    ],
)
def test_pieces_are_looked_at_only_by_what_can_be_due(
    container: Container,
    clock: Clock,
    owner: Caller,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    how: dict[str, Any],
    looked: list[tracking_tasks.ClosingRule],
) -> None:
    mailed_order(container, owner)
    rules_run: list[tracking_tasks.ClosingRule] = []

    def run(rule: tracking_tasks.ClosingRule, *_: object, **__: object) -> int:
        rules_run.append(rule)
        return 0

    monkeypatch.setattr(tracking_tasks.ClosingRule, "run", run)
    clock.advance(days=days)
    close(container, **how)
    assert rules_run == looked


def test_a_piece_scanned_meanwhile_is_not_closed(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = mailed_order(container, owner)
    clock.advance(days=21)
    usual = tracking_tasks.INFER_UNSEEN._end_statement.run

    def after_a_scan(*args: Any, **more: Any) -> int:
        seen(container, order, "1")
        return usual(*args, **more)

    monkeypatch.setattr(tracking_tasks.INFER_UNSEEN._end_statement, "run", after_a_scan)
    close(container, **AFTER_SILENCE)
    assert statuses(container, order) == ["In Transit"]


def test_what_went_abroad_is_neither_inferred_nor_waited_for(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner, [person(country="CA", postal_code="K1A 0B1", province="ON", city="Ottawa")])
    mail_order(container, order)
    clock.advance(days=40)
    close(container, **AFTER_SILENCE)
    assert statuses(container, order) == ["Printed"]
    assert settled(container) == [True]


def test_many_batches_are_looked_through(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_tasks, "BATCHES_AT_ONCE", 2)
    several = [mailed_order(container, owner) for _ in range(5)]
    clock.advance(days=21)
    close(container, **AFTER_SILENCE)
    assert [statuses(container, order) for order in several] == [["Delivered"]] * 5
    assert settled(container) == [True] * 5


@pytest.mark.parametrize(("wait", "booked"), [(timedelta(seconds=20), 1), (timedelta(days=3), 0)])
def test_with_a_short_wait_the_next_check_is_scheduled_soon(
    container: Container, owner: Caller, wait: timedelta, booked: int
) -> None:
    mailed_order(container, owner)
    close(container, infer_delivery_after=wait)
    with container.db.system_transaction() as tx:
        looks = sa.text("select count(*) from procrastinate_jobs where task_name = 'tracking.close_items'")
        assert tx.execute(looks).scalar_one() == booked


def test_people_of_many_orders_end_together(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner, people(20))
    mail_order(container, order)
    clock.advance(days=21)
    close(container, **AFTER_SILENCE)
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
    assert (row.n_delivered, row.n_printed, row.status) == (20, 0, "fulfilled")
