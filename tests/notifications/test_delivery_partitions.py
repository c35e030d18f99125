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
from support.orders import open_account
from support.rows import execute, run_as, scalar, scalars
from support.waiting import is_lock_awaited, wait_until
from support.webhooks import claim_deliveries, complete_deliveries, delivery_rows, fan_out_order, subscribe

DAYS = """
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = 'deliveries_settled'::regclass and c.relname <> 'deliveries_other' order by 1
"""
LONG_GONE = "update webhooks_gone set gone_at = now() - interval '25 hours'"


class Log:
    """The deliveries of a service of its own, whose days are its tables."""

    def __init__(self, container: Container, clock: Clock, owner: Caller) -> None:
        self.container, self.clock, self.owner = container, clock, owner

    def subscribe(self) -> WebhookSubscription:
        return subscribe(self.container, self.owner, type=ORDER_STATUS_EVENT)

    def tell(self) -> None:
        """Everyone of one order."""
        fan_out_order(self.container, self.owner)
        complete_deliveries(self.container, claim_deliveries(self.container))

    def maintain(self, **after: float) -> None:
        self.clock.advance(**after)
        deliveries.maintain_partitions(self.container.db, now=self.clock.now())

    def delete(self, hook: WebhookSubscription) -> None:
        run_as(self.container, self.owner, webhook_queries.delete_webhook, hook.id)

    def count(self, hook: WebhookSubscription) -> int:
        return len(delivery_rows(self.container, hook))

    def tables(self) -> list[str]:
        """Where the deliveries lie, in their order."""
        return scalars(self.container, "select tableoid::regclass::text from deliveries order by id")

    def open_days(self) -> set[str]:
        return set(scalars(self.container, DAYS))

    def days(self, count: int = 8, *, after: int = 0) -> set[str]:
        """The names of so many, from today on or later."""
        first = self.clock.now() + timedelta(days=after)
        return {f"deliveries_{first + timedelta(days=n):%Y%m%d}" for n in range(count)}

    def gone(self) -> list[int]:
        return scalars(self.container, "select webhook_id from webhooks_gone order by 1")


@pytest.fixture
def log(conninfo: str, container: Container, clock: Clock, owner: Caller) -> Log:
    return Log(container, clock, owner)


def test_what_waits_lies_together_for_a_month_and_what_is_settled_by_its_day(log: Log) -> None:
    hook = log.subscribe()
    log.maintain()
    fan_out_order(log.container, log.owner)
    assert log.tables() == ["deliveries_pending"]
    complete_deliveries(log.container, claim_deliveries(log.container))
    today, before = [*log.days(1)], log.open_days()
    assert (log.tables(), [row.status for row in delivery_rows(log.container, hook)]) == (today, ["delivered"])
    log.maintain()
    assert log.open_days() == before, "keeping them twice changes nothing"
    fan_out_order(log.container, log.owner)
    log.maintain(days=30)
    assert log.tables() == [*today, "deliveries_pending"]
    log.maintain(seconds=1)
    assert log.tables() == today


def test_the_days_to_come_are_opened_and_those_too_old_are_dropped_with_their_rows(log: Log) -> None:
    log.subscribe()
    log.maintain()
    assert log.days() <= log.open_days()
    log.tell()
    [first], [second] = log.days(1), log.days(1, after=1)
    log.clock.advance(days=1)
    log.tell()
    log.maintain(days=29)
    assert first in log.open_days()
    assert len(log.tables()) == 2
    log.maintain(days=1)
    assert first not in log.open_days()
    assert scalar(log.container, "select to_regclass(:name)", name=first) is None
    assert log.tables() == [second]


def test_a_day_that_nobody_opened_in_time_keeps_its_rows_where_they_are(log: Log) -> None:
    log.subscribe()
    log.tell()  # the tests' time is one for which the migration opened nothing
    assert log.tables() == ["deliveries_other"]
    log.maintain()
    assert not log.days(1) & log.open_days()
    assert log.days(7, after=1) <= log.open_days()
    log.tell()
    assert log.tables() == ["deliveries_other"] * 2
    log.maintain(days=31)
    assert log.tables() == []


def test_what_is_gone_is_found_by_its_index_and_deleted_in_steps(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A month's deliveries of everybody are not read for one subscription's, nor for none at all."""
    hook, other = log.subscribe(), log.subscribe()
    log.tell()
    read_whole = sa.text("select sum(seq_scan) from pg_stat_xact_user_tables where relname like 'deliveries%'")
    for forgotten in (0, 1):
        with log.container.db.system_transaction() as tx:
            before = tx.execute(read_whole).scalar_one()
            assert deliveries.delete_some_orphaned(tx) == forgotten
            assert tx.execute(read_whole).scalar_one() == before
        log.delete(other if forgotten else hook)
    assert (log.count(hook), log.count(other)) == (0, 1)
    monkeypatch.setattr(deliveries, "ORPHANED_PER_TRANSACTION", 2)
    hook, other = log.subscribe(), log.subscribe()
    for _ in range(3):
        log.tell()
    fan_out_order(log.container, log.owner)
    assert [row.status for row in delivery_rows(log.container, hook)] == ["delivered"] * 3 + ["pending"]
    log.delete(hook)
    assert log.count(hook) == 4, "nobody who deletes a subscription waits for its log"
    log.maintain()
    assert (log.count(hook), log.count(other)) == (0, 4)


def test_of_two_simultaneous_cleanups_neither_ends_too_early(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "ORPHANED_PER_TRANSACTION", 1)
    hook, db = log.subscribe(), log.container.db
    log.tell()
    log.tell()
    log.delete(hook)
    execute(log.container, LONG_GONE)

    def delete_orphaned() -> int:
        with db.system_transaction() as tx:
            return deliveries.delete_some_orphaned(tx)

    with ThreadPoolExecutor(1) as other, db.system_transaction() as tx:
        assert deliveries.delete_some_orphaned(tx) == 1
        beside = other.submit(delete_orphaned)
        wait_until(lambda: is_lock_awaited(log.container))
        tx.commit()
        assert beside.result() == 0, "the other has taken it"
    assert log.gone() == [hook.id]
    deliveries.delete_orphaned_deliveries(db)
    assert (log.count(hook), log.gone()) == (0, [])


def test_a_delivery_that_comes_just_after_its_subscription_went_is_forgotten_too(log: Log) -> None:
    hook, other = log.subscribe(), log.subscribe()
    log.delete(hook)
    log.maintain()
    assert log.gone() == [hook.id], "it is remembered for a day"
    log.tell()
    late = "update deliveries set webhook_id = :gone where webhook_id = :id"
    execute(log.container, late, gone=hook.id, id=other.id)
    execute(log.container, LONG_GONE)
    log.maintain()
    assert (log.count(hook), log.gone()) == (0, [])


def test_what_somebody_reads_is_dropped_later_and_new_days_are_opened_all_the_same(log: Log) -> None:
    log.subscribe()
    log.tell()
    log.maintain()
    old = log.days(1, after=1)
    log.clock.advance(days=32)
    with psycopg.connect(log.container.db.conninfo) as reader:
        reader.execute(f"lock table {min(old)} in access share mode".encode())
        log.maintain()
        assert old | log.days() <= log.open_days()
        assert log.tables() == []
    kept = log.open_days()
    with psycopg.connect(log.container.db.conninfo) as reader:
        reader.execute("lock table deliveries in access share mode")
        log.maintain(days=1)
        assert log.open_days() == kept
    log.maintain()
    assert log.days() <= log.open_days(), "what a reader of everything held up is made up for by the next run"
    assert not old & log.open_days()


def test_a_stranger_sees_no_rows_and_no_tenant_reads_opens_or_drops_a_day(log: Log, subtests: pytest.Subtests) -> None:
    log.subscribe()
    log.maintain()
    log.tell()
    stranger = open_account(log.container, "stranger@example.com")
    for caller, count in ((log.owner, 1), (stranger, 0)):
        with log.container.db.transaction(build_tenant(caller)) as tx:
            assert tx.execute(sa.text("select count(*) from deliveries")).scalar_one() == count
    tables = (*log.days(1), "deliveries_pending", "deliveries_settled", "deliveries_other")
    refused: list[tuple[sa.TextClause, dict[str, object]]] = [
        *((sa.text(f"select * from {name}"), {}) for name in tables),
        (deliveries.OPEN_PARTITIONS, {"first": date(2026, 5, 4), "last": date(2026, 5, 5)}),
        (deliveries.DROP_PARTITIONS, {"before": date(2100, 1, 1)}),
        (deliveries.DELETE_EXPIRED, {"before": datetime(2100, 1, 1, tzinfo=UTC)}),
    ]
    for statement, params in refused:
        with subtests.test(str(statement)), log.container.db.transaction(build_tenant(log.owner)) as tx:
            with pytest.raises(ProgrammingError, match="permission denied"):
                tx.execute(statement, params)
            tx.rollback()
