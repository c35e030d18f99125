"""Parses the settings of the mail server and the text message service."""

from email.utils import parseaddr
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from quillpost.core.errors import NotReady
from quillpost.core.text import is_loopback_host
from quillpost.integrations.email.smtp import MailServer, normalize_address
from quillpost.integrations.sms.twilio import SmsService

SMTP_SETTING, SMTP_PASSWORD_SETTING, SMTP_CA_SETTING = (
    "QUILLPOST_SMTP",
    "QUILLPOST_SMTP_PASSWORD",
    "QUILLPOST_SMTP_CA",
)
MAIL_FROM_SETTING, SMS_SETTING = "QUILLPOST_MAIL_FROM", "QUILLPOST_SMS"
SMTP_SCHEMES: dict[str, tuple[Literal["tls", "starttls", "plain"], int]] = {
    "smtps": ("tls", 465),
    "smtp": ("starttls", 587),
    "smtp+plain": ("plain", 25),
}


def parse_mail_server(url: str, *, password: str | None, ca_file: Path | None) -> MailServer:
    """The server, or `NotReady`. No connection is made yet."""
    parsed = _split_url(url, SMTP_SETTING)
    if parsed.scheme not in SMTP_SCHEMES or not parsed.hostname or parsed.path.strip("/") or parsed.query:
        raise NotReady(f"{SMTP_SETTING} must be smtp://user@host:587, smtps://user@host:465 or smtp+plain://host:25.")
    if parsed.password is not None:
        raise NotReady(f"{SMTP_SETTING} must not hold a password: set {SMTP_PASSWORD_SETTING}.")
    if (parsed.username is None) != (password is None):
        raise NotReady(
            f"{SMTP_SETTING} must name a user where {SMTP_PASSWORD_SETTING} is set, and the other way round."
        )
    security, port = SMTP_SCHEMES[parsed.scheme]
    if security == "plain" and password is not None and not is_loopback_host(parsed.hostname):
        raise NotReady(f"{SMTP_SETTING} would send the password unsealed: use smtp:// or smtps://.")
    if ca_file is not None and not ca_file.is_file():
        raise NotReady(f"{SMTP_CA_SETTING} names {ca_file}, which is no file.")
    user = None if parsed.username is None else unquote(parsed.username)
    return MailServer(parsed.hostname, parsed.port or port, security, user, password, ca_file)


def parse_mail_from(sender: str | None) -> tuple[str, str]:
    name, address = parseaddr(sender or "")
    try:
        normalize_address(address)
    except ValueError:
        raise NotReady(
            f"{MAIL_FROM_SETTING} must be an address that mail may come from, as Quillpost <mail@example.com>."
        ) from None
    if not name.isprintable():
        raise NotReady(f"{MAIL_FROM_SETTING} must be one line.")
    return name, address


def parse_sms_service(url: str, *, token: str | None, sender: str | None) -> SmsService:
    parsed = _split_url(url, SMS_SETTING)
    if parsed.scheme not in ("http", "https") or not parsed.hostname or not parsed.username or parsed.query:
        raise NotReady(f"{SMS_SETTING} must be the service's address with the account's id: https://ID@host.")
    if parsed.password is not None:
        raise NotReady(f"{SMS_SETTING} must not hold a password: set {SMS_SETTING}_TOKEN.")
    if parsed.scheme == "http" and not is_loopback_host(parsed.hostname):
        raise NotReady(f"{SMS_SETTING} would send the token unsealed: use https://.")
    if not token or not sender:
        raise NotReady(f"{SMS_SETTING} needs {SMS_SETTING}_TOKEN and {SMS_SETTING}_FROM.")
    base = f"{parsed.scheme}://{parsed.netloc.rpartition('@')[2]}{parsed.path.rstrip('/')}"
    return SmsService(base, unquote(parsed.username), token, sender)


def _split_url(url: str, setting: str) -> SplitResult:
    try:
        parsed = urlsplit(url)
        is_plain = parsed.port != 0 and url.isprintable() and " " not in url and not parsed.fragment
    except ValueError:
        is_plain = False
    if not is_plain:
        raise NotReady(f"{setting} is not an address that we can read.")
    return parsed
