"""What the doctor says of e-mails and text messages."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.cli.doctor.installation import DoctorFinding, check_mail_server, check_text_messages
from quillpost.cli.doctor.operations import check_notifications
from quillpost.core.database.tables.notifications import notices
from quillpost.core.settings import Settings
from support.factories import Clock
from support.notifications import PHONE, enqueue_notification
from support.orders import open_account
from support.smtp_server import SmtpServer


def mail_finding(**given: object) -> DoctorFinding:
    (found,) = check_mail_server(Settings.model_validate({"mail_from": "mail@example.com", **given}))
    return found


def text_finding(**given: object) -> DoctorFinding:
    return check_text_messages(Settings.model_validate(given))


def notice_finding(container: Container, clock: Clock) -> DoctorFinding:
    with container.db.system_transaction() as tx:
        return check_notifications(tx, now=clock.now())


def test_no_mail_server_is_a_warning() -> None:
    found = mail_finding()
    assert (found.subject, found.status) == ("mail server", "warning")
    assert "QUILLPOST_SMTP" in found.advice


def test_a_mail_server_that_lets_us_in_is_well() -> None:
    with SmtpServer() as house:
        assert mail_finding(smtp=f"smtp+plain://127.0.0.1:{house.port}").status == "ok"
        assert house.mails == []


def test_an_unreachable_mail_server_is_reported() -> None:
    with SmtpServer() as house:
        house.shut()
        found = mail_finding(smtp=f"smtp+plain://127.0.0.1:{house.port}")
    assert (found.status, found.message) == ("warning", "127.0.0.1 could not be reached.")
    assert found.advice == "E-mails wait until it is back."


def test_settings_with_which_nothing_starts_are_broken() -> None:
    found = mail_finding(smtp="mail.example.com")
    assert found.status == "broken"
    assert "QUILLPOST_SMTP must be" in found.message


def test_text_messages_that_nobody_sends_are_a_warning_of_their_own() -> None:
    found = text_finding()
    assert (found.subject, found.status) == ("text messages", "warning")
    assert "the standard output" in found.message
    assert "QUILLPOST_SMS" in found.advice


def test_wrong_text_message_settings_do_not_fail_the_mail_server_check() -> None:
    wrong = {"sms": "https://AC1@texts.example.com"}
    found = text_finding(**wrong)
    assert (found.status, found.message) == (
        "broken",
        "QUILLPOST_SMS needs QUILLPOST_SMS_TOKEN and QUILLPOST_SMS_FROM.",
    )
    assert mail_finding(**wrong).status == "warning"
    found = text_finding(**wrong, sms_token="hush", sms_from="+15125550100")
    assert found.status == "ok"
    assert "hush" not in repr(found)
    assert text_finding(smtp="mail.example.com").status == "warning"


def test_the_number_of_waiting_messages_is_reported_without_addresses(container: Container, clock: Clock) -> None:
    account = open_account(container).account_id
    enqueue_notification(container, account)
    assert notice_finding(container, clock).status == "ok", "it has only just been posted"
    enqueue_notification(container, account, PHONE)
    enqueue_notification(container, account, key="failed", address="bob@example.com")
    with container.db.system_transaction() as tx:
        failed = notices.c.key == "failed"
        tx.execute(sa.update(notices).where(failed).values(status="failed", error="550 bob@example.com"))
    clock.advance(minutes=6)
    found = notice_finding(container, clock)
    assert found.status == "warning"
    assert found.message == "1 e-mails wait; 1 text messages wait; 1 could not be sent since yesterday"
    assert "@" not in repr(found)


@pytest.mark.parametrize("hours", [25, 48])
def test_old_failures_are_not_reported(container: Container, clock: Clock, hours: int) -> None:
    enqueue_notification(container, open_account(container).account_id)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(notices).values(status="failed", next_at=None))
    clock.advance(seconds=timedelta(hours=hours).total_seconds())
    assert notice_finding(container, clock).status == "ok"
