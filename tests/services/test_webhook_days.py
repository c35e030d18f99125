"""Deliveries are kept for a month: their days are opened and dropped, table by table."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
import sqlalchemy as sa
from outbox import claim, delivery_rows, fan_out, is_somebody_waiting, settle, subscribe
from placing import open_account, place
from sqlalchemy.exc import ProgrammingError
from waiting import wait_until

from makers import Clock
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.queries import Webhook
from quillpost.notifications.webhooks.rules import ORDER_STATUS

DAYS = sa.text(
    """select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'deliveries_settled'::regclass and c.relname <> 'deliveries_other' order by 1"""
)
PLACES = sa.text("select tableoid::regclass::text, id from deliveries order by id")


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def open_days(parts: Parts) -> list[str]:
    with parts.db.work() as tx:
        return list(tx.execute(DAYS).scalars())


def named(start: datetime, count: int) -> list[str]:
    return [f"deliveries_{start + timedelta(days=n):%Y%m%d}" for n in range(count)]


def tell(parts: Parts, owner: Caller) -> None:
    place(parts, owner)
    fan_out(parts)
    settle(parts, claim(parts))


def lying(parts: Parts) -> list[str]:
    with parts.db.work() as tx:
        return [table for table, _ in tx.execute(PLACES)]


def test_what_waits_lies_together_and_what_is_settled_by_its_day(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    deliveries.keep(parts.db, now=clock.now())
    place(parts, owner)
    fan_out(parts)
    assert lying(parts) == ["deliveries_pending"]
    settle(parts, claim(parts))
    assert lying(parts) == named(clock.now(), 1)
    assert [row.status for row in delivery_rows(parts, hook)] == ["delivered"]


def test_the_days_to_come_are_opened_and_those_too_old_are_dropped_with_their_rows(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    subscribe(parts, owner, type=ORDER_STATUS)
    first = clock.now()
    deliveries.keep(parts.db, now=first)
    assert set(named(first, 8)) <= set(open_days(parts))
    tell(parts, owner)
    clock.advance(days=1)
    tell(parts, owner)
    clock.advance(days=29)
    deliveries.keep(parts.db, now=clock.now())
    assert named(first, 1)[0] in open_days(parts)
    assert len(lying(parts)) == 2
    clock.advance(days=1)
    deliveries.keep(parts.db, now=clock.now())
    assert named(first, 1)[0] not in open_days(parts)
    with parts.db.work() as tx:
        gone = tx.execute(sa.text("select to_regclass(:name)"), {"name": named(first, 1)[0]}).scalar_one()
    assert gone is None
    assert lying(parts) == named(first + timedelta(days=1), 1)


def test_a_day_that_nobody_opened_in_time_keeps_its_rows_where_they_are(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    subscribe(parts, owner, type=ORDER_STATUS)
    tell(parts, owner)  # the tests' time is one for which the migration opened nothing
    assert lying(parts) == ["deliveries_other"]
    deliveries.keep(parts.db, now=clock.now())
    assert named(clock.now(), 1)[0] not in open_days(parts)
    assert set(named(clock.now() + timedelta(days=1), 7)) <= set(open_days(parts))
    tell(parts, owner)
    assert lying(parts) == ["deliveries_other"] * 2
    clock.advance(days=31)
    deliveries.keep(parts.db, now=clock.now())
    assert lying(parts) == []


def test_what_has_waited_for_as_long_goes_too(parts: Parts, clock: Clock, owner: Caller) -> None:
    subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    clock.advance(days=30)
    deliveries.keep(parts.db, now=clock.now())
    assert lying(parts) == ["deliveries_pending"]
    clock.advance(seconds=1)
    deliveries.keep(parts.db, now=clock.now())
    assert lying(parts) == []


def delete(parts: Parts, owner: Caller, hook: Webhook) -> None:
    with parts.db.transaction(tenant(owner)) as tx:
        webhook_queries.delete_webhook(tx, hook.id)


def gone(parts: Parts) -> list[int]:
    with parts.db.work() as tx:
        return list(tx.execute(sa.text("select webhook_id from webhooks_gone order by 1")).scalars())


def test_what_a_deleted_subscription_was_told_goes_in_small_steps_and_all_else_stays(
    parts: Parts, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "FORGOTTEN_AT_ONCE", 2)
    hook, other = (subscribe(parts, owner, type=ORDER_STATUS) for _ in range(2))
    for _ in range(3):
        tell(parts, owner)
    place(parts, owner)
    fan_out(parts)
    assert [row.status for row in delivery_rows(parts, hook)] == ["delivered"] * 3 + ["pending"]
    delete(parts, owner, hook)
    assert len(delivery_rows(parts, hook)) == 4, "nobody who deletes a subscription waits for its log"
    deliveries.keep(parts.db, now=clock.now())
    assert (len(delivery_rows(parts, hook)), len(delivery_rows(parts, other))) == (0, 4)


def test_what_is_gone_is_found_by_its_index(parts: Parts, owner: Caller) -> None:
    """A month's deliveries of everybody are not read for one subscription's, nor for none at all."""
    hook, other = (subscribe(parts, owner, type=ORDER_STATUS) for _ in range(2))
    tell(parts, owner)
    read_whole = sa.text(
        "select sum(seq_scan) from pg_stat_xact_user_tables where relname like 'deliveries%'"
    )
    for forgotten in (0, 1):
        with parts.db.work() as tx:
            before = tx.execute(read_whole).scalar_one()
            assert deliveries.forget_some(tx) == forgotten
            assert tx.execute(read_whole).scalar_one() == before
        delete(parts, owner, hook if not forgotten else other)
    assert (delivery_rows(parts, hook), len(delivery_rows(parts, other))) == ([], 1)


def test_of_two_who_forget_at_once_neither_takes_it_for_done(
    parts: Parts, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "FORGOTTEN_AT_ONCE", 1)
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    tell(parts, owner)
    tell(parts, owner)
    delete(parts, owner, hook)
    with parts.db.work() as tx:
        tx.execute(sa.text("update webhooks_gone set gone_at = now() - interval '25 hours'"))

    def forget() -> int:
        with parts.db.work() as tx:
            return deliveries.forget_some(tx)

    with ThreadPoolExecutor(1) as other, parts.db.work() as tx:
        assert deliveries.forget_some(tx) == 1
        beside = other.submit(forget)
        wait_until(lambda: is_somebody_waiting(parts))
        tx.commit()
        assert beside.result() == 0, "the other has taken it"
    assert gone(parts) == [hook.id]
    deliveries.forget_gone(parts.db)
    assert (delivery_rows(parts, hook), gone(parts)) == ([], [])


def test_a_delivery_that_comes_just_after_its_subscription_went_is_forgotten_too(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook, other = (subscribe(parts, owner, type=ORDER_STATUS) for _ in range(2))
    delete(parts, owner, hook)
    deliveries.keep(parts.db, now=clock.now())
    assert gone(parts) == [hook.id], "it is remembered for a day"
    tell(parts, owner)
    with parts.db.work() as tx:
        tx.execute(sa.text("update deliveries set webhook_id = :gone where webhook_id = :id"),
                   {"gone": hook.id, "id": other.id})  # fmt: skip
        tx.execute(sa.text("update webhooks_gone set gone_at = now() - interval '25 hours'"))
    deliveries.keep(parts.db, now=clock.now())
    assert (delivery_rows(parts, hook), gone(parts)) == ([], [])


def test_keeping_them_twice_changes_nothing(parts: Parts, clock: Clock) -> None:
    deliveries.keep(parts.db, now=clock.now())
    before = open_days(parts)
    deliveries.keep(parts.db, now=clock.now())
    assert open_days(parts) == before


def test_an_old_day_that_somebody_reads_is_dropped_later_and_new_days_are_opened_all_the_same(
    parts: Parts, clock: Clock
) -> None:
    first = clock.now()
    deliveries.keep(parts.db, now=first)
    old = named(first, 1)[0]
    clock.advance(days=31)
    with psycopg.connect(parts.db.conninfo) as reader:
        reader.execute(f"lock table {old} in access share mode")
        deliveries.keep(parts.db, now=clock.now())
        assert {old, *named(clock.now(), 8)} <= set(open_days(parts))
    deliveries.keep(parts.db, now=clock.now())
    assert old not in open_days(parts)
    assert set(named(clock.now(), 8)) <= set(open_days(parts))


def test_what_a_reader_of_everything_holds_up_is_made_up_for_by_the_next_run(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    subscribe(parts, owner, type=ORDER_STATUS)
    tell(parts, owner)
    before = clock.now()
    deliveries.keep(parts.db, now=before)
    clock.advance(days=32)
    old, new = set(open_days(parts)), set(named(clock.now(), 8))
    with psycopg.connect(parts.db.conninfo) as reader:
        reader.execute("lock table deliveries in access share mode")
        deliveries.keep(parts.db, now=clock.now())
        assert set(open_days(parts)) == old
        assert lying(parts) == []  # rows are forgotten all the same
    deliveries.keep(parts.db, now=clock.now())
    assert new <= set(open_days(parts))
    assert named(before + timedelta(days=1), 1)[0] not in open_days(parts)


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        (deliveries.OPEN, {"first": date(2026, 5, 4), "last": date(2026, 5, 5)}),
        (deliveries.DROP, {"before": date(2100, 1, 1)}),
        (deliveries.FORGET, {"before": datetime(2100, 1, 1, tzinfo=UTC)}),
    ],
    ids=["open", "drop", "forget"],
)
def test_a_tenant_neither_opens_nor_drops_a_day(
    what: sa.TextClause, asked: dict[str, object], parts: Parts, owner: Caller
) -> None:
    with (
        pytest.raises(ProgrammingError, match="permission denied"),
        parts.db.transaction(tenant(owner)) as tx,
    ):
        tx.execute(what, asked)


def test_a_stranger_sees_no_day_s_rows_and_nobody_reads_a_day_by_itself(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    subscribe(parts, owner, type=ORDER_STATUS)
    deliveries.keep(parts.db, now=clock.now())
    tell(parts, owner)
    stranger = open_account(parts, "stranger@example.com")
    for who, count in ((owner, 1), (stranger, 0)):
        with parts.db.transaction(tenant(who)) as tx:
            assert tx.execute(sa.text("select count(*) from deliveries")).scalar_one() == count
    for name in (named(clock.now(), 1)[0], "deliveries_pending", "deliveries_settled", "deliveries_other"):
        with (
            pytest.raises(ProgrammingError, match="permission denied"),
            parts.db.transaction(tenant(owner)) as tx,
        ):
            tx.execute(sa.text(f"select * from {name}"))
