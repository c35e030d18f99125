"""The two halves as processes of their own, in every arrangement that an operator may choose."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.cli import worker as working
from quillpost.client import Quillpost
from quillpost.core.settings import Settings
from support.event_receiver import EventReceiver
from support.factories import make_inline_recipients, people
from support.processes import PATIENCE, CommandRunner, Service, answers, free_port, until
from support.sender_office import SenderService, open_sender_service
from support.single_order_state import assert_all_happened_once

PIECES = 2


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver) as sender_service:
        yield sender_service


def send(url: str, sender_service: SenderService) -> None:
    with Quillpost(sender_service.sender.token, url, timeout=PATIENCE) as client:
        client.send.postcard(recipients=make_inline_recipients(PIECES), message="Hello!")


def test_two_workers_with_a_queue_each_do_the_work_of_a_server_without_jobs(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = command_runner.start("serve", "--no-jobs", "--port", str(port), settings=sender_service.settings)
    until(lambda: answers(url, "/health"), what="the server alive")
    assert not answers(url), "a server is not ready while nobody works"

    composing = command_runner.start("work", "--queues", "compose", settings=sender_service.settings)
    everything_else = command_runner.start(
        "work", "--queues", "default,hand_over", "--concurrency", "2", settings=sender_service.settings
    )
    until(lambda: answers(url), what="the server ready")
    send(url, sender_service)
    sender_service.wait_for_the_end()
    assert [command.stop() for command in (composing, everything_else)] == [0, 0]
    assert server.stop() == 0, server.output

    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])
    assert "batches.composed" in composing.output
    assert "batches.composed" not in everything_else.output
    assert "batches.printed" in everything_else.output


def test_two_workers_of_one_queue_do_nothing_twice(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    workers = [command_runner.start("work", settings=sender_service.settings) for _ in range(2)]
    assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
    sender_service.wait_for_the_end()
    assert [worker.stop() for worker in workers] == [0, 0]
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])


def test_a_server_of_two_processes_serves_and_works(sender_service: SenderService, tmp_path: Path) -> None:
    service = Service(tmp_path / "serve.log", "--workers", "2", port=free_port(), settings=sender_service.settings)
    try:
        service.ready()
        send(service.url, sender_service)
        sender_service.wait_for_the_end()
        assert service.stop() == 0, service.output
    finally:
        service.kill()
    assert "Traceback" not in service.output
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])


def test_a_stopping_worker_finishes_its_step(sender_service: SenderService, command_runner: CommandRunner) -> None:
    worker = command_runner.start("work", settings=sender_service.settings)
    assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
    until(lambda: sender_service.value("select count(*) from batches") == 1, what="a batch made")
    assert worker.stop(signal.SIGINT) == 0, worker.output
    assert sender_service.value("select count(*) from procrastinate_jobs where status = 'doing'") == 0

    another = command_runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    assert another.stop() == 0
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])


class Broken:
    """A pump that ends by itself, which none should."""

    async def run(self, _stop: asyncio.Event) -> None:
        raise RuntimeError("It broke.")


def test_where_a_part_of_the_work_ends_by_itself_the_process_does(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "build_dispatcher", lambda _settings, _parts: Broken())
    with capture_logs() as logs:
        asyncio.run(working.run_until_stopped(Settings(), container, None, None))
    assert [line["error"] for line in logs if line["event"] == "worker.stopped_unexpectedly"] == [
        "RuntimeError('It broke.')"
    ]
