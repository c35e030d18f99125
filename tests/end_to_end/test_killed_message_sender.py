"""A worker is killed while a mail server has its mail in hand: it is sent again, and is known as a repeat."""

import signal
from datetime import timedelta
from pathlib import Path

from quillpost.app import runtime
from quillpost.app.container import Container
from support.notifications import enqueue_notification, message_sender, notification_rows, send_all_due, smtp_notifier
from support.orders import open_account
from support.processes import CommandRunner
from support.smtp_server import SmtpServer


def test_a_mail_in_hand_at_the_kill_is_sent_again_under_the_same_id(
    command_runner: CommandRunner, container: Container, conninfo: str, home: Path
) -> None:
    caller = open_account(container)
    enqueue_notification(container, caller.account_id)
    with SmtpServer() as house:
        house.hangs = True
        worker = command_runner.start(
            "work",
            settings={
                "QUILLPOST_HOME": str(home),
                "QUILLPOST_DATABASE_URL": conninfo,
                "QUILLPOST_SMTP": f"smtp+plain://127.0.0.1:{house.port}",
                "QUILLPOST_MAIL_FROM": "Quillpost <mail@quillpost.example>",
            },
        )
        assert house.brought.wait(60), worker.output
        worker.stop(signal.SIGKILL)
        assert [(row.status, row.attempts) for row in notification_rows(container)] == [("pending", 1)]
        house.hangs = False
        another = message_sender(container, smtp_notifier(house), clock=runtime.now)
        send_all_due(another)
        assert len(house.mails) == 1, "the lease of the dead has not ended"
        later = message_sender(container, smtp_notifier(house), clock=lambda: runtime.now() + timedelta(minutes=5))
        send_all_due(later)
        first, again = house.mails
    assert first.message["Message-ID"] == again.message["Message-ID"]
    assert (first.to, first.part("plain")[:20]) == (again.to, again.part("plain")[:20])
    assert [(row.status, row.attempts) for row in notification_rows(container)] == [("sent", 2)]
