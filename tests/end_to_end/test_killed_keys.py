"""Calls with an Idempotency-Key are made while their server, or its sessions at the database, are killed.

Each key gives one order, and our own client gets the answer to each."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psycopg
import pytest

from quillpost.client import Quillpost
from support.event_receiver import EventReceiver
from support.factories import postcard
from support.processes import Command, CommandRunner, free_port, until
from support.sender_office import SenderService, open_sender_service

CALLERS = 4
CALLS = 12
DEATHS = 4

IN_FLIGHT = "select count(*) from pg_locks where locktype = 'advisory' and database = %s"
KILL_SESSIONS = """
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name <> 'watcher'
"""
ORDERS_BY_KEY = "select metadata::jsonb ->> 'key', count(*) from orders group by 1"


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver) as sender_service:
        yield sender_service


class Server:
    """One that is started again when it is killed, as a supervisor does."""

    def __init__(self, sender_service: SenderService, command_runner: CommandRunner) -> None:
        self._office, self._command_runner = sender_service, command_runner
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process = self._start()

    def kill(self) -> None:
        self._process.stop(signal.SIGKILL)
        self._process = self._start()

    def stop(self) -> None:
        self._process.stop()

    def _start(self) -> Command:
        return self._command_runner.start(
            "serve", "--no-jobs", "--port", str(self._port), settings=self._office.settings
        )


@pytest.fixture
def server(sender_service: SenderService, command_runner: CommandRunner) -> Iterator[Server]:
    server = Server(sender_service, command_runner)
    until(lambda: is_open(server.url), what="the server open")
    yield server
    server.stop()


def is_open(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


def kill_while_keys_are_held(sender_service: SenderService, kill: Callable[[], None]) -> None:
    """At a moment at which some call runs under its key."""
    with psycopg.connect(sender_service.container.db.conninfo, autocommit=True, application_name="watcher") as watcher:
        [database] = watcher.execute("select oid from pg_database where datname = current_database()").fetchone() or [
            None
        ]

        def is_one_held() -> bool:
            [held] = watcher.execute(IN_FLIGHT, [database]).fetchone() or [0]
            return bool(held)

        until(is_one_held, what="a call in flight")
        kill()


def send_all(sender_service: SenderService, url: str, name: str) -> list[int]:
    """Each call until it is answered, by our own client, however long the server is away; the ids of
    the orders."""
    with Quillpost(sender_service.sender.token, url, retries=100, deadline=110) as client:
        return [
            int(
                client.send.postcard(
                    **postcard(metadata={"key": f"{name}-{n}"}, allow_duplicates=True), idempotency_key=f"{name}-{n}"
                )["id"]
            )
            for n in range(CALLS)
        ]


def assert_each_key_gave_one_order(sender_service: SenderService, sent: list[list[int]]) -> None:
    ids = [order for some in sent for order in some]
    assert len(set(ids)) == CALLERS * CALLS
    assert set(Counter(dict(sender_service.rows(ORDERS_BY_KEY))).values()) == {1}
    assert sender_service.value("select count(*) from orders") == CALLERS * CALLS
    assert sender_service.value("select count(*) from idempotency_keys where key like '%-%'") >= CALLERS * CALLS


@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["server", "sessions"])
def test_each_key_gives_one_order_whoever_dies(sender_service: SenderService, server: Server, victim: str) -> None:
    def kill_sessions() -> None:
        with psycopg.connect(
            sender_service.container.db.conninfo, autocommit=True, application_name="watcher"
        ) as administrator:
            administrator.execute(KILL_SESSIONS)

    kill = server.kill if victim == "server" else kill_sessions
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(send_all, sender_service, server.url, f"caller{n}") for n in range(CALLERS)]
        for _ in range(DEATHS):
            kill_while_keys_are_held(sender_service, kill)
        sent = [call.result() for call in calls]
    assert_each_key_gave_one_order(sender_service, sent)


@pytest.mark.timeout(300)
def test_the_key_of_a_call_that_died_with_its_server_is_free_at_once(
    sender_service: SenderService, server: Server
) -> None:
    """The next call with it is the first again, and is never told that the dead one still runs."""
    body = postcard(allow_duplicates=True, metadata={"key": "dead"})
    headers = {"Authorization": f"Bearer {sender_service.sender.token}", "Idempotency-Key": "dead"}
    url = f"{server.url}/api/v2/send/postcard"
    with psycopg.connect(sender_service.container.db.conninfo) as blocker:
        blocker.execute("lock table orders in share mode")  # no order can be stored meanwhile

        def call() -> None:
            with httpx2.Client(timeout=60) as http, pytest.raises(httpx2.TransportError):
                http.post(url, json=body, headers=headers)

        caller = threading.Thread(target=call)
        caller.start()
        kill_while_keys_are_held(sender_service, server.kill)
        caller.join()
        until(lambda: is_open(server.url), what="the server open again")
    again = httpx2.post(url, json=body, headers=headers, timeout=60)
    assert again.status_code == 200, again.text
    assert dict(sender_service.rows(ORDERS_BY_KEY)) == {"dead": 1}
