"""Tries beside the schedule, and what waits for what."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.notifications.webhooks.rules import EVENT_TYPES
from support.factories import Account, Clock
from support.webhook_outbox import fan_out
from support.webhook_receivers import deliver

pytestmark = pytest.mark.usefixtures("clean_database")


def subscribe(owner: Account, **how: Any) -> int:
    made = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "order.status_update"} | how)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def only(owner: Account, hook: int) -> dict[str, Any]:
    [delivery] = owner.get(f"/webhooks/{hook}/deliveries").json()["data"]
    return dict(delivery)


def test_trying_by_hand_uses_up_nothing_of_the_schedule(owner: Account, container: Container, clock: Clock) -> None:
    hook = subscribe(owner)
    owner.send()
    deliver(container, 500)
    for tries in range(2, 14):
        path = f"/webhooks/{hook}/deliveries/{only(owner, hook)['id']}/retry"
        assert owner.post(path, {}).status_code == 200
        deliver(container, 500)
        shown = only(owner, hook)
        assert (shown["status"], shown["attempts"]) == ("pending", tries)
        assert shown["next_attempt_at"] < "2026-05-04T12:11:00Z", "it was put off as after its last try"
    assert owner.get(f"/webhooks/{hook}").json()["status"] == "active"


def test_the_one_that_is_tried_by_hand_goes_before_all_that_wait(
    owner: Account, container: Container, clock: Clock
) -> None:
    """At a receiver that fails the others would have the lane closed before its turn."""
    hook = subscribe(owner)
    for _ in range(8):
        owner.send()
        clock.advance(seconds=1)
    fan_out(container)
    deliver(container, *[500] * 5)
    clock.advance(seconds=1)
    waiting = owner.get(f"/webhooks/{hook}/deliveries?status=pending").json()["data"]
    last = waiting[0]["id"]
    tried = owner.post(f"/webhooks/{hook}/deliveries/{last}/retry", {}).json()
    assert (tried["id"], tried["next_attempt_at"]) == (last, "2026-05-04T12:00:09Z")
    sent = deliver(container, *[500] * 3).headers[0]["webhook-id"]
    assert (sent, waiting[0]["attempts"]) == (tried["event_id"], 0), "it had not had its turn"


def test_what_waits_for_an_earlier_one_says_so_and_is_not_tried_before_it(
    owner: Account, container: Container, clock: Clock
) -> None:
    hook = subscribe(owner)
    order = owner.send().json()["id"]
    deliver(container, 500)
    assert owner.post(f"/orders/{order}/cancel", {}).status_code == 200
    clock.advance(seconds=1)
    fan_out(container)
    later, earlier = owner.get(f"/webhooks/{hook}/deliveries").json()["data"]
    assert earlier["waits_for"] is None
    assert earlier["next_attempt_at"] is not None
    assert (later["waits_for"], later["next_attempt_at"]) == (earlier["id"], None)
    refused = owner.post(f"/webhooks/{hook}/deliveries/{later['id']}/retry", {})
    assert refused.status_code == 400
    assert f"delivery {earlier['id']}" in refused.json()["message"]


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_a_subscription_to_all_is_tried_with_any_of_them(owner: Account, container: Container, event_type: str) -> None:
    hook = subscribe(owner, type="*")
    tried = owner.post(f"/webhooks/{hook}/test", {"event_type": event_type})
    assert (tried.status_code, tried.json()["event_type"]) == (200, event_type)
    [(_, body)] = deliver(container, 200).requests
    assert f'"event_type":"{event_type}"'.encode() in body


def test_a_subscription_is_tried_with_nothing_that_it_is_not_for(owner: Account) -> None:
    hook = subscribe(owner, type="order_item.delivered")
    refused = owner.post(f"/webhooks/{hook}/test", {"event_type": "scans.scan_update"})
    assert refused.status_code == 422
    assert refused.json()["errors"] == {"event_type": ["This subscription is for order_item.delivered alone."]}
    assert owner.get(f"/webhooks/{hook}/deliveries").json()["data"] == []
