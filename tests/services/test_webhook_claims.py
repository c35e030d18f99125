"""Deliveries taken and settled while others are in the way: broken, deleted or gone subscriptions."""

from collections import Counter

import pytest
import sqlalchemy as sa
from outbox import (
    Hand,
    claim,
    delivery_rows,
    fan_out,
    set_columns,
    settle,
    subscribe,
)
from placing import open_account, place
from receivers import deliver

from makers import people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks import deliveries, failures
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.outcomes import Outcome, record
from quillpost.notifications.webhooks.rules import ORDER_STATUS


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def read_webhook(parts: Parts, hook: webhook_queries.Webhook) -> webhook_queries.Webhook:
    with parts.db.work() as tx:
        return webhook_queries.read_webhook(tx, hook.id)


def test_a_delivery_that_cannot_be_put_in_words_is_given_up_alone(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    broken, _ = place(parts, owner), place(parts, owner)
    set_columns(parts, orders, broken.id, metadata="{not JSON")
    fan_out(parts)
    [fine] = claim(parts)
    given_up, waiting = delivery_rows(parts, hook)
    assert (given_up.status, given_up.next_at) == ("failed", None)
    assert given_up.error.startswith("The event cannot be put in words: NotJson(")
    assert (waiting.id, waiting.status) == (fine.id, "pending")


def test_an_outcome_and_a_deletion_at_once_do_not_wait_for_each_other(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    outcomes = [Outcome(due, "delivered", 200) for due in hand.read()]
    with parts.db.work() as deleting:
        deleting.execute(sa.select(webhooks).where(webhooks.c.id == hook.id).with_for_update())
        with parts.db.work() as tx:
            assert record(tx, hand.id, outcomes, {}, now=parts.clock()) == ([], {hook.id})
        webhook_queries.delete_webhook(deleting, hook.id)
    with parts.db.work() as tx:
        assert record(tx, hand.id, outcomes, {}, now=parts.clock()) == ([], set())
    deliveries.forget_gone(parts.db)
    assert delivery_rows(parts, hook) == []


def test_a_success_that_was_known_already_is_not_counted_again(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    dues = claim(parts)
    settle(parts, dues)
    settle(parts, dues)
    assert read_webhook(parts, hook).invoke_count == 1


def test_a_subscription_that_is_disabled_is_owed_nothing(parts: Parts, owner: Caller) -> None:
    hook, other = subscribe(parts, owner), subscribe(parts, owner)
    place(parts, owner, people(3))
    fan_out(parts)
    settle(parts, [due for due in claim(parts, most=1) if due.webhook_id == hook.id])
    with parts.db.work() as tx:
        failures.disable(tx, hook.id, why="It is gone.", now=parts.clock())
    ends = Counter((row.status, row.error, row.next_at) for row in delivery_rows(parts, hook))
    assert ends == {("delivered", None, None): 1, ("failed", "It is gone.", None): 3}
    assert {row.status for row in delivery_rows(parts, other)} == {"pending"}


def test_a_subscription_that_is_disabled_is_not_called_failing_later(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    with parts.db.work() as tx:
        failures.disable(tx, hook.id, why="It is gone.", now=parts.clock())
        failures.mark_failing(tx, hook.id, error=None, since=parts.clock(), now=parts.clock())
    assert read_webhook(parts, hook).status == "disabled"


def test_facts_that_are_told_while_a_subscription_is_disabled_wait_for_nobody_and_are_cleared(
    parts: Parts, owner: Caller
) -> None:
    hook, other = subscribe(parts, owner, type=ORDER_STATUS), subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    with parts.db.work() as disabling:
        failures.disable(disabling, hook.id, why="It is gone.", now=parts.clock())
        assert fan_out(parts) == 2
    assert [row.status for row in delivery_rows(parts, hook)] == ["pending"]
    assert [url for url, _ in deliver(parts, 200).asked] == [other.url]
    assert [(row.status, row.error) for row in delivery_rows(parts, hook)] == [("failed", failures.GONE)]
