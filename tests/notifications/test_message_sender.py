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
from quillpost.notifications.tasks import MAX_IN_FLIGHT, MessageSender
from support import notifications
from support.factories import Clock
from support.fake_server import ScriptedServer, reply_with
from support.rows import execute
from support.smtp_server import SmtpServer
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

BOB = "bob@example.com"
CREATED = reply_with("HTTP/1.1 201 Created\nContent-Length: 2", b"{}")


def enqueue(container: Container, owner: Caller, *addresses: str, times: int = 1, **changes: str) -> None:
    """For Dana, or for these; several times under different keys."""
    for address in addresses or (notifications.DANA,):
        for n in range(times):
            key = {"key": f"k{n}"} if times > 1 else {}
            notifications.enqueue_notification(container, owner.account_id, address, **key | changes)


def sender(container: Container, mail: SmtpServer | None = None, text: ScriptedServer | None = None) -> MessageSender:
    by_text = notifications.sms_notifier(text.url("/api")) if text else None
    return notifications.message_sender(container, notifications.smtp_notifier(mail) if mail else None, by_text)


def statuses(container: Container) -> list[str]:
    return [row.status for row in notifications.notification_rows(container)]


def request_form(service: ScriptedServer) -> dict[str, list[str]]:
    """Of the text that was sent first."""
    return parse_qs(service.requests[0].decode().partition("\r\n\r\n")[2])


def test_a_notice_is_sent_once_and_remembered(container: Container, owner: Caller) -> None:
    enqueue(container, owner)
    enqueue(container, owner, text="Other words under the same key.")
    with SmtpServer() as house:
        one = sender(container, house)
        notifications.send_all_due(one)
        notifications.send_all_due(one)
        [mail] = house.mails
    assert (mail.to, mail.message["Subject"]) == ([notifications.DANA], "Jane Doe scanned your postcard")
    assert mail.part("plain").startswith("Jane Doe in Austin, TX scanned.\n\n-- \nYou get this because Dana")
    [row] = notifications.notification_rows(container)
    assert row.words == "Jane Doe in Austin, TX scanned."
    assert (row.status, row.sent_at, row.next_at, row.error) == ("sent", container.clock(), None, None)


def test_messages_of_testing_mode_say_so(container: Container, owner: Caller) -> None:
    enqueue(container, owner, notifications.DANA, notifications.PHONE, mode="test")
    with SmtpServer() as house, ScriptedServer(CREATED) as service:
        notifications.send_all_due(sender(container, house, service))
        mail = house.next_mail()
        assert request_form(service)["Body"] == ["Test: Jane Doe in Austin, TX scanned."]
    assert mail.message["Subject"] == "[Test] Jane Doe scanned your postcard"
    assert all("nothing was printed or mailed" in mail.part(kind) for kind in ("plain", "html"))


def test_news_of_scans_can_be_refused_and_an_owners_notice_need_not(container: Container, owner: Caller) -> None:
    enqueue(container, owner)
    enqueue(container, owner, key="hook:7", kind="webhook_failing", subject="An endpoint fails")
    with SmtpServer() as house:
        notifications.send_all_due(sender(container, house))
        mails = {mail.message["Subject"]: mail for mail in house.mails}
    scans, owners = mails["Jane Doe scanned your postcard"], mails["An endpoint fails"]
    link = str(scans.message["List-Unsubscribe"]).strip("<>")
    assert all(link in scans.part(kind) for kind in ("plain", "html"))
    reader, token = (
        NotificationReader(owner.account_id, notifications.DANA),
        link.removeprefix("https://mail.example.com/unsubscribe/"),
    )
    assert notification_service.decode_token(container.encryptor, token) == reader
    assert owners.message["List-Unsubscribe"] is None
    assert "your address is that of the account Dana Whitfield." in owners.part("plain")

    enqueue(container, owner, key="later")
    enqueue(container, owner, key="hook:8", kind="webhook_failing")
    refusal = "insert into notice_refusals values (:account, :address, now())"  # at the very moment
    execute(container, refusal, account=owner.account_id, address=notifications.DANA)
    with SmtpServer() as house:
        notifications.send_all_due(sender(container, house))
        assert len(house.mails) == 1, "what an owner must know is no news of scans"
    assert statuses(container) == ["sent", "sent", "unwanted", "sent"]


def test_a_text_message_is_a_form_with_the_accounts_key(container: Container, owner: Caller) -> None:
    enqueue(container, owner, notifications.PHONE, text="Zoë – scanned")
    with ScriptedServer(CREATED) as service:
        notifications.send_all_due(sender(container, text=service))
        head = service.requests[0].decode().partition("\r\n\r\n")[0]
        assert request_form(service) == {"To": ["+15125550100"], "From": ["+15125550199"], "Body": ["Zoe - scanned"]}
    assert head.startswith("POST /api/2010-04-01/Accounts/AC1/Messages.json HTTP/1.1\r\n")
    assert "\r\nAuthorization: Basic QUMxOmh1c2g=\r\n" in head
    assert re.search(r"\r\nIdempotency-Key: [0-9a-f]{40}\r\n", head + "\r\n")
    assert statuses(container) == ["sent"]


def test_what_a_text_service_says_is_kept(container: Container, owner: Caller, subtests: pytest.Subtests) -> None:
    body = b'{"code": 21211, "message": "Not a number"}'
    cases = {
        "404 Gone": ("failed", "refused it: 404 Not a number", 1),
        "503 Busy": ("pending", "cannot take it now: 503", 1),
        "401 Who?": ("pending", "lets nobody in: 401", 0),  # which uses up nobody's attempts
        "429 Slow down\nRetry-After: 600": ("pending", "cannot take it now: 429", 1),
    }
    for answer, (status, error, attempts) in cases.items():
        with subtests.test(answer):
            execute(container, sa.delete(notices))
            enqueue(container, owner, notifications.PHONE)
            with ScriptedServer(reply_with(f"HTTP/1.1 {answer}\nContent-Length: {len(body)}", body)) as service:
                notifications.send_all_due(sender(container, text=service))
                assert len(service.requests) == 1
            [row] = notifications.notification_rows(container)
            assert (row.status, row.attempts) == (status, attempts)
            assert error in row.error
    assert row.next_at == container.clock() + timedelta(seconds=600), "as it asks"


def test_a_refusal_is_for_good_or_tried_until_given_up(container: Container, owner: Caller, clock: Clock) -> None:
    enqueue(container, owner, notifications.DANA, BOB)
    with SmtpServer(answers={notifications.DANA: "450 4.2.1 Busy", BOB: "550 5.1.1 No such user"}) as house:
        one = sender(container, house)
        for attempts, wait in enumerate(outbox.RETRY_DELAYS, 1):
            notifications.send_all_due(one)
            row, refused = notifications.notification_rows(container)
            assert (refused.status, refused.next_at) == ("failed", None)
            assert "550 5.1.1 No such user" in refused.error
            assert (row.status, row.attempts) == ("pending", attempts)
            assert wait <= row.next_at - clock.now() <= wait * 1.1
            clock.advance(seconds=(row.next_at - clock.now()).total_seconds())
        notifications.send_all_due(one)
    row, _ = notifications.notification_rows(container)
    assert (row.status, row.attempts) == ("failed", len(outbox.RETRY_DELAYS) + 1)


def test_a_server_that_hangs_or_dies_gets_the_same_again(container: Container, owner: Caller, clock: Clock) -> None:
    enqueue(container, owner)
    with SmtpServer() as house:
        one = notifications.message_sender(container, notifications.smtp_notifier(house), attempt_seconds=0.5)
        house.hangs = True
        notifications.send_all_due(one)
        [row] = notifications.notification_rows(container)
        assert (row.status, row.attempts, row.error) == ("pending", 1, "It was not taken within 0.5 seconds.")
        house.hangs, house.dies = False, True
        clock.advance(minutes=2)
        one = sender(container, house)
        notifications.send_all_due(one)
        assert statuses(container) == ["pending"]
        house.dies = False
        clock.advance(minutes=20)
        notifications.send_all_due(one)
        assert house.next_mail().to == [notifications.DANA]
    assert statuses(container) == ["sent"]


def test_a_server_that_is_down_is_waited_for_and_texts_go_on(container: Container, owner: Caller, clock: Clock) -> None:
    enqueue(container, owner, times=5)
    enqueue(container, owner, notifications.PHONE)
    with SmtpServer() as house, ScriptedServer(CREATED) as service:
        one = sender(container, house, service)
        house.shut()
        with structlog.testing.capture_logs() as lines:
            for _ in range(3):
                notifications.send_all_due(one)
                clock.advance(seconds=6)
        mails = [row for row in notifications.notification_rows(container) if row.channel == "mail"]
        assert {(row.status, row.attempts) for row in mails} == {("pending", 0)}
        assert "127.0.0.1 could not be reached." in {row.error for row in mails}
        assert len(service.requests) == 1
        warnings = [line for line in lines if line["event"] == "notifications.channel_unavailable"]
        assert len(warnings) == 2, "one for each time that somebody knocked, however many wait"
        assert (warnings[0]["log_level"], warnings[0]["channel"]) == ("warning", "mail")
        house.open()
        clock.advance(minutes=1)
        notifications.send_all_due(one)
        assert len(house.mails) == 5
    assert set(statuses(container)) == {"sent"}


def test_after_a_rest_one_goes_alone_to_see(container: Container, owner: Caller, clock: Clock) -> None:
    enqueue(container, owner, times=MAX_IN_FLIGHT)
    with SmtpServer() as house:
        one = sender(container, house)
        house.shut()
        notifications.send_all_due(one)
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


def test_a_slow_mail_server_holds_up_no_text_and_has_few_at_a_time(container: Container, owner: Caller) -> None:
    enqueue(container, owner, times=MAX_IN_FLIGHT * 2)
    with SmtpServer() as house, ScriptedServer(CREATED) as service:
        house.hangs = True

        async def go() -> None:
            stop = asyncio.Event()
            running = asyncio.create_task(sender(container, house, service).run(stop))
            await asyncio.to_thread(wait_until, lambda: len(house.mails) == MAX_IN_FLIGHT)
            await asyncio.to_thread(enqueue, container, owner, notifications.PHONE)
            await asyncio.to_thread(wait_until, lambda: "sent" in statuses(container))
            assert len(house.mails) == house.most_at_once == MAX_IN_FLIGHT
            stop.set()
            house.hangs = False
            await asyncio.to_thread(house.shut)
            await running

        asyncio.run(go())
        assert len(service.requests) == 1


def test_two_couriers_share_the_work(container: Container, owner: Caller) -> None:
    readers = sorted(f"reader{n}@example.com" for n in range(40))
    enqueue(container, owner, *readers)
    with SmtpServer() as house:

        async def go() -> None:
            one, other = sender(container, house), sender(container, house)
            while any(await asyncio.gather(one.send_due(), other.send_due())):
                await asyncio.gather(one.wait_for_all(), other.wait_for_all())

        asyncio.run(go())
        assert sorted(mail.to[0] for mail in house.mails) == readers


@pytest.fixture
def talkative() -> Iterator[None]:
    """Every line is written while this test runs."""
    configure_logging(as_json=True, level="debug")
    yield
    configure_logging(as_json=True, level="warning")


@pytest.mark.usefixtures("talkative")
def test_no_address_or_text_is_logged(container: Container, owner: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    enqueue(container, owner, notifications.DANA, notifications.PHONE)
    refused = {notifications.DANA: "550 5.1.1 <dana@example.com> unknown"}
    with SmtpServer(answers=refused) as house, ScriptedServer(reply_with("HTTP/1.1 400 Bad")) as service:
        configure_logging(as_json=True, level="debug")
        notifications.send_all_due(sender(container, house, service))
    lines = capsys.readouterr().err
    assert lines.count('"outcome": "MessageRejected"') == 2
    assert [secret for secret in ("dana", "15125550100", "Jane", "hush") if secret in lines] == []


def test_without_a_server_a_message_is_written_where_a_first_run_shows_it(
    container: Container, owner: Caller, capsys: pytest.CaptureFixture[str]
) -> None:
    enqueue(container, owner, notifications.DANA, notifications.PHONE)
    notifications.send_all_due(sender(container))
    out = capsys.readouterr().out
    assert "E-mail that would be sent (set QUILLPOST_SMTP to send it)" in out
    assert "To: dana@example.com\nSubject: Jane Doe scanned your postcard\n\nJane Doe in Austin" in out
    assert "Text message that would be sent" in out
    assert statuses(container) == ["sent", "sent"]


def test_the_message_sender_survives_a_lost_database(container: Container) -> None:
    one = sender(container)
    one._db = away = Database("host=127.0.0.1 port=1 dbname=nowhere")

    async def go() -> None:
        stop = asyncio.Event()
        with structlog.testing.capture_logs() as lines:
            running = asyncio.create_task(one.run(stop))
            event = "notifications.database_unavailable"
            await asyncio.to_thread(wait_until, lambda: event in [line["event"] for line in lines])
            assert not running.done()
            stop.set()
            await running

    asyncio.run(go())
    away.close()


def test_what_could_not_be_sent_for_days_is_given_up_and_notices_are_forgotten_after_a_month(
    container: Container, owner: Caller, clock: Clock
) -> None:
    enqueue(container, owner)
    clock.advance(days=2)
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    assert statuses(container) == ["pending"]
    clock.advance(days=2)
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    [row] = notifications.notification_rows(container)
    assert (row.status, row.error) == ("failed", "It could not be sent for days.")
    execute(container, sa.update(notices).values(status="sent", next_at=None))
    clock.advance(days=25)
    enqueue(container, owner, key="later")
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    assert len(notifications.notification_rows(container)) == 2
    clock.advance(days=2)
    notification_service.delete_expired_notifications(container.db, now=clock.now())
    assert [row.key for row in notifications.notification_rows(container)] == ["later"]
