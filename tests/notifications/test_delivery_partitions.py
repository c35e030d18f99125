"""Deliveries are kept for a month: their days are opened and dropped, table by table."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.notifications.webhooks.rules import ORDER_STATUS_EVENT
from support.factories import Clock
from support.orders import create_order, open_account
from support.waiting import wait_until
from support.webhook_outbox import (
    claim_deliveries,
    complete_deliveries,
    delivery_rows,
    fan_out,
    has_lock_waiter,
    subscribe,
)

DAYS = sa.text(
    """select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'deliveries_settled'::regclass and c.relname <> 'deliveries_other' order by 1"""
)
PLACES = sa.text("select tableoid::regclass::text, id from deliveries order by id")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def open_days(container: Container) -> list[str]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(DAYS).scalars())


def named(start: datetime, count: int) -> list[str]:
    return [f"deliveries_{start + timedelta(days=n):%Y%m%d}" for n in range(count)]


def tell(container: Container, owner: Caller) -> None:
    create_order(container, owner)
    fan_out(container)
    complete_deliveries(container, claim_deliveries(container))


def row_partitions(container: Container) -> list[str]:
    with container.db.system_transaction() as tx:
        return [table for table, _ in tx.execute(PLACES)]


def test_what_waits_lies_together_and_what_is_settled_by_its_day(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    deliveries.maintain_partitions(container.db, now=clock.now())
    create_order(container, owner)
    fan_out(container)
    assert row_partitions(container) == ["deliveries_pending"]
    complete_deliveries(container, claim_deliveries(container))
    assert row_partitions(container) == named(clock.now(), 1)
    assert [row.status for row in delivery_rows(container, hook)] == ["delivered"]


def test_the_days_to_come_are_opened_and_those_too_old_are_dropped_with_their_rows(
    container: Container, clock: Clock, owner: Caller
) -> None:
    subscribe(container, owner, type=ORDER_STATUS_EVENT)
    first = clock.now()
    deliveries.maintain_partitions(container.db, now=first)
    assert set(named(first, 8)) <= set(open_days(container))
    tell(container, owner)
    clock.advance(days=1)
    tell(container, owner)
    clock.advance(days=29)
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert named(first, 1)[0] in open_days(container)
    assert len(row_partitions(container)) == 2
    clock.advance(days=1)
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert named(first, 1)[0] not in open_days(container)
    with container.db.system_transaction() as tx:
        gone = tx.execute(sa.text("select to_regclass(:name)"), {"name": named(first, 1)[0]}).scalar_one()
    assert gone is None
    assert row_partitions(container) == named(first + timedelta(days=1), 1)


def test_a_day_that_nobody_opened_in_time_keeps_its_rows_where_they_are(
    container: Container, clock: Clock, owner: Caller
) -> None:
    subscribe(container, owner, type=ORDER_STATUS_EVENT)
    tell(container, owner)  # the tests' time is one for which the migration opened nothing
    assert row_partitions(container) == ["deliveries_other"]
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert named(clock.now(), 1)[0] not in open_days(container)
    assert set(named(clock.now() + timedelta(days=1), 7)) <= set(open_days(container))
    tell(container, owner)
    assert row_partitions(container) == ["deliveries_other"] * 2
    clock.advance(days=31)
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert row_partitions(container) == []


def test_what_has_waited_for_as_long_goes_too(container: Container, clock: Clock, owner: Caller) -> None:
    subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
    clock.advance(days=30)
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert row_partitions(container) == ["deliveries_pending"]
    clock.advance(seconds=1)
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert row_partitions(container) == []


def delete(container: Container, owner: Caller, hook: WebhookSubscription) -> None:
    with container.db.transaction(build_tenant(owner)) as tx:
        webhook_queries.delete_webhook(tx, hook.id)


def gone(container: Container) -> list[int]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.text("select webhook_id from webhooks_gone order by 1")).scalars())


def test_deliveries_of_a_deleted_subscription_go_in_small_steps_and_all_else_stays(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "ORPHANED_PER_TRANSACTION", 2)
    hook, other = (subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    for _ in range(3):
        tell(container, owner)
    create_order(container, owner)
    fan_out(container)
    assert [row.status for row in delivery_rows(container, hook)] == ["delivered"] * 3 + ["pending"]
    delete(container, owner, hook)
    assert len(delivery_rows(container, hook)) == 4, "nobody who deletes a subscription waits for its log"
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert (len(delivery_rows(container, hook)), len(delivery_rows(container, other))) == (0, 4)


def test_what_is_gone_is_found_by_its_index(container: Container, owner: Caller) -> None:
    """A month's deliveries of everybody are not read for one subscription's, nor for none at all."""
    hook, other = (subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    tell(container, owner)
    read_whole = sa.text("select sum(seq_scan) from pg_stat_xact_user_tables where relname like 'deliveries%'")
    for forgotten in (0, 1):
        with container.db.system_transaction() as tx:
            before = tx.execute(read_whole).scalar_one()
            assert deliveries.delete_some_orphaned(tx) == forgotten
            assert tx.execute(read_whole).scalar_one() == before
        delete(container, owner, hook if not forgotten else other)
    assert (delivery_rows(container, hook), len(delivery_rows(container, other))) == ([], 1)


def test_of_two_simultaneous_cleanups_neither_ends_too_early(
    container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "ORPHANED_PER_TRANSACTION", 1)
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    tell(container, owner)
    tell(container, owner)
    delete(container, owner, hook)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update webhooks_gone set gone_at = now() - interval '25 hours'"))

    def delete_orphaned() -> int:
        with container.db.system_transaction() as tx:
            return deliveries.delete_some_orphaned(tx)

    with ThreadPoolExecutor(1) as other, container.db.system_transaction() as tx:
        assert deliveries.delete_some_orphaned(tx) == 1
        beside = other.submit(delete_orphaned)
        wait_until(lambda: has_lock_waiter(container))
        tx.commit()
        assert beside.result() == 0, "the other has taken it"
    assert gone(container) == [hook.id]
    deliveries.delete_orphaned_deliveries(container.db)
    assert (delivery_rows(container, hook), gone(container)) == ([], [])


def test_a_delivery_that_comes_just_after_its_subscription_went_is_forgotten_too(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook, other = (subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    delete(container, owner, hook)
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert gone(container) == [hook.id], "it is remembered for a day"
    tell(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update deliveries set webhook_id = :gone where webhook_id = :id"),
                   {"gone": hook.id, "id": other.id})  # fmt: skip
        tx.execute(sa.text("update webhooks_gone set gone_at = now() - interval '25 hours'"))
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert (delivery_rows(container, hook), gone(container)) == ([], [])


def test_keeping_them_twice_changes_nothing(container: Container, clock: Clock) -> None:
    deliveries.maintain_partitions(container.db, now=clock.now())
    before = open_days(container)
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert open_days(container) == before


def test_an_old_day_that_somebody_reads_is_dropped_later_and_new_days_are_opened_all_the_same(
    container: Container, clock: Clock
) -> None:
    first = clock.now()
    deliveries.maintain_partitions(container.db, now=first)
    old = named(first, 1)[0]
    clock.advance(days=31)
    with psycopg.connect(container.db.conninfo) as reader:
        reader.execute(f"lock table {old} in access share mode")
        deliveries.maintain_partitions(container.db, now=clock.now())
        assert {old, *named(clock.now(), 8)} <= set(open_days(container))
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert old not in open_days(container)
    assert set(named(clock.now(), 8)) <= set(open_days(container))


def test_what_a_reader_of_everything_holds_up_is_made_up_for_by_the_next_run(
    container: Container, clock: Clock, owner: Caller
) -> None:
    subscribe(container, owner, type=ORDER_STATUS_EVENT)
    tell(container, owner)
    before = clock.now()
    deliveries.maintain_partitions(container.db, now=before)
    clock.advance(days=32)
    old, new = set(open_days(container)), set(named(clock.now(), 8))
    with psycopg.connect(container.db.conninfo) as reader:
        reader.execute("lock table deliveries in access share mode")
        deliveries.maintain_partitions(container.db, now=clock.now())
        assert set(open_days(container)) == old
        assert row_partitions(container) == []  # rows are forgotten all the same
    deliveries.maintain_partitions(container.db, now=clock.now())
    assert new <= set(open_days(container))
    assert named(before + timedelta(days=1), 1)[0] not in open_days(container)


@pytest.mark.parametrize(
    ("what", "params"),
    [
        (deliveries.OPEN_PARTITIONS, {"first": date(2026, 5, 4), "last": date(2026, 5, 5)}),
        (deliveries.DROP_PARTITIONS, {"before": date(2100, 1, 1)}),
        (deliveries.DELETE_EXPIRED, {"before": datetime(2100, 1, 1, tzinfo=UTC)}),
    ],
    ids=["open", "drop", "forget"],
)
def test_a_tenant_neither_opens_nor_drops_a_day(
    what: sa.TextClause, params: dict[str, object], container: Container, owner: Caller
) -> None:
    with (
        pytest.raises(ProgrammingError, match="permission denied"),
        container.db.transaction(build_tenant(owner)) as tx,
    ):
        tx.execute(what, params)


def test_a_stranger_sees_no_day_s_rows_and_nobody_reads_a_day_by_itself(
    container: Container, clock: Clock, owner: Caller
) -> None:
    subscribe(container, owner, type=ORDER_STATUS_EVENT)
    deliveries.maintain_partitions(container.db, now=clock.now())
    tell(container, owner)
    stranger = open_account(container, "stranger@example.com")
    for caller, count in ((owner, 1), (stranger, 0)):
        with container.db.transaction(build_tenant(caller)) as tx:
            assert tx.execute(sa.text("select count(*) from deliveries")).scalar_one() == count
    for name in (named(clock.now(), 1)[0], "deliveries_pending", "deliveries_settled", "deliveries_other"):
        with (
            pytest.raises(ProgrammingError, match="permission denied"),
            container.db.transaction(build_tenant(owner)) as tx,
        ):
            tx.execute(sa.text(f"select * from {name}"))
