"""Deliveries claimed and settled while others are in the way: loud, broken, deleted or gone subscriptions."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import sqlalchemy as sa
from outbox import addressed, claim, delivery_rows, fan_out, set_columns, settle, subscribe
from placing import open_account, place
from waiting import wait_until

from makers import Clock, people
from quillpost.accounts.rules import Caller
from quillpost.database.tables import orders, webhooks
from quillpost.parts import Parts
from quillpost.webhooks import store
from quillpost.webhooks.rules import ITEM_STATUS, ORDER_STATUS


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def is_somebody_waiting(parts: Parts) -> bool:
    """Whether a transaction waits for another's lock."""
    with parts.db.work() as tx:
        waiting = "select count(*) from pg_locks where not granted"
        return bool(tx.execute(sa.text(waiting)).scalar_one() > 0)


def read_webhook(parts: Parts, hook: store.Webhook) -> store.Webhook:
    with parts.db.work() as tx:
        return store.read_webhook(tx, hook.id)


def test_a_loud_subscription_takes_nobody_else_s_place(parts: Parts, clock: Clock, owner: Caller) -> None:
    loud = subscribe(parts, owner, type=ITEM_STATUS)
    place(parts, owner, people(50))
    fan_out(parts)
    clock.advance(seconds=1)
    neighbour = open_account(parts, "neighbour@example.com")
    quiet = subscribe(parts, neighbour, type=ITEM_STATUS)
    place(parts, neighbour, people(5))
    fan_out(parts)
    assert Counter(due.webhook_id for due in claim(parts, most=20)) == {loud.id: store.SHARE, quiet.id: 5}


def test_what_is_in_the_air_counts_for_the_share(parts: Parts, owner: Caller) -> None:
    subscribe(parts, owner, type=ITEM_STATUS)
    place(parts, owner, people(20))
    fan_out(parts)
    [hook_id] = {due.webhook_id for due in claim(parts, most=1)}
    assert claim(parts, flying={hook_id: store.SHARE}) == []
    assert len(claim(parts, flying={hook_id: store.SHARE - 2})) == 2


def test_whoever_has_the_fewest_in_the_air_goes_first(parts: Parts, owner: Caller) -> None:
    busy, idle = (subscribe(parts, owner, type=ITEM_STATUS) for _ in range(2))
    place(parts, owner, people(3))
    fan_out(parts)
    claimed = claim(parts, most=3, flying={busy.id: 3})
    assert [due.webhook_id for due in claimed] == [idle.id] * 3


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
    dues = claim(parts)
    with ThreadPoolExecutor(1) as pool:
        with parts.db.work() as deleting:
            deleting.execute(sa.select(webhooks).where(webhooks.c.id == hook.id).with_for_update())
            outcome = pool.submit(settle, parts, dues)
            wait_until(lambda: is_somebody_waiting(parts))
            store.delete_webhook(deleting, hook.id)
        outcome.result()
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
    settle(parts, [due for due in claim(parts, most=2) if due.webhook_id == hook.id])
    with parts.db.work() as tx:
        store.disable(tx, hook.id, why="It is gone.", now=parts.clock())
    ends = Counter((row.status, row.error, row.next_at) for row in delivery_rows(parts, hook))
    assert ends == {("delivered", None, None): 1, ("failed", "It is gone.", None): 3}
    assert {row.status for row in delivery_rows(parts, other)} == {"pending"}


def test_a_subscription_that_is_disabled_is_not_called_failing_later(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    with parts.db.work() as tx:
        store.disable(tx, hook.id, why="It is gone.", now=parts.clock())
        store.mark_failing(tx, hook.id, now=parts.clock())
    assert read_webhook(parts, hook).status == "disabled"


def test_facts_that_are_told_while_a_subscription_is_disabled_leave_it_nothing(
    parts: Parts, owner: Caller
) -> None:
    hook, other = subscribe(parts, owner), subscribe(parts, owner)
    place(parts, owner)
    with ThreadPoolExecutor(1) as pool, ExitStack() as closing:
        disabling = closing.enter_context(parts.db.work())
        store.disable(disabling, hook.id, why="It is gone.", now=parts.clock())
        facts = pool.submit(fan_out, parts)
        wait_until(lambda: is_somebody_waiting(parts))
        closing.close()
        assert facts.result() == 2
    assert (addressed(parts, hook), len(addressed(parts, other))) == ([], 2)
