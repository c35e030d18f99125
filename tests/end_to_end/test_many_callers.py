"""Many at once, and some of them slow: the others are served."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from quillpost.app.container import Limits
from support.event_receiver import EventReceiver
from support.factories import make_account, postcard
from support.processes import PATIENCE, CommandRunner, Service, answers, free_port, until
from support.sender_office import SenderService, open_sender_service

CROWD = 120
SHARE = Limits().calls_at_once


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver) as sender_service:
        yield sender_service


@contextmanager
def serving(sender_service: SenderService, command_runner: CommandRunner, **settings: str) -> Iterator[httpx2.Client]:
    """Calls to a server, with the sender's token."""
    port = free_port()
    words = ("serve", "--no-jobs", "--port", str(port))
    server = command_runner.start(*words, settings=sender_service.settings | settings)
    url, headers = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {sender_service.sender.token}"}
    try:
        until(lambda: answers(url, "/health"), what="the server alive")
        limits = httpx2.Limits(max_connections=None)
        with httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE, limits=limits) as client:
            yield client
    finally:
        server.stop()


def test_a_crowd_of_readers_and_of_failing_repeats_is_served_whole(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    """Where it may wait for as long as that takes."""
    patient = serving(sender_service, command_runner, QUILLPOST_WAIT_SECONDS="60")

    def repeat(number: int) -> int:
        return client.post("/api/v2/orders/1/cancel", headers={"Idempotency-Key": f"key {number}"}).status_code

    with patient as client, ThreadPoolExecutor(2 * CROWD) as crowd:
        reads = [crowd.submit(client.get, "/api/v2/orders/list") for _ in range(CROWD)]
        refused = [crowd.submit(repeat, number) for number in range(CROWD)]
        assert {read.result().status_code for read in reads} == {200}
        assert {refusal.result() for refusal in refused} == {404}


class SilentHost:
    """Takes connections and says nothing until it is closed."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/picture.png"
        self.guests: list[socket.socket] = []
        self._taking = threading.Thread(target=self._take, daemon=True)
        self._taking.start()

    def _take(self) -> None:
        while True:
            try:
                self.guests.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
        self._taking.join()
        self._listener.close()
        for guest in self.guests:
            guest.close()


def test_a_silent_picture_host_keeps_nobody_waiting_but_its_own_account(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    neighbor = make_account(sender_service.container, sender_service.sender.http, "neighbor@example.com")
    host = SilentHost()

    def send() -> int:
        return client.post("/api/v2/send/postcard", json=postcard(front_image_url=host.url)).status_code

    with serving(sender_service, command_runner) as client, ThreadPoolExecutor(2 * SHARE) as senders:
        sends = [senders.submit(send) for _ in range(2 * SHARE)]
        until(lambda: len(host.guests) == SHARE, what="as many senders as may be waiting for their picture")
        assert client.get("/health").status_code == 200
        as_neighbor = {"Authorization": f"Bearer {neighbor.token}"}
        assert client.get("/api/v2/orders/list", headers=as_neighbor).status_code == 200
        until(lambda: sum(send.done() for send in sends) == SHARE, what="the others told to come again")
        assert {send.result() for send in sends if send.done()} == {503}
        assert len(host.guests) == SHARE
        host.close()
        assert sorted(send.result() for send in sends) == [422] * SHARE + [503] * SHARE
    assert sender_service.value("select count(*) from orders") == 0


def children_of(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.parametrize("moment", ["once they serve", pytest.param("at their birth", marks=pytest.mark.long)])
def test_the_children_of_a_killed_server_leave_the_port(
    moment: str, sender_service: SenderService, tmp_path: Path
) -> None:
    port = free_port()
    service = Service(tmp_path / "serve.log", "--workers", "2", port=port, settings=sender_service.settings)
    try:
        if moment == "at their birth":
            until(lambda: children_of(service.pid) > 2, what="two children and their keeper born")
        else:
            service.ready()
    finally:
        service.kill()

    def is_free() -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return probe.connect_ex(("127.0.0.1", port)) != 0

    until(is_free, what="the port free again")


def test_a_server_whose_output_nobody_reads_serves_all_the_same(sender_service: SenderService, tmp_path: Path) -> None:
    log, port, settings = tmp_path / "serve.log", free_port(), sender_service.settings
    service = Service(log, "--welcome", port=port, closed_output=True, settings=settings)
    try:
        service.ready()
        assert service.stop() == 0
    finally:
        service.kill()
