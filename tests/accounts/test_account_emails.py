"""Mails about signing in, over a real mail server: with their link, which is nowhere else."""

import re
from importlib.resources import files

import pytest
import sqlalchemy as sa

from quillpost.accounts.users import emails, invitations, passwords
from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.core.database.tables.notifications import notices
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader
from support.factories import Clock
from support.notifications import message_sender, notification_rows, send_all_due, smtp_notifier
from support.sign_in import DANA, actor_of
from support.smtp_server import ReceivedMail, SmtpServer

pytestmark = pytest.mark.usefixtures("clean_database")

TEMPLATES = files("quillpost.web") / "templates"
BASE = "https://mail.example.com"
RESET = re.compile(rf"{re.escape(BASE)}/reset/qp_reset_[0-9A-Za-z]+")


def ask(container: Container) -> None:
    passwords.request_reset(container.sign_in_context, DANA, base_url=BASE, address="192.0.2.7", now=container.clock())


def sent(container: Container) -> ReceivedMail:
    with SmtpServer() as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
        assert len(house.mails) == 1
        return house.mails[0]


def test_the_link_is_in_the_mail_and_then_nowhere(container: Container, dana: int) -> None:
    ask(container)
    assert notification_rows(container)[0].secret_sealed is not None
    mail = sent(container)
    assert mail.to == [DANA]
    assert mail.message["Subject"] == "Set another password"
    found = RESET.search(mail.part("plain"))
    assert found is not None
    assert f'<a href="{found[0]}">' in mail.part("html")
    assert "{link}" not in mail.part("plain") + mail.part("html")
    with container.db.system_transaction() as tx:
        assert passwords.find_reset_email(tx, found[0].rpartition("/")[2], now=container.clock()) == DANA
    row = notification_rows(container)[0]
    assert (row.status, row.secret_sealed) == ("sent", None)
    assert "qp_reset_" not in row.words


def test_it_says_why_they_get_it_and_needs_no_unsubscribing(container: Container, account: int, dana: int) -> None:
    with container.db.system_transaction() as tx:
        notification_service.unsubscribe(tx, NotificationReader(account, DANA), now=container.clock())
    ask(container)
    mail = sent(container)
    assert mail.message["List-Unsubscribe"] is None
    assert "[Test]" not in mail.message["Subject"]
    assert "You get this because you sign in to Quillpost with this address" in mail.part("plain")
    assert "nothing was printed" not in mail.part("plain")


def test_an_invitation_brings_its_link(container: Container, account: int, dana: int) -> None:
    with container.db.system_transaction() as tx:
        link = invitations.invite(
            tx,
            container.encryptor,
            account,
            email="lee@example.com",
            role="member",
            sub_account_id=None,
            actor=actor_of(dana),
            base_url=BASE,
            now=container.clock(),
        )
    mail = sent(container)
    assert mail.to == ["lee@example.com"]
    assert link in mail.part("plain")
    assert "dana@example.com invites you to the account Dana Whitfield" in mail.part("plain")


def test_a_name_cannot_bend_the_mail(container: Container, account: int, dana: int) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update accounts set name = :name"), {"name": "A\r\nBcc: x@example.com\n\n" + "b" * 500})
        invitations.invite(
            tx,
            container.encryptor,
            account,
            email="lee@example.com",
            role="member",
            sub_account_id=None,
            actor=actor_of(dana, "d" * 400),
            base_url=BASE,
            now=container.clock(),
        )
    mail = sent(container)
    assert mail.message["Bcc"] is None
    assert mail.message["Subject"].startswith("You are invited to A Bcc: x@example.com bbb")
    assert "\n" not in mail.message["Subject"]
    assert "b" * 90 not in mail.part("plain").partition("-- ")[0]


def test_what_cannot_be_sent_yet_keeps_its_link(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    with SmtpServer(data_answer="451 Later") as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
    assert notification_rows(container)[0].status == "pending"
    assert notification_rows(container)[0].secret_sealed is not None
    clock.advance(minutes=2)
    assert RESET.search(sent(container).part("plain"))


def test_what_is_refused_for_good_forgets_it(container: Container, dana: int) -> None:
    ask(container)
    with SmtpServer(answers={DANA: "550 Nobody here"}) as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
    assert (notification_rows(container)[0].status, notification_rows(container)[0].secret_sealed) == ("failed", None)


def test_so_does_what_is_given_up(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    clock.advance(days=4)
    notification_service.delete_expired_notifications(container.db, now=container.clock())
    assert (notification_rows(container)[0].status, notification_rows(container)[0].secret_sealed) == ("failed", None)


def test_a_link_that_is_over_is_not_sent_any_more(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    with SmtpServer(data_answer="451 Later") as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
    clock.advance(minutes=59)
    assert notification_rows(container)[0].status == "pending"
    clock.advance(minutes=1)
    with SmtpServer() as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
        assert house.mails == []
    row = notification_rows(container)[0]
    assert (row.status, row.secret_sealed, row.attempts) == ("failed", None, 1)
    assert row.error == "It could not be sent before the link in it was over."


def test_a_secret_opens_in_no_other_notice(container: Container, dana: int) -> None:
    ask(container)
    with container.db.system_transaction() as tx:
        emails.queue_email(tx, dana, key="other", subject="Other", text="{link}", now=container.clock())
        sealed = tx.execute(sa.select(notices.c.secret_sealed).order_by(notices.c.id)).scalars().first()
        tx.execute(sa.update(notices).where(notices.c.key == "other").values(secret_sealed=sealed))
        tx.execute(sa.delete(notices).where(notices.c.key != "other"))
    with SmtpServer() as house:
        send_all_due(message_sender(container, smtp_notifier(house)))
        assert house.mails == []
    row = notification_rows(container)[0]
    assert row.status == "pending"
    assert "a reason that is in the log" in row.error


def test_nobody_in_no_account_is_written_to(container: Container, account: int) -> None:
    with container.db.system_transaction() as tx:
        emails.queue_email(tx, None, key="a", subject="x", text="x", now=container.clock())
        emails.queue_email(tx, 10_000, key="b", subject="x", text="x", now=container.clock())
    assert notification_rows(container) == []


def test_the_words_are_mails_words(container: Container, dana: int) -> None:
    with container.db.system_transaction() as tx:
        emails.notify_password_changed(tx, dana, by_link=False, now=container.clock())
        emails.notify_second_factor_off(tx, dana, now=container.clock())
        for left in (0, 1, 5):
            emails.notify_recovery_code_used(tx, dana, remaining=left, now=container.clock())
    words = [row.words for row in notification_rows(container)]
    assert len(words) == 5
    assert "2026-05-04 12:00:00 UTC, by somebody who was signed in as you." in words[0]
    assert ["No others are left" in words[2], "One is left." in words[3], "5 are left." in words[4]] == [True] * 3
    assert all("If that was not you" in each for each in words)
    assert all("access tokens and connected apps" in each for each in words), "which a password does not end"
    (quoted,) = {re.findall("“(.+)”", each)[0] for each in words}
    assert f">{quoted}</a>" in (TEMPLATES / "sign_in/sign_in.html").read_text()
    assert outbox.encryption_context("k") == "notices:k:secret"
