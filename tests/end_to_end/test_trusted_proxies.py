"""Whom a server believes where a request is from."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from support.event_receiver import EventReceiver
from support.processes import CommandRunner, answers, free_port, until
from support.sender_office import SenderService, open_sender_service

CLAIMED = "203.0.113.7"
FORWARDED = {"X-Forwarded-For": CLAIMED, "X-Forwarded-Proto": "https", "X-Forwarded-Host": "elsewhere.example"}
NOTED = "select network from audit_log where act = 'webhook.created' order by id desc limit 1"


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver) as sender_service:
        yield sender_service


@contextmanager
def served(sender_service: SenderService, command_runner: CommandRunner, proxies: str | None) -> Iterator[str]:
    port = free_port()
    settings = sender_service.settings | ({} if proxies is None else {"QUILLPOST_TRUSTED_PROXIES": proxies})
    server = command_runner.start("serve", "--no-jobs", "--port", str(port), settings=settings)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(url, "/health"), what="the server alive")
        yield url
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("proxies", "is_believed"),
    [(None, False), ("10.0.0.0/8, ::1", False), ("127.0.0.1", True), ("10.0.0.1,127.0.0.0/8", True)],
    ids=["none by default", "others", "by address", "by network"],
)
def test_a_proxy_is_believed_if_it_is_named(
    sender_service: SenderService, command_runner: CommandRunner, proxies: str | None, is_believed: bool
) -> None:
    with served(sender_service, command_runner, proxies) as url:
        headers = FORWARDED | {"Authorization": f"Bearer {sender_service.sender.token}"}
        hook = {"url": "https://example.com/hook", "type": "*"}
        made = httpx2.post(f"{url}/api/v2/webhooks", json=hook, headers=headers, timeout=30)
        assert made.status_code == 201, made.text
        page = httpx2.get(f"{url}/sign-in", headers=FORWARDED, timeout=30)
    assert sender_service.value(NOTED) == (CLAIMED if is_believed else "127.0.0.1")
    assert ("Strict-Transport-Security" in page.headers) == is_believed
    assert ("__Host-" in page.headers["Set-Cookie"]) == is_believed
    assert "elsewhere.example" not in page.text
