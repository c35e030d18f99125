"""SIGTERM ends a process within ten seconds however busy it is, and nothing that was accepted is lost."""

import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from test_many_callers import SilentHost

from quillpost.accounts.users.sessions import create_session
from quillpost.web.security import SESSION
from support.browser_sessions import make_user
from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.factories import make_inline_recipients, people, postcard
from support.fake_server import FakeRequest, FakeResponse
from support.processes import PATIENCE, Command, CommandRunner, Service, answers, free_port, until
from support.sender_office import SenderService, open_sender_service

WITHIN = 10.0
"""What is promised: the time from the signal to the end of the process."""

SENDERS = 6
WATCHED = "An order that somebody looks at."
ENDLESS = CrashPoint("quillpost.fulfillment.batches.files:draw_batch_files", "during")
"""A composition that computes on and on, in a thread that hears nobody."""


class SlowReceiver(EventReceiver):
    """Keeps everyone waiting who tells it something, until it may answer."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer, self.was_called = threading.Event(), threading.Event()

    def handle(self, request: FakeRequest) -> FakeResponse | None:
        self.was_called.set()
        self.may_answer.wait(PATIENCE)
        return super().handle(request)


@pytest.fixture
def slow_receiver() -> Iterator[SlowReceiver]:
    with SlowReceiver() as receiver:
        yield receiver
        receiver.may_answer.set()


@pytest.fixture
def sender_service(conninfo: str, home: Path, slow_receiver: SlowReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, slow_receiver) as sender_service:
        yield sender_service


class Crowd:
    """Sends on and on, each sender one order after another, and notes what it was told."""

    def __init__(self, sender_service: SenderService, url: str) -> None:
        self._office, self._url = sender_service, url
        self._headers = {"Authorization": f"Bearer {sender_service.sender.token}"}
        self.accepted: list[int] = []
        self.refused: list[httpx2.Response] = []

    def send_until_closed(self, number: int) -> None:
        with httpx2.Client(headers=self._headers, timeout=PATIENCE) as client:
            while True:
                try:
                    sent = client.post(
                        f"{self._url}/api/v2/send/postcard", json=postcard(recipients=make_inline_recipients(2))
                    )
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
def busy(sender_service: SenderService, url: str) -> Iterator[Crowd]:
    """Senders, a send that waits for its picture, a connection that is kept, and a page that is watched."""
    crowd, host = Crowd(sender_service, url), SilentHost()
    port = int(url.rpartition(":")[2])
    with ThreadPoolExecutor(SENDERS + 2) as others, socket.create_connection(("127.0.0.1", port)) as kept:
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: quillpost.test\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"
        waiting = others.submit(crowd.send, front_image_url=host.url)
        until(lambda: len(host.guests) == 1, what="a send that waits for its picture")
        is_open = threading.Event()
        watching = others.submit(watch, sender_service, url, is_open)
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


def watch(sender_service: SenderService, url: str, is_open: threading.Event) -> None:
    """An open page of an order, as long as the server sends anything."""
    parts, account = sender_service.container, sender_service.sender.id
    person_id = make_user(parts, account, "dana@example.com")
    with parts.db.system_transaction() as tx:
        cookie = create_session(tx, person_id, awaits_code=False, address=None, browser=None, now=parts.clock())
    number = sender_service.sender.send(message=WATCHED).json()["id"]
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


def assert_all_accepted_and_no_more(sender_service: SenderService, crowd: Crowd) -> None:
    """Who was told of an order has it, and nobody has one who was not told of it."""
    kept = sender_service.rows("select id from orders where message <> :watched", watched=WATCHED)
    assert sorted(crowd.accepted) == sorted(number for (number,) in kept)
    for refusal in crowd.refused:
        assert (refusal.status_code, "Retry-After" in refusal.headers) == (503, True), refusal.text


def finish(sender_service: SenderService, command_runner: CommandRunner, receiver: SlowReceiver) -> None:
    """The next start completes all of it."""
    receiver.may_answer.set()
    sender_service.let_leases_end()
    worker = command_runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    assert worker.stop() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_busy_server_ends_in_time_and_loses_nothing(
    workers: str,
    sender_service: SenderService,
    command_runner: CommandRunner,
    slow_receiver: SlowReceiver,
    tmp_path: Path,
) -> None:
    log = tmp_path / "serve.log"
    service = Service(log, "--workers", workers, port=free_port(), settings=sender_service.settings)
    try:
        service.ready()
        with busy(sender_service, service.url) as crowd:
            until(slow_receiver.was_called.is_set, what="a webhook under way")
            assert service.stop(signal.SIGTERM, within=WITHIN) == 0, service.output
    finally:
        service.kill()
    assert_clean(service.output)
    assert_all_accepted_and_no_more(sender_service, crowd)
    finish(sender_service, command_runner, slow_receiver)


@pytest.mark.parametrize("command", ["work", "serve"])
def test_a_composition_without_end_is_cut_off_and_done_after_the_next_start(
    command: str, sender_service: SenderService, command_runner: CommandRunner, slow_receiver: SlowReceiver
) -> None:
    port = free_port()
    arguments = ("serve", "--port", str(port)) if command == "serve" else ("work",)
    process: Command = command_runner.start(*arguments, settings=sender_service.settings, crash=ENDLESS)
    if command == "serve":
        until(lambda: answers(f"http://127.0.0.1:{port}"), what="the server ready")
    assert sender_service.sender.send(recipients=people(2)).status_code == 200
    composing = "select count(*) from procrastinate_jobs where status = 'doing' and queue_name = 'compose'"
    until(lambda: sender_service.value(composing) == 1, what="a batch being composed")
    until(slow_receiver.was_called.is_set, what="a webhook under way")
    assert process.stop(signal.SIGTERM, within=WITHIN) == 0, process.output
    assert_clean(process.output)
    finish(sender_service, command_runner, slow_receiver)
