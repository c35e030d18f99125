"""The delivery log: what was sent, what waits, what was said; and one more try."""

from typing import Any

import pytest

from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks.rules import ORDER_STATUS_EVENT
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate
from support.traces import traces
from support.webhook_log import (
    URL,
    back_off,
    is_due_now,
    list_deliveries,
    send_orders,
    set_delivery,
    set_status,
    subscribe,
)

KEYS = {
    "id", "event_id", "event_type", "url", "status", "attempts", "request_body", "response_status",
    "response_body", "error", "created_at", "next_attempt_at", "delivered_at",
    "waits_for",
}  # fmt: skip
BODY = '{"event_type":"order.status_update"}'
SENT = {"status": "delivered", "attempts": 1, "body": BODY, "response_status": 200, "next_at": None}
GIVEN_UP = {"status": "failed", "attempts": 10, "body": BODY, "next_at": None, "error": "No answer."}


def retry(account: Account, hook: int, delivery: int, **how: Any) -> Any:
    return account.post(f"/webhooks/{hook}/deliveries/{delivery}/retry", **how)


def test_what_waits_is_listed_newest_first_and_read_alike(owner: Account, container: Container) -> None:
    hook = subscribe(owner)
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
    assert last | {"id": 0, "event_id": ""} == {
        "id": 0,
        "event_id": "",
        "event_type": "order.status_update",
        "url": URL,
        "status": "pending",
        "attempts": 0,
        "request_body": None,
        "response_status": None,
        "response_body": None,
        "error": None,
        "created_at": "2026-05-04T12:00:00Z",
        "next_attempt_at": "2026-05-04T12:00:00Z",
        "waits_for": None,
        "delivered_at": None,
    }
    assert owner.get(f"/webhooks/{hook}/deliveries/{last['id']}").json() == last


def test_the_outcome_of_a_delivery_is_shown(owner: Account, container: Container) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    second, first = (row["id"] for row in list_deliveries(owner, hook))
    set_delivery(container, first, **SENT, response_body="Thanks", delivered_at=container.clock())
    set_delivery(container, second, **GIVEN_UP)
    sent, lost = (owner.get(f"/webhooks/{hook}/deliveries/{each}").json() for each in (first, second))
    assert (sent["status"], sent["attempts"], sent["request_body"]) == ("delivered", 1, BODY)
    assert (sent["response_status"], sent["response_body"]) == (200, "Thanks")
    assert (sent["delivered_at"], sent["next_attempt_at"]) == ("2026-05-04T12:00:00Z", None)
    assert (lost["status"], lost["error"], lost["next_attempt_at"]) == ("failed", "No answer.", None)


def test_a_delivery_by_get_shows_the_requested_url(owner: Account, container: Container) -> None:
    hook = subscribe(owner, verb="get")
    send_orders(container, owner)
    waiting, sent = list_deliveries(owner, hook)
    set_delivery(container, sent["id"], **SENT | {"body": f"{URL}?event_type=order.status_update"})
    shown = owner.get(f"/webhooks/{hook}/deliveries/{sent['id']}").json()
    assert (shown["url"], shown["request_body"]) == (f"{URL}?event_type=order.status_update", None)
    assert waiting["url"] == URL


def test_the_log_is_filtered_by_status_and_by_type(owner: Account, container: Container) -> None:
    hook = subscribe(owner)
    send_orders(container, owner, 2)
    newest, second, third, oldest = (row["id"] for row in list_deliveries(owner, hook))
    set_delivery(container, oldest, **SENT)
    set_delivery(container, third, **GIVEN_UP)
    for query, found in (
        ({"status": "pending"}, [newest, second]),
        ({"status": "Failed"}, [third]),
        ({"status": "delivered"}, [oldest]),
        ({"event_type": "order.status_update"}, [second, oldest]),
        ({"event_type": "order.status_update", "status": "pending"}, [second]),
        ({"event_type": "scans.scan_update"}, []),
        ({"status": ""}, [newest, second, third, oldest]),
    ):
        assert [row["id"] for row in list_deliveries(owner, hook, **query)] == found, query
    wrong = owner.get(f"/webhooks/{hook}/deliveries?status=lost&event_type=x&page=1")
    assert (wrong.status_code, list(wrong.json()["errors"])) == (422, ["status", "event_type"])
    assert "Known: pending, delivered, failed." in wrong.json()["errors"]["status"][0]


def test_a_log_that_is_too_long_is_looked_through_from_its_newest(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MAX_LISTED", 3)
    hook = subscribe(owner)
    send_orders(container, owner, 2)
    listed = [
        owner.get(f"/webhooks/{hook}/deliveries", params={"items_per_page": 2, "page": page}).json()
        for page in (1, 2, 3)
    ]
    assert [len(page["data"]) for page in listed] == [2, 1, 0]
    assert {(page["meta"]["total"], page["meta"]["truncated"]) for page in listed} == {(3, True)}


def test_a_type_is_looked_for_among_the_newest(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare one is not looked for in all that a subscription was ever told."""
    hook = subscribe(owner)
    send_orders(container, owner, 2)
    types = [row["event_type"] for row in owner.get(f"/webhooks/{hook}/deliveries").json()["data"]]
    assert types[-1] == ORDER_STATUS_EVENT, "the first is the oldest"
    path = f"/webhooks/{hook}/deliveries?event_type={ORDER_STATUS_EVENT}"
    for most in (len(types), len(types) - 1):
        monkeypatch.setattr(deliveries, "MAX_LISTED", most)
        listed, count = owner.get(path).json(), types[:most].count(ORDER_STATUS_EVENT)
        is_truncated = most < len(types)
        assert (listed["meta"]["total"], len(listed["data"])) == (count, count)
        assert listed["meta"]["truncated"] == is_truncated


def test_one_that_waits_is_tried_now_and_one_that_failed_once_more(
    owner: Account, container: Container, clock: Clock
) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    lost, waiting = (row["id"] for row in list_deliveries(owner, hook))
    set_delivery(container, waiting, attempts=4, next_at=clock.now().replace(year=2027))
    set_delivery(container, lost, **GIVEN_UP)
    for delivery, attempts in ((waiting, 4), (lost, 10)):
        clock.advance(minutes=1)
        back_off(container, hook)
        tried = retry(owner, hook, delivery)
        assert tried.status_code == 200
        now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        body = tried.json()
        assert (body["id"], body["status"], body["attempts"]) == (delivery, "pending", attempts)
        assert body["next_attempt_at"] == now
        assert is_due_now(container, hook)
    assert len(list_deliveries(owner, hook)) == 2


def test_one_that_arrived_goes_again_as_the_same_event(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    first = list_deliveries(owner, hook)[1]
    set_delivery(container, first["id"], **SENT, delivered_at=clock.now())
    clock.advance(minutes=1)
    back_off(container, hook)
    again = retry(owner, hook, first["id"]).json()
    assert again["id"] > first["id"]
    assert (again["event_id"], again["event_type"]) == (first["event_id"], first["event_type"])
    assert (again["status"], again["attempts"], again["request_body"]) == ("pending", 0, BODY)
    assert again["created_at"] == "2026-05-04T12:01:00Z"
    assert owner.get(f"/webhooks/{hook}/deliveries/{first['id']}").json()["status"] == "delivered"
    assert is_due_now(container, hook)
    assert retry(owner, hook, first["id"]).json()["id"] == again["id"], "it is under way already"
    assert len(list_deliveries(owner, hook)) == 3


@pytest.mark.parametrize("change", [{"verb": "get"}, {"url": "https://example.com/moved"}])
def test_a_retry_after_a_change_builds_a_new_request(
    owner: Account, container: Container, change: dict[str, str]
) -> None:
    hook = subscribe(owner, verb="get" if "url" in change else "post")
    send_orders(container, owner)
    first = list_deliveries(owner, hook)[0]["id"]
    words = f"{URL}?event_id=1" if "url" in change else BODY
    set_delivery(container, first, **SENT | {"body": words})
    assert owner.put(f"/webhooks/{hook}", change).status_code == 200
    again = retry(owner, hook, first).json()
    assert (again["request_body"], again["url"]) == (None, change.get("url", URL))


def test_a_try_with_an_idempotency_key_is_made_once(owner: Account, container: Container) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    first = list_deliveries(owner, hook)[0]["id"]
    set_delivery(container, first, **SENT)
    key = {"Idempotency-Key": "again"}
    answers = [retry(owner, hook, first, headers=key).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(list_deliveries(owner, hook)) == 3


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_nothing_is_tried_while_the_subscription_rests(owner: Account, container: Container, status: str) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    delivery = list_deliveries(owner, hook)[0]["id"]
    set_status(container, hook, status)
    before = traces(container)
    refused = retry(owner, hook, delivery)
    assert (refused.status_code, refused.json()) == (
        400,
        {"message": f"This subscription is {status}: resume it first."},
    )
    assert traces(container) == before


def test_strangers_see_and_try_nothing(owner: Account, stranger: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    hook, theirs = subscribe(owner), subscribe(stranger)
    send_orders(container, owner)
    delivery = list_deliveries(owner, hook)[0]["id"]
    before = traces(container)
    for account in (stranger, teammate, make_live(container, owner)):
        answers = [
            account.get(f"/webhooks/{hook}/deliveries"),
            account.get(f"/webhooks/{hook}/deliveries/{delivery}"),
            retry(account, hook, delivery),
        ]
        assert {(each.status_code, each.text) for each in answers} == {(404, '{"message":"Not Found"}')}
    # Through a subscription of one's own nobody reaches into another's log.
    assert stranger.get(f"/webhooks/{theirs}/deliveries/{delivery}").status_code == 404
    assert retry(stranger, theirs, delivery).status_code == 404
    assert owner.get(f"/webhooks/{hook}/deliveries/{delivery}x").status_code == 404
    assert traces(container) == before


def test_a_teammate_sees_the_deliveries_of_their_sub_account(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    hook = subscribe(teammate)
    assert owner.send(sub_account_id=branch).status_code == 200
    send_orders(container, owner)
    assert len(list_deliveries(teammate, hook)) == 2
    # A subscription that was for all before: what was not theirs stays so.
    everything = subscribe(owner)
    send_orders(container, owner)
    assert owner.put(f"/webhooks/{everything}", {"sub_account_id": branch}).status_code == 200
    assert len(list_deliveries(owner, everything)) == 2
    assert teammate.get(f"/webhooks/{everything}/deliveries").json()["meta"]["total"] == 0


def test_reading_takes_the_one_scope_and_trying_the_other(owner: Account, container: Container) -> None:
    hook = subscribe(owner)
    send_orders(container, owner)
    delivery = list_deliveries(owner, hook)[0]["id"]
    reader = limited(container, owner, "webhooks:read")
    assert len(list_deliveries(reader, hook)) == 2
    assert retry(reader, hook, delivery).status_code == 403
    assert reader.post(f"/webhooks/{hook}/rotate-secret").status_code == 403
    assert limited(container, owner, "orders:read").get(f"/webhooks/{hook}/deliveries").status_code == 403


def limited(container: Container, account: Account, scope: str) -> Account:
    with container.db.system_transaction() as tx:
        token = insert_token(tx, account.id, mode="test", name="r", scopes=[scope], now=container.clock())[1]
    return Account(account.id, token, account.http)
