"""Subscriptions of an account, of a sub account and to a list, each told of what it is for, by the engine."""

from collections.abc import Iterator
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.event_receiver import EventReceiver, run_dispatcher
from support.factories import Account, Build, Clock, make_live, make_sub_account, make_teammate, person, run_due_jobs
from support.test_client import TestClient


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


@pytest.fixture
def http(container: Container) -> Iterator[TestClient]:
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        yield http


@pytest.fixture
def receiver() -> Iterator[EventReceiver]:
    with EventReceiver() as receiver:
        yield receiver


def subscribe(account: Account, receiver: EventReceiver, path: str, **how: Any) -> int:
    made = account.post("/webhooks", {"url": receiver.url_of(path), "type": "*"} | how)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def make_list(account: Account, *names: str, **how: Any) -> int:
    list_id = int(account.post("/mailing-lists", {"description": "People", **how}).json()["id"])
    for name in names:
        someone = person(name=name, address=f"{len(name)} Main St", mailing_list_id=list_id)
        assert account.post("/recipients", someone).status_code == 201
    return list_id


def send(account: Account, **how: Any) -> int:
    sent = account.send(**how)
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def received_events(receiver: EventReceiver, path: str) -> set[tuple[int, str | None]]:
    """Of which orders, and of whom: nobody, where the order itself is meant."""
    return {(each.data["order.id"], each.data.get("recipient.name")) for each in receiver.at(path)}


def test_each_subscription_receives_its_own_events(
    owner: Account, stranger: Account, container: Container, clock: Clock, receiver: EventReceiver
) -> None:
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    friends, others = make_list(owner, "Ann", "Bert"), make_list(owner, "Constance")
    subscribe(owner, receiver, "/account")
    subscribe(owner, receiver, "/orders", type="order.status_update")
    subscribe(owner, receiver, "/branch", sub_account_id=branch)
    subscribe(teammate, receiver, "/teammate")
    subscribe(owner, receiver, "/friends", mailing_list_id=friends)
    subscribe(make_live(container, owner), receiver, "/live")
    subscribe(stranger, receiver, "/stranger")

    plain = send(owner)
    ours = send(owner, sub_account_id=branch)
    both = send(owner, recipients=[person()], mailing_list_ids=[friends, others])
    run_due_jobs(container)
    everything = {
        (plain, None), (plain, "Jane Doe"), (ours, None), (ours, "Jane Doe"),
        (both, None), (both, "Jane Doe"), (both, "Ann"), (both, "Bert"), (both, "Constance"),
    }  # fmt: skip
    with run_dispatcher(container):
        for path, how_many in (("/account", 9), ("/orders", 3), ("/branch", 2), ("/friends", 3)):
            receiver.wait(path, how_many)
        receiver.wait("/teammate", 2)
    assert received_events(receiver, "/account") == everything
    assert received_events(receiver, "/orders") == {(order, None) for order in (plain, ours, both)}
    assert (
        received_events(receiver, "/branch")
        == received_events(receiver, "/teammate")
        == {(ours, None), (ours, "Jane Doe")}
    )
    assert received_events(receiver, "/friends") == {(both, None), (both, "Ann"), (both, "Bert")}
    assert received_events(receiver, "/live") == received_events(receiver, "/stranger") == set()


def test_retried_and_replayed_events_arrive_again(
    owner: Account, container: Container, clock: Clock, receiver: EventReceiver
) -> None:
    hook = subscribe(owner, receiver, "/hook")
    send(owner)
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
