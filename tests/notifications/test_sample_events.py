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
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.notifications.webhooks.rules import DELIVERED_EVENT, EVENT_TYPES, ORDER_STATUS_EVENT, SCAN_EVENT
from support.factories import Clock
from support.orders import open_account
from support.transactions import run_as
from support.webhook_messages import FLAT_KEYS, ORDER_KEYS
from support.webhook_outbox import claim_deliveries, complete_deliveries, delivery_rows, set_columns, webhook_row
from support.webhook_receivers import Receivers, deliver

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def owner(container: Container, clock: Clock) -> Caller:
    """In our own time: whoever verifies a signature asks how old it is."""
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return open_account(container)


def subscribe(container: Container, caller: Caller, **how: Any) -> tuple[WebhookSubscription, Webhook]:
    """The subscription, and what its receiver verifies with."""
    values = {"url": "https://example.com/hook", "type": "*"} | how
    with container.db.transaction(build_tenant(caller)) as tx:
        hook, secret = webhook_service.create_webhook(tx, caller, container.encryptor, now=container.clock(), **values)
    return hook, Webhook(secret)


def send_sample(container: Container, caller: Caller, hook: WebhookSubscription) -> tuple[str, str]:
    sent = run_as(container, caller, webhook_service.send_sample_event, hook.id, now=container.clock())
    return sent.event_id, sent.event_type


def only_message(receiver: Webhook, receivers: Receivers) -> dict[str, Any]:
    """What arrived, once, if its signature is good."""
    [(_, body)] = receivers.requests
    return dict(receiver.verify(body, dict(receivers.headers[0])))


def test_a_sample_of_the_subscribed_type_arrives_and_verifies(
    container: Container, owner: Caller, subtests: pytest.Subtests
) -> None:
    found = {}
    for subscribed, event_type in (("*", ORDER_STATUS_EVENT), *((each, each) for each in EVENT_TYPES)):
        with subtests.test(subscribed):
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
            found[event_type] = message["data"]
    delivered, scanned = found[DELIVERED_EVENT], found[SCAN_EVENT]
    assert delivered["order_item.delivery_date"] == container.clock().date().isoformat()
    assert [each["order_item.current_status"] for each in (delivered, scanned)] == ["Delivered", "Delivered"]
    assert [each["order_item.scans"] for each in (delivered, scanned)] == [0, 1]


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
    assert webhook_row(container, hook).invoke_count == 3


def test_a_subscription_that_rests_or_is_a_stranger_s_is_not_tried(container: Container, owner: Caller) -> None:
    hook, _ = subscribe(container, owner)
    with pytest.raises(NotFound):
        send_sample(container, open_account(container, "stranger@example.com"), hook)
    for status in ("paused", "disabled"):
        set_columns(container, webhooks, hook.id, status=status)
        with pytest.raises(Refused, match=f"This subscription is {status}: resume it first."):
            send_sample(container, owner, hook)
    assert delivery_rows(container, hook) == []
