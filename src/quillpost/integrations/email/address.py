"""Which mail server and which text message service the settings ask for."""

from email.utils import parseaddr
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from quillpost.core.errors import NotReady
from quillpost.core.hosts import is_this_machine
from quillpost.integrations.email.smtp import MailServer, spelled
from quillpost.integrations.sms.twilio import TextService

SMTP, SMTP_PASSWORD, SMTP_CA = "QUILLPOST_SMTP", "QUILLPOST_SMTP_PASSWORD", "QUILLPOST_SMTP_CA"
MAIL_FROM, SMS = "QUILLPOST_MAIL_FROM", "QUILLPOST_SMS"
WAYS: dict[str, tuple[Literal["tls", "starttls", "plain"], int]] = {
    "smtps": ("tls", 465),
    "smtp": ("starttls", 587),
    "smtp+plain": ("plain", 25),
}


def mail_server(url: str, *, password: str | None, authorities: Path | None) -> MailServer:
    """The server, or `NotReady` with a sentence on what does not fit together. Nobody is called yet."""
    parsed = _split(url, SMTP)
    if parsed.scheme not in WAYS or not parsed.hostname or parsed.path.strip("/") or parsed.query:
        raise NotReady(f"{SMTP} must be smtp://user@host:587, smtps://user@host:465 or smtp+plain://host:25.")
    if parsed.password is not None:
        raise NotReady(f"{SMTP} must not hold a password: set {SMTP_PASSWORD}.")
    if (parsed.username is None) != (password is None):
        raise NotReady(f"{SMTP} must name a user where {SMTP_PASSWORD} is set, and the other way round.")
    security, port = WAYS[parsed.scheme]
    if security == "plain" and password is not None and not is_this_machine(parsed.hostname):
        raise NotReady(f"{SMTP} would send the password unsealed: use smtp:// or smtps://.")
    if authorities is not None and not authorities.is_file():
        raise NotReady(f"{SMTP_CA} names {authorities}, which is no file.")
    user = None if parsed.username is None else unquote(parsed.username)
    return MailServer(parsed.hostname, parsed.port or port, security, user, password, authorities)


def mail_from(given: str | None) -> tuple[str, str]:
    """The name and the address that mail comes from."""
    name, address = parseaddr(given or "")
    try:
        spelled(address)
    except ValueError:
        raise NotReady(
            f"{MAIL_FROM} must be an address that mail may come from, as Quillpost <mail@example.com>."
        ) from None
    if not name.isprintable():
        raise NotReady(f"{MAIL_FROM} must be one line.")
    return name, address


def text_service(url: str, *, token: str | None, sender: str | None) -> TextService:
    parsed = _split(url, SMS)
    if parsed.scheme not in ("http", "https") or not parsed.hostname or not parsed.username or parsed.query:
        raise NotReady(f"{SMS} must be the service's address with the account's id: https://ID@host.")
    if parsed.password is not None:
        raise NotReady(f"{SMS} must not hold a password: set {SMS}_TOKEN.")
    if parsed.scheme == "http" and not is_this_machine(parsed.hostname):
        raise NotReady(f"{SMS} would send the token unsealed: use https://.")
    if not token or not sender:
        raise NotReady(f"{SMS} needs {SMS}_TOKEN and {SMS}_FROM.")
    base = f"{parsed.scheme}://{parsed.netloc.rpartition('@')[2]}{parsed.path.rstrip('/')}"
    return TextService(base, unquote(parsed.username), token, sender)


def _split(url: str, setting: str) -> SplitResult:
    try:
        parsed = urlsplit(url)
        is_plain = parsed.port != 0 and url.isprintable() and " " not in url and not parsed.fragment
    except ValueError:
        is_plain = False
    if not is_plain:
        raise NotReady(f"{setting} is not an address that we can read.")
    return parsed
