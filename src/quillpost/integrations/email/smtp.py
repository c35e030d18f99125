"""E-mail through a mail server."""

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr
from pathlib import Path
from typing import Literal, cast

import aiosmtplib
import idna
from aiohttp.abc import AbstractResolver

from quillpost.integrations.http.guard import PooledResolver
from quillpost.notifications.ports import Message, NeverTaken, NotifierDown, NotTakenNow

LETTERS = 40


def identity(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:LETTERS]


LONGEST = 300


def one_line(said: str) -> str:
    """One short line. What no database stores and no console shows is marked: a server that does not speak
    UTF-8 leaves half characters, and JSON may spell a zero."""
    short = " ".join(said.split())[:LONGEST]
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in short)


# At this width no encoded word is longer than the 75 letters that it may have.
POLICY = SMTP.clone(max_line_length=76)
MOST_LOCAL, MOST_WHOLE = 64, 254
NOT_IN_ADDRESSES = frozenset('<>()[],;:\\" \t')


def spelled(address: str) -> str:
    """The address as it goes over the wire, its domain in ASCII; `ValueError` when it is none."""
    local, at, domain = address.rpartition("@")
    if not (at and 0 < len(local) <= MOST_LOCAL) or not address.isprintable():
        raise ValueError("This is not an e-mail address.")
    if "@" in local or NOT_IN_ADDRESSES & set(address):
        raise ValueError("This is not an e-mail address.")
    whole = f"{local}@{idna.encode(domain, uts46=True).decode('ascii')}"
    if len(whole) > MOST_WHOLE:
        raise ValueError("This e-mail address is too long.")
    return whole


def mail_of(message: Message, *, sender_name: str, sender: str) -> bytes:
    """The whole mail, from an address that is `spelled`; `ValueError` where the one that it is for is none,
    or somebody has put a line end into a header."""
    to = spelled(message.to)
    whole = {"To": to, "Message-ID": f"<{identity(message.key)}@{sender.rpartition('@')[2]}>"}
    if message.unsubscribe is not None:
        whole["List-Unsubscribe"] = f"<{message.unsubscribe}>"
    mail = EmailMessage(POLICY)
    mail["From"] = formataddr((sender_name, sender))
    mail["Subject"] = message.subject
    mail["Date"] = format_datetime(message.at)
    mail["Auto-Submitted"] = "auto-generated"
    if message.unsubscribe is not None:
        mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    mail.set_content(message.text, cte="quoted-printable")
    mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
    return _unbroken(whole) + bytes(mail)


def _unbroken(headers: Mapping[str, str]) -> bytes:
    """Headers of one word each, which must not be broken over lines or encoded: a mail program would not find
    the link in it."""
    if not all(value.isprintable() and " " not in value for value in headers.values()):
        raise ValueError("This does not fit into a header.")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


GOODBYE_SECONDS = 2
FOR_GOOD = 500
UTF8 = "smtputf8"


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where it is and how it is spoken to. `authorities` is a file of certificates to believe instead of the
    system's own."""

    host: str
    port: int
    security: Literal["tls", "starttls", "plain"]
    user: str | None = None
    password: str | None = None
    authorities: Path | None = None


class SmtpNotifier:
    """`seconds` is the time that the server has for each step."""

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
        self._sender = spelled(sender)
        self._seconds = seconds
        self._resolver = resolver or PooledResolver()
        self._tls = ssl.create_default_context(cafile=server.authorities)

    async def send(self, message: Message) -> None:
        try:
            mail = mail_of(message, sender_name=self._sender_name, sender=self._sender)
            to = spelled(message.to)
        except ValueError:
            raise NeverTaken("This is not an address that mail can be sent to.") from None
        options = [] if to.isascii() else [UTF8]
        async with self._connected() as client:
            try:
                await client.sendmail(self._sender, to, mail, mail_options=options)
            except (aiosmtplib.SMTPException, OSError, ValueError) as failure:
                raise self._told(failure) from None

    async def knock(self) -> None:
        """See that the server is there and lets us in; else `NotifierDown`."""
        async with self._connected():
            pass

    async def close(self) -> None:
        await self._resolver.close()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiosmtplib.SMTP]:
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
                await self._be_let_in(client)
            except (aiosmtplib.SMTPException, OSError) as failure:
                raise NotifierDown(self._reason(failure)) from None
            transport = cast(asyncio.WriteTransport | None, client.transport)
            yield client
            # Whether it says goodbye changes nothing: it has taken the mail, or not.
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=GOODBYE_SECONDS)
        finally:
            client.close()
            if transport is not None:
                transport.abort()  # whoever says goodbye under a seal would wait for the other side to do so
            await _settled()

    async def _be_let_in(self, client: aiosmtplib.SMTP) -> None:
        if self._server.security == "starttls":
            await client.starttls(tls_context=self._tls)
        if self._server.user is not None and self._server.password is not None:
            await client.login(self._server.user, self._server.password)

    async def _open_socket(self) -> socket.socket:
        """Names are looked up on threads of their own: a name server that is silent holds up no job."""
        async with asyncio.timeout(self._seconds):
            found = await self._resolver.resolve(self._server.host, self._server.port, socket.AF_UNSPEC)
            for place in found[:-1]:
                with suppress(OSError):
                    return await _dial(place["family"], place["host"], place["port"])
            return await _dial(found[-1]["family"], found[-1]["host"], found[-1]["port"])

    def _told(self, failure: Exception) -> Exception:
        """Which of the three it is that the server has said, or done."""
        reason = self._reason(failure)
        match failure:
            case aiosmtplib.SMTPRecipientsRefused(recipients=[first, *_]):
                return NeverTaken(reason) if first.code >= FOR_GOOD else NotTakenNow(reason)
            case aiosmtplib.SMTPSenderRefused() if failure.code >= FOR_GOOD:
                # It would say so of every mail: the operator has to look, and nothing is lost meanwhile.
                return NotifierDown(reason)
            case aiosmtplib.SMTPResponseException():
                return NeverTaken(reason) if failure.code >= FOR_GOOD else NotTakenNow(reason)
            case aiosmtplib.SMTPNotSupported() | ValueError():
                return NeverTaken(reason)
        return NotTakenNow(reason)

    def _reason(self, failure: Exception) -> str:
        """Names the server and what happened, in its own words where it had some."""
        host = self._server.host
        if isinstance(failure, aiosmtplib.SMTPConnectError) and isinstance(failure.__cause__, Exception):
            failure = failure.__cause__
        match failure:
            case aiosmtplib.SMTPRecipientsRefused(recipients=[first, *_]):
                return f"{host} does not take mail for this address: {_said(first)}"
            case aiosmtplib.SMTPAuthenticationError():
                return f"{host} does not know this user and password ({failure.code})."
            case aiosmtplib.SMTPSenderRefused():
                return f"{host} does not take mail from this sender: {_said(failure)}"
            case aiosmtplib.SMTPResponseException():
                return f"{host} refused: {_said(failure)}"
            case aiosmtplib.SMTPNotSupported():
                return f"{host} cannot do what is needed: {one_line(failure.message)}"
            case ssl.SSLCertVerificationError():
                return f"The certificate of {host} could not be verified."
            case ssl.SSLError():
                return f"No secure connection to {host} could be made."
            case TimeoutError():
                return f"{host} did not answer within {self._seconds:g} seconds."
            case socket.gaierror():
                return f"The server {host} could not be found."
            case ConnectionRefusedError():
                return f"{host} could not be reached."
            case ValueError():
                return "This is not an address that mail can be sent to."
        return f"{host} broke off the connection."


async def _dial(family: int, host: str, port: int) -> socket.socket:
    plug = socket.socket(family, socket.SOCK_STREAM)
    plug.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(plug, (host, port))
    except BaseException:
        plug.close()
        raise
    return plug


async def _settled() -> None:
    """What was closed, or broke off in its greeting, is gone after the loop's next turns: whoever stops the
    loop at once would leave it half open."""
    for _ in range(3):
        await asyncio.sleep(0)


def _said(failure: aiosmtplib.SMTPResponseException) -> str:
    return one_line(f"{failure.code} {failure.message}")
