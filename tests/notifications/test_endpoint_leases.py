"""Workers lease the queues of subscriptions: one at a time, and what happens when two do."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhook_lanes, webhooks
from quillpost.core.errors import NotFound
from quillpost.notifications.webhooks import deliveries, leases
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.concurrency import InFlightDeliveries
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome, record_outcomes
from quillpost.notifications.webhooks.payloads import DueDelivery
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT, EndpointHealth, WebhookSubscription
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT
from support import webhooks as outbox
from support.factories import Clock, people
from support.orders import create_order, end_review, open_account
from support.rows import execute, run, run_as
from support.webhooks import deliver

pytestmark = pytest.mark.usefixtures("clean_database")

MUCH_MORE = """
    insert into deliveries (account_id, mode, webhook_id, fact_id, event_id, event_type, stream, status,
                            next_at, created_at)
    select account_id, mode, webhook_id, fact_id, gen_random_uuid(), event_type, stream || n, status,
           next_at, created_at
      from deliveries, generate_series(1, 5000) n where status = 'pending'
"""
READ_WHOLE = sa.text("select seq_scan from pg_stat_xact_user_tables where relname = 'deliveries_pending'")


class Hand(outbox.LeaseHolder):
    """One that has leased all queues that it may have."""

    def __init__(self, container: Container, most: int = 100) -> None:
        super().__init__(container)
        self.got = self.lease(most)

    def due(self) -> list[DueDelivery]:
        return [due for due in self.read() if isinstance(due, DueDelivery)]

    def succeed(self) -> list[DeliveryOutcome]:
        outcomes = [DeliveryOutcome(due, "delivered", 200) for due in self.due()]
        self.record(*outcomes)
        return outcomes


def wake(container: Container, caller: Caller, hook: WebhookSubscription, *, afresh: bool = False) -> None:
    run_as(container, caller, webhook_queries.schedule_queue, hook.id, at=container.clock(), reset_backoff=afresh)


def disable(tx: sa.Connection, container: Container, hook: WebhookSubscription) -> None:
    webhook_service.disable_webhook(tx, hook.id, reason="It is gone.", now=container.clock())


def two_hooks(container: Container, owner: Caller) -> tuple[WebhookSubscription, WebhookSubscription]:
    """With a delivery each."""
    return outbox.subscribe(container, owner, type=ORDER_STATUS_EVENT), outbox.subscribe_with_delivery(container, owner)


def test_a_subscription_has_a_queue_that_is_deleted_with_it(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe(container, owner)
    row = outbox.queue_row(container, hook)
    assert (row.due_at, row.woken, row.leased_by, row.failures) == (None, 0, None, 0)
    run_as(container, owner, webhook_queries.delete_webhook, hook.id)
    assert execute(container, webhook_lanes.select()) == []
    with pytest.raises(NotFound):  # as for whoever deletes it at the same moment
        run_as(container, owner, webhook_queries.delete_webhook, hook.id)


def test_releasing_a_queue_reads_no_other_ones_deliveries(container: Container, owner: Caller, conninfo: str) -> None:
    """Much that waits for one receiver makes the database believe that it is everybody's."""
    dead, hook = two_hooks(container, owner)
    hand = Hand(container)
    hand.record(*(DeliveryOutcome(due, "delivered", 200) for due in hand.due() if due.webhook_id == hook.id))
    execute(container, MUCH_MORE)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("analyze deliveries_pending")
    now, request = container.clock(), leases.StepRequest(empty_queues={hook.id: hand.leases[hook.id].woken})
    with container.db.system_transaction() as tx:
        before = tx.execute(READ_WHOLE).scalar_one()
        found = leases.run_step(tx, hand.id, request, lease_until=now + outbox.LEASE, now=now)
        assert (found.released_ids, tx.execute(READ_WHOLE).scalar_one()) == ({hook.id}, before)
    assert len(outbox.delivery_rows(container, dead)) > 5_000


def test_a_queue_has_only_one_holder_until_its_lease_ends(container: Container, clock: Clock, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    first = Hand(container)
    assert first.got == [hook.id]
    assert outbox.lease_owner(container, hook) == (first.id, clock.now() + outbox.LEASE)
    assert Hand(container).got == []
    clock.advance(seconds=outbox.LEASE.seconds - 1)
    with container.db.system_transaction() as tx:
        webhook_queries.renew_leases(tx, first.id, [hook.id], until=clock.now() + outbox.LEASE)
        webhook_queries.renew_leases(tx, uuid4(), [hook.id], until=clock.now() + outbox.LEASE * 9)
    assert outbox.lease_owner(container, hook) == (first.id, clock.now() + outbox.LEASE)
    clock.advance(seconds=outbox.LEASE.seconds)
    assert (Hand(container).got, first.look()) == ([hook.id], set())


def test_a_queue_locked_by_another_transaction_is_skipped(container: Container, owner: Caller) -> None:
    hooks = {hook.id for hook in two_hooks(container, owner)}
    now = container.clock()
    with container.db.system_transaction() as tx, container.db.system_transaction() as beside:
        [mine] = webhook_queries.lease_queues(tx, uuid4(), limit=1, until=now + outbox.LEASE, now=now)
        [theirs] = webhook_queries.lease_queues(beside, uuid4(), limit=2, until=now + outbox.LEASE, now=now)
    assert {mine.webhook_id, theirs.webhook_id} == hooks


def test_a_queue_that_backs_off_is_leased_later_and_last(container: Container, clock: Clock, owner: Caller) -> None:
    failing, fine = two_hooks(container, owner)
    outbox.set_queue(container, failing, failures=5, resting_until=clock.now() + timedelta(seconds=5))
    first = Hand(container)
    assert first.got == [fine.id]
    first.succeed()
    assert first.leave() == {fine.id}
    row = outbox.queue_row(container, fine)
    assert (row.due_at, row.leased_by, row.leased_until) == (None, None, None), "nothing is due"
    clock.advance(seconds=5)
    outbox.fan_out_order(container, owner)
    assert [Hand(container, most=1).got for _ in range(2)] == [[fine.id], [failing.id]], "several share the queues"


def test_a_queue_is_released_until_its_next_delivery_is_due(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    outbox.fan_out_order(container, owner)
    hand = Hand(container)
    soon, later = (container.clock() + timedelta(minutes=minutes) for minutes in (5, 30))
    pairs = zip(hand.due(), (later, soon), strict=True)
    hand.record(*(DeliveryOutcome(due, "pending", 500, next_at=at) for due, at in pairs))
    hand.leave()
    assert outbox.queue_row(container, hook).due_at == soon


def test_deliveries_blocked_in_their_stream_do_not_hold_the_queue(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe(container, owner, type=ITEM_STATUS_EVENT)
    order = outbox.fan_out_order(container, owner)
    again = container.clock() + timedelta(minutes=5)
    outbox.complete_deliveries(container, outbox.claim_deliveries(container), "pending", next_at=again)
    end_review(container, order)
    outbox.move_pieces(container, order)
    outbox.fan_out(container)
    hand = Hand(container)
    assert (hand.got, hand.read(), hand.leave()) == ([hook.id], [], {hook.id})
    assert (outbox.queue_row(container, hook).due_at, len(outbox.delivery_rows(container, hook))) == (again, 2)


def test_a_queue_with_new_deliveries_is_not_released(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    hand = Hand(container)
    hand.succeed()
    outbox.fan_out_order(container, owner)
    assert (hand.leave(), hand.look(), len(hand.succeed())) == (set(), {hook.id}, 1)
    # By somebody whose clock is behind, or who took long, and who wakes nobody.
    late = {"event_type": ORDER_STATUS_EVENT, "event_id": uuid4(), "now": container.clock() - timedelta(seconds=8)}
    run(container, webhook_queries.insert_sample, hook.id, **late)  # type: ignore[arg-type]
    assert (hand.leave(), outbox.queue_row(container, hook).due_at) == ({hook.id}, container.clock())
    assert Hand(container).got == [hook.id], "it is leased again at once"


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_the_queue_of_an_inactive_one_is_released_till_woken(container: Container, owner: Caller, status: str) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    outbox.set_columns(container, webhooks, hook.id, status=status)
    hand = Hand(container)
    assert hand.read() == []
    hand.leave()
    assert outbox.queue_row(container, hook).due_at is None
    wake(container, owner, hook)
    assert Hand(container).got == [hook.id]


def test_waking_a_queue_afresh_ends_its_backoff(container: Container, owner: Caller) -> None:
    hook, now = outbox.subscribe(container, owner), container.clock()
    rest = now + timedelta(minutes=10)
    outbox.set_queue(container, hook, failures=9, troubled_since=now, resting_until=rest)
    stranger = open_account(container, "stranger@example.com")
    for caller in (stranger, Caller(owner.account_id, "live"), Caller(owner.account_id, owner.mode, sub_account_id=7)):
        wake(container, caller, hook, afresh=True)
    assert outbox.queue_wakeups(container, hook) == (None, 0), "it is not theirs"
    wake(container, owner, hook)
    assert outbox.health(container, hook) == EndpointHealth(9, now, rest)
    wake(container, owner, hook, afresh=True)
    assert outbox.health(container, hook) == HEALTHY_ENDPOINT
    assert outbox.queue_wakeups(container, hook) == (now, 2)


def test_outcomes_recorded_after_a_lost_lease_do_not_count(container: Container, clock: Clock, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    late = Hand(container)
    [due] = late.due()
    clock.advance(seconds=outbox.LEASE.seconds)
    holder, now = Hand(container), clock.now()
    rested = {hook.id: EndpointHealth(5, now, now + timedelta(hours=1))}
    late_news = run(container, record_outcomes, late.id, [DeliveryOutcome(due, "failed", 500)], rested, now=now)
    assert late_news == ([], set())
    assert outbox.queue_row(container, hook).failures == 0
    [again] = holder.due()
    assert (again.id, again.event_id) == (due.id, due.event_id)
    assert len(holder.record(DeliveryOutcome(again, "delivered", 200))) == 1


def test_what_was_read_is_not_read_again_but_streams_give_their_next(container: Container, owner: Caller) -> None:
    outbox.subscribe(container, owner, type=ITEM_STATUS_EVENT)
    order = create_order(container, owner, people(2))
    end_review(container, order)
    outbox.move_pieces(container, order)
    outbox.fan_out(container)
    hand = Hand(container)
    one, other = hand.due()
    assert hand.read() == []
    hand.record(DeliveryOutcome(one, "delivered", 200))
    [after] = hand.read(settled=[one])
    assert isinstance(after, DueDelivery)
    assert (after.stream, outbox.payload_data(after)["order_item.current_status"]) == (one.stream, "Printed")
    assert hand.read(settled=[other]) == []


def test_what_is_read_twice_or_of_a_queue_of_others_is_not_sent_again(container: Container, owner: Caller) -> None:
    outbox.subscribe_with_delivery(container, owner)
    in_flight, now = InFlightDeliveries(), container.clock()
    mine, others = (leases.LeaseManager(in_flight, outbox.LEASE) for _ in range(2))
    request = mine.build_request(now=now, at=0)
    with container.db.system_transaction() as tx:
        found = leases.run_step(tx, uuid4(), request, lease_until=now + outbox.LEASE, now=now)
    others.apply_result(request, replace(found, new_leases=[]), at=0)
    assert in_flight.start_next(now=now) is None
    for _ in range(2):
        mine.apply_result(request, found, at=0)
    assert in_flight.start_next(now=now) is not None
    assert in_flight.start_next(now=now) is None


def test_a_delivery_that_cannot_be_put_in_words_is_given_up_alone(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe(container, owner, type=ORDER_STATUS_EVENT)
    broken, _ = create_order(container, owner), create_order(container, owner)
    outbox.set_columns(container, orders, broken.id, metadata="{not JSON")
    outbox.fan_out(container)
    [fine] = outbox.claim_deliveries(container)
    given_up, waiting = outbox.delivery_rows(container, hook)
    assert (given_up.status, given_up.next_at) == ("failed", None)
    assert given_up.error.startswith("The event cannot be put in words: InvalidJson(")
    assert (waiting.id, waiting.status) == (fine.id, "pending")


def test_outcomes_wait_for_no_subscription_in_use_and_are_kept(container: Container, owner: Caller) -> None:
    slow, hook = two_hooks(container, owner)
    hand = Hand(container)
    outcomes = [DeliveryOutcome(due, "delivered", 200) for due in hand.due()]
    ill = {each.id: EndpointHealth(1, container.clock()) for each in (slow, hook)}
    with container.db.system_transaction() as changing, container.db.system_transaction() as tx:
        webhook_queries.read_webhook(changing, slow.id, locked=True)
        news, put_off = record_outcomes(tx, hand.id, outcomes, ill, now=container.clock())
    assert ([each.delivery.webhook_id for each in news], put_off) == ([hook.id], {slow.id})
    assert [row.status for row in outbox.delivery_rows(container, slow)] == ["pending"]
    assert [outbox.queue_row(container, each).failures for each in (slow, hook)] == [0, 1]
    assert [each.delivery.webhook_id for each in hand.record(*outcomes)] == [slow.id]


def test_an_outcome_and_a_deletion_at_once_do_not_wait_for_each_other(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    hand = Hand(container)
    outcomes = [DeliveryOutcome(due, "delivered", 200) for due in hand.due()]
    with container.db.system_transaction() as deleting:
        deleting.execute(sa.select(webhooks).where(webhooks.c.id == hook.id).with_for_update())
        assert run(container, record_outcomes, hand.id, outcomes, {}, now=container.clock()) == ([], {hook.id})
        webhook_queries.delete_webhook(deleting, hook.id)
    assert run(container, record_outcomes, hand.id, outcomes, {}, now=container.clock()) == ([], set())
    deliveries.delete_orphaned_deliveries(container.db)
    assert outbox.delivery_rows(container, hook) == []


def test_a_subscription_that_is_disabled_is_owed_nothing(container: Container, owner: Caller) -> None:
    hook, other = outbox.subscribe(container, owner), outbox.subscribe(container, owner)
    outbox.fan_out_order(container, owner, people(3))
    mine = [due for due in outbox.claim_deliveries(container, most=1) if due.webhook_id == hook.id]
    outbox.complete_deliveries(container, mine)
    with container.db.system_transaction() as tx:
        disable(tx, container, hook)
        webhook_service.mark_failing(tx, hook.id, error=None, since=container.clock(), now=container.clock())
    assert outbox.webhook_row(container, hook).status == "disabled", "nor is it called failing later"
    ends = Counter((row.status, row.error, row.next_at) for row in outbox.delivery_rows(container, hook))
    assert ends == {("delivered", None, None): 1, ("failed", "It is gone.", None): 3}
    assert {row.status for row in outbox.delivery_rows(container, other)} == {"pending"}


def test_a_fan_out_during_a_disable_does_not_wait_and_is_cleared(container: Container, owner: Caller) -> None:
    hook, other = (outbox.subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    create_order(container, owner)
    with container.db.system_transaction() as disabling:
        disable(disabling, container, hook)
        assert outbox.fan_out(container) == 2
    assert [row.status for row in outbox.delivery_rows(container, hook)] == ["pending"]
    assert [url for url, _ in deliver(container, 200).requests] == [other.url]
    [row] = outbox.delivery_rows(container, hook)
    assert (row.status, row.error) == ("failed", webhook_service.GONE_ERROR)
