"""Fetching a caller's file from a server that may be slow, broken or hostile."""

import gzip
import socket
import ssl
from pathlib import Path

import pytest

from quillpost.core.ports import FetchedDocument, FetchFailed
from quillpost.integrations.http.client import GuardedFetcher
from quillpost.integrations.http.guard import OutboundGuard
from support.certificates import self_signed
from support.scripted_server import (
    ScriptedResolver,
    ScriptedServer,
    reply_with,
    reset_connection,
    stay_silent,
    stream_forever,
)

MB = 1_000_000


def fetch_from(server: ScriptedServer, *, max_bytes: int = MB, seconds: float = 20.0) -> FetchedDocument:
    guard = OutboundGuard(allow=frozenset({server.place}))
    return GuardedFetcher(guard, seconds=seconds).fetch(server.url("/a.png"), max_bytes=max_bytes)


def failure_of(server: ScriptedServer, *, max_bytes: int = MB, seconds: float = 20.0) -> str:
    with pytest.raises(FetchFailed) as failed:
        fetch_from(server, max_bytes=max_bytes, seconds=seconds)
    return str(failed.value)


def test_a_file_comes_with_its_content_type() -> None:
    answer = reply_with("HTTP/1.1 200 OK\nContent-Type: Image/PNG; x=1\nContent-Length: 3", b"png")
    with ScriptedServer(answer) as server:
        assert fetch_from(server) == FetchedDocument("image/png", b"png")
        assert b"Accept-Encoding: identity" in server.requests[0]


def test_a_file_without_content_type_is_bytes() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 3", b"png")) as server:
        assert fetch_from(server) == FetchedDocument("application/octet-stream", b"png")


def test_a_file_of_exactly_the_limit_is_taken() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 10", b"0123456789")) as server:
        assert fetch_from(server, max_bytes=10).body == b"0123456789"


def test_a_file_that_declares_too_much_is_refused() -> None:
    with ScriptedServer(reply_with(f"HTTP/1.1 200 OK\nContent-Length: {2 * MB}")) as server:
        assert failure_of(server) == "The file is larger than 1 MB."


def test_a_file_without_length_is_cut_off_at_the_limit() -> None:
    with ScriptedServer(stream_forever) as server:
        assert failure_of(server) == "The file is larger than 1 MB."


def test_a_chunked_file_is_cut_off_at_the_limit() -> None:
    chunk = b"8\r\n01234567\r\n"
    answer = reply_with("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", chunk * 3 + b"0\r\n\r\n")
    with ScriptedServer(answer) as server:
        assert failure_of(server, max_bytes=20) == "The file is larger than 20 bytes."
        assert fetch_from(server, max_bytes=24).body == b"01234567" * 3


def test_a_server_that_sends_less_than_it_declared_has_broken_off() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 100", b"half")) as server:
        assert failure_of(server) == "127.0.0.1 broke off in the middle of its answer."


def test_a_server_that_sends_more_than_it_declared_is_not_believed() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 4", b"this and more")) as server:
        assert failure_of(server) == "127.0.0.1 gave an answer that is not HTTP."


def test_a_compressed_answer_is_measured_after_unpacking() -> None:
    bomb = gzip.compress(bytes(50 * MB))
    head = f"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: {len(bomb)}"
    with ScriptedServer(reply_with(head, bomb)) as server:
        assert len(bomb) < MB
        assert failure_of(server) == "The file is larger than 1 MB."


def test_a_compressed_answer_within_the_limit_is_unpacked() -> None:
    packed = gzip.compress(b"png")
    head = f"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: {len(packed)}"
    with ScriptedServer(reply_with(head, packed)) as server:
        assert fetch_from(server).body == b"png"


def test_a_redirect_is_not_followed() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 0")) as target:
        moved = reply_with(f"HTTP/1.1 301 Moved\nLocation: {target.url()}\nContent-Length: 0")
        with ScriptedServer(moved) as server:
            error = failure_of(server)
        assert error == "127.0.0.1 redirects to another address: please give the final one."
        assert target.requests == []


@pytest.mark.parametrize("status", [204, 404, 500])
def test_a_response_without_a_file_is_reported_with_its_status(status: int) -> None:
    with ScriptedServer(reply_with(f"HTTP/1.1 {status} Whatever\nContent-Length: 0")) as server:
        assert failure_of(server) == f"127.0.0.1 answered with status {status}."


def test_a_silent_server_is_given_up() -> None:
    with ScriptedServer(stay_silent) as server:
        error = failure_of(server, seconds=0.2)
    assert error == "127.0.0.1 did not answer within 0.2 seconds."


def test_a_server_that_stalls_in_its_answer_is_given_up() -> None:
    def stalling(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
        stay_silent(connection)

    with ScriptedServer(stalling) as server:
        error = failure_of(server, seconds=0.2)
    assert error == "127.0.0.1 did not answer within 0.2 seconds."


def test_a_reset_connection_is_reported() -> None:
    with ScriptedServer(reset_connection) as server:
        assert failure_of(server) == "127.0.0.1 closed the connection without an answer."


def test_a_closed_connection_is_reported() -> None:
    with ScriptedServer(lambda connection: None) as server:
        assert failure_of(server) == "127.0.0.1 closed the connection without an answer."


def test_a_response_that_is_not_http_is_reported() -> None:
    with ScriptedServer(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")) as server:
        assert failure_of(server) == "127.0.0.1 gave an answer that is not HTTP."


def test_a_closed_port_is_reported() -> None:
    with ScriptedServer(reset_connection) as server:
        pass
    assert failure_of(server) == "127.0.0.1 could not be reached."


def test_an_unknown_host_name_is_reported() -> None:
    fetcher = GuardedFetcher(OutboundGuard(), resolver=ScriptedResolver([]))
    with pytest.raises(FetchFailed, match=r"^The server nowhere.example could not be found\.$"):
        fetcher.fetch("http://nowhere.example/a.png", max_bytes=MB)


def test_a_name_with_a_private_address_is_reported_without_the_address() -> None:
    fetcher = GuardedFetcher(OutboundGuard(), resolver=ScriptedResolver(["10.1.2.3"]))
    with pytest.raises(FetchFailed, match=r"^intranet.example is not a public address\.$"):
        fetcher.fetch("http://intranet.example/a.png", max_bytes=MB)


def test_a_wrong_url_is_refused_before_any_request() -> None:
    with pytest.raises(FetchFailed, match="must start with http"):
        GuardedFetcher(OutboundGuard()).fetch("ftp://example.com/a.png", max_bytes=MB)


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    with ScriptedServer(reset_connection, tls=self_signed(tmp_path)) as server:
        fetcher = GuardedFetcher(OutboundGuard(allow_private=True))
        with pytest.raises(FetchFailed, match=r"^The certificate of 127.0.0.1 could not be verif"):
            fetcher.fetch(server.url(scheme="https"), max_bytes=MB)
        assert server.requests == []


def test_a_certificate_that_we_trust_is_taken(tmp_path: Path) -> None:
    answer = reply_with("HTTP/1.1 200 OK\nContent-Length: 3", b"png")
    with ScriptedServer(answer, tls=self_signed(tmp_path)) as server:
        trusting = ssl.create_default_context(cafile=tmp_path / "server.pem")
        fetcher = GuardedFetcher(OutboundGuard(allow_private=True), tls=trusting)
        assert fetcher.fetch(server.url(scheme="https"), max_bytes=MB).body == b"png"


def test_a_server_without_tls_is_reported() -> None:
    with ScriptedServer(lambda connection: connection.sendall(b"plain text\r\n\r\n")) as server:
        fetcher = GuardedFetcher(OutboundGuard(allow_private=True))
        with pytest.raises(FetchFailed, match=r"^No secure connection to 127.0.0.1 could be made"):
            fetcher.fetch(server.url(scheme="https"), max_bytes=MB)
