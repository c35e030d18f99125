"""Who carries messages to people, as the settings ask for; a part of the wiring."""

from quillpost.adapters.http.guard import OutboundGuard
from quillpost.adapters.http.poster import WebhookPoster
from quillpost.adapters.http.resolver import PooledResolver
from quillpost.adapters.notify import address
from quillpost.adapters.notify.console import ConsoleNotifier
from quillpost.adapters.notify.smtp import SmtpNotifier
from quillpost.adapters.notify.twilio import TwilioNotifier
from quillpost.notices.rules import Channel
from quillpost.ports.messages import Notifier
from quillpost.settings import Settings

TEXT_SECONDS = 20.0


def notifiers(settings: Settings) -> dict[Channel, Notifier]:
    """One for each channel, or `NotReady`. Without a server, messages are written to the standard output."""
    return {
        "mail": smtp(settings) or ConsoleNotifier("E-mail", address.SMTP),
        "text": texts(settings) or ConsoleNotifier("Text message", address.SMS),
    }


def smtp(settings: Settings) -> SmtpNotifier | None:
    if settings.smtp is None:
        return None
    password = settings.smtp_password
    server = address.mail_server(
        settings.smtp,
        password=password.get_secret_value() if password else None,
        authorities=settings.smtp_ca,
    )
    name, sender = address.mail_from(settings.mail_from)
    return SmtpNotifier(server, sender_name=name, sender=sender)


def texts(settings: Settings) -> TwilioNotifier | None:
    if settings.sms is None:
        return None
    token = settings.sms_token
    service = address.text_service(
        settings.sms,
        token=token.get_secret_value() if token else None,
        sender=settings.sms_from,
    )
    # The address is the operator's own setting, not a caller's: it may well be on a private network.
    guard = OutboundGuard(allow_private=True)
    return TwilioNotifier(service, WebhookPoster(guard, seconds=TEXT_SECONDS, resolver=PooledResolver()))
