"""A real mail server on loopback: it keeps what it takes, and refuses, hangs or dies as a test tells it."""

import asyncio
import queue
import ssl
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import Any, Self

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

SECONDS = 20


@dataclass(frozen=True)
class ReceivedMail:
    """One that was taken: its envelope, and what is in it."""

    sender: str
    to: list[str]
    raw: bytes

    @property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.raw, _class=EmailMessage, policy=policy.default)

    def part(self, kind: str) -> str:
        body = self.message.get_body((kind,))
        assert body is not None
        return str(body.get_content()).replace("\r\n", "\n")


class SmtpServer:
    """`answers` is what it says to RCPT for an address; `dies` and `hangs` happen when mail is brought."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        starttls: ssl.SSLContext | None = None,
        user: tuple[str, str] | None = None,
        answers: Mapping[str, str] | None = None,
        sender_answer: str | None = None,
        data_answer: str = "250 OK",
        utf8: bool = False,
    ) -> None:
        self.mails: list[ReceivedMail] = []
        self.arrived: queue.Queue[ReceivedMail] = queue.Queue()
        self.brought = threading.Event()
        """Somebody's mail has come in, whether it is answered or not."""
        self.dies = False
        self.hangs = False
        self.greetings = 0
        self.data_answer = data_answer
        self.most_at_once = 0
        self._at_once = 0
        self._tls, self._starttls, self._user, self._utf8 = tls, starttls, user, utf8
        self._answers = dict(answers or {})
        self._sender_answer = sender_answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Transport, Any] = {}
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def open(self) -> None:
        """Let people in, at the same port as before if there was one."""
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(SECONDS)

    def shut(self) -> None:
        """Whoever is in is thrown out."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(SECONDS)

    def next_mail(self) -> ReceivedMail:
        """The next that was taken, as soon as it is."""
        return self.arrived.get(timeout=SECONDS)

    async def _open(self) -> None:
        self._server = await self._loop.create_server(
            self._protocol, "127.0.0.1", self.port, ssl=self._tls, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for transport in list(self._connections):
            with suppress(AttributeError):  # Python 3.11.2, where it was closed twice: it goes by itself
                transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        while any(plug.fileno() != -1 for plug in self._connections.values()):
            await asyncio.sleep(0)
        self._connections.clear()

    def _protocol(self) -> SMTP:
        options: dict[str, Any] = {}
        if self._user is not None:
            options = {"authenticator": self._authenticate, "auth_required": True}
            options["auth_require_tls"] = self._starttls is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it doubts that a test can be in its right mind
            return _Counter(self, tls_context=self._starttls, enable_SMTPUTF8=self._utf8, loop=self._loop, **options)

    def _authenticate(self, _server: Any, _session: Any, _envelope: Any, _how: str, login: Any) -> AuthResult:
        assert isinstance(login, LoginPassword)
        is_known = (login.login.decode(), login.password.decode()) == self._user
        return AuthResult(success=is_known, handled=False)

    async def handle_MAIL(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self._sender_answer is not None:
            return self._sender_answer
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: list[str]
    ) -> str:
        answer = self._answers.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = ReceivedMail(envelope.mail_from, envelope.rcpt_tos, envelope.content)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self.brought.set()
            if self.hangs:
                self.mails.append(mail)
                await asyncio.Event().wait()
            if self.data_answer.startswith("250"):
                self.mails.append(mail)
                self.arrived.put(mail)
            return self.data_answer
        finally:
            self._at_once -= 1


class _Counter(SMTP):
    """A connection that the house knows of."""

    def __init__(self, house: SmtpServer, **options: Any) -> None:
        self._house = house
        super().__init__(house, **options)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._house.greetings += 1
        self._house._connections[transport] = transport.get_extra_info("socket")
        super().connection_made(transport)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        if self._house.dies:
            await self.push("354 Go on")
            await asyncio.wait_for(self._reader.readline(), SECONDS)
            self._house.brought.set()
            assert isinstance(self.transport, asyncio.Transport)
            self.transport.abort()
            return
        await super().smtp_DATA(arg)
