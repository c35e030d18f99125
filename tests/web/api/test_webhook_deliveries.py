"""The delivery log: what was sent, waits or was answered; and what is sent again, one by one or from a day on."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import deliveries as delivery_rows
from quillpost.core.database.tables.notifications import webhook_replays
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.notifications.webhooks.rules import EVENT_TYPES, ORDER_STATUS_EVENT
from support import factories, webhooks
from support.factories import Account, Clock, make_live, make_sub_account, person, run_due_jobs, run_jobs_for
from support.mailing_lists import message
from support.rows import execute
from support.traces import assert_refused, unchanged
from support.webhooks import URL, deliver, fan_out, list_deliveries, send_orders, set_delivery, subscribe_by_call

pytestmark = pytest.mark.usefixtures("clean_database")

START = "2026-05-04T12:00:00Z"
KEYS = {
    "id", "event_id", "event_type", "url", "status", "attempts", "request_body", "response_status",
    "response_body", "error", "created_at", "next_attempt_at", "delivered_at", "waits_for",
}  # fmt: skip
BODY = '{"event_type":"order.status_update"}'
SENT = {"status": "delivered", "attempts": 1, "body": BODY, "response_status": 200, "next_at": None}
GIVEN_UP = {"status": "failed", "attempts": 10, "body": BODY, "next_at": None, "error": "No answer."}


def retry(account: Account, hook: int, delivery: int, **how: Any) -> Any:
    return account.post(f"/webhooks/{hook}/deliveries/{delivery}/retry", **how)


def read(account: Account, hook: int, delivery: int) -> dict[str, Any]:
    return dict(account.get(f"/webhooks/{hook}/deliveries/{delivery}").json())


def test_what_waits_is_listed_newest_first_and_read_alike(owner: Account, container: Container) -> None:
    hook = subscribe_by_call(owner)
    send_orders(container, owner, 2)
    listed = owner.get(f"/webhooks/{hook}/deliveries?items_per_page=3").json()
    assert [set(row) for row in listed["data"]] == [KEYS] * 3
    ids = [row["id"] for row in listed["data"]]
    assert ids == sorted(ids, reverse=True)
    assert (listed["meta"]["total"], listed["meta"]["last_page"], listed["meta"]["truncated"]) == (4, 2, False)
    assert listed["links"]["next"].endswith(f"/webhooks/{hook}/deliveries?items_per_page=3&page=2")
    [last] = list_deliveries(owner, hook, items_per_page=3, page=2)
    assert last["id"] < min(ids)
    assert list_deliveries(owner, hook, page=5) == []
    nothing = dict.fromkeys(("request_body", "response_status", "response_body", "error", "waits_for", "delivered_at"))
    assert last == nothing | {
        "id": last["id"], "event_id": last["event_id"], "event_type": "order.status_update", "url": URL,
        "status": "pending", "attempts": 0, "created_at": START, "next_attempt_at": START,
    }  # fmt: skip
    assert read(owner, hook, last["id"]) == last


def test_the_outcome_of_a_delivery_is_shown(owner: Account, container: Container) -> None:
    hook, by_get = subscribe_by_call(owner), subscribe_by_call(owner, verb="get")
    send_orders(container, owner)
    second, first = (row["id"] for row in list_deliveries(owner, hook))
    set_delivery(container, first, **SENT, response_body="Thanks", delivered_at=container.clock())
    set_delivery(container, second, **GIVEN_UP)
    outcome = {
        "status": "delivered", "attempts": 1, "request_body": BODY, "response_status": 200, "response_body": "Thanks",
        "delivered_at": START, "next_attempt_at": None,
    }  # fmt: skip
    sent, lost = (read(owner, hook, each) for each in (first, second))
    assert {name: sent[name] for name in outcome} == outcome
    assert (lost["status"], lost["error"], lost["next_attempt_at"]) == ("failed", "No answer.", None)
    waiting, last = list_deliveries(owner, by_get)
    requested = f"{URL}?event_type=order.status_update"
    set_delivery(container, last["id"], **SENT | {"body": requested})
    shown = read(owner, by_get, last["id"])
    assert (shown["url"], shown["request_body"], waiting["url"]) == (requested, None, URL)


def test_the_log_is_filtered_by_status_and_by_type(owner: Account, container: Container) -> None:
    hook = subscribe_by_call(owner)
    send_orders(container, owner, 2)
    newest, second, third, oldest = (row["id"] for row in list_deliveries(owner, hook))
    set_delivery(container, oldest, **SENT)
    set_delivery(container, third, **GIVEN_UP)
    for query, found in (
        ({"status": "pending"}, [newest, second]), ({"status": "Failed"}, [third]),
        ({"status": "delivered"}, [oldest]), ({"event_type": "order.status_update"}, [second, oldest]),
        ({"event_type": "order.status_update", "status": "pending"}, [second]),
        ({"event_type": "scans.scan_update"}, []), ({"status": ""}, [newest, second, third, oldest]),
    ):  # fmt: skip
        assert [row["id"] for row in list_deliveries(owner, hook, **query)] == found, query
    wrong = owner.get(f"/webhooks/{hook}/deliveries?status=lost&event_type=x&page=1")
    assert (wrong.status_code, list(wrong.json()["errors"])) == (422, ["status", "event_type"])
    assert "Known: pending, delivered, failed." in wrong.json()["errors"]["status"][0]


def test_a_long_log_is_searched_in_part(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rare type is not looked for in all that a subscription ever received."""
    hook = subscribe_by_call(owner)
    send_orders(container, owner, 2)
    types = [row["event_type"] for row in list_deliveries(owner, hook)]
    assert types[-1] == ORDER_STATUS_EVENT, "the first is the oldest"
    path = f"/webhooks/{hook}/deliveries"
    for most in (len(types), len(types) - 1):
        monkeypatch.setattr(deliveries, "MAX_LISTED", most)
        listed = owner.get(path, params={"event_type": ORDER_STATUS_EVENT}).json()
        count = types[:most].count(ORDER_STATUS_EVENT)
        assert (listed["meta"]["total"], len(listed["data"])) == (count, count)
        assert listed["meta"]["truncated"] == (most < len(types))
    pages = [owner.get(path, params={"items_per_page": 2, "page": page}).json() for page in (1, 2, 3)]
    assert [len(page["data"]) for page in pages] == [2, 1, 0]
    assert {(page["meta"]["total"], page["meta"]["truncated"]) for page in pages} == {(3, True)}


def test_what_waits_is_tried_now_and_what_failed_once_more(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe_by_call(owner)
    send_orders(container, owner)
    lost, waiting = (row["id"] for row in list_deliveries(owner, hook))
    set_delivery(container, waiting, attempts=4, next_at=clock.now().replace(year=2027))
    set_delivery(container, lost, **GIVEN_UP)
    for delivery, attempts in ((waiting, 4), (lost, 10)):
        clock.advance(minutes=1)
        webhooks.back_off(container, hook)
        body = retry(owner, hook, delivery).json()
        assert (body["id"], body["status"], body["attempts"]) == (delivery, "pending", attempts)
        assert body["next_attempt_at"] == clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        assert webhooks.is_due_now(container, hook)
    assert len(list_deliveries(owner, hook)) == 2


def test_one_that_arrived_goes_again_as_the_same_event(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe_by_call(owner)
    send_orders(container, owner)
    first = list_deliveries(owner, hook)[1]
    set_delivery(container, first["id"], **SENT, delivered_at=clock.now())
    clock.advance(minutes=1)
    webhooks.back_off(container, hook)
    again, same = (retry(owner, hook, first["id"], headers={"Idempotency-Key": "again"}).json() for _ in range(2))
    assert again == same
    assert again["id"] > first["id"]
    assert (again["event_id"], again["event_type"]) == (first["event_id"], first["event_type"])
    assert (again["status"], again["attempts"], again["request_body"]) == ("pending", 0, BODY)
    assert again["created_at"] == "2026-05-04T12:01:00Z"
    assert read(owner, hook, first["id"])["status"] == "delivered"
    assert webhooks.is_due_now(container, hook)
    assert retry(owner, hook, first["id"]).json()["id"] == again["id"], "it is under way already"
    assert len(list_deliveries(owner, hook)) == 3


def test_a_retry_after_a_change_builds_a_new_request(owner: Account, container: Container) -> None:
    posted, got = subscribe_by_call(owner), subscribe_by_call(owner, verb="get")
    send_orders(container, owner)
    for hook, body, change in (
        (posted, BODY, {"verb": "get"}),
        (got, f"{URL}?event_id=1", {"url": "https://example.com/moved"}),
    ):
        first = list_deliveries(owner, hook)[0]["id"]
        set_delivery(container, first, **SENT | {"body": body})
        assert owner.put(f"/webhooks/{hook}", change).status_code == 200
        again = retry(owner, hook, first).json()
        assert (again["request_body"], again["url"]) == (None, change.get("url", URL))


def test_a_paused_or_disabled_subscription_sends_nothing(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe_by_call(owner)
    send_orders(container, owner)
    delivery = list_deliveries(owner, hook)[0]["id"]
    clock.advance(minutes=1)
    for status in ("paused", "disabled"):
        webhooks.set_status(container, hook, status)
        with unchanged(container):
            for act, body in (("test", None), (f"deliveries/{delivery}/retry", None), ("replay", {"from": START})):
                refused = owner.post(f"/webhooks/{hook}/{act}", body)
                assert message(refused) == (400, f"This subscription is {status}: resume it first."), act


def test_a_teammate_sees_the_deliveries_of_their_sub_account(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    teammate = factories.make_teammate(container, owner, branch)
    hook = subscribe_by_call(teammate)
    assert owner.send(sub_account_id=branch).status_code == 200
    send_orders(container, owner)
    assert len(list_deliveries(teammate, hook)) == 2
    # A subscription that was for all before: what was not theirs stays so.
    everything = subscribe_by_call(owner)
    send_orders(container, owner)
    assert owner.put(f"/webhooks/{everything}", {"sub_account_id": branch}).status_code == 200
    assert len(list_deliveries(owner, everything)) == 2
    assert teammate.get(f"/webhooks/{everything}/deliveries").json()["meta"]["total"] == 0


class TestReceivers:
    """Tries beside the schedule, and what waits for what, at receivers that answer."""

    def test_a_try_by_hand_uses_up_nothing_of_the_schedule(self, owner: Account, container: Container) -> None:
        hook = subscribe_by_call(owner, type="order.status_update")
        owner.send()
        deliver(container, 500)
        for tries in range(2, 14):
            [last] = list_deliveries(owner, hook)
            assert retry(owner, hook, last["id"], json={}).status_code == 200
            deliver(container, 500)
            [shown] = list_deliveries(owner, hook)
            assert (shown["status"], shown["attempts"]) == ("pending", tries)
            assert shown["next_attempt_at"] < "2026-05-04T12:11:00Z", "it was put off as after its last try"
        assert owner.get(f"/webhooks/{hook}").json()["status"] == "active"

    def test_one_tried_by_hand_goes_before_the_rest(self, owner: Account, container: Container, clock: Clock) -> None:
        """At a receiver that fails the others would have it back off before its turn."""
        hook = subscribe_by_call(owner, type="order.status_update")
        for _ in range(8):
            owner.send()
            clock.advance(seconds=1)
        fan_out(container)
        deliver(container, *[500] * 5)
        clock.advance(seconds=1)
        last = list_deliveries(owner, hook, status="pending")[0]
        tried = retry(owner, hook, last["id"], json={}).json()
        assert (tried["id"], tried["next_attempt_at"]) == (last["id"], "2026-05-04T12:00:09Z")
        sent = deliver(container, *[500] * 3).headers[0]["webhook-id"]
        assert (sent, last["attempts"]) == (tried["event_id"], 0), "it had not had its turn"

    def test_what_waits_for_an_earlier_one_waits_on(self, owner: Account, container: Container, clock: Clock) -> None:
        hook = subscribe_by_call(owner, type="order.status_update")
        order = owner.send().json()["id"]
        deliver(container, 500)
        assert owner.post(f"/orders/{order}/cancel", {}).status_code == 200
        clock.advance(seconds=1)
        fan_out(container)
        later, earlier = list_deliveries(owner, hook)
        assert earlier["waits_for"] is None
        assert earlier["next_attempt_at"] is not None
        assert (later["waits_for"], later["next_attempt_at"]) == (earlier["id"], None)
        status, sentence = message(retry(owner, hook, later["id"], json={}))
        assert (status, f"delivery {earlier['id']}" in sentence) == (400, True)

    def test_a_subscription_is_tried_with_any_event_that_it_is_for(self, owner: Account, container: Container) -> None:
        hook, limited = subscribe_by_call(owner), subscribe_by_call(owner, type="order_item.delivered")
        for event_type in EVENT_TYPES:
            key = {"Idempotency-Key": event_type}
            tried, again = (
                owner.post(f"/webhooks/{hook}/test", {"event_type": event_type}, headers=key) for _ in range(2)
            )
            [waiting] = list_deliveries(owner, hook, status="pending")
            expected = {"message": "success", "event_id": waiting["event_id"], "event_type": event_type}
            assert (tried.status_code, tried.json(), again.json()) == (200, expected, expected)
            [(_, body)] = deliver(container, 200).requests
            assert f'"event_type":"{event_type}"'.encode() in body
        usual = [owner.post(f"/webhooks/{each}/test").json()["event_type"] for each in (hook, limited)]
        assert usual == ["order.status_update", "order_item.delivered"]
        refused = owner.post(f"/webhooks/{limited}/test", {"event_type": "scans.scan_update"})
        assert refused.status_code == 422
        assert refused.json()["errors"] == {"event_type": ["This subscription is for order_item.delivered alone."]}
        assert len(list_deliveries(owner, limited)) == 1


def replay(account: Account, hook: int, since: str = START, **how: Any) -> Any:
    return account.post(f"/webhooks/{hook}/replay", {"from": since} | how)


def list_events(container: Container, hook: int, *, before: int = 0) -> list[tuple[str, str]]:
    """The events in the outbox, beyond so many: the type and id of each, in their order."""
    query = sa.select(delivery_rows).filter_by(webhook_id=hook).order_by(delivery_rows.c.id)
    return [(row.event_type, str(row.event_id)) for row in execute(container, query)][before:]


def stored_replays(container: Container) -> list[sa.Row[Any]]:
    return execute(container, sa.select(webhook_replays))


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
        period = {"message": "success", "from": START, "to": "2026-05-04T12:01:00Z"}
        assert (accepted.status_code, accepted.json()) == (202, period | {"events": len(first), "truncated": False})
        run_due_jobs(container)
        assert list_events(container, hook, before=done * len(first)) == first
        assert stored_replays(container) == []
    assert {row["status"] for row in list_deliveries(owner, hook)} == {"pending"}


def test_what_goes_again_is_looked_at_at_once_and_whole(
    owner: Account, container: Container, hook: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also events beyond those that are counted."""
    webhooks.empty_queue(container, hook)
    monkeypatch.setattr(webhook_tasks, "MAX_COUNTED", 1)
    answered = replay(owner, hook).json()
    assert (answered["events"], answered["truncated"]) == (1, True)
    assert not webhooks.is_due_now(container, hook)
    run_due_jobs(container)
    assert webhooks.is_due_now(container, hook)
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
    period = "2026-05-04T12:00:00Z to 2026-05-04T12:01:00Z"
    under_way = f"A replay from {period} is under way, with 0 events so far: wait until it is done."
    with unchanged(container):
        assert message(replay(owner, hook)) == (409, under_way)
    assert replay(owner, other).status_code == 202
    run_due_jobs(container)
    assert len(list_events(container, hook)) == 4
    assert replay(owner, hook).status_code == 202


def test_a_subscription_paused_disabled_or_deleted_meanwhile(owner: Account, container: Container, hook: int) -> None:
    for status, waiting in (("paused", 2), ("disabled", 0)):
        before = len(list_deliveries(owner, hook))
        assert replay(owner, hook).status_code == 202, "the one before is over"
        webhooks.set_status(container, hook, status)
        run_due_jobs(container)
        again = list_deliveries(owner, hook)
        assert [row["next_attempt_at"] for row in again[: len(again) - before]] == [None] * waiting
        webhooks.set_status(container, hook, "active")
    assert replay(owner, hook).status_code == 202
    assert owner.delete(f"/webhooks/{hook}").status_code == 200
    run_due_jobs(container)
    assert stored_replays(container) == []


def test_a_replay_whose_job_is_lost_is_resumed(owner: Account, container: Container, hook: int) -> None:
    assert replay(owner, hook).status_code == 202
    execute(container, "delete from procrastinate_jobs where task_name = 'webhooks.replay'")
    for _ in range(2):
        webhook_tasks.resume_replays(container.db)
    run_due_jobs(container)
    assert len(list_events(container, hook)) == 4
