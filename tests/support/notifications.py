"""Notices: who waits to be told what, and a courier that tells them over real servers."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.core.database.tables.notifications import notices
from quillpost.core.outbox import Channel
from quillpost.integrations.email.smtp import ConsoleNotifier, MailServer, SmtpNotifier
from quillpost.integrations.http.client import WebhookPoster
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.integrations.sms.twilio import SmsService, TwilioNotifier
from quillpost.notifications import service as notification_service
from quillpost.notifications.ports import Notifier
from quillpost.notifications.tasks import MessageSender
from support.smtp_server import SmtpServer

WINDOW = timedelta(minutes=15)
DANA, PHONE = "dana@example.com", "+15125550100@sms"


def write_digests(container: Container, window: timedelta = WINDOW) -> int:
    with container.db.system_transaction() as tx:
        return notification_service.write_due_digests(tx, window=window, zone=UTC, now=container.clock())


def notification_rows(container: Container) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(notices).order_by(notices.c.id)).all())


def enqueue_notification(container: Container, account_id: int, address: str = DANA, **changes: Any) -> None:
    given: dict[str, Any] = {
        "key": f"scans:1:1:{address}",
        "kind": "scans",
        "account_id": account_id,
        "sub_account_id": None,
        "mode": "live",
        "address": address,
        "subject": "Jane Doe scanned your postcard",
        "text": "Jane Doe in Austin, TX scanned.",
        "now": container.clock(),
    }
    with container.db.system_transaction() as tx:
        outbox.enqueue_notification(tx, **given | changes)


def smtp_notifier(house: SmtpServer, *, seconds: float = 15) -> SmtpNotifier:
    server = MailServer("127.0.0.1", house.port, "plain")
    return SmtpNotifier(server, sender_name="Quillpost", sender="mail@quillpost.example", seconds=seconds)


def sms_notifier(base_url: str) -> TwilioNotifier:
    service = SmsService(base_url, "AC1", "hush", "+15125550199")
    return TwilioNotifier(service, WebhookPoster(OutboundGuard(allow_private=True), seconds=10))


def message_sender(
    container: Container,
    mail: Notifier | None = None,
    text: Notifier | None = None,
    *,
    clock: Callable[[], datetime] | None = None,
    **how: Any,
) -> MessageSender:
    notifiers: Mapping[Channel, Notifier] = {
        "mail": mail or ConsoleNotifier("E-mail", "QUILLPOST_SMTP"),
        "text": text or ConsoleNotifier("Text message", "QUILLPOST_SMS"),
    }
    return MessageSender(
        container.db,
        container.encryptor,
        notifiers,
        clock or container.clock,
        base_url="https://mail.example.com",
        window=WINDOW,
        zone=UTC,
        **how,
    )


def send_all_due(one: MessageSender) -> None:
    """All that is due now, to its end."""

    async def go() -> None:
        while await one.send_due():
            await one.wait_for_all()
        for line in one._channels:
            if isinstance(line.notifier, TwilioNotifier):  # its session belongs to this event loop
                await line.notifier.close()

    asyncio.run(go())
