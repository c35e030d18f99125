"""Workers lease the queues of subscriptions: one at a time, and what happens when two do."""

from collections import Counter
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhook_lanes, webhooks
from quillpost.notifications.webhooks import deliveries, leases
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome, record_outcomes
from quillpost.notifications.webhooks.payloads import DueDelivery
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT, EndpointHealth
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.factories import Clock, people
from support.orders import create_order, end_review, item_ids, open_account
from support.webhook_outbox import (
    LEASE,
    LeaseHolder,
    claim_deliveries,
    complete_deliveries,
    delivery_rows,
    fan_out,
    health,
    lease_owner,
    payload_data,
    queue_row,
    queue_wakeups,
    set_columns,
    subscribe,
)
from support.webhook_receivers import deliver

pytestmark = pytest.mark.usefixtures("clean_database")

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
def owner(container: Container) -> Caller:
    return open_account(container)


def subscribe_with_event(container: Container, owner: Caller) -> webhook_queries.WebhookSubscription:
    """A subscription that has one delivery to send."""
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
    return hook


def set_queue(container: Container, hook: webhook_queries.WebhookSubscription, **values: object) -> None:
    with container.db.system_transaction() as tx:
        of_it = webhook_lanes.c.webhook_id == hook.id
        tx.execute(webhook_lanes.update().where(of_it).values(**values))


def wake(
    container: Container, caller: Caller, hook: webhook_queries.WebhookSubscription, *, afresh: bool = False
) -> None:
    with container.db.transaction(build_tenant(caller)) as tx:
        webhook_queries.schedule_queue(tx, hook.id, at=container.clock(), reset_backoff=afresh)


def print_pieces(container: Container, order: Order) -> None:
    end_review(container, order)
    with container.db.system_transaction() as tx:
        printed = [StatusChange(item_id, ItemStatus.PRINTED) for item_id in item_ids(tx, order)]
        change_item_statuses(tx, printed, now=container.clock())


def read(hand: LeaseHolder) -> list[DueDelivery]:
    return [due for due in hand.read() if isinstance(due, DueDelivery)]


def test_a_subscription_has_a_queue_that_is_deleted_with_it(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner)
    row = queue_row(container, hook)
    assert (row.due_at, row.woken, row.leased_by, row.failures) == (None, 0, None, 0)
    with container.db.transaction(build_tenant(owner)) as tx:
        webhook_queries.delete_webhook(tx, hook.id)
    with container.db.system_transaction() as tx:
        assert tx.execute(webhook_lanes.select()).all() == []


def test_releasing_a_queue_does_not_read_the_deliveries_of_another(
    container: Container, owner: Caller, conninfo: str
) -> None:
    """Much that waits for one receiver makes the database believe that it is everybody's."""
    dead, hook = (subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    create_order(container, owner)
    fan_out(container)
    hand = LeaseHolder(container)
    hand.lease()
    hand.record(*(DeliveryOutcome(due, "delivered", 200) for due in read(hand) if due.webhook_id == hook.id))
    with container.db.system_transaction() as tx:
        tx.execute(MUCH_MORE)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("analyze deliveries_pending")
    with container.db.system_transaction() as tx:
        before = tx.execute(READ_WHOLE).scalar_one()
        order_request = leases.StepRequest(empty_queues={hook.id: hand.leases[hook.id].woken})
        found = leases.run_step(
            tx, hand.id, order_request, lease_until=container.clock() + LEASE, now=container.clock()
        )
        assert found.released_ids == {hook.id}
        assert tx.execute(READ_WHOLE).scalar_one() == before
    assert len(delivery_rows(container, dead)) > 5_000


def test_a_queue_has_only_one_holder_until_its_lease_ends(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    first, second = LeaseHolder(container), LeaseHolder(container)
    assert first.lease() == [hook.id]
    assert lease_owner(container, hook) == (first.id, container.clock() + LEASE)
    assert second.lease() == []
    clock.advance(seconds=LEASE.seconds)
    assert second.lease() == [hook.id]
    assert first.look() == set()


def test_several_holders_share_the_queues(container: Container, owner: Caller) -> None:
    hooks = {subscribe(container, owner, type=ORDER_STATUS_EVENT).id for _ in range(4)}
    create_order(container, owner)
    fan_out(container)
    hands = LeaseHolder(container), LeaseHolder(container)
    shares = [set(hand.lease(most=2)) for hand in hands]
    assert shares[0] | shares[1] == hooks
    assert [len(share) for share in shares] == [2, 2]


def test_a_queue_locked_by_another_transaction_is_skipped(container: Container, owner: Caller) -> None:
    hooks = {subscribe(container, owner, type=ORDER_STATUS_EVENT).id for _ in range(2)}
    create_order(container, owner)
    fan_out(container)
    now, one, other = container.clock(), uuid4(), uuid4()
    with container.db.system_transaction() as tx, container.db.system_transaction() as beside:
        [mine] = webhook_queries.lease_queues(tx, one, limit=1, until=now + LEASE, now=now)
        [theirs] = webhook_queries.lease_queues(beside, other, limit=2, until=now + LEASE, now=now)
    assert {mine.webhook_id, theirs.webhook_id} == hooks


def test_a_lease_that_is_renewed_goes_on(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    hand = LeaseHolder(container)
    hand.lease()
    clock.advance(seconds=LEASE.seconds - 1)
    with container.db.system_transaction() as tx:
        webhook_queries.renew_leases(tx, hand.id, [hook.id], until=container.clock() + LEASE)
        webhook_queries.renew_leases(tx, uuid4(), [hook.id], until=container.clock() + LEASE * 9)
    assert lease_owner(container, hook) == (hand.id, container.clock() + LEASE)


def test_those_that_failed_lately_come_last(container: Container, owner: Caller) -> None:
    failing, fine = (subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    create_order(container, owner)
    fan_out(container)
    set_queue(container, failing, failures=1)
    assert LeaseHolder(container).lease(most=1) == [fine.id]


def test_a_queue_that_backs_off_is_not_leased_until_then(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    set_queue(container, hook, failures=5, resting_until=container.clock() + timedelta(seconds=5))
    assert LeaseHolder(container).lease() == []
    clock.advance(seconds=5)
    assert LeaseHolder(container).lease() == [hook.id]


def test_an_empty_queue_is_released_with_nothing_due(container: Container, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    hand = LeaseHolder(container)
    hand.lease()
    hand.record(*(DeliveryOutcome(due, "delivered", 200) for due in read(hand)))
    assert hand.leave() == {hook.id}
    row = queue_row(container, hook)
    assert (row.due_at, row.leased_by, row.leased_until) == (None, None, None)


def test_a_queue_is_released_until_its_next_delivery_is_due(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    for _ in range(2):
        create_order(container, owner)
    fan_out(container)
    hand = LeaseHolder(container)
    hand.lease()
    one, other = read(hand)
    soon, later = (container.clock() + timedelta(minutes=minutes) for minutes in (5, 30))
    hand.record(
        DeliveryOutcome(one, "pending", 500, next_at=later), DeliveryOutcome(other, "pending", 500, next_at=soon)
    )
    hand.leave()
    assert queue_row(container, hook).due_at == soon


def test_deliveries_blocked_in_their_stream_do_not_hold_the_queue(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    order = create_order(container, owner)
    fan_out(container)
    again = container.clock() + timedelta(minutes=5)
    complete_deliveries(container, claim_deliveries(container), "pending", response_status=500, next_at=again)
    print_pieces(container, order)
    fan_out(container)
    hand = LeaseHolder(container)
    assert hand.lease() == [hook.id]
    assert hand.read() == []
    assert hand.leave() == {hook.id}
    assert queue_row(container, hook).due_at == again
    assert len(delivery_rows(container, hook)) == 2


def test_a_queue_with_new_deliveries_is_not_released(container: Container, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    hand = LeaseHolder(container)
    hand.lease()
    hand.record(*(DeliveryOutcome(due, "delivered", 200) for due in read(hand)))
    create_order(container, owner)
    fan_out(container)
    assert hand.leave() == set()
    assert hand.look() == {hook.id}
    assert len(read(hand)) == 1


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_the_queue_of_an_inactive_subscription_is_released_until_it_is_woken(
    container: Container, owner: Caller, status: str
) -> None:
    hook = subscribe_with_event(container, owner)
    set_columns(container, webhooks, hook.id, status=status)
    hand = LeaseHolder(container)
    hand.lease()
    assert hand.read() == []
    hand.leave()
    assert queue_row(container, hook).due_at is None
    wake(container, owner, hook)
    assert LeaseHolder(container).lease() == [hook.id]


def test_waking_a_queue_afresh_ends_its_backoff(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner)
    rest = container.clock() + timedelta(minutes=10)
    set_queue(container, hook, failures=9, troubled_since=container.clock(), resting_until=rest)
    wake(container, owner, hook)
    assert health(container, hook) == EndpointHealth(9, container.clock(), rest)
    wake(container, owner, hook, afresh=True)
    assert health(container, hook) == HEALTHY_ENDPOINT
    assert queue_wakeups(container, hook) == (container.clock(), 2)


def test_a_queue_of_another_account_or_mode_cannot_be_woken(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner)
    stranger = open_account(container, "stranger@example.com")
    for caller in (stranger, Caller(owner.account_id, "live"), Caller(owner.account_id, owner.mode, sub_account_id=7)):
        wake(container, caller, hook, afresh=True)
    assert queue_wakeups(container, hook) == (None, 0)


def test_outcomes_recorded_after_a_lost_lease_do_not_count(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    late, next_one = LeaseHolder(container), LeaseHolder(container)
    late.lease()
    [due] = read(late)
    clock.advance(seconds=LEASE.seconds)
    next_one.lease()
    with container.db.system_transaction() as tx:
        rested = EndpointHealth(5, container.clock(), container.clock() + timedelta(hours=1))
        late_news = record_outcomes(
            tx, late.id, [DeliveryOutcome(due, "failed", 500)], {hook.id: rested}, now=container.clock()
        )
    assert late_news == ([], set())
    assert queue_row(container, hook).failures == 0
    [again] = read(next_one)
    assert (again.id, again.event_id) == (due.id, due.event_id)
    assert len(next_one.record(DeliveryOutcome(again, "delivered", 200))) == 1


def test_what_was_read_is_not_read_again_and_settled_streams_give_their_next(
    container: Container, owner: Caller
) -> None:
    subscribe(container, owner, type=ITEM_STATUS_EVENT)
    order = create_order(container, owner, people(2))
    print_pieces(container, order)
    fan_out(container)
    hand = LeaseHolder(container)
    hand.lease()
    one, other = read(hand)
    assert hand.read() == []
    hand.record(DeliveryOutcome(one, "delivered", 200))
    [after] = hand.read(settled=[one])
    assert isinstance(after, DueDelivery)
    assert (after.stream, payload_data(after)["order_item.current_status"]) == (one.stream, "Printed")
    assert hand.read(settled=[other]) == []


def read_webhook(
    container: Container, hook: webhook_queries.WebhookSubscription
) -> webhook_queries.WebhookSubscription:
    with container.db.system_transaction() as tx:
        return webhook_queries.read_webhook(tx, hook.id)


def test_a_delivery_that_cannot_be_put_in_words_is_given_up_alone(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    broken, _ = create_order(container, owner), create_order(container, owner)
    set_columns(container, orders, broken.id, metadata="{not JSON")
    fan_out(container)
    [fine] = claim_deliveries(container)
    given_up, waiting = delivery_rows(container, hook)
    assert (given_up.status, given_up.next_at) == ("failed", None)
    assert given_up.error.startswith("The event cannot be put in words: InvalidJson(")
    assert (waiting.id, waiting.status) == (fine.id, "pending")


def test_an_outcome_and_a_deletion_at_once_do_not_wait_for_each_other(container: Container, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    hand = LeaseHolder(container)
    hand.lease()
    outcomes = [DeliveryOutcome(due, "delivered", 200) for due in hand.read()]
    with container.db.system_transaction() as deleting:
        deleting.execute(sa.select(webhooks).where(webhooks.c.id == hook.id).with_for_update())
        with container.db.system_transaction() as tx:
            assert record_outcomes(tx, hand.id, outcomes, {}, now=container.clock()) == ([], {hook.id})
        webhook_queries.delete_webhook(deleting, hook.id)
    with container.db.system_transaction() as tx:
        assert record_outcomes(tx, hand.id, outcomes, {}, now=container.clock()) == ([], set())
    deliveries.delete_orphaned_deliveries(container.db)
    assert delivery_rows(container, hook) == []


def test_a_success_that_was_known_already_is_not_counted_again(container: Container, owner: Caller) -> None:
    hook = subscribe_with_event(container, owner)
    dues = claim_deliveries(container)
    complete_deliveries(container, dues)
    complete_deliveries(container, dues)
    assert read_webhook(container, hook).invoke_count == 1


def test_a_subscription_that_is_disabled_is_owed_nothing(container: Container, owner: Caller) -> None:
    hook, other = subscribe(container, owner), subscribe(container, owner)
    create_order(container, owner, people(3))
    fan_out(container)
    complete_deliveries(container, [due for due in claim_deliveries(container, most=1) if due.webhook_id == hook.id])
    with container.db.system_transaction() as tx:
        webhook_service.disable_webhook(tx, hook.id, reason="It is gone.", now=container.clock())
    ends = Counter((row.status, row.error, row.next_at) for row in delivery_rows(container, hook))
    assert ends == {("delivered", None, None): 1, ("failed", "It is gone.", None): 3}
    assert {row.status for row in delivery_rows(container, other)} == {"pending"}


def test_a_subscription_that_is_disabled_is_not_called_failing_later(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner)
    with container.db.system_transaction() as tx:
        webhook_service.disable_webhook(tx, hook.id, reason="It is gone.", now=container.clock())
        webhook_service.mark_failing(tx, hook.id, error=None, since=container.clock(), now=container.clock())
    assert read_webhook(container, hook).status == "disabled"


def test_a_fan_out_during_a_disable_does_not_wait_and_is_cleared(container: Container, owner: Caller) -> None:
    hook, other = (subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    create_order(container, owner)
    with container.db.system_transaction() as disabling:
        webhook_service.disable_webhook(disabling, hook.id, reason="It is gone.", now=container.clock())
        assert fan_out(container) == 2
    assert [row.status for row in delivery_rows(container, hook)] == ["pending"]
    assert [url for url, _ in deliver(container, 200).requests] == [other.url]
    assert [(row.status, row.error) for row in delivery_rows(container, hook)] == [
        ("failed", webhook_service.GONE_ERROR)
    ]
