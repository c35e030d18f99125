"""Delivering a webhook to a subscriber that may be slow, broken or hostile."""

import asyncio
import socket
import threading
from collections.abc import Mapping

import pytest

from quillpost.integrations.http.client import WebhookPoster
from quillpost.integrations.http.guard import OutboundGuard, PooledResolver
from quillpost.notifications.ports import PostResult
from support.scripted_server import (
    ScriptedResolver,
    ScriptedServer,
    reply_with,
    reset_connection,
    stay_silent,
    stream_forever,
)

BODY = b'{"event_type":"order_item.delivered"}'
HEADERS: Mapping[str, str] = {"content-type": "application/json", "webhook-id": "7"}


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


def test_a_delivery_carries_its_headers_and_exact_body() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 6", b"thanks")) as server:
        assert deliver(server) == PostResult(status=200, body="thanks")
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hook HTTP/1.1\r\n")
    assert b"\r\nwebhook-id: 7" in head
    assert b"\r\ncontent-type: application/json" in head
    assert body == BODY


def test_a_get_delivery_has_no_body() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 204 No Content")) as server:
        assert deliver(server, method="GET", body=b"") == PostResult(status=204)
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"GET /hook HTTP/1.1\r\n")
    assert b"content-length" not in head.lower()
    assert body == b""


def test_a_get_delivery_with_a_long_query_is_made() -> None:
    path = "/hook?order.metadata=" + "x" * 5_000
    with ScriptedServer(reply_with("HTTP/1.1 204 No Content")) as server:
        poster = WebhookPoster(OutboundGuard(allow=frozenset({server.place})))
        assert deliver_by(poster, server.url(path), "GET", b"") == PostResult(status=204)
        assert server.requests[0].startswith(f"GET {path} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("status", [400, 410, 500])
def test_a_refusal_is_an_outcome_with_its_status(status: int) -> None:
    with ScriptedServer(reply_with(f"HTTP/1.1 {status} No\nContent-Length: 2", b"no")) as server:
        assert deliver(server) == PostResult(status=status, body="no")


def test_a_redirect_is_not_followed() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 0")) as target:
        moved = reply_with(f"HTTP/1.1 301 Moved\nLocation: {target.url()}\nContent-Length: 0")
        with ScriptedServer(moved) as server:
            assert deliver(server) == PostResult(status=301)
        assert target.requests == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ("Retry-After: 120", 120),
        ("Retry-After: 0", 0),
        ("Retry-After: 99999999999999999999", 86_400),
        ("Date: Mon, 02 Mar 2026 10:00:00 GMT\nRetry-After: Mon, 02 Mar 2026 10:05:30 GMT", 330),
        ("Date: Mon, 02 Mar 2026 10:00:00 GMT\nRetry-After: Mon, 02 Mar 2026 09:00:00 GMT", 0),
        ("Date: Mon, 02 Mar 2026 10:00:00 GMT\nRetry-After: Mon, 02 Mar 2026 10:05:30", None),
        ("Retry-After: Mon, 02 Mar 2026 10:05:30 GMT", None),
        ("Retry-After: soon", None),
        ("Retry-After: -5", None),
        ("Retry-After: ٣", None),
        ("X-Other: 1", None),
    ],
)
def test_a_subscriber_may_ask_for_a_pause(headers: str, seconds: int | None) -> None:
    with ScriptedServer(reply_with(f"HTTP/1.1 429 Slow down\n{headers}\nContent-Length: 0")) as server:
        assert deliver(server) == PostResult(status=429, retry_after=seconds)


def test_a_long_answer_is_kept_to_its_first_2000_characters() -> None:
    answer = "é" * 5_000
    head = f"HTTP/1.1 200 OK\nContent-Length: {len(answer.encode())}"
    with ScriptedServer(reply_with(head, answer.encode())) as server:
        assert deliver(server).body == "é" * 2_000


def test_an_endless_answer_is_cut_off() -> None:
    with ScriptedServer(stream_forever) as server:
        assert deliver(server) == PostResult(status=200, body="x" * 2_000)


def test_an_answer_that_the_database_could_not_store_is_made_harmless() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 4", b"a\0\xffb")) as server:
        assert deliver(server).body == "a\ufffd\ufffdb"


def test_a_silent_subscriber_is_given_up() -> None:
    with ScriptedServer(stay_silent) as server:
        outcome = deliver(server, seconds=0.2)
    assert outcome == PostResult(status=None, error="127.0.0.1 did not answer within 0.2 seconds.")


def test_a_status_counts_though_the_body_never_comes() -> None:
    def stalling(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
        stay_silent(connection)

    with ScriptedServer(stalling) as server:
        assert deliver(server, seconds=0.5) == PostResult(status=200, body="some")


def test_a_reset_connection_is_an_outcome() -> None:
    with ScriptedServer(reset_connection) as server:
        outcome = deliver(server)
    assert outcome.status is None
    assert outcome.error == "127.0.0.1 closed the connection without an answer."


def test_a_closed_port_is_an_outcome() -> None:
    with ScriptedServer(reset_connection) as server:
        pass
    assert deliver(server).error == "127.0.0.1 could not be reached."


def test_a_subscriber_inside_our_network_is_refused() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 0")) as server:
        poster = WebhookPoster(OutboundGuard(), resolver=ScriptedResolver(["127.0.0.1"]))
        outcome = deliver_by(poster, server.url(host="hooks.example.com"))
        assert outcome.error == "hooks.example.com is not a public address."
        assert server.requests == []


@pytest.mark.parametrize("url", ["ftp://example.com/", "http://127.0.0.1/", "http://a b/"])
def test_a_wrong_url_is_an_outcome(url: str) -> None:
    outcome = deliver_by(WebhookPoster(OutboundGuard()), url)
    assert outcome.status is None
    assert outcome.error


def test_a_header_that_would_smuggle_another_is_an_outcome() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 0")) as server:
        poster = WebhookPoster(OutboundGuard(allow_private=True))
        outcome = deliver_by(poster, server.url(), headers={"x": "1\r\ny: 2"})
        assert outcome.error == "127.0.0.1 could not be asked: the request is not valid."
        assert b"".join(server.requests) == b"", "the connection may be made, but nothing is said"


def test_deliveries_share_a_session_and_closing_twice_is_no_error() -> None:
    async def attempt(url: str) -> list[int | None]:
        poster = WebhookPoster(OutboundGuard(allow_private=True))
        outcomes = await asyncio.gather(
            *(poster.post(url, method="POST", headers=HEADERS, body=BODY) for _ in range(5))
        )
        await poster.close()
        await poster.close()
        return [outcome.status for outcome in outcomes]

    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 0")) as server:
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


def test_a_webhook_by_name_is_delivered_through_the_pooled_resolver() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 204 No Content")) as server:
        poster = WebhookPoster(OutboundGuard(allow_private=True), resolver=PooledResolver())
        outcome = deliver_by(poster, server.url(host="localhost"))
    assert outcome.status == 204
