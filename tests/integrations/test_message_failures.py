"""What mail servers and text message services say when something is wrong: which side has to act, and in words
that no database can store."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.integrations.email.smtp import MailServer, SmtpNotifier
from quillpost.notifications.ports import MessageRejected, NotifierDown, OutgoingMessage
from quillpost.notifications.tasks import UNEXPECTED_ERROR
from support.factories import Clock
from support.fake_server import Answer, ScriptedServer, reply_with
from support.notifications import (
    PHONE,
    enqueue_notification,
    message_sender,
    notification_rows,
    send_all_due,
    sms_notifier,
)
from support.orders import open_account


@pytest.fixture
def caller(container: Container, clean_database: None) -> Caller:
    """The only one whose messages are due."""
    return open_account(container)


@contextmanager
def mail_server(rcpt: bytes) -> Iterator[SmtpNotifier]:
    """One that answers to each recipient with these bytes."""

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 hello\r\n")
            for line in self.rfile:
                self.wfile.write((rcpt if line.upper().startswith(b"RCPT") else b"250 fine") + b"\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        place = MailServer("127.0.0.1", server.server_address[1], "plain")
        try:
            yield SmtpNotifier(place, sender_name="Quillpost", sender="mail@quillpost.example")
        finally:
            server.shutdown()
            serving.join()


def answer(status: str, code: object, sentence: str = "No.") -> Answer:
    body = f'{{"code": {json.dumps(code)}, "message": "{sentence}"}}'.encode()
    return reply_with(f"HTTP/1.1 {status}\nContent-Length: {len(body)}", body)


class Odd:
    """A notifier that fails in its own way."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.requests = 0

    async def send(self, message: OutgoingMessage) -> None:
        self.requests += 1
        raise self._error

    async def close(self) -> None:
        """Nothing is held open."""


def test_a_refusal_is_stored_in_words_that_the_database_takes(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id)
    with mail_server("550 Empfänger \0 unbekannt".encode("latin-1")) as mailer:
        send_all_due(message_sender(container, mailer))
    [row] = notification_rows(container)
    assert (row.status, row.attempts) == ("failed", 1)
    assert row.error.endswith("does not take mail for this address: 550 Empf\ufffdnger \ufffd unbekannt")
    for sentence, shown in (("a \\u0000 zero", "a \ufffd zero"), ("half a \\ud83d part", "half a \ufffd part")):
        enqueue_notification(container, caller.account_id, PHONE, key=shown)
        with ScriptedServer(answer("400 Bad", 21211, sentence)) as service:
            send_all_due(message_sender(container, text=sms_notifier(service.url(""))))
        row = notification_rows(container)[-1]
        assert (row.status, row.attempts) == ("failed", 1)
        assert row.error == f"The text message service refused it: 400 {shown}"


@pytest.mark.parametrize(
    "error",
    [RuntimeError("dana@example.com"), MessageRejected("half a \ud83d character"), NotifierDown("a \0 zero")],
    ids=type,
)
def test_what_nobody_foresaw_counts_and_comes_to_an_end(
    container: Container, caller: Caller, clock: Clock, error: Exception
) -> None:
    enqueue_notification(container, caller.account_id)
    odd = Odd(error)
    one = message_sender(container, odd)
    with structlog.testing.capture_logs() as lines:
        for attempts, wait in enumerate(outbox.RETRY_DELAYS, 1):
            send_all_due(one)
            [row] = notification_rows(container)
            assert (row.status, row.attempts, row.error) == ("pending", attempts, UNEXPECTED_ERROR)
            assert wait <= row.next_at - clock.now() <= wait * 1.1
            clock.advance(seconds=(row.next_at - clock.now()).total_seconds())
        send_all_due(one)
    [row] = notification_rows(container)
    assert (row.status, row.attempts, row.error) == ("failed", odd.requests, UNEXPECTED_ERROR)
    assert odd.requests == len(outbox.RETRY_DELAYS) + 1
    stumbles = [line for line in lines if line["event"] == "notifications.attempt_crashed"]
    assert [line["notification"] for line in stumbles] == [row.id] * odd.requests
    assert "dana" not in str(stumbles)


FOR_THE_OPERATOR = [
    # The sender is no number, or cannot send (some write it in quotes), or its queue is full, or it is somebody else's,
    # or the messaging service has no number.
    *(("400 Bad", code) for code in (21212, 21606, "21606", 21611, 21659, 21660, 21703, 20003)),
    *(("403 Forbidden", code) for code in (20003, 20005, None)),  # 20005: the account is suspended
    *(("402 Pay", None), ("404 Where?", 20404), ("405 How?", None), ("301 There", None), ("401 Who?", 21610)),
]
OF_ONE_MESSAGE = [
    *(("400 Bad", code) for code in (21211, 21614, [21606], None)),  # no number, no mobile phone
    *(("403 Forbidden", code) for code in (21610, 21408)),  # they have said STOP; a country that we do not send to
]


def test_failures_that_only_the_operator_can_fix_lose_no_message(
    container: Container, caller: Caller, clock: Clock, subtests: pytest.Subtests
) -> None:
    for number in range(3):
        enqueue_notification(container, caller.account_id, PHONE, key=f"k{number}")
    for status, code in FOR_THE_OPERATOR:
        with subtests.test(status, code=code), ScriptedServer(answer(status, code)) as service:
            one = message_sender(container, text=sms_notifier(service.url("")))
            for _ in range(4):
                send_all_due(one)
                clock.advance(minutes=6)
            assert len(service.requests) >= 4
            assert {(row.status, row.attempts) for row in notification_rows(container)} == {("pending", 0)}
    with ScriptedServer(reply_with("HTTP/1.1 201 Created\nContent-Length: 2", b"{}")) as service:
        send_all_due(message_sender(container, text=sms_notifier(service.url(""))))
    assert {row.status for row in notification_rows(container)} == {"sent"}


def test_what_is_wrong_with_one_message_fails_that_one(
    container: Container, caller: Caller, subtests: pytest.Subtests
) -> None:
    for number, (status, code) in enumerate(OF_ONE_MESSAGE):
        enqueue_notification(container, caller.account_id, PHONE, key=f"k{number}")
        with subtests.test(status, code=code), ScriptedServer(answer(status, code)) as service:
            send_all_due(message_sender(container, text=sms_notifier(service.url(""))))
            row = notification_rows(container)[-1]
            assert (row.status, row.attempts, row.next_at) == ("failed", 1, None)
    assert len(notification_rows(container)) == len(OF_ONE_MESSAGE)


def test_a_service_that_is_down_may_name_whom_it_was_for_and_the_log_does_not(
    container: Container, caller: Caller
) -> None:
    enqueue_notification(container, caller.account_id, PHONE)
    failing = answer("400 Bad", 21606, "Not from this number to +15125550100.")
    with ScriptedServer(failing) as service, structlog.testing.capture_logs() as lines:
        send_all_due(message_sender(container, text=sms_notifier(service.url(""))))
    [warning] = [line for line in lines if line["event"] == "notifications.channel_unavailable"]
    assert warning["error"].endswith("400 Not from this number to +[address].")
    assert "5550100" not in str(lines)
    assert "to +15125550100" in notification_rows(container)[0].error
