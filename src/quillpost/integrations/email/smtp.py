"""E-mail through a mail server that settings name, or on the console without one."""

import asyncio
import hashlib
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr, parseaddr
from pathlib import Path
from typing import Literal, TextIO, cast
from urllib.parse import SplitResult, unquote, urlsplit

import aiosmtplib
import idna
from aiohttp.abc import AbstractResolver

from quillpost.core.errors import NotReady
from quillpost.core.text import is_loopback_host
from quillpost.integrations.http.client import describe_connection_failure
from quillpost.integrations.http.guard import PooledResolver
from quillpost.notifications.ports import MessageDeferred, MessageRejected, NotifierDown, OutgoingMessage

MESSAGE_ID_LENGTH = 40


def build_message_id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:MESSAGE_ID_LENGTH]


MAX_REASON_LENGTH = 300


def to_one_line(text: str) -> str:
    """One short line, without characters that cannot be stored or shown."""
    shortened = " ".join(text.split())[:MAX_REASON_LENGTH]
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in shortened)


# At this width no encoded word exceeds 75 characters.
EMAIL_POLICY = SMTP.clone(max_line_length=76)
MAX_LOCAL_PART_LENGTH, MAX_ADDRESS_LENGTH = 64, 254
FORBIDDEN_ADDRESS_CHARACTERS = frozenset('<>()[],;:\\" \t')


def normalize_address(address: str) -> str:
    """The address with its domain in ASCII; `ValueError` when it is invalid."""
    local, at, domain = address.rpartition("@")
    if not (at and 0 < len(local) <= MAX_LOCAL_PART_LENGTH) or not address.isprintable():
        raise ValueError("This is not an e-mail address.")
    if "@" in local or FORBIDDEN_ADDRESS_CHARACTERS & set(address):
        raise ValueError("This is not an e-mail address.")
    full_address = f"{local}@{idna.encode(domain, uts46=True).decode('ascii')}"
    if len(full_address) > MAX_ADDRESS_LENGTH:
        raise ValueError("This e-mail address is too long.")
    return full_address


def build_mail(message: OutgoingMessage, *, sender_name: str, sender: str) -> bytes:
    """The whole mail, from a normalized sender; `ValueError` for an invalid address or a line end in a header."""
    to = normalize_address(message.to)
    unfolded_headers = {"To": to, "Message-ID": f"<{build_message_id(message.key)}@{sender.rpartition('@')[2]}>"}
    if message.unsubscribe_url is not None:
        unfolded_headers["List-Unsubscribe"] = f"<{message.unsubscribe_url}>"
    mail = EmailMessage(EMAIL_POLICY)
    mail["From"] = formataddr((sender_name, sender))
    mail["Subject"] = message.subject
    mail["Date"] = format_datetime(message.at)
    mail["Auto-Submitted"] = "auto-generated"
    if message.unsubscribe_url is not None:
        mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    mail.set_content(message.text, cte="quoted-printable")
    mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
    return _format_unfolded_headers(unfolded_headers) + bytes(mail)


def _format_unfolded_headers(headers: Mapping[str, str]) -> bytes:
    """Headers that must not be folded or encoded: a mail program would not find the link."""
    if not all(value.isprintable() and " " not in value for value in headers.values()):
        raise ValueError("This does not fit into a header.")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


QUIT_TIMEOUT_SECONDS = 2
PERMANENT_FAILURE_CODE = 500
UTF8_OPTION = "smtputf8"


@dataclass(frozen=True, slots=True)
class MailServer:
    """`ca_file` replaces the system's certificates."""

    host: str
    port: int
    security: Literal["tls", "starttls", "plain"]
    user: str | None = None
    password: str | None = None
    ca_file: Path | None = None


class SmtpNotifier:
    """`seconds` is the timeout of each step."""

    def __init__(
        self,
        server: MailServer,
        *,
        sender_name: str,
        sender: str,
        seconds: float = 15.0,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._server = server
        self._sender_name = sender_name
        self._sender = normalize_address(sender)
        self._seconds = seconds
        self._resolver = resolver or PooledResolver()
        self._tls = ssl.create_default_context(cafile=server.ca_file)

    async def send(self, message: OutgoingMessage) -> None:
        try:
            mail = build_mail(message, sender_name=self._sender_name, sender=self._sender)
            to = normalize_address(message.to)
        except ValueError:
            raise MessageRejected("This is not an address that mail can be sent to.") from None
        options = [] if to.isascii() else [UTF8_OPTION]
        async with self._open_client() as client:
            try:
                await client.sendmail(self._sender, to, mail, mail_options=options)
            except (aiosmtplib.SMTPException, OSError, ValueError) as failure:
                raise self._to_notifier_error(failure) from None

    async def check_connection(self) -> None:
        async with self._open_client():
            pass

    async def close(self) -> None:
        await self._resolver.close()

    @asynccontextmanager
    async def _open_client(self) -> AsyncIterator[aiosmtplib.SMTP]:
        client = aiosmtplib.SMTP(
            hostname=self._server.host,
            local_hostname=self._sender.rpartition("@")[2],
            timeout=self._seconds,
            use_tls=self._server.security == "tls",
            start_tls=False,  # it is begun below, and never left out
            tls_context=self._tls,
        )
        transport: asyncio.WriteTransport | None = None
        try:
            try:
                await client.connect(sock=await self._open_socket())
                transport = cast(asyncio.WriteTransport | None, client.transport)
                await self._authenticate(client)
            except (aiosmtplib.SMTPException, OSError) as failure:
                raise NotifierDown(self._describe_failure(failure)) from None
            transport = cast(asyncio.WriteTransport | None, client.transport)
            yield client
            # Its response to QUIT does not matter.
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=QUIT_TIMEOUT_SECONDS)
        finally:
            client.close()
            if transport is not None:
                transport.abort()  # closing TLS properly would wait for the other side to do so
            await _let_loop_close()

    async def _authenticate(self, client: aiosmtplib.SMTP) -> None:
        if self._server.security == "starttls":
            await client.starttls(tls_context=self._tls)
        if self._server.user is not None and self._server.password is not None:
            await client.login(self._server.user, self._server.password)

    async def _open_socket(self) -> socket.socket:
        """Names are resolved on threads of their own: a silent name server holds up no job."""
        async with asyncio.timeout(self._seconds):
            addresses = await self._resolver.resolve(self._server.host, self._server.port, socket.AF_UNSPEC)
            for address in addresses[:-1]:
                with suppress(OSError):
                    return await _connect_socket(address["family"], address["host"], address["port"])
            return await _connect_socket(addresses[-1]["family"], addresses[-1]["host"], addresses[-1]["port"])

    def _to_notifier_error(self, failure: Exception) -> Exception:
        reason = self._describe_failure(failure)
        match failure:
            case aiosmtplib.SMTPRecipientsRefused(recipients=[first, *_]):
                return MessageRejected(reason) if first.code >= PERMANENT_FAILURE_CODE else MessageDeferred(reason)
            case aiosmtplib.SMTPSenderRefused() if failure.code >= PERMANENT_FAILURE_CODE:
                # It would refuse every mail: the operator has to look, and nothing is lost meanwhile.
                return NotifierDown(reason)
            case aiosmtplib.SMTPResponseException():
                return MessageRejected(reason) if failure.code >= PERMANENT_FAILURE_CODE else MessageDeferred(reason)
            case aiosmtplib.SMTPNotSupported() | ValueError():
                return MessageRejected(reason)
        return MessageDeferred(reason)

    def _describe_failure(self, failure: Exception) -> str:
        """Names the server and what happened, in its own words where it had some."""
        host = self._server.host
        if isinstance(failure, aiosmtplib.SMTPConnectError) and isinstance(failure.__cause__, Exception):
            failure = failure.__cause__
        if reason := describe_connection_failure(failure, host, seconds=self._seconds):
            return reason
        match failure:
            case aiosmtplib.SMTPRecipientsRefused(recipients=[first, *_]):
                return f"{host} does not take mail for this address: {_describe_response(first)}"
            case aiosmtplib.SMTPAuthenticationError():
                return f"{host} does not know this user and password ({failure.code})."
            case aiosmtplib.SMTPSenderRefused():
                return f"{host} does not take mail from this sender: {_describe_response(failure)}"
            case aiosmtplib.SMTPResponseException():
                return f"{host} refused: {_describe_response(failure)}"
            case aiosmtplib.SMTPNotSupported():
                return f"{host} cannot do what is needed: {to_one_line(failure.message)}"
            case ValueError():
                return "This is not an address that mail can be sent to."
        return f"{host} broke off the connection."


async def _connect_socket(family: int, host: str, port: int) -> socket.socket:
    new_socket = socket.socket(family, socket.SOCK_STREAM)
    new_socket.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(new_socket, (host, port))
    except BaseException:
        new_socket.close()
        raise
    return new_socket


async def _let_loop_close() -> None:
    """Let the closed connection disappear, or the loop may be stopped while it is half open."""
    for _ in range(3):
        await asyncio.sleep(0)


def _describe_response(failure: aiosmtplib.SMTPResponseException) -> str:
    return to_one_line(f"{failure.code} {failure.message}")


SMTP_SETTING, MAIL_FROM_SETTING = "QUILLPOST_SMTP", "QUILLPOST_MAIL_FROM"
SMTP_PASSWORD_SETTING, SMTP_CA_SETTING = "QUILLPOST_SMTP_PASSWORD", "QUILLPOST_SMTP_CA"
SMTP_SCHEMES: dict[str, tuple[Literal["tls", "starttls", "plain"], int]] = {
    "smtps": ("tls", 465),
    "smtp": ("starttls", 587),
    "smtp+plain": ("plain", 25),
}


def parse_mail_server(url: str, *, password: str | None, ca_file: Path | None) -> MailServer:
    """The server, or `NotReady`. No connection is made yet."""
    parsed = split_setting_url(url, SMTP_SETTING)
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


def split_setting_url(url: str, setting: str) -> SplitResult:
    try:
        parsed = urlsplit(url)
        is_plain = parsed.port != 0 and url.isprintable() and " " not in url and not parsed.fragment
    except ValueError:
        is_plain = False
    if not is_plain:
        raise NotReady(f"{setting} is not an address that we can read.")
    return parsed


CONSOLE_WIDTH = 72


class ConsoleNotifier:
    def __init__(self, kind: str, setting: str, *, out: TextIO | None = None) -> None:
        self._kind, self._setting, self._out = kind, setting, out

    async def send(self, message: OutgoingMessage) -> None:
        head = f"{self._kind} that would be sent (set {self._setting} to send it) "
        lines = [head.ljust(CONSOLE_WIDTH, "-"), f"To: {message.to}"]
        if self._kind == "E-mail":
            lines.append(f"Subject: {message.subject}")
        block = "\n".join([*lines, "", message.text.rstrip(), "-" * CONSOLE_WIDTH, ""])
        out = self._out or sys.stdout
        with suppress(OSError, ValueError):  # it is closed, or cannot encode the text
            out.write(block)
            out.flush()

    async def close(self) -> None:
        """Nothing is held open."""
