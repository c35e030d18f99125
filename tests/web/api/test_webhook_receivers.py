"""Deliveries as receivers get them: of what they are for, and verified by the packages and examples that they use."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from quillpost.app.container import Container
from quillpost.app.runtime import now
from quillpost.client.signatures import new_secret, sign
from quillpost.notifications.webhooks.rules import RETRY_DELAYS
from support.event_receiver import EventReceiver, ReceivedEvent, run_dispatcher
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate, person, run_due_jobs

ROOT = Path(__file__).parents[3]
served = pytest.mark.usefixtures("clean_database", "loopback_urls")
METADATA = {"name": "Zoë ✓", "nested": {"a": [1, 2.5, None]}}


@pytest.fixture
def receiver() -> Iterator[EventReceiver]:
    with EventReceiver() as receiver:
        yield receiver


def subscribe(account: Account, receiver: EventReceiver, path: str = "/hook", **how: Any) -> tuple[int, str]:
    made = account.post("/webhooks", {"url": receiver.url(path), "type": "*"} | how)
    assert made.status_code == 201, made.text
    return made.json()["id"], made.json()["secret"]


def make_list(account: Account, *names: str) -> int:
    list_id = int(account.post("/mailing-lists", {"description": "People"}).json()["id"])
    for name in names:
        someone = person(name=name, address=f"{len(name)} Main St", mailing_list_id=list_id)
        assert account.post("/recipients", someone).status_code == 201
    return list_id


def received_events(receiver: EventReceiver, path: str) -> set[tuple[int, str | None]]:
    """Of which orders, and of whom: nobody, where the order itself is meant."""
    return {(each.data["order.id"], each.data.get("recipient.name")) for each in receiver.at(path)}


@served
def test_each_subscription_receives_its_own_events(
    owner: Account, stranger: Account, container: Container, receiver: EventReceiver
) -> None:
    branch = make_sub_account(container, owner)
    friends, others = make_list(owner, "Ann", "Bert"), make_list(owner, "Constance")
    subscribe(owner, receiver, "/account")
    subscribe(owner, receiver, "/orders", type="order.status_update")
    subscribe(owner, receiver, "/branch", sub_account_id=branch)
    subscribe(make_teammate(container, owner, branch), receiver, "/teammate")
    subscribe(owner, receiver, "/friends", mailing_list_id=friends)
    subscribe(make_live(container, owner), receiver, "/live")
    subscribe(stranger, receiver, "/stranger")
    plain, ours, both = (
        int(owner.send(**how).json()["id"])
        for how in ({}, {"sub_account_id": branch}, {"mailing_list_ids": [friends, others]})
    )
    run_due_jobs(container)
    of_branch = {(ours, None), (ours, "Jane Doe")}
    to_friends = {(both, None), (both, "Ann"), (both, "Bert")}
    expected: dict[str, set[tuple[int, str | None]]] = {
        "/account": {(plain, None), (plain, "Jane Doe"), (both, "Jane Doe"), (both, "Constance")}
        | of_branch
        | to_friends,
        "/orders": {(order, None) for order in (plain, ours, both)},
        "/branch": of_branch,
        "/teammate": of_branch,
        "/friends": to_friends,
        "/live": set(),
        "/stranger": set(),
    }
    with run_dispatcher(container):
        for path, events in expected.items():
            receiver.wait(path, len(events))
    assert {path: received_events(receiver, path) for path in expected} == expected


@served
def test_a_replay_sends_its_events_once_more(
    owner: Account, container: Container, clock: Clock, receiver: EventReceiver
) -> None:
    hook, _ = subscribe(owner, receiver)
    owner.send()
    with run_dispatcher(container):
        first = receiver.wait("/hook", 2)
    clock.advance(minutes=1)
    log = owner.get(f"/webhooks/{hook}/deliveries?status=delivered").json()["data"]
    assert {row["request_body"] for row in log} == {each.body.decode() for each in first}
    assert {(row["response_status"], row["attempts"]) for row in log} == {(204, 1)}
    assert owner.post(f"/webhooks/{hook}/deliveries/{log[0]['id']}/retry").status_code == 200
    with run_dispatcher(container):
        assert receiver.wait("/hook", 3)[2].body.decode() == log[0]["request_body"]
    clock.advance(minutes=1)
    response = owner.post(f"/webhooks/{hook}/replay", {"from": "2026-05-04T12:00:00Z"})
    assert (response.status_code, response.json()["events"]) == (202, 2)
    run_due_jobs(container)
    with run_dispatcher(container):
        replayed = receiver.wait("/hook", 5)[3:]
    assert sorted(each.body for each in replayed) == sorted(each.body for each in first)
    assert owner.get(f"/webhooks/{hook}").json()["invoke_count"] == 5


Verify = Callable[[list[str], ReceivedEvent], list[Any]]
"""What each of the secrets makes of an event; nothing where the package does not believe it."""


def by_pypi(secrets: list[str], arrived: ReceivedEvent) -> list[Any]:
    found = []
    for secret in secrets:
        try:
            found.append(Webhook(secret).verify(arrived.body, dict(arrived.headers)))
        except WebhookVerificationError:
            found.append(None)
    return found


def by_npm(secrets: list[str], arrived: ReceivedEvent) -> list[Any]:
    given = [(secret, dict(arrived.headers), arrived.body.decode()) for secret in secrets]
    return list(run_node(str(Path(__file__).with_name("verify_webhook.cjs")), given=json.dumps(given)))


def run_node(*arguments: str, given: str = "") -> Any:
    done = subprocess.run(
        ["node", *arguments], cwd=ROOT, input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def has_node() -> bool:
    """Where it is not installed there is nobody to ask; `.ci/run` insists on it."""
    is_there = shutil.which("node") is not None and (ROOT / "node_modules" / "standardwebhooks").exists()
    assert is_there or "NODE_IS_REQUIRED" not in os.environ, "Node.js or its package standardwebhooks is missing."
    return is_there


def verifiers() -> list[Verify]:
    return [by_pypi, by_npm] if has_node() else [by_pypi]


@pytest.fixture
def real_clock(clock: Clock, container: Container) -> Clock:
    """Our own time: whoever verifies a signature asks how old it is."""
    assert container.clock() == clock.now()
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return clock


@served
@pytest.mark.usefixtures("real_clock")
def test_an_event_is_believed_by_its_secret(owner: Account, container: Container, receiver: EventReceiver) -> None:
    _, secret = subscribe(owner, receiver)
    _, another = subscribe(owner, receiver, "/other")
    owner.send(metadata=METADATA)
    with run_dispatcher(container):
        first, _ = receiver.wait("/hook", 2)
    for verify in verifiers():
        believed, not_believed = verify([secret, another], first)
        assert (believed, believed["data"]["order.metadata"]) == (first.message, METADATA)
        assert first.headers["webhook-id"] == believed["event_id"]
        assert not_believed is None


@served
def test_for_a_day_both_secrets_are_good_and_then_only_the_new_one(
    owner: Account, container: Container, receiver: EventReceiver, real_clock: Clock
) -> None:
    real_clock.advance(hours=-24)
    hook, oldest = subscribe(owner, receiver)
    old = owner.post(f"/webhooks/{hook}/rotate-secret").json()["secret"]
    real_clock.advance(seconds=1)
    new = owner.post(f"/webhooks/{hook}/rotate-secret").json()["secret"]
    real_clock.advance(hours=24, seconds=-2)  # a second before it is over, which is now
    for number, expected in enumerate(([False, True, True], [False, False, True]), 1):
        assert owner.post(f"/webhooks/{hook}/test").status_code == 200
        with run_dispatcher(container):
            arrived = receiver.wait("/hook", number)[-1]
        for verify in verifiers():
            assert [answer is not None for answer in verify([oldest, old, new], arrived)] == expected
        assert len(arrived.headers["webhook-signature"].split()) == sum(expected)
        real_clock.advance(seconds=2)


@served
@pytest.mark.usefixtures("real_clock")
def test_a_get_is_signed_over_an_empty_body(owner: Account, container: Container, receiver: EventReceiver) -> None:
    hook, secret = subscribe(owner, receiver, verb="get")
    event = owner.post(f"/webhooks/{hook}/test").json()["event_id"]
    with run_dispatcher(container):
        [arrived] = receiver.wait("/hook", 1)
    assert (arrived.method, arrived.body, arrived.message["event_id"]) == ("GET", b"", event)
    stamp = datetime.fromtimestamp(int(arrived.headers["webhook-timestamp"]), UTC)
    assert Webhook(secret).sign(event, stamp, "") == arrived.headers["webhook-signature"]


class TestGuide:
    """The receivers that the guide to webhooks shows believe a real delivery, and nothing else."""

    text = (ROOT / "docs" / "webhooks.md").read_text()
    body = b'{"event_type":"order.status_update","event_id":"e-1","data":{"order.id":1}}'
    secret, other = new_secret(b"a" * 32), new_secret(b"b" * 32)

    def examples(self, language: str) -> list[str]:
        return re.findall(rf"```{language}\n(.*?)```", self.text, re.DOTALL)

    def headers(self, *secrets: str) -> dict[str, str]:
        return sign(secrets or [self.secret], message_id="e-1", at=now(), body=self.body)

    def test_the_python_examples_tell_genuine_events_from_others(self) -> None:
        shown: dict[str, Any] = {}
        for example in self.examples("python"):
            exec(example, shown)
        receive, is_genuine = shown["receive"], shown["is_genuine"]
        for headers in (self.headers(), self.headers(self.other, self.secret)):
            assert receive(self.body, headers, self.secret) == json.loads(self.body)
            assert is_genuine(self.body, headers, self.secret)
        with pytest.raises(WebhookVerificationError):
            receive(self.body, self.headers(), self.other)
        assert not is_genuine(self.body, self.headers(), self.other)
        assert not is_genuine(self.body + b" ", self.headers(), self.secret)
        old = str(int(now().timestamp()) - 301)
        assert not is_genuine(self.body, self.headers() | {"webhook-timestamp": old}, self.secret)

    @pytest.mark.skipif(not has_node(), reason="Node.js and its package standardwebhooks are not installed")
    def test_the_node_example_takes_a_genuine_event(self) -> None:
        [example] = self.examples("js")
        given = json.dumps([self.body.decode(), self.headers(), self.secret])
        shown = run_node("-e", f"{example}\nconsole.log(JSON.stringify(receive(...{given})));")
        assert shown == json.loads(self.body)

    def test_the_documented_schedule_of_retries_is_ours(self) -> None:
        units = {"s": 1, "min": 60, "h": 3_600}
        [row] = re.findall(r"^\| we wait \| (.*) \| it has failed \|$", self.text, re.MULTILINE)
        waits = [wait.split() for wait in row.split(" | ")]
        assert [int(number) * units[unit] for number, unit in waits] == [wait.total_seconds() for wait in RETRY_DELAYS]
