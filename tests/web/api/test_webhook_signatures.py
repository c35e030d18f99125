"""Deliveries verified by the packages that receivers use: Standard Webhooks, of PyPI and of npm."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.event_receiver import EventReceiver, ReceivedEvent, run_dispatcher
from support.factories import Account, Build, Clock, make_account
from support.test_client import TestClient

ROOT = Path(__file__).parents[3]
METADATA = {"name": "Zoë ✓", "nested": {"a": [1, 2.5, None]}}


def by_pypi(secret: str, arrived: ReceivedEvent) -> Any:
    """The event, or nothing where the package does not believe it."""
    try:
        return Webhook(secret).verify(arrived.body, dict(arrived.headers))
    except WebhookVerificationError:
        return None


def by_npm(*signed_events: tuple[str, ReceivedEvent]) -> list[Any]:
    """The same, by Node.js. Where that is not installed there is nobody to ask; `.ci/run` insists on it."""
    node = shutil.which("node")
    if node is None or not (ROOT / "node_modules" / "standardwebhooks").exists():
        assert "NODE_IS_REQUIRED" not in os.environ, "Node.js or its package standardwebhooks is missing."
        pytest.skip("Node.js and its package standardwebhooks are not installed")
    payload = [(secret, dict(each.headers), each.body.decode()) for secret, each in signed_events]
    script = Path(__file__).with_name("verify_webhook.cjs")
    done = subprocess.run(
        [node, str(script)], input=json.dumps(payload), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.fixture
def clock() -> Clock:
    """Our own time: whoever verifies a signature asks how old it is."""
    clock = Clock()
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return clock


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


@pytest.fixture
def owner(container: Container) -> Iterator[Account]:
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        yield make_account(container, http, "owner@example.com")


@pytest.fixture
def receiver() -> Iterator[EventReceiver]:
    with EventReceiver() as receiver:
        yield receiver


def subscribe(account: Account, receiver: EventReceiver, **how: Any) -> tuple[int, str]:
    made = account.post("/webhooks", {"url": receiver.url_of("/hook"), "type": "*"} | how)
    assert made.status_code == 201, made.text
    return made.json()["id"], made.json()["secret"]


@pytest.mark.parametrize("verify", ["pypi", "npm"])
def test_an_event_is_believed_with_its_secret_alone(
    owner: Account, container: Container, receiver: EventReceiver, verify: str
) -> None:
    _, secret = subscribe(owner, receiver)
    _, another = subscribe(owner, receiver, url=receiver.url_of("/other"))
    assert owner.send(metadata=METADATA).status_code == 200
    with run_dispatcher(container):
        first, _ = receiver.wait("/hook", 2)
    believed, not_believed = (
        by_npm((secret, first), (another, first))
        if verify == "npm"
        else [by_pypi(secret, first), by_pypi(another, first)]
    )
    assert believed == first.message
    assert believed["data"]["order.metadata"] == METADATA
    assert first.headers["webhook-id"] == believed["event_id"]
    assert not_believed is None


@pytest.mark.parametrize("verify", ["pypi", "npm"])
def test_for_a_day_both_secrets_are_good_and_then_the_new_one_alone(
    owner: Account, container: Container, receiver: EventReceiver, clock: Clock, verify: str
) -> None:
    clock.advance(hours=-24)
    hook, oldest = subscribe(owner, receiver)
    old = owner.post(f"/webhooks/{hook}/rotate-secret").json()["secret"]
    clock.advance(seconds=1)
    new = owner.post(f"/webhooks/{hook}/rotate-secret").json()["secret"]
    clock.advance(hours=24, seconds=-2)  # a second before it is over, which is now
    for number in (1, 2):
        assert owner.post(f"/webhooks/{hook}/test").status_code == 200
        with run_dispatcher(container):
            arrived = receiver.wait("/hook", number)[-1]
        signed_events = [(secret, arrived) for secret in (oldest, old, new)]
        answers = by_npm(*signed_events) if verify == "npm" else [by_pypi(*each) for each in signed_events]
        good = [answer is not None for answer in answers]
        assert good == ([False, True, True] if number == 1 else [False, False, True])
        assert len(arrived.headers["webhook-signature"].split()) == sum(good)
        clock.advance(seconds=2)


def test_a_delivery_by_get_is_signed_over_an_empty_body(
    owner: Account, container: Container, receiver: EventReceiver
) -> None:
    hook, secret = subscribe(owner, receiver, verb="get")
    event = owner.post(f"/webhooks/{hook}/test").json()["event_id"]
    with run_dispatcher(container):
        [arrived] = receiver.wait("/hook", 1)
    assert (arrived.method, arrived.body, arrived.message["event_id"]) == ("GET", b"", event)
    stamp = datetime.fromtimestamp(int(arrived.headers["webhook-timestamp"]), UTC)
    assert Webhook(secret).sign(event, stamp, "") == arrived.headers["webhook-signature"]
