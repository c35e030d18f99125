"""Mail servers and text message services that may refuse, hang, die or lie: which side has to act, in what words."""

import asyncio
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.integrations.email.smtp import MailServer, SmtpNotifier, normalize_address
from quillpost.notifications.ports import MessageDeferred, MessageRejected, NotifierDown, OutgoingMessage
from quillpost.notifications.tasks import UNEXPECTED_ERROR
from support.factories import Clock
from support.fake_server import Answer, ScriptedServer, reply_with, self_signed, stay_silent
from support.notifications import (
    PHONE,
    enqueue_notification,
    message_sender,
    notification_rows,
    send_all_due,
    sms_notifier,
)
from support.orders import open_account
from support.smtp_server import ReceivedMail, SmtpServer

SENDER = "mail@quillpost.example"
LINK = "https://mail.example.com/unsubscribe/" + "x" * 160
WRONG_ADDRESSES = [
    *("dana", "@example.com", "dana@", "a b@example.com", "<dana@example.com>", "a@b@example.com", "a,b@example.com"),
    *("dana@exa mple.com", "x" * 65 + "@example.com", "dana@" + "x" * 70 + ".com", "dana@-.com"),
]


def message(**changes: Any) -> OutgoingMessage:
    given: dict[str, Any] = {
        "key": "scans:7:1:dana@example.com",
        "to": "dana@example.com",
        "subject": "Jane Doe scanned your postcard",
        "text": "Jane Doe scanned.\n",
        "html": "<p>Jane Doe scanned.</p>\n",
        "at": datetime(2026, 5, 4, 12, tzinfo=UTC),
        "unsubscribe_url": LINK,
    }
    return OutgoingMessage(**given | changes)


def notifier(house: SmtpServer, security: Any = "plain", *, seconds: float = 15, **how: Any) -> SmtpNotifier:
    server = MailServer("127.0.0.1", house.port, security, **how)
    return SmtpNotifier(server, sender_name="Quillpost", sender=SENDER, seconds=seconds)


def send(mailer: SmtpNotifier, *messages: OutgoingMessage) -> None:
    async def go() -> None:
        try:
            for each in messages or (message(),):
                await mailer.send(each)
        finally:
            await mailer.close()

    asyncio.run(go())


def sent(**changes: Any) -> ReceivedMail:
    with SmtpServer(utf8=True) as house:
        send(notifier(house), message(**changes))
        return house.next_mail()


def test_a_mail_arrives_with_text_and_html_and_a_whole_link_to_unsubscribe_by_one_click() -> None:
    mail = sent()
    found = mail.message
    assert (mail.sender, mail.to) == (SENDER, ["dana@example.com"])
    assert mail.part("plain").strip() == "Jane Doe scanned."
    assert mail.part("html").strip() == "<p>Jane Doe scanned.</p>"
    assert found.get_content_type() == "multipart/alternative"
    expected = {
        "From": "Quillpost <mail@quillpost.example>",
        "To": "dana@example.com",
        "Subject": "Jane Doe scanned your postcard",
        "Date": "Mon, 04 May 2026 12:00:00 +0000",
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
    assert {name: found[name] for name in expected} == expected
    # To the letter: a mail program does not look for a link that is encoded or broken over lines.
    assert f"\r\nList-Unsubscribe: <{LINK}>\r\n".encode() in mail.raw
    again, other, unlinked = sent(), sent(key="scans:7:2:dana@example.com"), sent(unsubscribe_url=None)
    assert found["Message-ID"] == again.message["Message-ID"] != other.message["Message-ID"]
    assert b"dana" not in found["Message-ID"].encode(), "an address can be read from it"
    assert str(found["Message-ID"]).endswith("@quillpost.example>")
    assert unlinked.message["List-Unsubscribe"] is None


def test_text_in_any_script_and_of_any_length_arrives() -> None:
    mail = sent(subject="Zoë 张伟 📮 scanned", text="Zoë 张伟 📮\n", html="<p>Zoë 张伟 📮</p>\n")
    assert mail.message["Subject"] == "Zoë 张伟 📮 scanned"
    assert (mail.part("plain").strip(), mail.part("html").strip()) == ("Zoë 张伟 📮", "<p>Zoë 张伟 📮</p>")
    assert mail.raw.isascii(), "a server that knows no more than ASCII takes it too"
    mail = sent(subject="張偉" * 40)
    assert mail.message["Subject"] == "張偉" * 40
    head = mail.raw.partition(b"\r\n\r\n")[0]
    words = [word for word in head.split() if word.startswith(b"=?")]
    assert len(words) > 1
    assert max(map(len, words)) <= 75
    mail = sent(text="x" * 5_000, html=f"<p>{'y' * 5_000}</p>")
    assert max(map(len, mail.raw.split(b"\r\n"))) <= 998
    assert mail.part("plain").strip() == "x" * 5_000


def test_a_wrong_address_and_a_smuggled_header_are_refused_before_anyone_is_called(subtests: pytest.Subtests) -> None:
    with SmtpServer() as house:
        for wrong in WRONG_ADDRESSES:
            with subtests.test(wrong[:40]):
                with pytest.raises(ValueError, match=r"."):
                    normalize_address(wrong)
                with pytest.raises(MessageRejected):
                    send(notifier(house), message(to=wrong))
                assert house.greetings == 0
        for field in ("subject", "to", "unsubscribe_url"):
            smuggled = f"{getattr(message(), field)}\r\nBcc: everyone@example.com"
            with subtests.test(field), pytest.raises(MessageRejected):
                send(notifier(house), message(**{field: smuggled}))
        assert house.mails == []


def test_a_domain_of_other_letters_is_written_in_ascii_and_a_name_goes_to_a_server_that_takes_it() -> None:
    mail = sent(to="dana@straße.example")
    assert mail.to == ["dana@xn--strae-oqa.example"], "not strasse.example, which is somebody else's"
    assert sent(to="zoë@example.com").to == ["zoë@example.com"]
    with SmtpServer() as old, pytest.raises(MessageRejected, match="SMTPUTF8"):
        send(notifier(old), message(to="zoë@example.com"))


def test_a_refused_address_mail_or_sender_fails_for_good_or_for_now(subtests: pytest.Subtests) -> None:
    def to_dana(answer: str) -> dict[str, Any]:
        return {"answers": {"dana@example.com": answer}}

    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        (to_dana("550 5.1.1 No such user"), MessageRejected, "5.1.1 No such user"),
        (to_dana("450 4.2.1 Mailbox busy"), MessageDeferred, "4.2.1 Mailbox busy"),
        ({"data_answer": "554 5.7.1 Spam"}, MessageRejected, "5.7.1 Spam"),
        ({"data_answer": "452 4.3.1 Disk full"}, MessageDeferred, "4.3.1 Disk full"),
        ({"sender_answer": "550 5.7.1 Not yours"}, NotifierDown, "from this sender: 550"),  # which loses nothing
    ]
    for answers, failure, words in cases:
        with subtests.test(words), SmtpServer(**answers) as house:
            with pytest.raises(failure, match=words):
                send(notifier(house))
            assert house.mails == []


def test_a_server_that_dies_or_does_not_answer_in_the_middle_of_a_mail_is_tried_again() -> None:
    with SmtpServer() as house:
        house.dies = True
        with pytest.raises(MessageDeferred, match="broke off"):
            send(notifier(house))
        house.dies = False
        send(notifier(house))
        assert house.next_mail().to == ["dana@example.com"]
        house.hangs = True
        with pytest.raises(MessageDeferred, match=r"did not answer within 0\.5 seconds"):
            send(notifier(house, seconds=0.5))


def test_a_server_that_is_not_there_or_says_nothing_is_down() -> None:
    with SmtpServer() as house:
        mailer = notifier(house)
        house.shut()
        with pytest.raises(NotifierDown, match=r"^127\.0\.0\.1 could not be reached"):
            send(mailer)
    with ScriptedServer(stay_silent) as silent:
        mailer = SmtpNotifier(MailServer("127.0.0.1", silent.port, "plain"), sender_name="", sender=SENDER, seconds=0.3)
        with pytest.raises(NotifierDown, match=r"did not answer within 0\.3 seconds"):
            asyncio.run(mailer.check_connection())


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_mail_goes_sealed_only_to_a_server_that_we_trust(tmp_path: Path, security: str) -> None:
    seal = self_signed(tmp_path)
    with SmtpServer(tls=seal) if security == "tls" else SmtpServer(starttls=seal) as house:
        with pytest.raises(NotifierDown, match=r"certificate of 127\.0\.0\.1 could not be verified"):
            send(notifier(house, security))
        assert house.mails == []
        send(notifier(house, security, ca_file=tmp_path / "server.pem"))
        assert house.next_mail().to == ["dana@example.com"]


def test_mail_does_not_go_unsealed_because_a_server_offers_no_seal() -> None:
    with SmtpServer() as house:
        with pytest.raises(NotifierDown, match="127"):
            send(notifier(house, "starttls"))
        assert house.mails == []


def test_a_user_with_the_right_password_is_let_in(tmp_path: Path) -> None:
    with SmtpServer(starttls=self_signed(tmp_path), user=("dana", "hush")) as house:
        trusting: dict[str, Any] = {"ca_file": tmp_path / "server.pem", "user": "dana"}
        send(notifier(house, "starttls", password="hush", **trusting))
        assert house.next_mail().to == ["dana@example.com"]
        with pytest.raises(NotifierDown, match="does not know this user and password") as down:
            send(notifier(house, "starttls", password="wrong", **trusting))
    assert "wrong" not in str(down.value)


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
def test_the_unforeseen_counts_and_ends(container: Container, caller: Caller, clock: Clock, error: Exception) -> None:
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


def test_one_bad_message_fails_by_itself(container: Container, caller: Caller, subtests: pytest.Subtests) -> None:
    for number, (status, code) in enumerate(OF_ONE_MESSAGE):
        enqueue_notification(container, caller.account_id, PHONE, key=f"k{number}")
        with subtests.test(status, code=code), ScriptedServer(answer(status, code)) as service:
            send_all_due(message_sender(container, text=sms_notifier(service.url(""))))
            row = notification_rows(container)[-1]
            assert (row.status, row.attempts, row.next_at) == ("failed", 1, None)
    assert len(notification_rows(container)) == len(OF_ONE_MESSAGE)


def test_a_service_that_is_down_may_name_addressees_and_the_log_does_not(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id, PHONE)
    failing = answer("400 Bad", 21606, "Not from this number to +15125550100.")
    with ScriptedServer(failing) as service, structlog.testing.capture_logs() as lines:
        send_all_due(message_sender(container, text=sms_notifier(service.url(""))))
    [warning] = [line for line in lines if line["event"] == "notifications.channel_unavailable"]
    assert warning["error"].endswith("400 Not from this number to +[address].")
    assert "5550100" not in str(lines)
    assert "to +15125550100" in notification_rows(container)[0].error
