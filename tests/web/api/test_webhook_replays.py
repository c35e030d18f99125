"""A time told again: every event of it, in its order, under its own id."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import deliveries, webhook_replays
from quillpost.notifications.webhooks import tasks as replaying
from support.factories import (
    Account,
    Clock,
    make_live,
    make_sub_account,
    make_teammate,
    person,
    run_due_jobs,
    run_jobs_for,
)
from support.traces import traces
from support.webhook_log import empty_queue, is_due_now, list_deliveries, send_orders, set_status, subscribe
from support.webhook_outbox import fan_out

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


def delivered_card(container: Container, clock: Clock, account: Account, **changes: Any) -> None:
    """A card that has come all the way to its door."""
    assert account.send(**changes).status_code == 200
    run_jobs_for(container, clock, seconds=60)
    fan_out(container)


@pytest.mark.parametrize("facts_at_once", [1, 3, 10_000])
def test_every_event_goes_again_in_its_order_under_its_own_id(
    owner: Account, container: Container, clock: Clock, monkeypatch: pytest.MonkeyPatch, facts_at_once: int
) -> None:
    monkeypatch.setattr(replaying, "FACTS_PER_TRANSACTION", facts_at_once)
    hook = subscribe(owner)
    delivered_card(container, clock, owner)
    first = list_events(container, hook)
    assert "order_item.delivered" in {kind for kind, _ in first}
    accepted = replay(owner, hook)
    assert (accepted.status_code, accepted.json()) == (
        202,
        {"message": "success", "from": START, "to": "2026-05-04T12:01:00Z", "events": len(first), "truncated": False},
    )
    run_due_jobs(container)
    assert list_events(container, hook, before=len(first)) == first
    assert {row["status"] for row in list_deliveries(owner, hook)} == {"pending"}
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(webhook_replays)).all() == []


def test_what_goes_again_is_looked_at_at_once(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    empty_queue(container, hook)
    assert replay(owner, hook).status_code == 202
    assert not is_due_now(container, hook)
    run_due_jobs(container)
    assert is_due_now(container, hook)


def test_only_what_happened_in_that_time_goes_again(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe(owner)
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
        (owner, {}, 6),
        (owner, {"type": "order.status_update"}, 3),
        (owner, {"type": "scans.scan_update"}, 0),
        (owner, {"sub_account_id": branch}, 2),
        (owner, {"mailing_list_id": made}, 2),
        (live, {}, 0),
    ):
        hook = subscribe(account, **how)
        assert replay(account, hook).json()["events"] == events, how
        run_due_jobs(container)
        assert len(list_events(container, hook)) == events, how


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "from"),
        ({"from": None}, "from"),
        ({"from": "yesterday"}, "from"),
        ({"from": 1777896000}, "from"),
        ({"from": "2026-04-04T11:59:59Z"}, "from"),
        ({"from": "2026-05-04T12:00:00Z"}, "from"),
        ({"from": "2027-01-01"}, "from"),
        ({"from": "2026-05-02", "to": "2026-05-02"}, "from"),
        ({"from": "2026-05-02", "to": "2026-05-01"}, "from"),
        ({"from": "2026-05-02", "to": "tomorrow"}, "to"),
        ({"from": "0001-01-01T00:00:00+14:00"}, "from"),
        ({"from": "2026-05-02", "to": ["x"]}, "to"),
    ],
)
def test_an_unreadable_time_is_refused_by_its_field(
    owner: Account, container: Container, body: dict[str, Any], field: str
) -> None:
    hook = subscribe(owner)
    before = traces(container)
    refused = owner.post(f"/webhooks/{hook}/replay", body)
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == [field]
    assert traces(container) == before


def test_thirty_days_can_be_replayed_and_the_future_is_left_out(owner: Account, container: Container) -> None:
    hook = subscribe(owner)
    answered = replay(owner, hook, "2026-04-04T12:00:00Z", to="2030-01-01")
    assert (answered.status_code, answered.json()["to"], answered.json()["events"]) == (202, START, 0)
    too_old = replay(owner, hook, "2026-04-04T11:59:59Z").json()["errors"]["from"]
    assert too_old == ["Events are kept for 30 days: ask for those since 2026-04-04T12:00:00Z."]


def test_one_replay_at_a_time(owner: Account, container: Container, clock: Clock) -> None:
    hook, other = subscribe(owner), subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    assert replay(owner, hook).status_code == 202
    before = traces(container)
    refused = replay(owner, hook)
    assert (refused.status_code, refused.json()) == (
        409,
        {
            "message": "A replay from 2026-05-04T12:00:00Z to 2026-05-04T12:01:00Z is under way,"
            " with 0 events so far: wait until it is done."
        },
    )
    assert traces(container) == before
    assert replay(owner, other).status_code == 202
    run_due_jobs(container)
    assert replay(owner, hook).status_code == 202


def test_two_replay_requests_with_one_key_make_one_replay(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    responses = [
        owner.post(f"/webhooks/{hook}/replay", {"from": START}, headers={"Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert [each.status_code for each in responses] == [202, 202]
    assert responses[0].json() == responses[1].json()
    run_due_jobs(container)
    assert len(list_events(container, hook)) == 4


def test_events_beyond_the_count_go_again_too(
    owner: Account, container: Container, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "MAX_COUNTED", 3)
    hook = subscribe(owner)
    send_orders(container, owner, 2)
    clock.advance(minutes=1)
    answered = replay(owner, hook).json()
    assert (answered["events"], answered["truncated"]) == (3, True)
    run_due_jobs(container)
    assert len(list_events(container, hook)) == 8


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_nothing_is_replayed_while_the_subscription_is_inactive(
    owner: Account, container: Container, clock: Clock, status: str
) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    set_status(container, hook, status)
    before = traces(container)
    refused = replay(owner, hook)
    assert (refused.status_code, refused.json()) == (
        400,
        {"message": f"This subscription is {status}: resume it first."},
    )
    assert traces(container) == before


@pytest.mark.parametrize(("status", "waiting"), [("paused", 2), ("disabled", 0)])
def test_a_subscription_that_comes_to_rest_meanwhile(
    owner: Account, container: Container, clock: Clock, status: str, waiting: int
) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    assert replay(owner, hook).status_code == 202
    set_status(container, hook, status)
    run_due_jobs(container)
    again = list_deliveries(owner, hook)[: len(list_deliveries(owner, hook)) - 2]
    assert [row["next_attempt_at"] for row in again] == [None] * waiting
    set_status(container, hook, "active")
    assert replay(owner, hook).status_code == 202, "the one before is over"


def test_a_subscription_that_is_gone_takes_its_replay_with_it(
    owner: Account, container: Container, clock: Clock
) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    assert replay(owner, hook).status_code == 202
    assert owner.delete(f"/webhooks/{hook}").status_code == 200
    run_due_jobs(container)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(webhook_replays)).all() == []


def test_a_replay_whose_job_is_lost_is_taken_up_again(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    assert replay(owner, hook).status_code == 202
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs where task_name = 'webhooks.replay'"))
    for _ in range(2):
        replaying.resume_replays(container.db)
    run_due_jobs(container)
    assert len(list_events(container, hook)) == 4


def test_strangers_cannot_replay_events(owner: Account, stranger: Account, container: Container, clock: Clock) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    teammate = make_teammate(container, owner, make_sub_account(container, owner))
    before = traces(container)
    for account in (stranger, teammate, make_live(container, owner)):
        refused = replay(account, hook)
        assert (refused.status_code, refused.text) == (404, '{"message":"Not Found"}')
    assert traces(container) == before
