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
from support.transactions import run

pytestmark = pytest.mark.usefixtures("clean_database")

TEMPLATES = files("quillpost.web") / "templates"
BASE, LEE = "https://mail.example.com", "lee@example.com"
RESET = re.compile(rf"{re.escape(BASE)}/reset/qp_reset_[0-9A-Za-z]+")


def ask(container: Container) -> None:
    passwords.request_reset(container.sign_in_context, DANA, base_url=BASE, address="192.0.2.7", now=container.clock())


def invite(tx: sa.Connection, container: Container, account: int, person_id: int, inviter: str = DANA) -> str:
    return invitations.invite(
        tx, container.encryptor, account, email=LEE, role="member", sub_account_id=None,
        actor=actor_of(person_id, inviter), base_url=BASE, now=container.clock(),
    )  # fmt: skip


def send_to(container: Container, **server: object) -> list[ReceivedMail]:
    with SmtpServer(**server) as house:  # type: ignore[arg-type]
        send_all_due(message_sender(container, smtp_notifier(house)))
        return house.mails


def state(container: Container) -> tuple[str, bool]:
    """Of the first notice: its status, and whether its link is kept."""
    row = notification_rows(container)[0]
    return row.status, row.secret_sealed is not None


def test_the_link_is_in_the_mail_and_then_nowhere(container: Container, account: int, dana: int) -> None:
    run(container, notification_service.unsubscribe, NotificationReader(account, DANA), now=container.clock())
    ask(container)
    assert state(container) == ("pending", True)
    [mail] = send_to(container)
    plain, html = mail.part("plain"), mail.part("html")
    assert (mail.to, mail.message["Subject"]) == ([DANA], "Set another password")
    assert mail.message["List-Unsubscribe"] is None, "nobody can refuse to hear of their own password"
    found = RESET.search(plain)
    assert found is not None
    assert f'<a href="{found[0]}">' in html
    assert "{link}" not in plain + html
    assert "You get this because you sign in to Quillpost with this address" in plain
    assert "nothing was printed" not in plain
    assert run(container, passwords.find_reset_email, found[0].rpartition("/")[2], now=container.clock()) == DANA
    assert state(container) == ("sent", False)
    assert "qp_reset_" not in notification_rows(container)[0].words


def test_a_name_cannot_bend_the_mail(container: Container, account: int, dana: int) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update accounts set name = :name"), {"name": "A\r\nBcc: x@example.com\n\n" + "b" * 500})
        invite(tx, container, account, dana, "d" * 400)
    [mail] = send_to(container)
    assert mail.message["Bcc"] is None
    assert mail.message["Subject"].startswith("You are invited to A Bcc: x@example.com bbb")
    assert "\n" not in mail.message["Subject"]
    assert "b" * 90 not in mail.part("plain").partition("-- ")[0]


def test_a_link_is_kept_while_it_can_still_be_sent(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    send_to(container, data_answer="451 Later")
    assert state(container) == ("pending", True)
    clock.advance(minutes=2)
    [mail] = send_to(container)
    assert RESET.search(mail.part("plain"))


def test_what_is_refused_for_good_or_given_up_forgets_its_link(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    send_to(container, answers={DANA: "550 Nobody here"})
    assert state(container) == ("failed", False)
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(notices))
    ask(container)
    clock.advance(days=4)
    notification_service.delete_expired_notifications(container.db, now=container.clock())
    assert state(container) == ("failed", False)


def test_a_link_that_is_over_is_not_sent_any_more(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    send_to(container, data_answer="451 Later")
    clock.advance(minutes=59)
    assert state(container) == ("pending", True)
    clock.advance(minutes=1)
    assert send_to(container) == []
    assert state(container) == ("failed", False)
    row = notification_rows(container)[0]
    assert (row.attempts, row.error) == (1, "It could not be sent before the link in it was over.")


def test_a_secret_opens_in_no_other_notice(container: Container, dana: int) -> None:
    ask(container)
    with container.db.system_transaction() as tx:
        emails.queue_email(tx, dana, key="other", subject="Other", text="{link}", now=container.clock())
        sealed = tx.execute(sa.select(notices.c.secret_sealed).order_by(notices.c.id)).scalars().first()
        tx.execute(sa.update(notices).where(notices.c.key == "other").values(secret_sealed=sealed))
        tx.execute(sa.delete(notices).where(notices.c.key != "other"))
    assert send_to(container) == []
    assert state(container) == ("pending", True)
    assert "a reason that is in the log" in notification_rows(container)[0].error


def test_nobody_in_no_account_is_written_to(container: Container, account: int) -> None:
    with container.db.system_transaction() as tx:
        for key, nobody in (("a", None), ("b", 10_000)):
            emails.queue_email(tx, nobody, key=key, subject="x", text="x", now=container.clock())
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
