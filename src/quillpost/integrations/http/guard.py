"""Which servers may be contacted when a caller names them: a URL could point into the operator's network. The address
is checked when the connection is made, after resolution, so that DNS rebinding gains nothing. Networks are listed (from
the IANA special-purpose registries), as `ipaddress.is_global` changes with Python's version."""

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from quillpost.core.text import find_host_error

NOT_PUBLIC_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a provider's customers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; cloud metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved; broadcast
    )
)

# Everything else is loopback, link-local, unique local, mapped IPv4, multicast or reserved.
GLOBAL_UNICAST = IPv6Network("2000::/3")
NOT_PUBLIC_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments; Teredo, which wraps an IPv4 address
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which wraps an IPv4 address
        "3fff::/20",  # documentation
    )
)

# How an IPv6-only network reaches IPv4: the address is in the last four bytes.
NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_IPV4)
    if address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in GLOBAL_UNICAST and not any(address in network for network in NOT_PUBLIC_IPV6)


RESOLVER_THREADS = 32


class PooledResolver(AbstractResolver):
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in results
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


if TYPE_CHECKING:  # aiohttp has these types only for type checkers
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import AddrInfoType, Connection
    from aiohttp.tracing import Trace

MAX_URL_LENGTH = 2048

# The host and port that the running task is connecting to, as its URL spells them.
_destination: ContextVar[tuple[str, int] | None] = ContextVar("destination", default=None)


class AddressRefused(OSError):
    """The name resolves to an address that is not allowed, which is not disclosed."""

    def __init__(self) -> None:
        super().__init__("the address is not public")


@dataclass(frozen=True, slots=True)
class OutboundGuard:
    """`allow_private` opens everything (development); `allow` opens single (host, port) pairs. A pair is matched
    against the URL's own host in lower case, so that an allowed name does not open its address to other names."""

    allow_private: bool = False
    allow: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    def check_url(self, url: str) -> str | None:
        """What is wrong with the URL, as a sentence, or None. Its address is checked later."""
        if len(url) > MAX_URL_LENGTH:
            return f"The URL is longer than {MAX_URL_LENGTH} characters."
        return self.check_destination(url)

    def check_destination(self, url: str) -> str | None:
        """The same for a URL of any length: one with an event in its query."""
        if not url.isprintable() or " " in url:
            return "The URL must not contain spaces or control characters."
        try:
            parsed = URL(url)
            host, raw_host, port = parsed.host, parsed.raw_host, parsed.port
        except ValueError:
            return "This is not a URL that we can read."
        if parsed.scheme not in {"http", "https"}:
            return "The URL must start with http:// or https://."
        if not host or not raw_host or not port:
            return "The URL names no server."
        if parsed.user is not None or parsed.password is not None:
            return "The URL must not contain a user name or password."
        if (host_error := find_host_error(raw_host)) is not None:
            return host_error
        if _is_evidently_private(host) and not self._is_exempt((host, port)):
            return f"{host} is not a public address."
        return None

    def session(
        self, *, seconds: float, resolver: AbstractResolver | None = None, tls: ssl.SSLContext | None = None
    ) -> aiohttp.ClientSession:
        """A session that only reaches allowed addresses, without state between calls. Redirects are refused by request
        (`allow_redirects=False`): aiohttp has no setting for the session."""
        return aiohttp.ClientSession(
            connector=_GuardedConnector(self, resolver, tls),
            timeout=aiohttp.ClientTimeout(total=seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "Quillpost", "Accept-Encoding": "identity"},
            trust_env=False,
        )

    def open_socket(self, address: "AddrInfoType") -> socket.socket:
        family, kind, protocol, _, target = address
        if not (is_public(ip_address(target[0])) or self._is_exempt(_destination.get())):
            raise AddressRefused
        return socket.socket(family, kind, protocol)

    def _is_exempt(self, destination: tuple[str, int] | None) -> bool:
        return self.allow_private or destination in self.allow


class _GuardedConnector(aiohttp.TCPConnector):
    """Passes the destination's name to the socket factory, which sees only its address."""

    def __init__(self, guard: OutboundGuard, resolver: AbstractResolver | None, tls: ssl.SSLContext | None) -> None:
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
    """Whether the text shows it, so that the caller gets an early error."""
    name = host.removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return not is_public(ip_address(host))
    except ValueError:
        return False
