"""Lanes: who holds one, for how long, and how it is left."""

from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from outbox import (
    LEASE,
    Hand,
    claim,
    delivery_rows,
    fan_out,
    health,
    holder,
    lane_row,
    said,
    set_columns,
    settle,
    subscribe,
    waking,
)
from placing import end_review, item_ids, open_account, place

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.notifications import webhook_lanes, webhooks
from quillpost.notifications.webhooks import claims, leases
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.leases import HEALTHY, Health
from quillpost.notifications.webhooks.outcomes import Outcome, record
from quillpost.notifications.webhooks.payloads import Due
from quillpost.notifications.webhooks.rules import ITEM_STATUS, ORDER_STATUS
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Move, move_items

MUCH_MORE = sa.text(
    """
    insert into deliveries (account_id, mode, webhook_id, fact_id, event_id, event_type, stream, status,
                            next_at, created_at)
    select account_id, mode, webhook_id, fact_id, gen_random_uuid(), event_type, stream || n, status,
           next_at, created_at
      from deliveries, generate_series(1, 5000) n where status = 'pending'
    """
)
READ_WHOLE = sa.text("select seq_scan from pg_stat_xact_user_tables where relname = 'deliveries_pending'")


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def set_lane(parts: Parts, hook: webhook_queries.Webhook, **values: object) -> None:
    with parts.db.work() as tx:
        of_it = webhook_lanes.c.webhook_id == hook.id
        tx.execute(webhook_lanes.update().where(of_it).values(**values))


def wake(parts: Parts, who: Caller, hook: webhook_queries.Webhook, *, afresh: bool = False) -> None:
    with parts.db.transaction(tenant(who)) as tx:
        leases.wake(tx, hook.id, at=parts.clock(), afresh=afresh)


def print_pieces(parts: Parts, order: Order) -> None:
    end_review(parts, order)
    with parts.db.work() as tx:
        printed = [Move(item_id, ItemStatus.PRINTED) for item_id in item_ids(tx, order)]
        move_items(tx, printed, now=parts.clock())


def read(hand: Hand) -> list[Due]:
    return [due for due in hand.read() if isinstance(due, Due)]


def test_a_subscription_has_a_lane_and_takes_it_along(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    row = lane_row(parts, hook)
    assert (row.due_at, row.woken, row.leased_by, row.failures) == (None, 0, None, 0)
    with parts.db.transaction(tenant(owner)) as tx:
        webhook_queries.delete_webhook(tx, hook.id)
    with parts.db.work() as tx:
        assert tx.execute(webhook_lanes.select()).all() == []


def test_whoever_leaves_a_lane_does_not_read_what_waits_in_another(
    parts: Parts, owner: Caller, conninfo: str
) -> None:
    """Much that waits for one receiver makes the database believe that it is everybody's."""
    dead, hook = (subscribe(parts, owner, type=ORDER_STATUS) for _ in range(2))
    place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    hand.record(*(Outcome(due, "delivered", 200) for due in read(hand) if due.webhook_id == hook.id))
    with parts.db.work() as tx:
        tx.execute(MUCH_MORE)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("analyze deliveries_pending")
    with parts.db.work() as tx:
        before = tx.execute(READ_WHOLE).scalar_one()
        wish = claims.Wish(empty={hook.id: hand.lanes[hook.id].woken})
        found = claims.take(tx, hand.id, wish, lease_until=parts.clock() + LEASE, now=parts.clock())
        assert found.left == {hook.id}
        assert tx.execute(READ_WHOLE).scalar_one() == before
    assert len(delivery_rows(parts, dead)) > 5_000


def test_a_lane_is_held_by_one_alone_until_its_lease_ends(parts: Parts, clock: Clock, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    first, second = Hand(parts), Hand(parts)
    assert first.lease() == [hook.id]
    assert holder(parts, hook) == (first.id, parts.clock() + LEASE)
    assert second.lease() == []
    clock.advance(seconds=LEASE.seconds)
    assert second.lease() == [hook.id]
    assert first.look() == set()


def test_several_share_the_lanes_that_there_are(parts: Parts, owner: Caller) -> None:
    hooks = {subscribe(parts, owner, type=ORDER_STATUS).id for _ in range(4)}
    place(parts, owner)
    fan_out(parts)
    hands = Hand(parts), Hand(parts)
    shares = [set(hand.lease(most=2)) for hand in hands]
    assert shares[0] | shares[1] == hooks
    assert [len(share) for share in shares] == [2, 2]


def test_a_lane_that_another_transaction_has_in_hand_is_passed_over(parts: Parts, owner: Caller) -> None:
    hooks = {subscribe(parts, owner, type=ORDER_STATUS).id for _ in range(2)}
    place(parts, owner)
    fan_out(parts)
    now, one, other = parts.clock(), uuid4(), uuid4()
    with parts.db.work() as tx, parts.db.work() as beside:
        [mine] = leases.lease(tx, one, most=1, until=now + LEASE, now=now)
        [theirs] = leases.lease(beside, other, most=2, until=now + LEASE, now=now)
    assert {mine.webhook_id, theirs.webhook_id} == hooks


def test_a_lease_that_is_renewed_goes_on(parts: Parts, clock: Clock, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    clock.advance(seconds=LEASE.seconds - 1)
    with parts.db.work() as tx:
        leases.renew(tx, hand.id, [hook.id], until=parts.clock() + LEASE)
        leases.renew(tx, uuid4(), [hook.id], until=parts.clock() + LEASE * 9)
    assert holder(parts, hook) == (hand.id, parts.clock() + LEASE)


def test_those_that_failed_lately_come_last(parts: Parts, owner: Caller) -> None:
    failing, fine = (subscribe(parts, owner, type=ORDER_STATUS) for _ in range(2))
    place(parts, owner)
    fan_out(parts)
    set_lane(parts, failing, failures=1)
    assert Hand(parts).lease(most=1) == [fine.id]


def test_a_lane_that_rests_is_left_alone_for_as_long(parts: Parts, clock: Clock, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    set_lane(parts, hook, failures=5, resting_until=parts.clock() + timedelta(seconds=5))
    assert Hand(parts).lease() == []
    clock.advance(seconds=5)
    assert Hand(parts).lease() == [hook.id]


def test_an_empty_lane_is_left_with_nothing_to_do(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    hand.record(*(Outcome(due, "delivered", 200) for due in read(hand)))
    assert hand.leave() == {hook.id}
    row = lane_row(parts, hook)
    assert (row.due_at, row.leased_by, row.leased_until) == (None, None, None)


def test_a_lane_is_left_until_the_next_of_its_deliveries_is_due(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    for _ in range(2):
        place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    one, other = read(hand)
    soon, later = (parts.clock() + timedelta(minutes=minutes) for minutes in (5, 30))
    hand.record(Outcome(one, "pending", 500, next_at=later), Outcome(other, "pending", 500, next_at=soon))
    hand.leave()
    assert lane_row(parts, hook).due_at == soon


def test_what_waits_behind_another_of_its_stream_keeps_nobody_in_the_lane(
    parts: Parts, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ITEM_STATUS)
    order = place(parts, owner)
    fan_out(parts)
    again = parts.clock() + timedelta(minutes=5)
    settle(parts, claim(parts), "pending", response_status=500, next_at=again)
    print_pieces(parts, order)
    fan_out(parts)
    hand = Hand(parts)
    assert hand.lease() == [hook.id]
    assert hand.read() == []
    assert hand.leave() == {hook.id}
    assert lane_row(parts, hook).due_at == again
    assert len(delivery_rows(parts, hook)) == 2


def test_a_lane_into_which_more_came_meanwhile_is_not_left(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    hand.record(*(Outcome(due, "delivered", 200) for due in read(hand)))
    place(parts, owner)
    fan_out(parts)
    assert hand.leave() == set()
    assert hand.look() == {hook.id}
    assert len(read(hand)) == 1


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_the_lane_of_a_subscription_that_rests_is_left_until_somebody_wakes_it(
    parts: Parts, owner: Caller, status: str
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    set_columns(parts, webhooks, hook.id, status=status)
    hand = Hand(parts)
    hand.lease()
    assert hand.read() == []
    hand.leave()
    assert lane_row(parts, hook).due_at is None
    wake(parts, owner, hook)
    assert Hand(parts).lease() == [hook.id]


def test_whoever_wakes_a_lane_afresh_ends_its_rest(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    rest = parts.clock() + timedelta(minutes=10)
    set_lane(parts, hook, failures=9, troubled_since=parts.clock(), resting_until=rest)
    wake(parts, owner, hook)
    assert health(parts, hook) == Health(9, parts.clock(), rest)
    wake(parts, owner, hook, afresh=True)
    assert health(parts, hook) == HEALTHY
    assert waking(parts, hook) == (parts.clock(), 2)


def test_nobody_wakes_a_stranger_s_lane_nor_one_of_another_mode(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    stranger = open_account(parts, "stranger@example.com")
    for who in (
        stranger,
        Caller(owner.account_id, "live"),
        Caller(owner.account_id, owner.mode, sub_account_id=7),
    ):
        wake(parts, who, hook, afresh=True)
    assert waking(parts, hook) == (None, 0)


def test_outcomes_of_one_who_lost_the_lane_count_for_nothing(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    late, next_one = Hand(parts), Hand(parts)
    late.lease()
    [due] = read(late)
    clock.advance(seconds=LEASE.seconds)
    next_one.lease()
    with parts.db.work() as tx:
        rested = Health(5, parts.clock(), parts.clock() + timedelta(hours=1))
        late_news = record(tx, late.id, [Outcome(due, "failed", 500)], {hook.id: rested}, now=parts.clock())
    assert late_news == ([], set())
    assert lane_row(parts, hook).failures == 0
    [again] = read(next_one)
    assert (again.id, again.event_id) == (due.id, due.event_id)
    assert len(next_one.record(Outcome(again, "delivered", 200))) == 1


def test_what_was_read_is_not_read_again_and_settled_streams_give_their_next(
    parts: Parts, owner: Caller
) -> None:
    subscribe(parts, owner, type=ITEM_STATUS)
    order = place(parts, owner, people(2))
    print_pieces(parts, order)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    one, other = read(hand)
    assert hand.read() == []
    hand.record(Outcome(one, "delivered", 200))
    [after] = hand.read(settled=[one])
    assert isinstance(after, Due)
    assert (after.stream, said(after)["order_item.current_status"]) == (one.stream, "Printed")
    assert hand.read(settled=[other]) == []
