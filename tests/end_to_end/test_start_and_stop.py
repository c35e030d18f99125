"""What keeps a process from starting is told in one sentence; SIGTERM ends one within ten seconds however busy it is,
and nothing that was accepted is lost."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
import psycopg
import pytest

from quillpost.accounts.users.sessions import create_session
from quillpost.cli.worker import CLEANUP_SECONDS, PARENT_STOP_SECONDS, PROCESS_STOP_SECONDS
from quillpost.web.security import SESSION
from support.event_receiver import EventReceiver
from support.factories import make_inline_recipients, people, postcard
from support.fake_server import FakeRequest, FakeResponse, SilentServer
from support.processes import PATIENCE, CommandRunner, CrashPoint, Service, free_port, until
from support.sender_service import SenderService
from support.sign_in import make_user

UNPRIVILEGED = 65_534


class Refusal(Protocol):
    def __call__(self, settings: dict[str, str], *, user: int | None = None) -> str: ...


@pytest.fixture
def refusal(runner: CommandRunner, home: Path) -> Refusal:
    """Starts `quillpost serve` where it cannot run; what it said, as one line."""

    def refuse(settings: dict[str, str], *, user: int | None = None) -> str:
        given = {"QUILLPOST_HOME": str(home), "QUILLPOST_PORT": str(free_port())} | settings
        command = runner.start("serve", settings=given, user=user)
        assert command.wait() == 1, command.output
        message = command.output.strip()
        assert message.startswith("quillpost: "), message
        assert "Traceback" not in message
        assert len(message.splitlines()) == 1, message
        return message.removeprefix("quillpost: ")

    return refuse


@pytest.fixture
def tiny_disk(home: Path) -> Iterator[Path]:
    """A file system with room for nothing much."""
    disk = home / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("This machine does not let us mount a small file system.")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_what_prevents_a_start_is_named(refusal: Refusal, home: Path, conninfo: str, subtests: pytest.Subtests) -> None:
    nowhere = f"127.0.0.1:{free_port()}/quillpost"
    (home / "file").write_text("not a folder")
    below = {"QUILLPOST_HOME": str(home / "file" / "home")}
    unreachable = "^The database of QUILLPOST_DATABASE_URL cannot be reached: "
    proxy = "^QUILLPOST_TRUSTED_PROXIES is not usable: .*name each proxy by its address or network"
    here = {"QUILLPOST_DATABASE_URL": conninfo}
    cases = [
        ({"QUILLPOST_DATABASE_URL": f"postgresql://postgres@{nowhere}"}, unreachable + ".*refused"),
        ({"QUILLPOST_DATABASE_URL": "mysql://root@127.0.0.1/quillpost"}, unreachable),
        ({"QUILLPOST_DATABASE_URL": f"postgresql://dana:s3cret@{nowhere}"}, unreachable + "((?!s3cret).)*$"),
        ({"QUILLPOST_PORT": "abc"}, "^QUILLPOST_PORT is not usable: "),
        *(({"QUILLPOST_TRUSTED_PROXIES": each}, proxy) for each in ("*", "proxy.example", "10.0.0.0/40")),
        (
            here | {"QUILLPOST_SECRET_KEY": "c2hvcnQ="},
            "^QUILLPOST_SECRET_KEY must be 32 bytes as base64, or several such",
        ),
        (below, re.escape(str(home / "file"))),
        (here | below, re.escape(str(home / "file"))),
    ]
    for settings, message in cases:
        with subtests.test(**settings):
            assert re.search(message, refusal(settings))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refusal({"QUILLPOST_PORT": str(port)}) == (
            f"Port {port} on 127.0.0.1 cannot be used (Address already in use): stop what uses it, "
            "or set QUILLPOST_PORT to another."
        )
    with psycopg.connect(conninfo) as connection:
        connection.execute("update alembic_version set version_num = '9999'")
    assert refusal(here).startswith("The database schema (9999) is newer than this release knows")


def test_a_home_that_may_not_be_written_is_named(refusal: Refusal, home: Path) -> None:
    home.chmod(0o555)
    message = refusal({"QUILLPOST_HOME": str(home / "new")}, user=UNPRIVILEGED if os.geteuid() == 0 else None)
    assert f"{home}/new cannot be used" in message
    assert "permission" in message.lower()


def test_a_disk_that_is_full_is_named(refusal: Refusal, tiny_disk: Path, conninfo: str) -> None:
    on_it = {"QUILLPOST_HOME": str(tiny_disk / "home")}
    assert "full" in refusal(on_it).lower()
    shutil.rmtree(tiny_disk / "home", ignore_errors=True)
    (tiny_disk / "ballast").write_bytes(b"\0" * shutil.disk_usage(tiny_disk).free)
    assert "No space left on device" in refusal(on_it | {"QUILLPOST_DATABASE_URL": conninfo})


PROMISED = 10.0
"""The time from the signal to the end of the process."""

WITHIN = 2 * PROMISED
"""What is waited for: on a machine that is busy with much else, processes get their turn seconds later than they would.
One that waits for what is under way does not end in this time either."""

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
def receiver() -> Iterator[SlowReceiver]:
    with SlowReceiver() as receiver:
        yield receiver
        receiver.may_answer.set()


class Crowd:
    """Sends on and on, each sender one order after another, and notes what it was told."""

    def __init__(self, sender_service: SenderService, url: str) -> None:
        self._address = f"{url}/api/v2/send/postcard"
        self._headers = {"Authorization": f"Bearer {sender_service.sender.token}"}
        self.accepted: list[int] = []
        self.refused: list[httpx2.Response] = []

    def send_until_closed(self, number: int) -> None:
        with httpx2.Client(headers=self._headers, timeout=PATIENCE) as client:
            while True:
                try:
                    sent = client.post(self._address, json=postcard(recipients=make_inline_recipients(2)))
                except httpx2.TransportError:
                    return
                if sent.status_code == 200:
                    self.accepted.append(sent.json()["id"])
                else:
                    self.refused.append(sent)

    def send(self, **changes: Any) -> httpx2.Response | None:
        """The answer; None where the connection was closed instead."""
        try:
            return httpx2.post(self._address, json=postcard(**changes), headers=self._headers, timeout=PATIENCE)
        except httpx2.TransportError:
            return None


@contextmanager
def busy(sender_service: SenderService, url: str) -> Iterator[Crowd]:
    """Senders, a send that waits for its picture, a connection that is kept, and a page that is watched."""
    crowd, port = Crowd(sender_service, url), int(url.rpartition(":")[2])
    with (
        SilentServer() as host,
        ThreadPoolExecutor(SENDERS + 2) as others,
        socket.create_connection(("127.0.0.1", port)) as kept,
    ):
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: quillpost.test\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"
        is_open = threading.Event()
        watching = others.submit(watch, sender_service, url, is_open)
        until(is_open.is_set, what="a page that is watched")
        sending = [others.submit(crowd.send_until_closed, n) for n in range(SENDERS)]
        until(lambda: len(crowd.accepted) > SENDERS, what="orders accepted")
        # The last of all: it is refused after twenty seconds, which on a busy machine the others may take.
        waiting = others.submit(crowd.send, front_image_url=host.url("/picture.png"))
        until(lambda: len(host.calls) == 1, what="a send that waits for its picture")
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


def finish(sender_service: SenderService, runner: CommandRunner, receiver: SlowReceiver) -> None:
    """The next start completes all of it."""
    receiver.may_answer.set()
    sender_service.let_leases_end()
    worker = runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    assert worker.stop() == 0


def test_the_last_deadline_is_within_what_is_promised() -> None:
    assert PROCESS_STOP_SECONDS < PARENT_STOP_SECONDS < PROMISED - CLEANUP_SECONDS - 1


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_a_busy_server_ends_in_time_and_loses_nothing(
    workers: str, sender_service: SenderService, runner: CommandRunner, receiver: SlowReceiver, tmp_path: Path
) -> None:
    service = Service(tmp_path / "serve.log", "--workers", workers, settings=sender_service.settings)
    try:
        service.ready()
        with busy(sender_service, service.url) as crowd:
            until(receiver.was_called.is_set, what="a webhook under way")
            assert service.stop(signal.SIGTERM, within=WITHIN) == 0, service.output
    finally:
        service.kill()
    assert_clean(service.output)
    assert_all_accepted_and_no_more(sender_service, crowd)
    finish(sender_service, runner, receiver)


@pytest.mark.parametrize("command", [pytest.param("work", marks=pytest.mark.long), "serve"])
def test_a_composition_without_end_is_cut_off_and_done_after_the_next_start(
    command: str, sender_service: SenderService, runner: CommandRunner, receiver: SlowReceiver
) -> None:
    settings = sender_service.settings
    with ExitStack() as stack:
        if command == "serve":
            process = stack.enter_context(runner.serving(settings=settings, path="/ready", crash=ENDLESS))
        else:
            process = runner.start("work", settings=settings, crash=ENDLESS)
        assert sender_service.sender.send(recipients=people(2)).status_code == 200
        composing = "select count(*) from procrastinate_jobs where status = 'doing' and queue_name = 'compose'"
        until(lambda: sender_service.value(composing) == 1, what="a batch being composed")
        until(receiver.was_called.is_set, what="a webhook under way")
        assert process.stop(signal.SIGTERM, within=WITHIN) == 0, process.output
    assert_clean(process.output)
    finish(sender_service, runner, receiver)
