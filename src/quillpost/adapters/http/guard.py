"""Which servers our own may speak to when a caller names them.

A URL from a caller could point into the operator's network. The address is judged when the
connection is made, after every name has been resolved, so that a name whose answer changes
between a check and a connection (DNS rebinding) gains nothing.
"""

import socket
import ssl
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from quillpost.adapters.http.addresses import is_public
from quillpost.kit.hosts import fault_of_host

if TYPE_CHECKING:  # aiohttp has these types for checkers alone
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import AddrInfoType, Connection
    from aiohttp.tracing import Trace

LONGEST_URL = 2048

# The host and port that the running task is connecting to, as its URL spells them.
_destination: ContextVar[tuple[str, int] | None] = ContextVar("destination", default=None)


class AddressRefused(OSError):
    """The name leads to an address that we do not speak to. The address itself stays untold."""

    def __init__(self) -> None:
        super().__init__("the address is not public")


@dataclass(frozen=True, slots=True)
class OutboundGuard:
    """`allow_private` opens everything (development); `allow` opens single (host, port) pairs.

    A pair is matched against the URL's own host in lower case, a name or an address, so that an
    allowed name does not open its address to other names.
    """

    allow_private: bool = False
    allow: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    def check_url(self, url: str) -> str | None:
        """What is wrong with the URL, as a sentence, or None. Where it leads is judged later."""
        if len(url) > LONGEST_URL:
            return f"The URL is longer than {LONGEST_URL} characters."
        return self.check_destination(url)

    def check_destination(self, url: str) -> str | None:
        """The same for a URL of any length: one of ours, which carries an event in its query."""
        if not url.isprintable() or " " in url:
            return "The URL must not contain spaces or control characters."
        try:
            parsed = URL(url)
            host, spelled, port = parsed.host, parsed.raw_host, parsed.port
        except ValueError:
            return "This is not a URL that we can read."
        if parsed.scheme not in {"http", "https"}:
            return "The URL must start with http:// or https://."
        if not host or not spelled or not port:
            return "The URL names no server."
        if parsed.user is not None or parsed.password is not None:
            return "The URL must not contain a user name or password."
        if (wrong := fault_of_host(spelled)) is not None:
            return wrong
        if _is_evidently_private(host) and not self._is_exempt((host, port)):
            return f"{host} is not a public address."
        return None

    def session(
        self,
        *,
        seconds: float,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> aiohttp.ClientSession:
        """A session that only reaches allowed addresses and carries nothing from call to call.

        Redirects are refused per request (`allow_redirects=False`): aiohttp has no setting for
        the session. Compressed answers are not asked for.
        """
        return aiohttp.ClientSession(
            connector=_GuardedConnector(self, resolver, tls),
            timeout=aiohttp.ClientTimeout(total=seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "Quillpost", "Accept-Encoding": "identity"},
            trust_env=False,
        )

    def open_socket(self, address: "AddrInfoType") -> socket.socket:
        """A socket for this resolved address, or `AddressRefused`."""
        family, kind, protocol, _, target = address
        if not (is_public(ip_address(target[0])) or self._is_exempt(_destination.get())):
            raise AddressRefused
        return socket.socket(family, kind, protocol)

    def _is_exempt(self, destination: tuple[str, int] | None) -> bool:
        return self.allow_private or destination in self.allow


class _GuardedConnector(aiohttp.TCPConnector):
    """Remembers the destination's name for the socket factory, which sees only its address."""

    def __init__(
        self, guard: OutboundGuard, resolver: AbstractResolver | None, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(
            socket_factory=guard.open_socket,
            resolver=resolver,
            ssl=tls or True,
            limit=0,  # the caller's to bound: waiting for a free place here would count as silence
            ttl_dns_cache=60,
        )

    async def connect(
        self, req: "ClientRequest", traces: list["Trace"], timeout: aiohttp.ClientTimeout
    ) -> "Connection":
        host, port = req.url.host, req.url.port
        token = _destination.set((host, port) if host and port else None)
        try:
            return await super().connect(req, traces, timeout)
        finally:
            _destination.reset(token)


def _is_evidently_private(host: str) -> bool:
    """Whether the text alone shows it, so that the caller hears of it early."""
    name = host.removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _literal(host)
    return address is not None and not is_public(address)


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
