"""Server and workers as processes of their own, in every arrangement that an operator may choose; many callers at once,
some of them slow; and whom a server believes where a request is from."""

import asyncio
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from structlog.testing import capture_logs

from quillpost.app import bootstrap
from quillpost.app.container import Container, Limits
from quillpost.cli import worker as working
from quillpost.client import Quillpost
from quillpost.core.settings import Settings
from support.factories import make_account, make_inline_recipients, people, postcard
from support.fake_server import SilentServer
from support.processes import PATIENCE, WITHOUT_OUTPUT, CommandRunner, Service, answers, free_port, until
from support.sender_service import SenderService, assert_all_happened_once

PIECES = 2
CROWD = 120
SHARE = Limits().calls_at_once
CLAIMED = "203.0.113.7"
FORWARDED = {"X-Forwarded-For": CLAIMED, "X-Forwarded-Proto": "https", "X-Forwarded-Host": "elsewhere.example"}
NOTED = "select network from audit_log where act = 'webhook.created' order by id desc limit 1"


def send(url: str, sender_service: SenderService) -> None:
    with Quillpost(sender_service.sender.token, url, timeout=PATIENCE) as client:
        client.send.postcard(recipients=make_inline_recipients(PIECES), message="Hello!")


def caller_of(url: str, token: str) -> httpx2.Client:
    headers, limits = {"Authorization": f"Bearer {token}"}, httpx2.Limits(max_connections=None)
    return httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE, limits=limits)


def test_a_worker_for_each_queue_does_all_the_work(sender_service: SenderService, runner: CommandRunner) -> None:
    settings = sender_service.settings
    with runner.serving("--no-jobs", settings=settings) as server:
        assert not answers(server.url), "a server is not ready while nobody works"
        composing = runner.start("work", "--queues", "compose", settings=settings)
        others = ("work", "--queues", "default,hand_over", "--concurrency", "2")
        everything_else = runner.start(*others, settings=settings)
        until(lambda: answers(server.url), what="the server ready")
        send(server.url, sender_service)
        sender_service.wait_for_the_end()
        assert [command.stop() for command in (composing, everything_else, server)] == [0, 0, 0], server.output
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])
    assert "batches.composed" in composing.output
    assert "batches.composed" not in everything_else.output
    assert "batches.printed" in everything_else.output


@pytest.mark.long
def test_two_workers_do_nothing_twice(sender_service: SenderService, runner: CommandRunner) -> None:
    workers = [runner.start("work", settings=sender_service.settings) for _ in range(2)]
    assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
    sender_service.wait_for_the_end()
    assert [worker.stop() for worker in workers] == [0, 0]
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])


def test_a_stopping_worker_finishes_its_step(sender_service: SenderService, runner: CommandRunner) -> None:
    worker = runner.start("work", settings=sender_service.settings)
    assert sender_service.sender.send(recipients=people(PIECES)).status_code == 200
    until(lambda: sender_service.value("select count(*) from batches") == 1, what="a batch made")
    assert worker.stop(signal.SIGINT) == 0, worker.output
    assert sender_service.value("select count(*) from procrastinate_jobs where status = 'doing'") == 0
    another = runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    assert another.stop() == 0
    assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])


class Broken:
    """A pump that ends by itself, which none should."""

    async def run(self, _stop: asyncio.Event) -> None:
        raise RuntimeError("It broke.")


def test_where_a_part_of_the_work_ends_the_process_does(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "build_dispatcher", lambda _settings, _parts: Broken())
    with capture_logs() as logs:
        asyncio.run(working.run_until_stopped(Settings(), container, None, None))
    errors = [line["error"] for line in logs if line["event"] == "worker.stopped_unexpectedly"]
    assert errors == ["RuntimeError('It broke.')"]


@pytest.mark.parametrize("moment", ["at work", pytest.param("at their birth", marks=pytest.mark.long)])
def test_a_server_of_two_processes_serves_and_works_and_when_it_is_killed_they_leave_the_port(
    moment: str, sender_service: SenderService, tmp_path: Path
) -> None:
    port = free_port()
    service = Service(tmp_path / "serve.log", "--workers", "2", port=port, settings=sender_service.settings)
    try:
        if moment == "at their birth":
            until(lambda: children_of(service.pid) > 2, what="two children and their keeper born")
        else:
            service.ready()
            send(service.url, sender_service)
            sender_service.wait_for_the_end()
            assert_all_happened_once(sender_service, pieces=PIECES, in_flight=[])
            assert "Traceback" not in service.output
    finally:
        service.kill()

    def is_free() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    until(is_free, what="the port free again")


def children_of(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_a_server_whose_output_nobody_reads_serves_all_the_same(sender_service: SenderService, tmp_path: Path) -> None:
    service = Service(tmp_path / "serve.log", "--welcome", program=WITHOUT_OUTPUT, settings=sender_service.settings)
    try:
        service.ready()
        assert service.stop() == 0
        assert service.output == ""
    finally:
        service.kill()


def test_a_crowd_of_readers_is_served_whole(sender_service: SenderService, runner: CommandRunner) -> None:
    """Where it may wait for as long as that takes."""

    def repeat(number: int) -> int:
        return client.post("/api/v2/orders/1/cancel", headers={"Idempotency-Key": f"key {number}"}).status_code

    settings = sender_service.settings | {"QUILLPOST_WAIT_SECONDS": "60"}
    with (
        runner.serving("--no-jobs", settings=settings) as server,
        caller_of(server.url, sender_service.sender.token) as client,
        ThreadPoolExecutor(2 * CROWD) as crowd,
    ):
        reads = [crowd.submit(client.get, "/api/v2/orders/list") for _ in range(CROWD)]
        refused = [crowd.submit(repeat, number) for number in range(CROWD)]
        assert {read.result().status_code for read in reads} == {200}
        assert {refusal.result() for refusal in refused} == {404}


def test_a_silent_host_keeps_nobody_else_waiting(sender_service: SenderService, runner: CommandRunner) -> None:
    neighbor = make_account(sender_service.container, sender_service.sender.http, "neighbor@example.com")

    def send() -> int:
        return client.post("/api/v2/send/postcard", json=postcard(front_image_url=host.url("/picture.png"))).status_code

    with (
        SilentServer() as host,
        runner.serving("--no-jobs", settings=sender_service.settings) as server,
        caller_of(server.url, sender_service.sender.token) as client,
        ThreadPoolExecutor(2 * SHARE) as senders,
    ):
        sends = [senders.submit(send) for _ in range(2 * SHARE)]
        until(lambda: len(host.calls) == SHARE, what="as many senders as may be waiting for their picture")
        assert client.get("/health").status_code == 200
        as_neighbor = {"Authorization": f"Bearer {neighbor.token}"}
        assert client.get("/api/v2/orders/list", headers=as_neighbor).status_code == 200
        until(lambda: sum(send.done() for send in sends) == SHARE, what="the others told to come again")
        assert {send.result() for send in sends if send.done()} == {503}
        assert len(host.calls) == SHARE
        host.close()
        assert sorted(send.result() for send in sends) == [422] * SHARE + [503] * SHARE
    assert sender_service.value("select count(*) from orders") == 0


def test_a_proxy_is_believed_if_it_is_named_by_address_or_network(
    sender_service: SenderService, runner: CommandRunner, subtests: pytest.Subtests
) -> None:
    hook = {"url": "https://example.com/hook", "type": "*"}
    cases = [(None, False), ("10.0.0.0/8, ::1", False), ("127.0.0.1", True), ("10.0.0.1,127.0.0.0/8", True)]
    for proxies, is_believed in cases:
        settings = sender_service.settings | ({} if proxies is None else {"QUILLPOST_TRUSTED_PROXIES": proxies})
        with (
            subtests.test(proxies),
            runner.serving("--no-jobs", settings=settings) as server,
            caller_of(server.url, sender_service.sender.token) as client,
        ):
            made = client.post("/api/v2/webhooks", json=hook, headers=FORWARDED)
            assert made.status_code == 201, made.text
            page = client.get("/sign-in", headers=FORWARDED)
            assert sender_service.value(NOTED) == (CLAIMED if is_believed else "127.0.0.1")
            assert ("Strict-Transport-Security" in page.headers) == is_believed
            assert ("__Host-" in page.headers["Set-Cookie"]) == is_believed
            assert "elsewhere.example" not in page.text
