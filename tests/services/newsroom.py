"""Notices: who waits to be told what, and a courier that tells them over real servers."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from mail_house import MailHouse

from quillpost.app.container import Parts
from quillpost.core import outbox
from quillpost.core.database.tables.notifications import notices
from quillpost.core.outbox import Channel
from quillpost.integrations.email.console import ConsoleNotifier
from quillpost.integrations.email.smtp import MailServer, SmtpNotifier
from quillpost.integrations.http.client import WebhookPoster
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.integrations.sms.twilio import TextService, TwilioNotifier
from quillpost.notifications import digests
from quillpost.notifications.ports import Notifier
from quillpost.notifications.sender import Courier

WINDOW = timedelta(minutes=15)
DANA, PHONE = "dana@example.com", "+15125550100@sms"


def gather(parts: Parts, window: timedelta = WINDOW) -> int:
    with parts.db.work() as tx:
        return digests.gather(tx, window=window, zone=UTC, now=parts.clock())


def told(parts: Parts) -> list[sa.Row[Any]]:
    with parts.db.work() as tx:
        return list(tx.execute(sa.select(notices).order_by(notices.c.id)).all())


def post(parts: Parts, account_id: int, address: str = DANA, **changes: Any) -> None:
    given: dict[str, Any] = {
        "key": f"scans:1:1:{address}",
        "kind": "scans",
        "account_id": account_id,
        "sub_account_id": None,
        "mode": "live",
        "address": address,
        "subject": "Jane Doe scanned your postcard",
        "words": "Jane Doe in Austin, TX scanned.",
        "now": parts.clock(),
    }
    with parts.db.work() as tx:
        outbox.post(tx, **given | changes)


def by_mail(house: MailHouse, *, seconds: float = 15) -> SmtpNotifier:
    server = MailServer("127.0.0.1", house.port, "plain")
    return SmtpNotifier(server, sender_name="Quillpost", sender="mail@quillpost.example", seconds=seconds)


def by_text(base_url: str) -> TwilioNotifier:
    service = TextService(base_url, "AC1", "hush", "+15125550199")
    return TwilioNotifier(service, WebhookPoster(OutboundGuard(allow_private=True), seconds=10))


def courier(
    parts: Parts,
    mail: Notifier | None = None,
    text: Notifier | None = None,
    *,
    clock: Callable[[], datetime] | None = None,
    **how: Any,
) -> Courier:
    notifiers: Mapping[Channel, Notifier] = {
        "mail": mail or ConsoleNotifier("E-mail", "QUILLPOST_SMTP"),
        "text": text or ConsoleNotifier("Text message", "QUILLPOST_SMS"),
    }
    return Courier(
        parts.db,
        parts.sealer,
        notifiers,
        clock or parts.clock,
        base_url="https://mail.example.com",
        window=WINDOW,
        zone=UTC,
        **how,
    )


def work_off(one: Courier) -> None:
    """All that is due now, to its end."""

    async def go() -> None:
        while await one.round():
            await one.land()
        for line in one._lines:
            if isinstance(line.notifier, TwilioNotifier):  # its session belongs to this event loop
                await line.notifier.close()

    asyncio.run(go())
