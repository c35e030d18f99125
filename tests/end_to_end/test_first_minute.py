"""A newcomer's first minute, on a machine with nothing: one command, one paste, one postcard delivered."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from standardwebhooks import Webhook

from quillpost.client import Quillpost, verify_webhook
from support.event_receiver import EventReceiver, ReceivedEvent
from support.processes import PATIENCE, Service, free_port, until

ORDER_KEYS = {"order.id", "order.status", "order.previous_status", "order.current_status", "order.metadata"}
ITEM_KEYS = {
    "order_item.id",
    "order.id",
    "order.sub_account_id",
    "order_item.scans",
    "order_item.failure",
    "order_item.delivery_date",
    "order_item.previous_status",
    "order_item.current_status",
    "order.status",
    "recipient.name",
    "recipient.company",
    "recipient.address",
    "recipient.address2",
    "recipient.absentee_address",
    "recipient.city",
    "recipient.province",
    "recipient.postal_code",
    "recipient.country",
    "recipient.email",
    "recipient.phone",
    "recipient.custom_1",
    "recipient.custom_2",
    "recipient.custom_3",
    "recipient.custom_4",
    "recipient.custom_5",
    "recipient.custom_6",
    "recipient.custom_7",
    "recipient.custom_8",
    "recipient.custom_9",
    "recipient.custom_10",
    "qrcode.url",
    "order.metadata",
}
ORDER_CHAIN = [
    (None, "reviewing"),
    ("reviewing", "processing"),
    ("processing", "printing"),
    ("printing", "mailed"),
    ("mailed", "fulfilled"),
]
ITEM_CHAIN = [
    ("order_item.status_update", None, "Processing"),
    ("order_item.status_update", "Processing", "Printed"),
    ("order_item.status_update", "Printed", "In Transit"),
    ("order_item.status_update", "In Transit", "In Local Area"),
    ("order_item.status_update", "In Local Area", "Processed for Delivery"),
    ("order_item.status_update", "Processed for Delivery", "Delivered"),
    ("order_item.delivered", "Processed for Delivery", "Delivered"),
]
METADATA = '{"zeta": 1.0, "alpha": [1e2, 123456789012345678901234567890], "ü": {"nested": null}}'


class Newcomer:
    """Someone who reads what the terminal shows, and pastes it."""

    def __init__(self, service: Service) -> None:
        shown = service.output
        self.token = found(r"Test token\s+(\S+)", shown)
        self.receiver_url = found(r"Watch events\s+(\S+)", shown)
        self.curl = found(r"^(curl .*)$", shown)
        self.client = Quillpost(self.token, service.url, timeout=PATIENCE)
        self._url = f"{service.url}/api/v2/send/postcard"

    def send_written(self, body: str) -> int:
        """A postcard whose JSON is sent letter for letter, and its order's id."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        sent = httpx2.post(self._url, content=body, headers=headers, timeout=PATIENCE)
        return int(sent.raise_for_status().json()["id"])

    def is_fulfilled(self, order_id: int) -> bool:
        return self.client.orders.read(order_id)["status"] == "Fulfilled"

    def leave(self) -> None:
        self.client.close()


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match, f"{pattern} is not in:\n{text}"
    return match[1]


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[Callable[[], Service]]:
    """Starts the service on one home and one port, each time anew."""
    port = free_port()
    started: list[Service] = []

    def start() -> Service:
        output = tmp_path / f"start-{len(started)}.log"
        started.append(Service(output, "--welcome", port=port, settings={"QUILLPOST_HOME": str(home)}))
        return started[-1].ready()

    yield start
    for service in started:
        service.kill()


def test_from_an_empty_home_to_a_delivered_postcard_and_through_a_crash(
    start: Callable[[], Service], home: Path, receiver: EventReceiver
) -> None:
    service = start()
    newcomer = Newcomer(service)
    subscription = newcomer.client.webhooks.create(receiver.url("/first"))

    pasted = subprocess.run(["bash", "-c", newcomer.curl], capture_output=True, text=True, check=True)
    first_order = json.loads(pasted.stdout)["id"]
    second_order = newcomer.send_written(a_postcard(METADATA))
    until(lambda: newcomer.is_fulfilled(first_order), what="the first order fulfilled")
    until(lambda: newcomer.is_fulfilled(second_order), what="the second order fulfilled")
    all_events = 2 * (len(ORDER_CHAIN) + len(ITEM_CHAIN))
    until(lambda: len(receiver.at("/first")) >= all_events, what="all events of two orders")

    events = receiver.at("/first")
    assert_verified(events, subscription["secret"])
    assert_received_in_order(events, first_order)
    assert_received_in_order(events, second_order)
    bodies = [event.body.decode() for event in events if event.data["order.id"] == second_order]
    assert all(f'"order.metadata":{compact(METADATA)}' in compact(body) for body in bodies)
    shown = httpx2.get(newcomer.receiver_url)
    assert shown.status_code == 200

    newcomer.leave()
    assert service.stop() == 0, service.output
    assert "Traceback" not in service.output
    assert "Unclosed" not in service.output
    assert processes_of(home) == []

    service = start()
    again = Newcomer(service)
    assert again.token == newcomer.token
    assert again.is_fulfilled(first_order)
    third_order = again.send_written(a_postcard("{}"))
    again.leave()
    service.kill()

    service = start()
    back = Newcomer(service)
    until(lambda: back.is_fulfilled(third_order), what="the order in flight fulfilled")
    until(lambda: is_complete(receiver.at("/first"), third_order), what="its events received")
    assert_received_in_order(without_repeats(receiver.at("/first")), third_order)
    back.leave()
    assert service.stop() == 0, service.output
    assert processes_of(home) == []


def a_postcard(metadata: str) -> str:
    person = {"name": "Jane Doe", "address": "7 Elm St", "city": "Austin", "province": "TX"}
    people = json.dumps([person | {"postal_code": "78701"}])
    return f'{{"recipients": {people}, "message": "Hello!", "allow_duplicates": true, "metadata": {metadata}}}'


def compact(text: str) -> str:
    return re.sub(r"\s", "", text)


def assert_verified(events: list[ReceivedEvent], secret: str) -> None:
    """By a package that is not ours, and by our own."""
    for event in events:
        Webhook(secret).verify(event.body, dict(event.headers))
        assert verify_webhook(event.body, event.headers, secret) == event.message
        assert event.message["event_id"] == event.id


def assert_received_in_order(events: list[ReceivedEvent], order_id: int) -> None:
    """What the specification says of one order with one piece: every event, its keys and its turn."""
    ours = [event for event in events if event.data["order.id"] == order_id]
    order = [event for event in ours if event.type == "order.status_update"]
    item = [event for event in ours if event.type != "order.status_update"]
    assert {frozenset(event.message) for event in ours} == {
        frozenset({"event_type", "event_id", "data", "timestamp", "date_time"})
    }
    assert all(set(event.data) == ORDER_KEYS for event in order)
    assert all(set(event.data) == ITEM_KEYS for event in item)
    assert [(e.data["order.previous_status"], e.data["order.current_status"]) for e in order] == ORDER_CHAIN
    assert [
        (e.type, e.data["order_item.previous_status"], e.data["order_item.current_status"]) for e in item
    ] == ITEM_CHAIN


def is_complete(events: list[ReceivedEvent], order_id: int) -> bool:
    ours = [event for event in without_repeats(events) if event.data["order.id"] == order_id]
    return len(ours) == len(ORDER_CHAIN) + len(ITEM_CHAIN)


def without_repeats(events: list[ReceivedEvent]) -> list[ReceivedEvent]:
    """The first of each, as a careful subscriber takes them."""
    return list({event.id: event for event in reversed(events)}.values())[::-1]


def processes_of(home: Path) -> list[str]:
    """Command lines of the processes that still work on the home."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has just ended
            continue
        if str(home) in line:
            lines.append(line)
    return lines
