"""Notices on their way: over a real mail server and a real text message service, in good days and bad."""

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
import sqlalchemy as sa
import structlog

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.core.database import Database
from quillpost.core.database.tables.notifications import notices
from quillpost.core.telemetry import configure_logging
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader
from quillpost.notifications.tasks import MAX_IN_FLIGHT
from support.factories import Clock
from support.notifications import (
    DANA,
    PHONE,
    enqueue_notification,
    message_sender,
    notification_rows,
    send_all_due,
    sms_notifier,
    smtp_notifier,
)
from support.orders import open_account
from support.scripted_server import ScriptedServer, reply_with
from support.smtp_server import SmtpServer
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

CREATED = reply_with("HTTP/1.1 201 Created\nContent-Length: 2", b"{}")


@pytest.fixture
def caller(container: Container) -> Caller:
    return open_account(container)


def statuses(container: Container) -> list[str]:
    return [row.status for row in notification_rows(container)]


def test_a_notice_is_sent_once_and_remembered(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id)
    with SmtpServer() as house:
        one = message_sender(container, smtp_notifier(house))
        send_all_due(one)
        send_all_due(one)
        assert len(house.mails) == 1
        mail = house.next_mail()
    assert mail.to == [DANA]
    assert mail.message["Subject"] == "Jane Doe scanned your postcard"
    assert mail.part("plain").startswith("Jane Doe in Austin, TX scanned.\n\n-- \nYou get this because Dana")
    row = notification_rows(container)[0]
    assert (row.status, row.sent_at, row.next_at, row.error) == ("sent", container.clock(), None, None)


def test_the_same_key_is_one_notice(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id)
    enqueue_notification(container, caller.account_id, text="Other words.")
    assert [row.words for row in notification_rows(container)] == ["Jane Doe in Austin, TX scanned."]


def test_testing_mode_says_so(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id, mode="test")
    enqueue_notification(container, caller.account_id, PHONE, mode="test")
    with SmtpServer() as house, ScriptedServer(CREATED) as service:
        send_all_due(message_sender(container, smtp_notifier(house), sms_notifier(service.url(""))))
        mail = house.next_mail()
        text = parse_qs(service.requests[0].decode().partition("\r\n\r\n")[2])["Body"]
    assert mail.message["Subject"] == "[Test] Jane Doe scanned your postcard"
    assert "nothing was printed or mailed" in mail.part("plain")
    assert "nothing was printed or mailed" in mail.part("html")
    assert text == ["Test: Jane Doe in Austin, TX scanned."]


def test_news_of_scans_can_be_refused_and_an_owners_notice_need_not(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id)
    enqueue_notification(
        container, caller.account_id, key="hook:7", kind="webhook_failing", subject="An endpoint fails"
    )
    with SmtpServer() as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
        mails = {mail.message["Subject"]: mail for mail in house.mails}
    scans, owners = mails["Jane Doe scanned your postcard"], mails["An endpoint fails"]
    link = str(scans.message["List-Unsubscribe"]).strip("<>")
    assert link in scans.part("plain")
    assert link in scans.part("html")
    token = link.removeprefix("https://mail.example.com/unsubscribe/")
    assert notification_service.decode_token(container.encryptor, token) == NotificationReader(caller.account_id, DANA)
    assert owners.message["List-Unsubscribe"] is None
    assert "your address is that of the account Dana Whitfield." in owners.part("plain")


def test_unsubscribing_after_a_message_was_queued_stops_it(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id)
    enqueue_notification(container, caller.account_id, key="hook:7", kind="webhook_failing")
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.text("insert into notice_refusals values (:account, :address, now())"),
            {"account": caller.account_id, "address": DANA},
        )
    with SmtpServer() as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
        assert len(house.mails) == 1, "what an owner must know is no news of scans"
    assert statuses(container) == ["unwanted", "sent"]


def test_a_text_message_is_a_form_with_the_accounts_key(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id, PHONE, text="Zoë – scanned")
    with ScriptedServer(CREATED) as service:
        send_all_due(message_sender(container, text=sms_notifier(service.url("/api"))))
        head, _, body = service.requests[0].decode().partition("\r\n\r\n")
    assert head.startswith("POST /api/2010-04-01/Accounts/AC1/Messages.json HTTP/1.1\r\n")
    assert "\r\nAuthorization: Basic QUMxOmh1c2g=\r\n" in head
    assert re.search(r"\r\nIdempotency-Key: [0-9a-f]{40}\r\n", head + "\r\n")
    assert parse_qs(body) == {"To": ["+15125550100"], "From": ["+15125550199"], "Body": ["Zoe - scanned"]}
    assert statuses(container) == ["sent"]


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        ("400 Bad", "failed", "refused it: 400 Not a number"),
        ("404 Gone", "failed", "refused it: 404 Not a number"),
        ("429 Slow down\nRetry-After: 600", "pending", "cannot take it now: 429"),
        ("503 Busy", "pending", "cannot take it now: 503"),
        ("401 Who?", "pending", "lets nobody in: 401"),
    ],
)
def test_what_a_text_service_says_is_kept(
    container: Container, caller: Caller, answer: str, status: str, error: str
) -> None:
    enqueue_notification(container, caller.account_id, PHONE)
    body = b'{"code": 21211, "message": "Not a number"}'
    with ScriptedServer(reply_with(f"HTTP/1.1 {answer}\nContent-Length: {len(body)}", body)) as service:
        send_all_due(message_sender(container, text=sms_notifier(service.url(""))))
        assert len(service.requests) == 1
    row = notification_rows(container)[0]
    assert row.status == status
    assert error in row.error
    if answer.startswith("429"):
        assert row.next_at == container.clock() + timedelta(seconds=600)
    if answer.startswith("401"):
        assert row.attempts == 0, "a wrong token uses up nobody's attempts"


def test_an_address_that_is_refused_has_failed_for_good(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id)
    with SmtpServer(answers={DANA: "550 5.1.1 No such user"}) as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
    row = notification_rows(container)[0]
    assert (row.status, row.next_at) == ("failed", None)
    assert "550 5.1.1 No such user" in row.error


def test_one_that_is_refused_for_now_is_tried_again_until_it_is_given_up(
    container: Container, caller: Caller, clock: Clock
) -> None:
    enqueue_notification(container, caller.account_id)
    with SmtpServer(answers={DANA: "450 4.2.1 Busy"}) as house:
        one = message_sender(container, smtp_notifier(house))
        for attempts, wait in enumerate(outbox.RETRY_DELAYS, 1):
            send_all_due(one)
            row = notification_rows(container)[0]
            assert (row.status, row.attempts) == ("pending", attempts)
            assert wait <= row.next_at - clock.now() <= wait * 1.1
            clock.advance(seconds=(row.next_at - clock.now()).total_seconds())
        send_all_due(one)
    row = notification_rows(container)[0]
    assert (row.status, row.attempts) == ("failed", len(outbox.RETRY_DELAYS) + 1)


def test_a_server_that_dies_in_the_middle_gets_the_same_mail_again(
    container: Container, caller: Caller, clock: Clock
) -> None:
    enqueue_notification(container, caller.account_id)
    with SmtpServer() as house:
        house.dies = True
        one = message_sender(container, smtp_notifier(house))
        send_all_due(one)
        assert statuses(container) == ["pending"]
        house.dies = False
        clock.advance(minutes=2)
        send_all_due(one)
        assert house.next_mail().to == [DANA]
    assert statuses(container) == ["sent"]


def test_a_server_that_is_down_is_waited_for_and_texts_go_on(
    container: Container, caller: Caller, clock: Clock
) -> None:
    for n in range(5):
        enqueue_notification(container, caller.account_id, key=f"k{n}")
    enqueue_notification(container, caller.account_id, PHONE)
    with SmtpServer() as house, ScriptedServer(CREATED) as service:
        one = message_sender(container, smtp_notifier(house), sms_notifier(service.url("")))
        house.shut()
        with structlog.testing.capture_logs() as lines:
            for _ in range(3):
                send_all_due(one)
                clock.advance(seconds=6)
        mails = [row for row in notification_rows(container) if row.channel == "mail"]
        assert {(row.status, row.attempts) for row in mails} == {("pending", 0)}
        assert "127.0.0.1 could not be reached." in {row.error for row in mails}
        assert len(service.requests) == 1
        warnings = [line for line in lines if line["event"] == "notifications.channel_unavailable"]
        assert len(warnings) == 2, "one for each time that somebody knocked, however many wait"
        assert (warnings[0]["log_level"], warnings[0]["channel"]) == ("warning", "mail")
        house.open()
        clock.advance(minutes=1)
        send_all_due(one)
        assert len(house.mails) == 5
    assert set(statuses(container)) == {"sent"}


def test_after_a_rest_one_goes_alone_to_see(container: Container, caller: Caller, clock: Clock) -> None:
    for n in range(MAX_IN_FLIGHT):
        enqueue_notification(container, caller.account_id, key=f"k{n}")
    with SmtpServer() as house:
        one = message_sender(container, smtp_notifier(house))
        house.shut()
        send_all_due(one)
        clock.advance(minutes=1)
        house.hangs = True
        house.open()

        async def look() -> None:
            await one.send_due()
            assert await asyncio.to_thread(house.brought.wait, 20)
            await one.send_due()
            assert house.greetings == 1
            await asyncio.to_thread(house.shut)
            await one.wait_for_all()

        asyncio.run(look())


def test_a_slow_mail_server_holds_up_no_text_and_has_few_at_a_time(
    container: Container, caller: Caller, clock: Clock
) -> None:
    for n in range(MAX_IN_FLIGHT * 2):
        enqueue_notification(container, caller.account_id, key=f"k{n}")
    with SmtpServer() as house, ScriptedServer(CREATED) as service:
        house.hangs = True
        one = message_sender(container, smtp_notifier(house), sms_notifier(service.url("")))

        async def go() -> None:
            stop = asyncio.Event()
            running = asyncio.create_task(one.run(stop))
            await asyncio.to_thread(wait_until, lambda: len(house.mails) == MAX_IN_FLIGHT)
            await asyncio.to_thread(enqueue_notification, container, caller.account_id, PHONE)
            await asyncio.to_thread(wait_until, lambda: "sent" in statuses(container))
            assert len(house.mails) == house.most_at_once == MAX_IN_FLIGHT
            stop.set()
            house.hangs = False
            await asyncio.to_thread(house.shut)
            await running

        asyncio.run(go())
        assert len(service.requests) == 1


def test_an_attempt_is_broken_off_in_time(container: Container, caller: Caller) -> None:
    enqueue_notification(container, caller.account_id)
    with SmtpServer() as house:
        house.hangs = True
        send_all_due(message_sender(container, smtp_notifier(house), attempt_seconds=0.5))
    row = notification_rows(container)[0]
    assert (row.status, row.attempts) == ("pending", 1)
    assert row.error == "It was not taken within 0.5 seconds."


def test_two_couriers_share_the_work(container: Container, caller: Caller) -> None:
    for n in range(40):
        enqueue_notification(container, caller.account_id, f"reader{n}@example.com")
    with SmtpServer() as house:

        async def go() -> None:
            one, other = (
                message_sender(container, smtp_notifier(house)),
                message_sender(container, smtp_notifier(house)),
            )
            while any(await asyncio.gather(one.send_due(), other.send_due())):
                await asyncio.gather(one.wait_for_all(), other.wait_for_all())

        asyncio.run(go())
        assert sorted(mail.to[0] for mail in house.mails) == sorted(f"reader{n}@example.com" for n in range(40))


@pytest.fixture
def talkative() -> Iterator[None]:
    """Every line is written while this test runs."""
    configure_logging(as_json=True, level="debug")
    yield
    configure_logging(as_json=True, level="warning")


@pytest.mark.usefixtures("talkative")
def test_neither_addresses_nor_words_are_logged(
    container: Container, caller: Caller, capsys: pytest.CaptureFixture[str]
) -> None:
    enqueue_notification(container, caller.account_id)
    enqueue_notification(container, caller.account_id, PHONE)
    refused = "550 5.1.1 <dana@example.com> unknown"
    with SmtpServer(answers={DANA: refused}) as house, ScriptedServer(reply_with("HTTP/1.1 400 Bad")) as service:
        configure_logging(as_json=True, level="debug")
        send_all_due(message_sender(container, smtp_notifier(house), sms_notifier(service.url(""))))
    lines = capsys.readouterr().err
    assert lines.count('"outcome": "MessageRejected"') == 2
    for secret in ("dana", "15125550100", "Jane", "hush"):
        assert secret not in lines


def test_without_a_server_a_message_is_written_where_a_first_run_shows_it(
    container: Container, caller: Caller, capsys: pytest.CaptureFixture[str]
) -> None:
    enqueue_notification(container, caller.account_id)
    enqueue_notification(container, caller.account_id, PHONE)
    send_all_due(message_sender(container))
    out = capsys.readouterr().out
    assert "E-mail that would be sent (set QUILLPOST_SMTP to send it)" in out
    assert "To: dana@example.com\nSubject: Jane Doe scanned your postcard\n\nJane Doe in Austin" in out
    assert "Text message that would be sent" in out
    assert statuses(container) == ["sent", "sent"]


def test_the_message_sender_survives_a_lost_database(container: Container) -> None:
    away = Database("host=127.0.0.1 port=1 dbname=nowhere")

    async def go() -> list[str]:
        one = message_sender(container)
        one._db = away
        stop = asyncio.Event()
        with structlog.testing.capture_logs() as lines:
            running = asyncio.create_task(one.run(stop))
            await asyncio.to_thread(
                wait_until, lambda: any(line["event"] == "notifications.database_unavailable" for line in lines)
            )
            assert not running.done()
            stop.set()
            await running
        return [line["event"] for line in lines]

    assert "notifications.database_unavailable" in asyncio.run(go())
    away.close()


def test_what_could_not_be_sent_for_days_is_given_up(container: Container, caller: Caller, clock: Clock) -> None:
    enqueue_notification(container, caller.account_id)
    clock.advance(days=2)
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    assert statuses(container) == ["pending"]
    clock.advance(days=2)
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    row = notification_rows(container)[0]
    assert (row.status, row.error) == ("failed", "It could not be sent for days.")


def test_notices_are_forgotten_after_a_month(container: Container, caller: Caller, clock: Clock) -> None:
    enqueue_notification(container, caller.account_id)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(notices).values(status="sent", next_at=None))
    clock.advance(days=29)
    enqueue_notification(container, caller.account_id, key="later")
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    assert len(notification_rows(container)) == 2
    clock.advance(days=2)
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    assert [row.key for row in notification_rows(container)] == ["later"]
