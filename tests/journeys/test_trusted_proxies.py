"""Whom a server believes where a request is from."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from event_receiver import EventReceiver
from office import Office, opened_office
from processes import Nursery, answers, free_port, until

CLAIMED = "203.0.113.7"
FORWARDED = {"X-Forwarded-For": CLAIMED, "X-Forwarded-Proto": "https", "X-Forwarded-Host": "elsewhere.example"}
NOTED = "select network from audit_log where act = 'webhook.created' order by id desc limit 1"


@pytest.fixture
def office(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, receiver) as office:
        yield office


@contextmanager
def served(office: Office, nursery: Nursery, proxies: str | None) -> Iterator[str]:
    port = free_port()
    settings = office.settings | ({} if proxies is None else {"QUILLPOST_TRUSTED_PROXIES": proxies})
    server = nursery.start("serve", "--no-jobs", "--port", str(port), settings=settings)
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
    office: Office, nursery: Nursery, proxies: str | None, is_believed: bool
) -> None:
    with served(office, nursery, proxies) as url:
        headers = FORWARDED | {"Authorization": f"Bearer {office.sender.token}"}
        hook = {"url": "https://example.com/hook", "type": "*"}
        made = httpx2.post(f"{url}/api/v2/webhooks", json=hook, headers=headers, timeout=30)
        assert made.status_code == 201, made.text
        page = httpx2.get(f"{url}/sign-in", headers=FORWARDED, timeout=30)
    assert office.value(NOTED) == (CLAIMED if is_believed else "127.0.0.1")
    assert ("Strict-Transport-Security" in page.headers) == is_believed
    assert ("__Host-" in page.headers["Set-Cookie"]) == is_believed
    assert "elsewhere.example" not in page.text
