"""Who our servers may speak to."""

import asyncio
import re
from ipaddress import ip_address

import aiohttp
import pytest

from quillpost.app.bootstrap import build_outbound_guard
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.integrations.http.guard import AddressRefused, OutboundGuard, is_public
from support.scripted_server import ScriptedResolver, ScriptedServer, reply_with

OK = reply_with("HTTP/1.1 200 OK\nContent-Length: 2", b"ok")
PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.0.9 169.254.169.254 172.16.0.1 172.31.255.255
    192.0.0.8 192.168.1.1 198.19.0.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1
    2001:db8::1 2002:7f00:1:: fc00::1 fdff::1 fe80::1 fe80::1%1 fec0::1 ff02::1
"""
PUBLIC = """
    1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.167.255.255 223.255.255.255
    2606:4700::1111 2a00:1450::1 64:ff9b::101:101
"""


def reach(guard: OutboundGuard, url: str, resolver: ScriptedResolver | None = None, *, times: int = 1) -> int:
    async def attempt() -> int:
        async with guard.session(seconds=10, resolver=resolver) as session:
            for _ in range(times):
                async with session.get(url, allow_redirects=False) as response:
                    await response.read()
        return response.status

    return asyncio.run(attempt())


def refusal(url: str, *addresses: str) -> OSError:
    """What is raised on the way to the server; the names in the URL lead to these addresses, one after the other."""
    with pytest.raises(aiohttp.ClientConnectorError) as refused:
        reach(OutboundGuard(), url, ScriptedResolver(addresses) if addresses else None)
    return refused.value.os_error


def test_only_the_publics_addresses_are_public() -> None:
    assert [address for address in PRIVATE.split() if is_public(ip_address(address))] == []
    assert [address for address in PUBLIC.split() if not is_public(ip_address(address))] == []


def test_an_address_that_is_not_the_publics_is_refused_at_connect_time() -> None:
    with ScriptedServer(OK) as server:
        for address in ("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"):
            assert isinstance(refusal(server.url(host=address)), AddressRefused)
        for host in ("2130706433", "127.1", "0x7f000001", "0177.0.0.1"):
            with pytest.raises(aiohttp.ClientError):
                reach(OutboundGuard(), server.url(host=host))
        url = server.url(host="pictures.example.com")
        assert isinstance(refusal(url, "127.0.0.1"), AddressRefused)
        # A name that rebinds after a check in advance.
        resolver = ScriptedResolver(["93.184.216.34", "127.0.0.1"])
        assert OutboundGuard().check_url(url) is None
        asyncio.run(resolver.resolve("pictures.example.com"))
        with pytest.raises(aiohttp.ClientConnectorError) as refused:
            reach(OutboundGuard(), url, resolver)
        assert isinstance(refused.value.os_error, AddressRefused)
        assert resolver.requests == ["pictures.example.com"] * 2
        assert server.requests == []
    assert "10.9.8.7" not in str(refusal("http://intranet.example.com/", "10.9.8.7"))


def test_an_exception_opens_its_own_name_and_port_only() -> None:
    with ScriptedServer(OK) as server, ScriptedServer(OK) as neighbor:
        guard = OutboundGuard(allow=frozenset({server.place}))
        assert reach(guard, server.url()) == 200
        with pytest.raises(aiohttp.ClientConnectorError):
            reach(guard, neighbor.url())
        named = OutboundGuard(allow=frozenset({("hooks.internal", neighbor.port)}))
        assert reach(named, neighbor.url(host="hooks.internal"), ScriptedResolver(["127.0.0.1"])) == 200
        with pytest.raises(aiohttp.ClientConnectorError):
            reach(named, neighbor.url(host="evil.example.com"), ScriptedResolver(["127.0.0.1"]))
        assert (len(server.requests), len(neighbor.requests)) == (1, 1)


def test_a_proxy_in_the_environment_is_not_used_and_a_cookie_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = reply_with("HTTP/1.1 200 OK\nSet-Cookie: who=me; Path=/\nContent-Length: 0")
    with ScriptedServer(cookie) as server, ScriptedServer(OK) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        reach(OutboundGuard(allow_private=True), server.url(), times=2)
        assert len(server.requests) == 2
        assert b"cookie" not in server.requests[1].lower()
        assert proxy.requests == []


def test_a_url_that_cannot_work_is_refused_early_with_a_sentence(subtests: pytest.Subtests) -> None:
    errors = {
        "must start with http": ["", "card.png", "ftp://example.com/a.png", "file:///etc/passwd"],
        "names no server": ["http://", "http:///a.png"],
        "not a URL": ["http://example.com:99999/", "http://example.com:port/", "http://[::1/"],
        "user name or password": ["http://me:secret@example.com/", "http://me@example.com/"],
        "spaces": ["http://example.com/a b"],
        "spaces or control": ["http://example.com/\r\nHost: x"],
        "longer than 2048": ["http://example.com/" + "a" * 2048],
        "not a public address": [
            *("http://localhost/", "http://LOCALHOST:80/", "http://api.localhost/", "http://127.0.0.1/"),
            *("http://169.254.169.254/latest/meta-data", "http://[::1]:8025/", "http://[::ffff:10.0.0.1]/"),
        ],
    }
    for error, urls in errors.items():
        for url in urls:
            with subtests.test(url[:60]):
                message = OutboundGuard().check_url(url)
                assert message is not None
                assert error in message
                assert message.endswith(".")
    good = ("https://example.com/a.png", "http://example.com:8080/a?b=c#d", "https://bücher.example/ü.png")
    assert [OutboundGuard().check_url(url) for url in (*good, "https://93.184.216.34/")] == [None] * 4


def guarded(**settings: object) -> OutboundGuard:
    return build_outbound_guard(Settings.model_validate(settings))


def test_an_operators_own_exceptions_are_open_and_their_neighbors_are_not(subtests: pytest.Subtests) -> None:
    guard = guarded(allowed_hosts="localhost:3000, Hooks.Internal:8443,[::1]:9000,localhost:80,")
    urls = ("http://localhost:3000/hook", "https://hooks.internal:8443/", "http://[::1]:9000/", "http://localhost/hook")
    assert [guard.check_url(url) for url in urls] == [None] * 4
    for url in ("http://localhost:3001/", "http://127.0.0.1:3000/", "http://[::1]:9001/"):
        assert guard.check_url(url) is not None, url
    assert guarded().allow == frozenset()
    wrong = "localhost|:80|localhost:http|localhost:0|localhost:70000|http://localhost:3917|localhost:3917/hook"
    for written in [*wrong.split("|"), "me@localhost:3917", "*.internal:80", "::1:9000", "[::1:9000", "a b:80"]:
        sentence = f"QUILLPOST_ALLOWED_HOSTS names no host and port: {written}. Write each as localhost:3000"
        with subtests.test(written), pytest.raises(NotReady, match=re.escape(sentence)):
            guarded(allowed_hosts=written)
