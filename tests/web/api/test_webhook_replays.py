"""Past events sent again: every one of them, in its order, under its own id."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import deliveries, webhook_replays
from quillpost.notifications.webhooks import tasks as webhook_tasks
from support.factories import Account, Clock, make_live, make_sub_account, person, run_due_jobs, run_jobs_for
from support.mailing_lists import message
from support.traces import assert_refused, unchanged
from support.webhooks import (
    empty_queue,
    fan_out,
    is_due_now,
    list_deliveries,
    send_orders,
    set_status,
    subscribe_by_call,
)

pytestmark = pytest.mark.usefixtures("clean_database")

START = "2026-05-04T12:00:00Z"


def replay(account: Account, hook: int, since: str = START, **how: Any) -> Any:
    return account.post(f"/webhooks/{hook}/replay", {"from": since} | how)


def list_events(container: Container, hook: int, *, before: int = 0) -> list[tuple[str, str]]:
    """The events in the outbox, beyond so many: the type and id of each, in their order."""
    query = (
        sa.select(deliveries.c.event_type, deliveries.c.event_id)
        .where(deliveries.c.webhook_id == hook)
        .order_by(deliveries.c.id)
    )
    with container.db.system_transaction() as tx:
        return [(row.event_type, str(row.event_id)) for row in tx.execute(query)][before:]


def stored_replays(container: Container) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(webhook_replays)).all())


@pytest.fixture
def hook(owner: Account, container: Container, clock: Clock) -> int:
    """A subscription that has received the two events of an order, a minute ago."""
    made = subscribe_by_call(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    return made


def test_every_event_goes_again_in_its_order_under_its_own_id(
    owner: Account, container: Container, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = subscribe_by_call(owner)
    assert owner.send().status_code == 200
    run_jobs_for(container, clock, seconds=60)
    fan_out(container)
    first = list_events(container, hook)
    assert "order_item.delivered" in {kind for kind, _ in first}
    for done, facts_at_once in enumerate((1, 3, 10_000), 1):
        monkeypatch.setattr(webhook_tasks, "FACTS_PER_TRANSACTION", facts_at_once)
        accepted = replay(owner, hook)
        told = {"message": "success", "from": START, "to": "2026-05-04T12:01:00Z"}
        assert accepted.status_code == 202
        assert accepted.json() == told | {"events": len(first), "truncated": False}
        run_due_jobs(container)
        assert list_events(container, hook, before=done * len(first)) == first
        assert stored_replays(container) == []
    assert {row["status"] for row in list_deliveries(owner, hook)} == {"pending"}


def test_what_goes_again_is_looked_at_at_once_and_whole(
    owner: Account, container: Container, hook: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also events beyond those that are counted."""
    empty_queue(container, hook)
    monkeypatch.setattr(webhook_tasks, "MAX_COUNTED", 1)
    answered = replay(owner, hook).json()
    assert (answered["events"], answered["truncated"]) == (1, True)
    assert not is_due_now(container, hook)
    run_due_jobs(container)
    assert is_due_now(container, hook)
    assert len(list_events(container, hook)) == 4


def test_only_what_happened_in_that_time_goes_again(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe_by_call(owner)
    for _ in range(3):
        send_orders(container, owner)
        clock.advance(minutes=10)
    [*_, third, fourth, _, _] = list_events(container, hook)
    replayed = replay(owner, hook, "2026-05-04T12:10:00Z", to="2026-05-04T15:20:00+03:00").json()
    assert (replayed["to"], replayed["events"]) == ("2026-05-04T12:20:00Z", 2)
    run_due_jobs(container)
    assert list_events(container, hook, before=6) == [third, fourth]


def test_only_what_the_subscription_is_for_goes_again(owner: Account, container: Container, clock: Clock) -> None:
    branch = make_sub_account(container, owner)
    made = owner.post("/mailing-lists", {"description": "A"}).json()["id"]
    assert owner.post("/recipients", {"mailing_list_id": made, **person()}).status_code == 201
    sends: list[dict[str, Any]] = [{}, {"sub_account_id": branch}, {"mailing_list_ids": [made], "recipients": []}]
    for send in sends:
        assert owner.send(**send).status_code == 200
    run_due_jobs(container)
    fan_out(container)
    clock.advance(minutes=1)
    live = make_live(container, owner)
    for account, how, events in (
        (owner, {}, 6), (owner, {"type": "order.status_update"}, 3), (owner, {"type": "scans.scan_update"}, 0),
        (owner, {"sub_account_id": branch}, 2), (owner, {"mailing_list_id": made}, 2), (live, {}, 0),
    ):  # fmt: skip
        hook = subscribe_by_call(account, **how)
        assert replay(account, hook).json()["events"] == events, how
        run_due_jobs(container)
        assert len(list_events(container, hook)) == events, how


def test_an_impossible_time_names_its_field(owner: Account, container: Container, subtests: pytest.Subtests) -> None:
    hook = subscribe_by_call(owner)
    starts = (None, "yesterday", 1777896000, "2026-04-04T11:59:59Z", START, "2027-01-01", "0001-01-01T00:00:00+14:00")
    cases: list[tuple[dict[str, Any], str]] = [({}, "from"), *(({"from": each}, "from") for each in starts)]
    ends = (("2026-05-02", "from"), ("2026-05-01", "from"), ("tomorrow", "to"), (["x"], "to"))
    cases += [({"from": "2026-05-02", "to": end}, field) for end, field in ends]
    assert_refused(subtests, container, lambda body: owner.post(f"/webhooks/{hook}/replay", body), cases)
    too_old = replay(owner, hook, "2026-04-04T11:59:59Z").json()["errors"]["from"]
    assert too_old == ["Events are kept for 30 days: ask for those since 2026-04-04T12:00:00Z."]
    answered = replay(owner, hook, "2026-04-04T12:00:00Z", to="2030-01-01")
    assert (answered.status_code, answered.json()["to"], answered.json()["events"]) == (202, START, 0)


def test_one_replay_at_a_time(owner: Account, container: Container, hook: int) -> None:
    other, key = subscribe_by_call(owner), {"Idempotency-Key": "k"}
    begun, same = (owner.post(f"/webhooks/{hook}/replay", {"from": START}, headers=key) for _ in range(2))
    assert (begun.status_code, begun.json()) == (202, same.json())
    with unchanged(container):
        status, sentence = message(replay(owner, hook))
    period = "2026-05-04T12:00:00Z to 2026-05-04T12:01:00Z"
    under_way = f"A replay from {period} is under way, with 0 events so far: wait until it is done."
    assert (status, sentence) == (409, under_way)
    assert replay(owner, other).status_code == 202
    run_due_jobs(container)
    assert len(list_events(container, hook)) == 4
    assert replay(owner, hook).status_code == 202


def test_a_subscription_paused_disabled_or_deleted_meanwhile(owner: Account, container: Container, hook: int) -> None:
    for status, waiting in (("paused", 2), ("disabled", 0)):
        before = len(list_deliveries(owner, hook))
        assert replay(owner, hook).status_code == 202, "the one before is over"
        set_status(container, hook, status)
        run_due_jobs(container)
        again = list_deliveries(owner, hook)
        assert [row["next_attempt_at"] for row in again[: len(again) - before]] == [None] * waiting
        set_status(container, hook, "active")
    assert replay(owner, hook).status_code == 202
    assert owner.delete(f"/webhooks/{hook}").status_code == 200
    run_due_jobs(container)
    assert stored_replays(container) == []


def test_a_replay_whose_job_is_lost_is_resumed(owner: Account, container: Container, hook: int) -> None:
    assert replay(owner, hook).status_code == 202
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs where task_name = 'webhooks.replay'"))
    for _ in range(2):
        webhook_tasks.resume_replays(container.db)
    run_due_jobs(container)
    assert len(list_events(container, hook)) == 4
