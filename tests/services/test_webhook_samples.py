"""Sample events: they go the way of all others, and say what the interface says."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from outbox import claim, delivery_rows, set_columns, settle
from placing import open_account
from receivers import Receivers, deliver
from standardwebhooks import Webhook

from makers import Clock
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import NotFound, Refused
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.rules import DELIVERED, EVENT_TYPES, ORDER_STATUS, SCAN

ORDER_KEYS = {
    "order.id", "order.status", "order.previous_status", "order.current_status", "order.metadata",
}  # fmt: skip
FLAT_KEYS = {
    "order_item.id", "order.id", "order.sub_account_id", "order_item.scans",
    "order_item.failure", "order_item.delivery_date", "order_item.previous_status",
    "order_item.current_status", "order.status",
    "recipient.name", "recipient.company", "recipient.address", "recipient.address2",
    "recipient.absentee_address", "recipient.city", "recipient.province", "recipient.postal_code",
    "recipient.country", "recipient.email", "recipient.phone",
    *(f"recipient.custom_{n}" for n in range(1, 11)),
    "qrcode.url", "order.metadata",
}  # fmt: skip


@pytest.fixture
def owner(parts: Parts, clock: Clock) -> Caller:
    """In our own time: whoever verifies a signature asks how old it is."""
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return open_account(parts)


def subscribe(parts: Parts, who: Caller, **how: Any) -> tuple[webhook_queries.Webhook, Webhook]:
    """The subscription, and what its receiver verifies with."""
    wanted = {"url": "https://example.com/hook", "type": "*"} | how
    with parts.db.transaction(tenant(who)) as tx:
        hook, secret = webhook_service.subscribe(tx, who, parts.sealer, now=parts.clock(), **wanted)
    return hook, Webhook(secret)


def send_sample(parts: Parts, who: Caller, hook: webhook_queries.Webhook) -> tuple[str, str]:
    with parts.db.transaction(tenant(who)) as tx:
        sent = webhook_service.send_sample(tx, hook.id, now=parts.clock())
    return sent.event_id, sent.event_type


def only_message(receiver: Webhook, told: Receivers) -> dict[str, Any]:
    """What arrived, once, if its signature is good."""
    [(_, body)] = told.asked
    return dict(receiver.verify(body, dict(told.headers[0])))


@pytest.mark.parametrize(
    ("subscribed", "event_type"), [("*", ORDER_STATUS), *((each, each) for each in EVENT_TYPES)]
)
def test_a_sample_of_the_subscribed_type_arrives_and_verifies(
    parts: Parts, owner: Caller, subscribed: str, event_type: str
) -> None:
    hook, receiver = subscribe(parts, owner, type=subscribed)
    event = send_sample(parts, owner, hook)
    told = deliver(parts, 204)
    message = only_message(receiver, told)
    assert (message["event_id"], message["event_type"]) == event
    assert event[1] == event_type
    assert told.headers[0]["webhook-id"] == event[0]
    assert message["timestamp"] == int(parts.clock().timestamp())
    assert set(message["data"]) == (ORDER_KEYS if event_type == ORDER_STATUS else FLAT_KEYS)
    assert {message["data"][key] for key in message["data"] if key.endswith(".id")} == {0}
    [row] = delivery_rows(parts, hook)
    assert (row.status, row.body) == ("delivered", told.asked[0][1].decode())


def test_a_delivered_sample_has_its_date_and_a_scanned_one_its_scan(parts: Parts, owner: Caller) -> None:
    found = {}
    for event_type in (DELIVERED, SCAN):
        hook, receiver = subscribe(parts, owner, type=event_type)
        send_sample(parts, owner, hook)
        found[event_type] = only_message(receiver, deliver(parts, 204))["data"]
    assert found[DELIVERED]["order_item.delivery_date"] == parts.clock().date().isoformat()
    assert [found[each]["order_item.current_status"] for each in found] == ["Delivered", "Delivered"]
    assert [found[each]["order_item.scans"] for each in found] == [0, 1]


def test_a_sample_goes_out_as_a_query_where_that_is_asked_for(parts: Parts, owner: Caller) -> None:
    hook, _ = subscribe(parts, owner, type=DELIVERED, verb="get")
    event_id, _ = send_sample(parts, owner, hook)
    told = deliver(parts, 200)
    [(url, body)] = told.asked
    query = parse_qs(urlsplit(url).query)
    assert (query["event_id"], query["order.id"], query["recipient.name"]) == (
        [event_id],
        ["0"],
        ["Jane Doe"],
    )
    assert body == b""
    assert set(told.headers[0]) >= {"webhook-id", "webhook-timestamp", "webhook-signature"}


def test_a_sample_that_fails_is_sent_again_to_the_letter(parts: Parts, clock: Clock, owner: Caller) -> None:
    hook, receiver = subscribe(parts, owner, type=DELIVERED)
    send_sample(parts, owner, hook)
    first = deliver(parts, 500)
    clock.advance(seconds=10)
    again = deliver(parts, 200)
    assert again.asked == first.asked
    assert only_message(receiver, again)["event_type"] == DELIVERED


def test_samples_wait_for_no_other(parts: Parts, owner: Caller) -> None:
    hook, _ = subscribe(parts, owner)
    events = [send_sample(parts, owner, hook)[0] for _ in range(3)]
    dues = claim(parts)
    assert {due.event_id for due in dues} == set(events)
    settle(parts, dues)
    with parts.db.work() as tx:
        assert webhook_queries.read_webhook(tx, hook.id).invoke_count == 3


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_a_subscription_that_rests_is_not_tried(parts: Parts, owner: Caller, status: str) -> None:
    hook, _ = subscribe(parts, owner)
    set_columns(parts, webhooks, hook.id, status=status)
    with pytest.raises(Refused, match=f"This subscription is {status}: resume it first."):
        send_sample(parts, owner, hook)
    assert delivery_rows(parts, hook) == []


def test_a_stranger_tries_nobody_s_subscription(parts: Parts, owner: Caller) -> None:
    hook, _ = subscribe(parts, owner)
    with pytest.raises(NotFound):
        send_sample(parts, open_account(parts, "stranger@example.com"), hook)
    assert delivery_rows(parts, hook) == []
