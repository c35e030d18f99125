"""What `quillpost doctor` sees of e-mails and text messages: by number, never by address."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.cli.findings import Finding
from quillpost.database import Tx
from quillpost.kit.errors import NotReady
from quillpost.notifiers import smtp, texts
from quillpost.ports.messages import NotifierDown
from quillpost.wiring import Settings

CORRECT_IT = "Correct it: nothing starts until then."
LATE = timedelta(minutes=5)
LATELY = timedelta(days=1)

WAITING = sa.text(
    """
    select count(*) filter (where status = 'pending' and channel = 'mail'
                              and (error is not null or next_at < :late)) as mails,
           count(*) filter (where status = 'pending' and channel = 'text'
                              and (error is not null or next_at < :late)) as texts,
           count(*) filter (where status = 'failed' and created_at > :lately) as failed
      from notices
     where status = 'pending' or created_at > :lately
    """
)


def check_mail(settings: Settings) -> Iterator[Finding]:
    """Whether the settings fit together, and the mail server lets us in."""
    try:
        server = smtp(settings)
    except NotReady as fault:
        yield Finding("mail server", "broken", fault.message, CORRECT_IT)
        return
    if server is None:
        what = "there is none: e-mails are written to the standard output"
        yield Finding("mail server", "warning", what, "Set QUILLPOST_SMTP before anyone counts on them.")
        return
    try:
        asyncio.run(server.knock())
    except NotifierDown as down:
        yield Finding("mail server", "warning", str(down), "E-mails wait until it is back.")
    else:
        yield Finding("mail server", "ok", "it lets us in")


def check_texts(settings: Settings) -> Finding:
    """Whether there is a service for text messages that can be asked. Asking costs, so nobody does."""
    try:
        service = texts(settings)
    except NotReady as fault:
        return Finding("text messages", "broken", fault.message, CORRECT_IT)
    if service is None:
        what = "there is no service: they are written to the standard output"
        return Finding("text messages", "warning", what, "Set QUILLPOST_SMS before anyone counts on them.")
    return Finding("text messages", "ok", "the settings of their service fit together")


def check_notices(tx: Tx, *, now: datetime) -> Finding:
    """What waits although its time has come, and what failed for good of late."""
    found = tx.execute(WAITING, {"late": now - LATE, "lately": now - LATELY}).one()
    complaints = [
        f"{count} {what}"
        for count, what in (
            (found.mails, "e-mails wait"),
            (found.texts, "text messages wait"),
            (found.failed, "could not be sent since yesterday"),
        )
        if count
    ]
    if complaints:
        advice = "The reasons are in the table `notices`, column `error`; see that workers run."
        return Finding("notices", "warning", "; ".join(complaints), advice)
    return Finding("notices", "ok", "none waits")
