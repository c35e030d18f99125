"""Sample events: they go the way of all others, and say what the interface says."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from standardwebhooks import Webhook

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import NotFound, Refused
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.rules import DELIVERED_EVENT, EVENT_TYPES, ORDER_STATUS_EVENT, SCAN_EVENT
from support.factories import Clock
from support.orders import open_account
from support.webhook_outbox import claim_deliveries, complete_deliveries, delivery_rows, set_columns
from support.webhook_receivers import Receivers, deliver

pytestmark = pytest.mark.usefixtures("clean_database")

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
def owner(container: Container, clock: Clock) -> Caller:
    """In our own time: whoever verifies a signature asks how old it is."""
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return open_account(container)


def subscribe(container: Container, caller: Caller, **how: Any) -> tuple[webhook_queries.WebhookSubscription, Webhook]:
    """The subscription, and what its receiver verifies with."""
    values = {"url": "https://example.com/hook", "type": "*"} | how
    with container.db.transaction(build_tenant(caller)) as tx:
        hook, secret = webhook_service.create_webhook(tx, caller, container.encryptor, now=container.clock(), **values)
    return hook, Webhook(secret)


def send_sample(container: Container, caller: Caller, hook: webhook_queries.WebhookSubscription) -> tuple[str, str]:
    with container.db.transaction(build_tenant(caller)) as tx:
        sent = webhook_service.send_sample_event(tx, hook.id, now=container.clock())
    return sent.event_id, sent.event_type


def only_message(receiver: Webhook, receivers: Receivers) -> dict[str, Any]:
    """What arrived, once, if its signature is good."""
    [(_, body)] = receivers.requests
    return dict(receiver.verify(body, dict(receivers.headers[0])))


@pytest.mark.parametrize(
    ("subscribed", "event_type"), [("*", ORDER_STATUS_EVENT), *((each, each) for each in EVENT_TYPES)]
)
def test_a_sample_of_the_subscribed_type_arrives_and_verifies(
    container: Container, owner: Caller, subscribed: str, event_type: str
) -> None:
    hook, receiver = subscribe(container, owner, type=subscribed)
    event = send_sample(container, owner, hook)
    receivers = deliver(container, 204)
    message = only_message(receiver, receivers)
    assert (message["event_id"], message["event_type"]) == event
    assert event[1] == event_type
    assert receivers.headers[0]["webhook-id"] == event[0]
    assert message["timestamp"] == int(container.clock().timestamp())
    assert set(message["data"]) == (ORDER_KEYS if event_type == ORDER_STATUS_EVENT else FLAT_KEYS)
    assert {message["data"][key] for key in message["data"] if key.endswith(".id")} == {0}
    [row] = delivery_rows(container, hook)
    assert (row.status, row.body) == ("delivered", receivers.requests[0][1].decode())


def test_a_delivered_sample_has_its_date_and_a_scanned_one_its_scan(container: Container, owner: Caller) -> None:
    found = {}
    for event_type in (DELIVERED_EVENT, SCAN_EVENT):
        hook, receiver = subscribe(container, owner, type=event_type)
        send_sample(container, owner, hook)
        found[event_type] = only_message(receiver, deliver(container, 204))["data"]
    assert found[DELIVERED_EVENT]["order_item.delivery_date"] == container.clock().date().isoformat()
    assert [found[each]["order_item.current_status"] for each in found] == ["Delivered", "Delivered"]
    assert [found[each]["order_item.scans"] for each in found] == [0, 1]


def test_a_sample_is_sent_as_a_query_to_a_get_subscription(container: Container, owner: Caller) -> None:
    hook, _ = subscribe(container, owner, type=DELIVERED_EVENT, verb="get")
    event_id, _ = send_sample(container, owner, hook)
    receivers = deliver(container, 200)
    [(url, body)] = receivers.requests
    query = parse_qs(urlsplit(url).query)
    assert (query["event_id"], query["order.id"], query["recipient.name"]) == ([event_id], ["0"], ["Jane Doe"])
    assert body == b""
    assert set(receivers.headers[0]) >= {"webhook-id", "webhook-timestamp", "webhook-signature"}


def test_a_sample_that_fails_is_sent_again_to_the_letter(container: Container, clock: Clock, owner: Caller) -> None:
    hook, receiver = subscribe(container, owner, type=DELIVERED_EVENT)
    send_sample(container, owner, hook)
    first = deliver(container, 500)
    clock.advance(seconds=10)
    again = deliver(container, 200)
    assert again.requests == first.requests
    assert only_message(receiver, again)["event_type"] == DELIVERED_EVENT


def test_samples_wait_for_no_other(container: Container, owner: Caller) -> None:
    hook, _ = subscribe(container, owner)
    events = [send_sample(container, owner, hook)[0] for _ in range(3)]
    dues = claim_deliveries(container)
    assert {due.event_id for due in dues} == set(events)
    complete_deliveries(container, dues)
    with container.db.system_transaction() as tx:
        assert webhook_queries.read_webhook(tx, hook.id).invoke_count == 3


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_a_subscription_that_rests_is_not_tried(container: Container, owner: Caller, status: str) -> None:
    hook, _ = subscribe(container, owner)
    set_columns(container, webhooks, hook.id, status=status)
    with pytest.raises(Refused, match=f"This subscription is {status}: resume it first."):
        send_sample(container, owner, hook)
    assert delivery_rows(container, hook) == []


def test_a_stranger_tries_nobody_s_subscription(container: Container, owner: Caller) -> None:
    hook, _ = subscribe(container, owner)
    with pytest.raises(NotFound):
        send_sample(container, open_account(container, "stranger@example.com"), hook)
    assert delivery_rows(container, hook) == []
