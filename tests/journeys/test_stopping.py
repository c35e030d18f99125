"""SIGTERM ends a process within ten seconds however busy it is, and nothing that was accepted is lost."""

import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from crashing_worker import CrashPoint
from event_receiver import EventReceiver
from office import Office, opened_office
from processes import PATIENCE, Command, Nursery, Service, answers, free_port, until
from signed_in import make_person
from test_crowds import SilentHost

from makers import guests, people, postcard
from quillpost.accounts.users.sessions import create_session
from quillpost.web.security import SESSION

WITHIN = 10.0
"""What is promised: the time from the signal to the end of the process."""

SENDERS = 6
WATCHED = "An order that somebody looks at."
ENDLESS = CrashPoint("quillpost.fulfillment.batches.files:draw_batch_files", "during")
"""A composition that computes on and on, in a thread that hears nobody."""


class SlowReceiver(EventReceiver):
    """Keeps everyone waiting who tells it something, until it may answer."""

    def __init__(self) -> None:
        self.may_answer, self.is_told = threading.Event(), threading.Event()
        super().__init__()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(super()._handler()):  # type: ignore[misc]
            def do_POST(self) -> None:  # noqa: N802
                receiver.is_told.set()
                receiver.may_answer.wait(PATIENCE)
                try:
                    super().do_POST()
                except OSError:  # who told it has gone
                    self.close_connection = True

        return Handler


@pytest.fixture
def slow_receiver() -> Iterator[SlowReceiver]:
    receiver = SlowReceiver()
    yield receiver
    receiver.may_answer.set()
    receiver.close()


@pytest.fixture
def office(conninfo: str, home: Path, slow_receiver: SlowReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, slow_receiver) as office:
        yield office


class Crowd:
    """Sends on and on, each sender one order after another, and notes what it was told."""

    def __init__(self, office: Office, url: str) -> None:
        self._office, self._url = office, url
        self._headers = {"Authorization": f"Bearer {office.sender.token}"}
        self.accepted: list[int] = []
        self.refused: list[httpx2.Response] = []

    def send_until_closed(self, number: int) -> None:
        with httpx2.Client(headers=self._headers, timeout=PATIENCE) as client:
            while True:
                try:
                    sent = client.post(f"{self._url}/api/v2/send/postcard", json=postcard(recipients=guests(2)))
                except httpx2.TransportError:
                    return
                if sent.status_code == 200:
                    self.accepted.append(sent.json()["id"])
                else:
                    self.refused.append(sent)

    def send(self, **changes: Any) -> httpx2.Response | None:
        """The answer; None where the connection was closed instead."""
        body, address = postcard(**changes), f"{self._url}/api/v2/send/postcard"
        try:
            return httpx2.post(address, json=body, headers=self._headers, timeout=PATIENCE)
        except httpx2.TransportError:
            return None


@contextmanager
def busy(office: Office, url: str) -> Iterator[Crowd]:
    """Senders, a send that waits for its picture, a connection that is kept, and a page that is watched."""
    crowd, host = Crowd(office, url), SilentHost()
    port = int(url.rpartition(":")[2])
    with ThreadPoolExecutor(SENDERS + 2) as others, socket.create_connection(("127.0.0.1", port)) as kept:
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: quillpost.test\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"
        waiting = others.submit(crowd.send, front_image_url=host.url)
        until(lambda: len(host.guests) == 1, what="a send that waits for its picture")
        is_open = threading.Event()
        watching = others.submit(watch, office, url, is_open)
        until(is_open.is_set, what="a page that is watched")
        sending = [others.submit(crowd.send_until_closed, n) for n in range(SENDERS)]
        until(lambda: len(crowd.accepted) > SENDERS, what="orders accepted")
        try:
            yield crowd
            finished: list[Future[Any]] = [waiting, watching, *sending]
            results = [each.result(PATIENCE) for each in finished]
        finally:
            host.close()
    if results[0] is not None:
        crowd.refused.append(results[0])


def watch(office: Office, url: str, is_open: threading.Event) -> None:
    """An open page of an order, as long as the server sends anything."""
    parts, account = office.container, office.sender.id
    person_id = make_person(parts, account, "dana@example.com")
    with parts.db.system_transaction() as tx:
        cookie = create_session(tx, person_id, awaits_code=False, address=None, browser=None, now=parts.clock())
    number = office.sender.send(message=WATCHED).json()["id"]
    headers = {"Accept": "text/event-stream", "Cookie": f"{SESSION}={cookie}"}
    with httpx2.stream("GET", f"{url}/orders/{number}/live", headers=headers, timeout=PATIENCE) as stream:
        assert stream.status_code == 200
        for _ in stream.iter_raw():
            is_open.set()


def assert_clean(output: str) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert "Traceback" not in plain, plain
    assert not re.search(r"\bstatus=500\b", plain), plain
    assert "Exception" not in plain, plain


def assert_all_accepted_and_no_more(office: Office, crowd: Crowd) -> None:
    """Who was told of an order has it, and nobody has one who was not told of it."""
    kept = office.rows("select id from orders where message <> :watched", watched=WATCHED)
    assert sorted(crowd.accepted) == sorted(number for (number,) in kept)
    for refusal in crowd.refused:
        assert (refusal.status_code, "Retry-After" in refusal.headers) == (503, True), refusal.text


def finish(office: Office, nursery: Nursery, receiver: SlowReceiver) -> None:
    """The next start completes all of it."""
    receiver.may_answer.set()
    office.let_leases_end()
    worker = nursery.start("work", settings=office.settings)
    office.wait_for_the_end()
    assert worker.stop() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_busy_server_ends_in_time_and_loses_nothing(
    workers: str, office: Office, nursery: Nursery, slow_receiver: SlowReceiver, tmp_path: Path
) -> None:
    log = tmp_path / "serve.log"
    service = Service(log, "--workers", workers, port=free_port(), settings=office.settings)
    try:
        service.ready()
        with busy(office, service.url) as crowd:
            until(slow_receiver.is_told.is_set, what="a webhook under way")
            assert service.stop(signal.SIGTERM, within=WITHIN) == 0, service.output
    finally:
        service.kill()
    assert_clean(service.output)
    assert_all_accepted_and_no_more(office, crowd)
    finish(office, nursery, slow_receiver)


@pytest.mark.parametrize("command", ["work", "serve"])
def test_a_composition_without_end_is_cut_off_and_done_after_the_next_start(
    command: str, office: Office, nursery: Nursery, slow_receiver: SlowReceiver
) -> None:
    port = free_port()
    arguments = ("serve", "--port", str(port)) if command == "serve" else ("work",)
    process: Command = nursery.start(*arguments, settings=office.settings, crash=ENDLESS)
    if command == "serve":
        until(lambda: answers(f"http://127.0.0.1:{port}"), what="the server ready")
    assert office.sender.send(recipients=people(2)).status_code == 200
    composing = "select count(*) from procrastinate_jobs where status = 'doing' and queue_name = 'compose'"
    until(lambda: office.value(composing) == 1, what="a batch being composed")
    until(slow_receiver.is_told.is_set, what="a webhook under way")
    assert process.stop(signal.SIGTERM, within=WITHIN) == 0, process.output
    assert_clean(process.output)
    finish(office, nursery, slow_receiver)
