"""A worker is killed while a mail server has its mail in hand: it is sent again, and is known as a repeat."""

import signal
from datetime import timedelta
from pathlib import Path

from mail_house import MailHouse
from newsroom import by_mail, courier, post, told, work_off
from placing import open_account
from processes import Nursery

from quillpost.app import runtime
from quillpost.app.container import Container


def test_a_mail_in_hand_at_the_kill_is_sent_again_under_the_same_id(
    nursery: Nursery, container: Container, conninfo: str, home: Path
) -> None:
    who = open_account(container)
    post(container, who.account_id)
    with MailHouse() as house:
        house.hangs = True
        worker = nursery.start(
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
        assert [(row.status, row.attempts) for row in told(container)] == [("pending", 1)]
        house.hangs = False
        another = courier(container, by_mail(house), clock=runtime.now)
        work_off(another)
        assert len(house.mails) == 1, "the lease of the dead has not ended"
        later = courier(container, by_mail(house), clock=lambda: runtime.now() + timedelta(minutes=5))
        work_off(later)
        first, again = house.mails
    assert first.message["Message-ID"] == again.message["Message-ID"]
    assert (first.to, first.part("plain")[:20]) == (again.to, again.part("plain")[:20])
    assert [(row.status, row.attempts) for row in told(container)] == [("sent", 2)]
