"""A server that is killed under a crowd of scans: whoever was answered is counted, once, and told of once."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa

from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.factories import people
from support.processes import CommandRunner, answers, free_port, until
from support.qr_scans import PAGE, PHONE, codes_of
from support.sender_office import SenderService, open_sender_service

PIECES, CLIENTS, ENOUGH = 5, 8, 60
# As if the time had passed for which dead servers' lanes are theirs.
END_LEASES = "update webhook_lanes set leased_until = now() where leased_until is not null"
UNCOUNTED = "select count(*) from visit_inbox"
SCANS = "select item_id, scans, event_id::text from facts where kind = 'item.scan' order by id"
COUNTED = "select code, scans from items order by id"

DEATHS = [
    None,  # right after an answer, whatever else goes on
    CrashPoint("quillpost.fulfillment.qr_scans.queries:insert_scans", "after", call=12),  # written, and not committed
    CrashPoint(
        "quillpost.fulfillment.qr_scans.service:ScanRecorder._record_batch", "after", call=12
    ),  # committed, and perhaps not answered
    CrashPoint("quillpost.fulfillment.qr_scans.tasks:_record_visitors", "after", call=2),  # counted, and not committed
]


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    # Every scan is to be kept here, however fast this crowd is with its few pieces.
    limits = {"QUILLPOST_TEST_REVIEW_SECONDS": "100000", "QUILLPOST_SCANS_A_MINUTE": "1000000"}
    with open_sender_service(conninfo, home, receiver, **limits) as sender_service:
        yield sender_service


class Crowd:
    """People who scan again and again until nobody answers; what they were answered is remembered."""

    def __init__(self, url: str, codes: list[str]) -> None:
        self.answered: list[str] = []
        self.is_enough = threading.Event()
        self._url = url
        self._codes = codes

    def scan(self, number: int) -> None:
        with httpx2.Client(headers={"User-Agent": PHONE}, timeout=30) as phone:
            while True:
                code = self._codes[(number + len(self.answered)) % len(self._codes)]
                try:
                    answer = phone.get(f"{self._url}/q/{code}", follow_redirects=False)
                except httpx2.TransportError:
                    return
                assert (answer.status_code, answer.headers["location"]) == (302, PAGE)
                self.answered.append(code)
                if len(self.answered) >= ENOUGH:
                    self.is_enough.set()


def test_a_scan_that_was_answered_outlives_every_death(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    sent = sender_service.sender.send(recipients=people(PIECES), qrcode_url=PAGE)
    assert sent.status_code == 200, sent.text
    codes = codes_of(sender_service.container, sent.json()["id"])
    answered: Counter[str] = Counter()
    for death in DEATHS:
        answered += Counter(_scanned_until(sender_service, command_runner, codes, death))
    with sender_service.container.db.system_transaction() as tx:
        tx.execute(sa.text(END_LEASES))

    last = command_runner.start("work", settings=sender_service.settings)
    until(lambda: sender_service.value(UNCOUNTED) == 0, what="all scans counted")
    until(lambda: _all_received(sender_service), what="everyone told of all scans")
    assert last.stop() == 0, last.output

    counted = dict(sender_service.rows(COUNTED))
    # Whoever was on the way when the server died may have been stored without an answer.
    assert {code: n for code, n in answered.items() if counted[code] < n} == {}
    total = sum(counted.values())
    assert answered.total() <= total <= answered.total() + CLIENTS * len(DEATHS)
    assert sender_service.rows("select total_scans, multi_scans from orders") == [(total, PIECES)]
    assert sender_service.value("select count(*) from visits where kind = 'person'") == total
    assert sender_service.rows("select total_recipients from mailing_lists") == [(PIECES,)]
    _assert_received_once(sender_service)


def _scanned_until(
    sender_service: SenderService, command_runner: CommandRunner, codes: list[str], death: CrashPoint | None
) -> list[str]:
    """What was answered by a server that dies so."""
    port = free_port()
    server = command_runner.start("serve", "--port", str(port), settings=sender_service.settings, crash=death)
    url = f"http://127.0.0.1:{port}"
    until(lambda: answers(url, "/health") or server.has_ended(), what="the server alive")
    crowd = Crowd(url, codes)
    with ThreadPoolExecutor(CLIENTS) as people_with_phones:
        scanning = [people_with_phones.submit(crowd.scan, number) for number in range(CLIENTS)]
        if death is None:
            assert crowd.is_enough.wait(60)
            server.stop(9)
        assert server.wait() == -9, server.output
        for one in scanning:
            one.result()
    assert crowd.answered
    return crowd.answered


def _all_received(sender_service: SenderService) -> bool:
    received = {event.id for event in sender_service.received()}
    return {event for _, _, event in sender_service.rows(SCANS)} <= received


def _assert_received_once(sender_service: SenderService) -> None:
    """Each scan is one event, however often it was sent, and says how many there were; none is left out."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for item, scans, _ in sender_service.rows(SCANS):
        numbers[item].append(scans)
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    events = {event.id: event for event in sender_service.received() if event.type == "scans.scan_update"}
    assert events.keys() == {event for _, _, event in sender_service.rows(SCANS)}
    received: dict[int, list[int]] = defaultdict(list)
    for event in events.values():
        received[event.data["order_item.id"]].append(event.data["order_item.scans"])
    assert {item: sorted(found) for item, found in received.items()} == numbers
