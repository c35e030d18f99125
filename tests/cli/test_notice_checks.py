"""What the doctor says of e-mails and text messages."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from mail_house import MailHouse
from newsroom import PHONE, post
from placing import open_account

from makers import Clock
from quillpost.app.container import Parts
from quillpost.cli.doctor.models import Finding
from quillpost.cli.doctor.operations import check_mail, check_notices, check_texts
from quillpost.core.database.tables.notifications import notices
from quillpost.core.settings import Settings


def mail_finding(**given: object) -> Finding:
    (found,) = check_mail(Settings.model_validate({"mail_from": "mail@example.com", **given}))
    return found


def text_finding(**given: object) -> Finding:
    return check_texts(Settings.model_validate(given))


def notice_finding(parts: Parts, clock: Clock) -> Finding:
    with parts.db.work() as tx:
        return check_notices(tx, now=clock.now())


def test_no_mail_server_is_a_warning() -> None:
    found = mail_finding()
    assert (found.subject, found.verdict) == ("mail server", "warning")
    assert "QUILLPOST_SMTP" in found.advice


def test_a_mail_server_that_lets_us_in_is_well() -> None:
    with MailHouse() as house:
        assert mail_finding(smtp=f"smtp+plain://127.0.0.1:{house.port}").verdict == "ok"
        assert house.mails == []


def test_a_mail_server_that_is_down_is_told() -> None:
    with MailHouse() as house:
        house.shut()
        found = mail_finding(smtp=f"smtp+plain://127.0.0.1:{house.port}")
    assert (found.verdict, found.what) == ("warning", "127.0.0.1 could not be reached.")
    assert found.advice == "E-mails wait until it is back."


def test_settings_with_which_nothing_starts_are_broken() -> None:
    found = mail_finding(smtp="mail.example.com")
    assert found.verdict == "broken"
    assert "QUILLPOST_SMTP must be" in found.what


def test_text_messages_that_nobody_sends_are_a_warning_of_their_own() -> None:
    found = text_finding()
    assert (found.subject, found.verdict) == ("text messages", "warning")
    assert "the standard output" in found.what
    assert "QUILLPOST_SMS" in found.advice


def test_a_fault_in_the_settings_of_text_messages_is_no_fault_of_the_mail_server() -> None:
    wrong = {"sms": "https://AC1@texts.example.com"}
    found = text_finding(**wrong)
    assert (found.verdict, found.what) == (
        "broken",
        "QUILLPOST_SMS needs QUILLPOST_SMS_TOKEN and QUILLPOST_SMS_FROM.",
    )
    assert mail_finding(**wrong).verdict == "warning"
    found = text_finding(**wrong, sms_token="hush", sms_from="+15125550100")
    assert found.verdict == "ok"
    assert "hush" not in repr(found)
    assert text_finding(smtp="mail.example.com").verdict == "warning"


def test_how_many_wait_is_told_and_nobodys_address(parts: Parts, clock: Clock) -> None:
    account = open_account(parts).account_id
    post(parts, account)
    assert notice_finding(parts, clock).verdict == "ok", "it has only just been posted"
    post(parts, account, PHONE)
    post(parts, account, key="failed", address="bob@example.com")
    with parts.db.work() as tx:
        failed = notices.c.key == "failed"
        tx.execute(sa.update(notices).where(failed).values(status="failed", error="550 bob@example.com"))
    clock.advance(minutes=6)
    found = notice_finding(parts, clock)
    assert found.verdict == "warning"
    assert found.what == "1 e-mails wait; 1 text messages wait; 1 could not be sent since yesterday"
    assert "@" not in repr(found)


@pytest.mark.parametrize("hours", [25, 48])
def test_what_failed_long_ago_is_not_told_again(parts: Parts, clock: Clock, hours: int) -> None:
    post(parts, open_account(parts).account_id)
    with parts.db.work() as tx:
        tx.execute(sa.update(notices).values(status="failed", next_at=None))
    clock.advance(seconds=timedelta(hours=hours).total_seconds())
    assert notice_finding(parts, clock).verdict == "ok"
