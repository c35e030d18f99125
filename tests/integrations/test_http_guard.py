"""Who our servers may speak to."""

import asyncio
from ipaddress import ip_address

import aiohttp
import pytest

from quillpost.integrations.http.guard import AddressRefused, OutboundGuard, is_public
from support.scripted_server import ScriptedResolver, ScriptedServer, reply_with

OK = reply_with("HTTP/1.1 200 OK\nContent-Length: 2", b"ok")


def reach(guard: OutboundGuard, url: str, resolver: ScriptedResolver | None = None) -> int:
    async def attempt() -> int:
        async with (
            guard.session(seconds=10, resolver=resolver) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            return response.status

    return asyncio.run(attempt())


def reach_twice(guard: OutboundGuard, url: str) -> None:
    async def attempt() -> None:
        async with guard.session(seconds=10) as session:
            for _ in range(2):
                async with session.get(url, allow_redirects=False) as response:
                    await response.read()

    asyncio.run(attempt())


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.0.9",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.168.1.1",
        "198.19.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "fe80::1%1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_an_address_that_is_not_the_publics_is_refused(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "64:ff9b::101:101",
    ],
)
def test_a_public_address_is_not_refused(address: str) -> None:
    assert is_public(ip_address(address))


def test_a_literal_loopback_address_is_refused_at_connect_time() -> None:
    with ScriptedServer(OK) as server:
        with pytest.raises(aiohttp.ClientConnectorError) as refusal:
            reach(OutboundGuard(), server.url())
        assert isinstance(refusal.value.os_error, AddressRefused)
        assert server.requests == []


@pytest.mark.parametrize("address", ["[::1]", "[::ffff:127.0.0.1]"])
def test_a_literal_ipv6_address_is_refused_at_connect_time(address: str) -> None:
    with pytest.raises(aiohttp.ClientConnectorError) as refusal:
        reach(OutboundGuard(), f"http://{address}:8025/")
    assert isinstance(refusal.value.os_error, AddressRefused)


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f000001", "0177.0.0.1"])
def test_an_odd_spelling_of_loopback_is_refused(host: str) -> None:
    with ScriptedServer(OK) as server:
        with pytest.raises(aiohttp.ClientError):
            reach(OutboundGuard(), server.url(host=host))
        assert server.requests == []


def test_a_public_name_that_leads_to_loopback_is_refused() -> None:
    resolver = ScriptedResolver(["127.0.0.1"])
    with ScriptedServer(OK) as server:
        with pytest.raises(aiohttp.ClientConnectorError) as refusal:
            reach(OutboundGuard(), server.url(host="pictures.example.com"), resolver)
        assert isinstance(refusal.value.os_error, AddressRefused)
        assert resolver.requests == ["pictures.example.com"]
        assert server.requests == []


def test_a_name_that_rebinds_after_a_check_is_refused() -> None:
    resolver = ScriptedResolver(["93.184.216.34", "127.0.0.1"])
    with ScriptedServer(OK) as server:
        url = server.url(host="pictures.example.com")
        assert OutboundGuard().check_url(url) is None
        asyncio.run(resolver.resolve("pictures.example.com"))  # what a check in advance would see
        with pytest.raises(aiohttp.ClientConnectorError) as refusal:
            reach(OutboundGuard(), url, resolver)
        assert isinstance(refusal.value.os_error, AddressRefused)
        assert server.requests == []


def test_the_refusal_does_not_tell_the_address() -> None:
    with pytest.raises(aiohttp.ClientConnectorError) as refusal:
        reach(OutboundGuard(), "http://intranet.example.com/", ScriptedResolver(["10.9.8.7"]))
    assert "10.9.8.7" not in str(refusal.value)


def test_an_exception_opens_its_own_port_only() -> None:
    with ScriptedServer(OK) as server, ScriptedServer(OK) as neighbour:
        guard = OutboundGuard(allow=frozenset({server.place}))
        assert reach(guard, server.url()) == 200
        with pytest.raises(aiohttp.ClientConnectorError):
            reach(guard, neighbour.url())
        assert neighbour.requests == []


def test_an_exception_by_name_does_not_open_the_address_to_other_names() -> None:
    with ScriptedServer(OK) as server:
        guard = OutboundGuard(allow=frozenset({("hooks.internal", server.port)}))
        loopback = ScriptedResolver(["127.0.0.1"])
        assert reach(guard, server.url(host="hooks.internal"), loopback) == 200
        with pytest.raises(aiohttp.ClientConnectorError):
            reach(guard, server.url(host="evil.example.com"), ScriptedResolver(["127.0.0.1"]))
        assert len(server.requests) == 1


def test_development_may_allow_private_addresses() -> None:
    with ScriptedServer(OK) as server:
        assert reach(OutboundGuard(allow_private=True), server.url()) == 200


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(OK) as server, ScriptedServer(OK) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        reach(OutboundGuard(allow_private=True), server.url())
        assert len(server.requests) == 1
        assert proxy.requests == []


def test_a_cookie_is_not_kept() -> None:
    answer = reply_with("HTTP/1.1 200 OK\nSet-Cookie: who=me; Path=/\nContent-Length: 0")
    with ScriptedServer(answer) as server:
        reach_twice(OutboundGuard(allow_private=True), server.url())
        assert len(server.requests) == 2
        assert b"cookie" not in server.requests[1].lower()


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("", "must start with http"),
        ("card.png", "must start with http"),
        ("ftp://example.com/a.png", "must start with http"),
        ("file:///etc/passwd", "must start with http"),
        ("http://", "names no server"),
        ("http:///a.png", "names no server"),
        ("http://example.com:99999/", "not a URL"),
        ("http://example.com:port/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://me:secret@example.com/", "user name or password"),
        ("http://me@example.com/", "user name or password"),
        ("http://example.com/a b", "spaces"),
        ("http://example.com/\r\nHost: x", "spaces or control"),
        ("http://example.com/" + "a" * 2048, "longer than 2048"),
        ("http://localhost/", "not a public address"),
        ("http://LOCALHOST:80/", "not a public address"),
        ("http://api.localhost/", "not a public address"),
        ("http://127.0.0.1/", "not a public address"),
        ("http://169.254.169.254/latest/meta-data", "not a public address"),
        ("http://[::1]:8025/", "not a public address"),
        ("http://[::ffff:10.0.0.1]/", "not a public address"),
    ],
)
def test_a_url_that_cannot_work_is_refused_early_with_a_sentence(url: str, error: str) -> None:
    message = OutboundGuard().check_url(url)
    assert message is not None
    assert error in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "http://example.com:8080/a?b=c#d",
        "https://bücher.example/ü.png",
        "https://93.184.216.34/",
    ],
)
def test_a_good_url_passes_the_early_check(url: str) -> None:
    assert OutboundGuard().check_url(url) is None


def test_the_early_check_knows_the_exceptions() -> None:
    guard = OutboundGuard(allow=frozenset({("127.0.0.1", 9000), ("localhost", 80)}))
    assert guard.check_url("http://127.0.0.1:9000/hook") is None
    assert guard.check_url("http://localhost/hook") is None
    assert guard.check_url("http://127.0.0.1:9001/hook") is not None
