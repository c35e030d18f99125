"""Who our servers may speak to; fetching a caller's file from, and posting webhooks to, a server that may be slow,
broken or hostile."""

import asyncio
import gzip
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import pytest

from quillpost.app.bootstrap import build_outbound_guard
from quillpost.core.errors import NotReady
from quillpost.core.ports import FetchedDocument, FetchFailed
from quillpost.core.settings import Settings
from quillpost.integrations.http.client import GuardedFetcher, WebhookPoster
from quillpost.integrations.http.guard import AddressRefused, OutboundGuard, PooledResolver, is_public
from quillpost.notifications.ports import PostResult
from support.fake_server import (
    Answer,
    ScriptedResolver,
    ScriptedServer,
    reply_with,
    reset_connection,
    self_signed,
    stay_silent,
    stream_forever,
)

MB = 1_000_000
BODY = b'{"event_type":"order_item.delivered"}'
HEADERS: Mapping[str, str] = {"content-type": "application/json", "webhook-id": "7"}
PNG = reply_with("HTTP/1.1 200 OK\nContent-Length: 3", b"png")
EMPTY = reply_with("HTTP/1.1 200 OK\nContent-Length: 0")
ANYWHERE = OutboundGuard(allow_private=True)


def fetch_from(server: ScriptedServer, *, max_bytes: int = MB, seconds: float = 20.0) -> FetchedDocument:
    guard = OutboundGuard(allow=frozenset({server.place}))
    return GuardedFetcher(guard, seconds=seconds).fetch(server.url("/a.png"), max_bytes=max_bytes)


def failure_of(server: ScriptedServer, *, max_bytes: int = MB, seconds: float = 20.0) -> str:
    with pytest.raises(FetchFailed) as failed:
        fetch_from(server, max_bytes=max_bytes, seconds=seconds)
    return str(failed.value)


def deliver(server: ScriptedServer, *, method: str = "POST", body: bytes = BODY, seconds: float = 15.0) -> PostResult:
    guard = OutboundGuard(allow=frozenset({server.place}))
    return deliver_by(WebhookPoster(guard, seconds=seconds), server.url("/hook"), method, body)


def deliver_by(
    poster: WebhookPoster, url: str, method: str = "POST", body: bytes = BODY, headers: Mapping[str, str] = HEADERS
) -> PostResult:
    async def attempt() -> PostResult:
        try:
            return await poster.post(url, method=method, headers=headers, body=body)
        finally:
            await poster.close()

    return asyncio.run(attempt())


def stall(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
    stay_silent(connection)


def test_a_file_comes_with_its_content_type_up_to_the_limit(subtests: pytest.Subtests) -> None:
    packed = gzip.compress(b"png")
    chunked = reply_with("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"8\r\n01234567\r\n" * 3 + b"0\r\n\r\n")
    typed = reply_with("HTTP/1.1 200 OK\nContent-Type: Image/PNG; x=1\nContent-Length: 3", b"png")
    gzipped = reply_with(f"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: {len(packed)}", packed)
    cases: dict[str, tuple[Answer, int, FetchedDocument]] = {
        "typed": (typed, MB, FetchedDocument("image/png", b"png")),
        "untyped": (PNG, 3, FetchedDocument("application/octet-stream", b"png")),
        "packed": (gzipped, MB, FetchedDocument("application/octet-stream", b"png")),
        "chunked": (chunked, 24, FetchedDocument("application/octet-stream", b"01234567" * 3)),
    }
    for name, (answer, max_bytes, expected) in cases.items():
        with subtests.test(name), ScriptedServer(answer) as server:
            assert fetch_from(server, max_bytes=max_bytes) == expected
            assert b"Accept-Encoding: identity" in server.requests[0]
    with ScriptedServer(chunked) as server:
        assert failure_of(server, max_bytes=20) == "The file is larger than 20 bytes."


def test_a_file_that_cannot_be_fetched_is_reported_in_a_sentence(subtests: pytest.Subtests) -> None:
    bomb = gzip.compress(bytes(50 * MB))
    assert len(bomb) < MB
    large, length = "The file is larger than 1 MB.", "HTTP/1.1 200 OK\nContent-Length:"
    cases: dict[str, tuple[Answer, str]] = {
        "declares too much": (reply_with(f"{length} {2 * MB}"), large),
        "has no length": (stream_forever, large),
        "unpacks to too much": (
            reply_with(f"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: {len(bomb)}", bomb), large,
        ),
        "sends less than it declared": (
            reply_with(f"{length} 100", b"half"), "127.0.0.1 broke off in the middle of its answer.",
        ),
        "sends more than it declared": (
            reply_with(f"{length} 4", b"this and more"), "127.0.0.1 gave an answer that is not HTTP.",
        ),
        "is silent": (stay_silent, "127.0.0.1 did not answer within 0.2 seconds."),
        "stalls": (stall, "127.0.0.1 did not answer within 0.2 seconds."),
        "resets": (reset_connection, "127.0.0.1 closed the connection without an answer."),
        "closes": (lambda connection: None, "127.0.0.1 closed the connection without an answer."),
        "speaks SSH": (
            lambda connection: connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n"),
            "127.0.0.1 gave an answer that is not HTTP.",
        ),
    }  # fmt: skip
    for status in (204, 404, 500):
        answer = reply_with(f"HTTP/1.1 {status} Whatever\nContent-Length: 0")
        cases[f"status {status}"] = (answer, f"127.0.0.1 answered with status {status}.")
    for name, (answer, reason) in cases.items():
        with subtests.test(name), ScriptedServer(answer) as server:
            assert failure_of(server, seconds=0.2 if "0.2" in reason else 20) == reason
    assert failure_of(server) == deliver(server).error == "127.0.0.1 could not be reached.", "closed by now"


def test_a_redirect_is_not_followed() -> None:
    with ScriptedServer(EMPTY) as target:
        moved = reply_with(f"HTTP/1.1 301 Moved\nLocation: {target.url()}\nContent-Length: 0")
        with ScriptedServer(moved) as server:
            assert failure_of(server) == "127.0.0.1 redirects to another address: please give the final one."
            assert deliver(server) == PostResult(status=301)
        assert target.requests == []


def test_a_name_that_leads_nowhere_or_inside_is_reported_without_its_address() -> None:
    nowhere, inside = ScriptedResolver([]), ScriptedResolver(["10.1.2.3"])
    with pytest.raises(FetchFailed, match=r"^The server nowhere.example could not be found\.$"):
        GuardedFetcher(OutboundGuard(), resolver=nowhere).fetch("http://nowhere.example/a.png", max_bytes=MB)
    with pytest.raises(FetchFailed, match=r"^intranet.example is not a public address\.$"):
        GuardedFetcher(OutboundGuard(), resolver=inside).fetch("http://intranet.example/a.png", max_bytes=MB)
    with pytest.raises(FetchFailed, match="must start with http"):
        GuardedFetcher(OutboundGuard()).fetch("ftp://example.com/a.png", max_bytes=MB)
    with ScriptedServer(EMPTY) as server:
        poster = WebhookPoster(OutboundGuard(), resolver=ScriptedResolver(["127.0.0.1"]))
        outcome = deliver_by(poster, server.url(host="hooks.example.com"))
        assert outcome.error == "hooks.example.com is not a public address."
        assert server.requests == []


def test_only_a_certificate_that_we_trust_is_taken(tmp_path: Path) -> None:
    with ScriptedServer(PNG, tls=self_signed(tmp_path)) as server:
        with pytest.raises(FetchFailed, match=r"^The certificate of 127.0.0.1 could not be verif"):
            GuardedFetcher(ANYWHERE).fetch(server.url(scheme="https"), max_bytes=MB)
        assert server.requests == []
        trusting = ssl.create_default_context(cafile=tmp_path / "server.pem")
        assert GuardedFetcher(ANYWHERE, tls=trusting).fetch(server.url(scheme="https"), max_bytes=MB).body == b"png"
    sentence = r"^No secure connection to 127.0.0.1 could be made"
    plain: Answer = lambda connection: connection.sendall(b"plain text\r\n\r\n")  # noqa: E731
    with ScriptedServer(plain) as server, pytest.raises(FetchFailed, match=sentence):
        GuardedFetcher(ANYWHERE).fetch(server.url(scheme="https"), max_bytes=MB)


def test_a_delivery_carries_its_headers_and_exact_body() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 6", b"thanks")) as server:
        assert deliver(server) == PostResult(status=200, body="thanks")
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hook HTTP/1.1\r\n")
    assert b"\r\nwebhook-id: 7" in head
    assert b"\r\ncontent-type: application/json" in head
    assert body == BODY
    path = "/hook?order.metadata=" + "x" * 5_000
    with ScriptedServer(reply_with("HTTP/1.1 204 No Content")) as server:
        poster = WebhookPoster(OutboundGuard(allow=frozenset({server.place})))
        assert deliver_by(poster, server.url(path), "GET", b"") == PostResult(status=204)
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(f"GET {path} HTTP/1.1\r\n".encode())
    assert b"content-length" not in head.lower()
    assert body == b""


def test_every_answer_to_a_delivery_is_an_outcome(subtests: pytest.Subtests) -> None:
    long, no = "é" * 5_000, "No\nContent-Length: 2"
    cases: dict[str, tuple[Answer, PostResult]] = {
        **{str(n): (reply_with(f"HTTP/1.1 {n} {no}", b"no"), PostResult(n, "no")) for n in (400, 410, 500)},
        "long": (reply_with("HTTP/1.1 200 OK\nContent-Length: 10000", long.encode()), PostResult(200, "é" * 2_000)),
        "endless": (stream_forever, PostResult(200, "x" * 2_000)),
        "no text": (
            reply_with("HTTP/1.1 200 OK\nContent-Length: 4", b"a\0\xffb"), PostResult(200, "a\ufffd\ufffdb"),
        ),
        "silent": (stay_silent, PostResult(None, error="127.0.0.1 did not answer within 0.5 seconds.")),
        "stalling": (stall, PostResult(200, "some")),
        "reset": (reset_connection, PostResult(None, error="127.0.0.1 closed the connection without an answer.")),
    }  # fmt: skip
    for name, (answer, outcome) in cases.items():
        with subtests.test(name), ScriptedServer(answer) as server:
            assert deliver(server, seconds=0.5 if name in ("silent", "stalling") else 15) == outcome
    for url in ("ftp://example.com/", "http://127.0.0.1/", "http://a b/"):
        result = deliver_by(WebhookPoster(OutboundGuard()), url)
        assert (result.status, bool(result.error)) == (None, True)
    with ScriptedServer(EMPTY) as server:
        result = deliver_by(WebhookPoster(ANYWHERE), server.url(), headers={"x": "1\r\ny: 2"})
        assert result.error == "127.0.0.1 could not be asked: the request is not valid."
        assert b"".join(server.requests) == b"", "the connection may be made, but nothing is said"


def test_a_subscriber_may_ask_for_a_pause(subtests: pytest.Subtests) -> None:
    date = "Date: Mon, 02 Mar 2026 10:00:00 GMT\n"
    cases = [
        ("Retry-After: 120", 120),
        ("Retry-After: 0", 0),
        ("Retry-After: 99999999999999999999", 86_400),
        (f"{date}Retry-After: Mon, 02 Mar 2026 10:05:30 GMT", 330),
        (f"{date}Retry-After: Mon, 02 Mar 2026 09:00:00 GMT", 0),
        (f"{date}Retry-After: Mon, 02 Mar 2026 10:05:30", None),
        ("Retry-After: Mon, 02 Mar 2026 10:05:30 GMT", None),
        ("Retry-After: soon", None),
        ("Retry-After: -5", None),
        ("Retry-After: ٣", None),
        ("X-Other: 1", None),
    ]
    for headers, seconds in cases:
        answer = reply_with(f"HTTP/1.1 429 Slow down\n{headers}\nContent-Length: 0")
        with subtests.test(headers), ScriptedServer(answer) as server:
            assert deliver(server) == PostResult(status=429, retry_after=seconds)


def test_deliveries_share_a_session_and_closing_twice_is_no_error() -> None:
    async def attempt(url: str) -> list[int | None]:
        poster = WebhookPoster(ANYWHERE)
        posts = [poster.post(url, method="POST", headers=HEADERS, body=BODY) for _ in range(5)]
        outcomes = await asyncio.gather(*posts)
        await poster.close()
        await poster.close()
        return [outcome.status for outcome in outcomes]

    with ScriptedServer(EMPTY) as server:
        assert asyncio.run(attempt(server.url())) == [200] * 5
        assert len(server.requests) == 5


def test_names_are_looked_up_on_threads_of_their_own() -> None:
    async def look_up() -> tuple[list[str], list[str]]:
        resolver = PooledResolver()
        found = await resolver.resolve("localhost", 80, socket.AF_INET)
        busy = [thread.name for thread in threading.enumerate() if thread.name.startswith("dns")]
        await resolver.close()
        return [result["host"] for result in found], busy

    hosts, threads = asyncio.run(look_up())
    assert hosts == ["127.0.0.1"]
    assert threads
    with ScriptedServer(reply_with("HTTP/1.1 204 No Content")) as server:
        poster = WebhookPoster(ANYWHERE, resolver=PooledResolver())
        assert deliver_by(poster, server.url(host="localhost")).status == 204


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
