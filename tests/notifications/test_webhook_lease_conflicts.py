"""Deliveries taken and settled while others are in the way: broken, deleted or gone subscriptions."""

from collections import Counter

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome, record_outcomes
from quillpost.notifications.webhooks.rules import ORDER_STATUS_EVENT
from support.factories import people
from support.orders import create_order, open_account
from support.webhook_outbox import (
    LeaseHolder,
    claim_deliveries,
    complete_deliveries,
    delivery_rows,
    fan_out,
    set_columns,
    subscribe,
)
from support.webhook_receivers import deliver

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


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
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
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
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
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
    hook, other = (
        subscribe(container, owner, type=ORDER_STATUS_EVENT),
        subscribe(container, owner, type=ORDER_STATUS_EVENT),
    )
    create_order(container, owner)
    with container.db.system_transaction() as disabling:
        webhook_service.disable_webhook(disabling, hook.id, reason="It is gone.", now=container.clock())
        assert fan_out(container) == 2
    assert [row.status for row in delivery_rows(container, hook)] == ["pending"]
    assert [url for url, _ in deliver(container, 200).requests] == [other.url]
    assert [(row.status, row.error) for row in delivery_rows(container, hook)] == [
        ("failed", webhook_service.GONE_ERROR)
    ]
