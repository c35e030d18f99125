"""A fresh installation, on a machine with nothing: one command, one paste, one postcard delivered; and the page that
shows its events where a worker runs beside the server."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from standardwebhooks import Webhook

from quillpost.client import Quillpost, verify_webhook
from support.event_receiver import HEAD, EventReceiver, ReceivedEvent
from support.processes import PATIENCE, Command, CommandRunner, Service, answers, free_port, until
from support.sender_service import ITEM_WAY, ORDER_WAY

ORDER_KEYS = {"order.id", "order.status", "order.previous_status", "order.current_status", "order.metadata"}
ITEM_KEYS = {
    *("order_item.id", "order.id", "order.sub_account_id", "order_item.scans", "order_item.failure"),
    *("order_item.delivery_date", "order_item.previous_status", "order_item.current_status", "order.status"),
    *(f"recipient.{name}" for name in ("name", "company", "address", "address2", "absentee_address", "city")),
    *(f"recipient.{name}" for name in ("province", "postal_code", "country", "email", "phone")),
    *(f"recipient.custom_{n}" for n in range(1, 11)),
    *("qrcode.url", "order.metadata"),
}
ORDER_CHAIN = list(pairwise([None, *ORDER_WAY]))
ITEM_CHAIN = [
    *(("order_item.status_update", *step) for step in pairwise([None, *ITEM_WAY])),
    ("order_item.delivered", *ITEM_WAY[-2:]),
]
METADATA = '{"zeta": 1.0, "alpha": [1e2, 123456789012345678901234567890], "ü": {"nested": null}}'


class Newcomer:
    """Someone who reads what the terminal shows, and pastes it."""

    def __init__(self, service: Service | Command) -> None:
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


Start = Callable[[], Service | Command]


@pytest.fixture
def start(home: Path, tmp_path: Path, runner: CommandRunner) -> Iterator[Start]:
    """Starts the service on one home and one port, each time anew; the first time as a person does."""
    port, settings = free_port(), {"QUILLPOST_HOME": str(home)}
    started: list[Service | Command] = []

    def start() -> Service | Command:
        if not started:
            started.append(Service(tmp_path / "start.log", "--welcome", port=port, settings=settings).ready())
            return started[0]
        again = runner.start("serve", "--welcome", "--port", str(port), settings=settings)
        again.url = started[0].url
        started.append(again)
        until(lambda: answers(again.url), what="the service ready again")
        return again

    yield start
    for service in started:
        service.stop(signal.SIGKILL)


def test_from_an_empty_home_to_a_card_and_through_a_crash(start: Start, home: Path, receiver: EventReceiver) -> None:
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
    assert httpx2.get(newcomer.receiver_url).status_code == 200

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
    service.stop(signal.SIGKILL)

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
    assert {frozenset(event.message) for event in ours} == {frozenset({*HEAD, "data"})}
    assert all(set(event.data) == ORDER_KEYS for event in order)
    assert all(set(event.data) == ITEM_KEYS for event in item)
    assert [(e.data["order.previous_status"], e.data["order.current_status"]) for e in order] == ORDER_CHAIN
    changes = [(e.type, e.data["order_item.previous_status"], e.data["order_item.current_status"]) for e in item]
    assert changes == ITEM_CHAIN


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


def test_a_worker_tells_the_receiver_page(home: Path, tmp_path: Path, conninfo: str, runner: CommandRunner) -> None:
    settings = {"QUILLPOST_HOME": str(home), "QUILLPOST_DATABASE_URL": conninfo}
    service = Service(tmp_path / "service.log", "--welcome", "--no-jobs", settings=settings)
    try:
        # Ready it is not before somebody does its work.
        until(lambda: answers(service.url, "/health"), what="the server alive")
        newcomer = Newcomer(service)
        [hook] = newcomer.client.webhooks.list()
        worker = runner.start("work", settings=settings)
        event = newcomer.client.webhooks.test(hook["id"])["event_id"]
        shown = until(lambda: httpx2.get(f"{newcomer.receiver_url}/events").json()["events"], what="the event shown")
        assert [(each["event_id"], each["verified"]) for each in shown] == [(event, True)]
        assert worker.stop() == 0, worker.output
        [delivery] = newcomer.client.webhooks.deliveries(hook["id"])
        assert (delivery["status"], delivery["attempts"]) == ("delivered", 1)
        newcomer.leave()
    finally:
        service.kill()
