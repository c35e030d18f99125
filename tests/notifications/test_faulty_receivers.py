"""Receivers that fail in every way there is, before the real pump and the real poster.

Whatever they do: each event comes at least once, a piece's events in their order, and nobody else waits.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import deliveries
from quillpost.integrations.http.client import WebhookPoster
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.notifications.webhooks.rules import CIRCUIT_BREAKER_FAILURES, ITEM_STATUS_EVENT
from support.factories import Clock, people
from support.fake_server import Answer, ScriptedServer, reply_with, reset_connection, self_signed, stay_silent
from support.orders import create_order
from support.rows import execute
from support.waiting import wait_until
from support.webhooks import delivery_rows, move_pieces, queue_row, subscribe, webhook_row

PIECES = 2
WELL = reply_with("HTTP/1.1 204 No Content")
DOWN = reply_with("HTTP/1.1 500 Internal Server Error\nContent-Length: 0")
PATIENCE = 0.5
"""Seconds that a receiver has to answer here."""

MORE_THAN_ITS_LENGTH = reply_with("HTTP/1.1 200 OK\nContent-Length: 2", b"ok HTTP/1.1 500 no, it was not")
NOT_HTTP = "gave an answer that is not HTTP"
FAILURES: dict[str, tuple[Answer, int | None, str | None]] = {
    "slow": (stay_silent, None, "did not answer within 0.5 seconds"),
    "resetting": (reset_connection, None, "closed the connection without an answer"),
    "speaking of something else": (reply_with("SSH-2.0-OpenSSH_9.6"), None, NOT_HTTP),
    "saying more than its length": (MORE_THAN_ITS_LENGTH, None, NOT_HTTP),
    "moved": (reply_with("HTTP/1.1 301 Moved Permanently\nLocation: /new\nContent-Length: 0"), 301, None),
    "broken": (DOWN, 500, None),
    "busy": (reply_with("HTTP/1.1 429 Too Many Requests\nRetry-After: 120\nContent-Length: 0"), 429, None),
}


class Moody:
    """A receiver that does as its mood says, until it is in a better one."""

    def __init__(self, mood: Answer, *, tls: ssl.SSLContext | None = None, **how: str) -> None:
        self.mood, self.how = mood, how
        self.server = ScriptedServer(lambda connection: self.mood(connection), tls=tls)

    def heard(self) -> list[tuple[int, str, str]]:
        """Item, status and event id of each request, in the order in which they came."""
        bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in list(self.server.requests)]
        data = [(body["data"], body["event_id"]) for body in bodies]
        return [(each["order_item.id"], each["order_item.current_status"], event) for each, event in data]


@contextmanager
def pumping(container: Container, poster: WebhookPoster) -> Iterator[None]:
    """A pump at work, in a thread of its own."""
    begun = threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        running.append((asyncio.get_running_loop(), stop))
        begun.set()
        within = timedelta(seconds=PATIENCE)
        await Dispatcher(container.db, container.encryptor, poster, container.clock, response_timeout=within).run(stop)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    begun.wait()
    loop, stop = running[0]
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def poster_to(*servers: ScriptedServer) -> WebhookPoster:
    return WebhookPoster(OutboundGuard(allow=frozenset(server.place for server in servers)), seconds=PATIENCE)


def listen(container: Container, caller: Caller, server: ScriptedServer, **how: str) -> WebhookSubscription:
    return subscribe(container, caller, type=ITEM_STATUS_EVENT, url=server.url("/hook", **how))


def happen(container: Container, caller: Caller, clock: Clock, pieces: int = PIECES) -> None:
    """Two events of each piece."""
    order = create_order(container, caller, people(pieces))
    clock.advance(seconds=1)
    move_pieces(container, order)


def all_delivered(container: Container, hook: WebhookSubscription, pieces: int = PIECES) -> bool:
    rows = delivery_rows(container, hook)
    return len(rows) == 2 * pieces and {row.status for row in rows} == {"delivered"}


def tried(container: Container, hook: WebhookSubscription) -> bool:
    """Whether the first event of each piece was tried, and that is written down."""
    outcomes = [row.response_status or row.error for row in delivery_rows(container, hook)]
    return len(outcomes) - outcomes.count(None) >= PIECES


def by_place(container: Container, hook: WebhookSubscription) -> tuple[list[sa.Row[Any]], list[sa.Row[Any]]]:
    """The deliveries of each piece's first event, and those of its second."""
    rows = delivery_rows(container, hook)
    assert len(rows) == 2 * PIECES
    return rows[:PIECES], rows[PIECES:]


def assert_in_order(heard: Sequence[tuple[int, str, str]]) -> None:
    """Each piece's first event, as often as it takes, and only then its second."""
    for item in {number for number, _, _ in heard}:
        statuses = [status for number, status, _ in heard if number == item]
        assert statuses == sorted(statuses, key=["Processing", "Printed"].index)
        assert len({event for number, status, event in heard if (number, status) == (item, "Processing")}) == 1
        assert statuses[-1] == "Printed"


@contextmanager
def heard_by(
    container: Container, clock: Clock, caller: Caller, *all_: Moody, pieces: int = PIECES
) -> Iterator[list[WebhookSubscription]]:
    """The receivers at work, and the subscriptions of each, of which there are events to tell."""
    with ExitStack() as servers:
        for each in all_:
            servers.enter_context(each.server)
        hooks = [listen(container, caller, each.server, **each.how) for each in all_]
        happen(container, caller, clock, pieces)
        yield hooks


@pytest.mark.parametrize("failure", FAILURES)
def test_a_receiver_that_fails_gets_everything_once_it_is_well(
    container: Container, clock: Clock, owner: Caller, failure: str
) -> None:
    mood, status, error = FAILURES[failure]
    ill, well = Moody(mood), Moody(WELL)
    with heard_by(container, clock, owner, ill, well) as (sick, lively):
        with pumping(container, poster_to(ill.server, well.server)):
            wait_until(lambda: all_delivered(container, lively))
            wait_until(lambda: tried(container, sick))
        first, second = by_place(container, sick)
        assert [row.response_status for row in first] == [status] * PIECES
        assert all(error is None or error in row.error for row in first)
        assert [row.attempts for row in second] == [0] * PIECES, "a later event overtook the earlier"
        delay = timedelta(seconds=120) if status == 429 else timedelta(seconds=5)
        assert min(row.next_at for row in first) >= clock.now() + delay

        ill.mood = WELL
        clock.advance(seconds=130)
        with pumping(container, poster_to(ill.server, well.server)):
            wait_until(lambda: all_delivered(container, sick))
        assert_in_order(ill.heard())
        assert len(well.heard()) == 2 * PIECES


def test_what_waits_for_another_try_goes_when_a_receiver_that_was_left_alone_answers(
    container: Container, clock: Clock, owner: Caller
) -> None:
    """The waits of what failed meanwhile are minutes and hours: nothing waits so long at one that is well."""
    moody, pieces = Moody(DOWN), CIRCUIT_BREAKER_FAILURES + 3
    with heard_by(container, clock, owner, moody, pieces=pieces) as [hook]:
        with pumping(container, poster_to(moody.server)):
            wait_until(lambda: queue_row(container, hook).failures >= CIRCUIT_BREAKER_FAILURES)
        its, late = deliveries.c.webhook_id == hook.id, clock.now() + timedelta(hours=10)
        put_off = sa.update(deliveries).where(its, deliveries.c.attempts > 0).values(next_at=late)
        assert len(execute(container, put_off.returning(deliveries.c.id))) >= CIRCUIT_BREAKER_FAILURES
        clock.advance(seconds=20)
        moody.mood = WELL
        with pumping(container, poster_to(moody.server)):
            wait_until(lambda: all_delivered(container, hook, pieces))
    assert_in_order(moody.heard())


def test_a_receiver_that_says_less_than_its_length_has_answered_all_the_same(
    container: Container, clock: Clock, owner: Caller
) -> None:
    liar = Moody(reply_with("HTTP/1.1 200 OK\nContent-Length: 4000", b"thanks"))
    with heard_by(container, clock, owner, liar) as [hook]:
        with pumping(container, poster_to(liar.server)):
            wait_until(lambda: all_delivered(container, hook))
        assert len(liar.heard()) == 2 * PIECES
    assert {row.response_body for row in delivery_rows(container, hook)} == {"thanks"}


def test_a_receiver_that_is_gone_is_disabled_and_the_rest_goes_on(
    container: Container, clock: Clock, owner: Caller
) -> None:
    gone, well = Moody(reply_with("HTTP/1.1 410 Gone\nContent-Length: 0")), Moody(WELL)
    with (
        heard_by(container, clock, owner, gone, well) as (left, lively),
        pumping(container, poster_to(gone.server, well.server)),
    ):
        wait_until(lambda: all_delivered(container, lively))
        wait_until(lambda: {row.status for row in delivery_rows(container, left)} == {"failed"})
    assert webhook_row(container, left).status == "disabled"


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    container: Container, clock: Clock, owner: Caller, tmp_path: Path
) -> None:
    forged = Moody(WELL, tls=self_signed(tmp_path), scheme="https")
    with heard_by(container, clock, owner, forged) as [hook]:
        with pumping(container, poster_to(forged.server)):
            wait_until(lambda: tried(container, hook))
        first, _ = by_place(container, hook)
        assert {row.error for row in first} == {"The certificate of 127.0.0.1 could not be verified."}
        assert forged.server.requests == [], "an event was told to whoever answered"
