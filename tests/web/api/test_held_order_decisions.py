"""An operator's verdict on an order: released or refused, once, by those who may."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import facts, ledger_moves, orders
from quillpost.core.database.tables.fulfillment import order_verdicts
from quillpost.core.errors import Conflict, Refused
from quillpost.fulfillment.review import service as review_service
from quillpost.orders import changes
from quillpost.orders.changes import MESSAGE_CHANGED_WHILE_HELD
from quillpost.orders.models import Order
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_live,
    make_operator,
    make_sub_account,
    make_teammate,
    people,
    person,
    run_due_jobs,
    run_jobs_for,
)
from support.print_room import UNFILLED, create_held_order
from support.test_client import TestClient
from support.traces import traces
from support.waiting import wait_until

ACTS = ("release", "refuse")
WHY = {"reason": "The picture is not yours."}


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http)


def stored_decisions(container: Container) -> list[tuple[int, str, str, list[str]]]:
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(order_verdicts).order_by(order_verdicts.c.id))
        return [(row.order_id, row.verdict, row.reason, row.reasons) for row in rows]


def books(container: Container) -> list[tuple[str, int]]:
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(ledger_moves).order_by(ledger_moves.c.id))
        return [(row.kind, row.cents) for row in rows]


# What it does


def test_a_released_order_is_printed(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    order_id = create_held_order(owner, container, clock)
    [why] = owner.get(f"/orders/{order_id}").json()["warnings"]
    answer = operator.post(f"/orders/{order_id}/release", {"reason": "It reads well all the same."})
    assert answer.status_code == 200, answer.text
    order = answer.json()
    assert (order["id"], order["status"], order["cancellable"]) == (order_id, "Processing", False)
    assert order["warnings"] == []
    assert stored_decisions(container) == [(order_id, "released", "It reads well all the same.", [why])]
    run_due_jobs(container)
    run_jobs_for(container, clock, seconds=5)
    assert owner.get(f"/orders/{order_id}").json()["status"] in ("Printing", "Mailed", "Fulfilled")
    with container.db.system_transaction() as tx:
        of_order = facts.c.order_id == order_id, facts.c.item_id.is_(None)
        statuses = [row.current for row in tx.execute(sa.select(facts).where(*of_order).order_by(facts.c.id))]
    assert statuses[:4] == ["reviewing", "paused", "processing", "printing"]


def test_a_release_needs_no_reason(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    for body in (None, {}, {"reason": None}, {"reason": "  "}):
        order_id = create_held_order(owner, container, clock)
        assert operator.post(f"/orders/{order_id}/release", body).status_code == 200
        assert stored_decisions(container)[-1][:3] == (order_id, "released", "")


def test_a_refused_order_ends_and_its_money_goes_back(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock, recipients=people(3))
    with container.db.system_transaction() as tx:
        last = tx.execute(sa.select(sa.func.max(facts.c.id))).scalar_one()
    answer = operator.post(f"/orders/{order_id}/refuse", WHY)
    assert answer.status_code == 200, answer.text
    order = owner.get(f"/orders/{order_id}").json()
    assert order == answer.json() | {"high_quality_preview": order["high_quality_preview"]}
    assert (order["status"], order["cancellable"], order["order_total"]) == ("Error", False, 0)
    assert order["warnings"] == ["An operator refused this order: The picture is not yours."]
    items = owner.get(f"/orders/{order_id}/items").json()["data"]
    assert {(item["status"], item["failure"]) for item in items} == {
        ("Failed", "Order refused: The picture is not yours.")
    }
    stats = owner.get(f"/orders/{order_id}/track").json()["data"]["stats"]
    assert (stats["failed"], stats["processing"]) == (3, 0)
    assert books(container) == [("authorise", 327), ("release", 327)]
    with container.db.system_transaction() as tx:
        [event] = tx.execute(sa.select(facts).where(facts.c.id > last))
    assert (event.kind, event.item_id, event.previous, event.current) == (
        "order.status", None, "paused", "error",
    )  # fmt: skip
    assert [(order, decision) for order, decision, *_ in stored_decisions(container)] == [(order_id, "refused")]


def test_the_history_of_a_refused_piece_ends_with_its_failure(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock)
    operator.post(f"/orders/{order_id}/refuse", WHY)
    [item] = owner.get(f"/orders/{order_id}/items").json()["data"]
    events = owner.get(f"/order-items/{item['id']}").json()["events"]
    assert [event["status"] for event in events] == ["Processing", "Failed"]


def test_an_order_under_review_can_be_refused_and_is_never_made(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = owner.send().json()["id"]
    assert operator.post(f"/orders/{order_id}/refuse", WHY).json()["status"] == "Error"
    run_jobs_for(container, clock, seconds=30)
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Error"
    assert list(container.storage.store.keys("")) == []


def test_an_order_whose_lists_are_yet_to_become_items_can_be_refused(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    friends = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=friends))
    order_id = owner.send(mailing_list_ids=[friends], recipients=None).json()["id"]
    assert operator.post(f"/orders/{order_id}/refuse", WHY).json()["status"] == "Error"
    run_jobs_for(container, clock, seconds=12)
    order = owner.get(f"/orders/{order_id}").json()
    assert (order["status"], order["order_total"]) == ("Error", 0)
    assert owner.get(f"/orders/{order_id}/items").json()["data"] == []
    assert [kind for kind, _ in books(container)] == ["authorise", "release"]


def test_people_suppressed_while_an_order_is_held_are_not_mailed(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock, recipients=people(2))
    suppression_list = owner.post("/mailing-lists", {"description": "Not to be mailed", "is_suppression_list": True})
    owner.post("/recipients", people(1)[0] | {"mailing_list_id": suppression_list.json()["id"]})
    operator.post(f"/orders/{order_id}/release")
    failures = [item["failure"] for item in owner.get(f"/orders/{order_id}/items").json()["data"]]
    assert failures == ["This address is on a suppression list.", None]


# Who may


def outsiders(container: Container, http: TestClient, owner: Account, operator: Account) -> dict[str, Account]:
    sub_account = make_sub_account(container, operator)
    return {
        "the sender": owner,
        "a stranger": make_account(container, http, "another@example.com"),
        "an operator's branch": make_teammate(container, operator, sub_account),
        "an operator without the scope": make_operator(
            container, http, "narrow@example.com", scopes=["orders:read", "send:write"]
        ),
    }


@pytest.mark.parametrize("act", ACTS)
def test_only_operators_decide(
    owner: Account, operator: Account, container: Container, clock: Clock, http: TestClient, act: str
) -> None:
    order_id = create_held_order(owner, container, clock)
    others = outsiders(container, http, owner, operator)
    before = traces(container)
    for name, caller in others.items():
        for path in (f"/orders/{order_id}/{act}", f"/orders/999999/{act}"):
            answer = caller.post(path, WHY)
            assert answer.status_code == 403, name
            assert list(answer.json()) == ["message"]
    nobody = http.post(f"/api/v2/orders/{order_id}/{act}", json=WHY)
    assert (nobody.status_code, nobody.json()) == (401, {"message": "Unauthenticated."})
    assert traces(container) == before


@pytest.mark.parametrize("act", ACTS)
def test_an_operator_decides_in_the_mode_of_the_token(
    owner: Account, operator: Account, container: Container, clock: Clock, act: str
) -> None:
    order_id = create_held_order(owner, container, clock)
    before = traces(container)
    live = make_live(container, operator)
    assert live.post(f"/orders/{order_id}/{act}", WHY).status_code == 404
    for unknown in ("999999", "0", "x", "9" * 30):
        answer = operator.post(f"/orders/{unknown}/{act}", WHY)
        assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})
    assert traces(container)[1] == before[1]
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Paused"


# What is wrong with a call


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "This field is required."),
        ({"reason": None}, "This must be a string."),
        ({"reason": ""}, "Give a reason: the sender reads it."),
        ({"reason": " \n "}, "Give a reason: the sender reads it."),
        ({"reason": 5}, "This must be a string."),
        ({"reason": ["x"]}, "This must be a string."),
        ({"reason": "x" * 501}, "At most 500 characters, please."),
        ({"reason": "a\x00b"}, "This text holds a NUL character, which cannot be printed or stored."),
    ],
)
def test_a_refusal_without_a_good_reason_is_refused(
    owner: Account, operator: Account, container: Container, body: dict[str, Any], error: str
) -> None:
    order_id = owner.send().json()["id"]
    before = traces(container)
    answer = operator.post(f"/orders/{order_id}/refuse", body)
    assert (answer.status_code, answer.json()["errors"]) == (422, {"reason": [error]})
    assert traces(container) == before


@pytest.mark.parametrize("body", [{"reason": 5}, {"reason": "x" * 501}, {"reason": {}}])
def test_a_release_with_a_bad_reason_is_refused(owner: Account, operator: Account, body: dict[str, Any]) -> None:
    answer = operator.post(f"/orders/{owner.send().json()['id']}/release", body)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["reason"])


def test_only_what_is_paused_is_released(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    reviewing, cancelled = (owner.send().json()["id"] for _ in range(2))
    owner.put(f"/orders/{cancelled}/cancel")
    statuses = {reviewing: "Reviewing", cancelled: "Cancelled"}
    for order_id, status in statuses.items():
        answer = operator.post(f"/orders/{order_id}/release")
        assert answer.status_code == 409
        assert answer.json() == {"message": f"Only a paused order can be released: this one is {status}."}
    processing = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=11)
    for act in ACTS:
        assert operator.post(f"/orders/{processing}/{act}", WHY).status_code == 409
    assert stored_decisions(container) == []


def test_an_order_is_decided_once(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    refused, released = create_held_order(owner, container, clock), create_held_order(owner, container, clock)
    operator.post(f"/orders/{refused}/refuse", WHY)
    operator.post(f"/orders/{released}/release")
    before = books(container)
    for order_id in (refused, released):
        for act in ACTS:
            assert operator.post(f"/orders/{order_id}/{act}", WHY).status_code == 409
    assert (books(container), len(stored_decisions(container))) == (before, 2)


def test_the_same_key_gives_the_same_answer(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock)
    how: dict[str, Any] = {"headers": {"Idempotency-Key": "once"}}
    first = operator.post(f"/orders/{order_id}/refuse", WHY, **how)
    again = operator.post(f"/orders/{order_id}/refuse", WHY, **how)
    assert (again.status_code, again.content) == (200, first.content)
    assert len(stored_decisions(container)) == 1


# Not ready


def test_nothing_is_released_while_live_mail_is_not_ready(
    build: Build, clock: Clock, http: TestClient, container: Container
) -> None:
    operator = make_operator(container, http, mode="live")
    order_id = operator.send(
        return_name="Dana", return_address="1 Elm St", return_city="Austin", return_state="TX",
        return_postal_code="78702",
    ).json()["id"]  # fmt: skip
    run_jobs_for(container, clock, seconds=1)
    clock.advance(hours=1)
    run_due_jobs(container)
    order = operator.get(f"/orders/{order_id}").json()
    environment = container.environments["live"]
    gaps = environment.gaps
    assert (order["status"], len(gaps) >= 4) == ("Paused", True)
    assert {gap.params["for_sender"] for gap in environment.gaps} <= set(order["warnings"])
    answer = operator.post(f"/orders/{order_id}/release")
    assert answer.status_code == 409
    assert all(gap in answer.json()["message"] for gap in gaps)
    assert operator.post(f"/orders/{order_id}/refuse", WHY).json()["status"] == "Error"


# Meanwhile


def test_after_a_change_by_the_sender_an_operator_still_decides_and_sees_the_change(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock)
    [why] = owner.get(f"/orders/{order_id}").json()["warnings"]
    for words in ("Hello!", "Hello again!"):
        changed = owner.put(f"/orders/{order_id}", {"message": words})
        assert (changed.status_code, changed.json()["status"]) == (200, "Paused")
        assert changed.json()["warnings"] == [why, MESSAGE_CHANGED_WHILE_HELD]
    [listed] = operator.get("/print/held").json()["data"]
    assert listed["reasons"] == [why, MESSAGE_CHANGED_WHILE_HELD]
    run_jobs_for(container, clock, seconds=70)
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Paused"
    released = operator.post(f"/orders/{order_id}/release").json()
    assert (released["status"], released["warnings"]) == ("Reviewing", [])
    run_jobs_for(container, clock, seconds=2)
    assert owner.get(f"/orders/{order_id}").json()["status"] in ("Processing", "Printing")


def test_words_that_came_after_the_checks_are_not_let_go_unread(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock)
    owner.put(f"/orders/{order_id}", {"message": "Dear %CUSTOM1%!"})
    assert operator.post(f"/orders/{order_id}/release").json()["status"] == "Reviewing"
    run_jobs_for(container, clock, seconds=2)
    held_again = owner.get(f"/orders/{order_id}").json()
    [why] = held_again["warnings"]
    assert (held_again["status"], "%CUSTOM1%" in why) == ("Paused", True)
    assert operator.post(f"/orders/{order_id}/release").json()["status"] == "Processing"


@pytest.mark.parametrize("change", [{"message": UNFILLED}, {"metadata": {"a": 1}}])
def test_a_change_that_leaves_the_words_as_they_were_is_no_news(
    owner: Account, operator: Account, container: Container, clock: Clock, change: dict[str, Any]
) -> None:
    order_id = create_held_order(owner, container, clock)
    assert len(owner.put(f"/orders/{order_id}", change).json()["warnings"]) == 1
    assert operator.post(f"/orders/{order_id}/release").json()["status"] == "Processing"


Decide = Callable[[Tx], Order]

WAITING = sa.text("select count(*) from pg_locks where not granted")


def decisions(container: Container, order_id: int, operator: Account) -> dict[str, Decide]:
    environment, now = container.environments["test"], container.clock()
    return {
        "release": lambda tx: review_service.release_order(tx, environment, order_id, operator_id=operator.id, now=now),
        "refuse": lambda tx: review_service.refuse_order(
            tx, environment, order_id, operator_id=operator.id, reason="No.", now=now
        ),
        "cancel": lambda tx: changes.cancel_order(tx, order_id, now=now),
    }


@pytest.mark.parametrize(
    ("first", "second", "ends_as"),
    [
        ("release", "refuse", "processing"),
        ("release", "release", "processing"),
        ("refuse", "release", "error"),
        ("refuse", "cancel", "error"),
        ("cancel", "release", "cancelled"),
        ("cancel", "refuse", "cancelled"),
        ("release", "cancel", "processing"),
    ],
)
def test_of_two_concurrent_decisions_one_wins(
    owner: Account, operator: Account, container: Container, clock: Clock, first: str, second: str, ends_as: str
) -> None:
    order_id = create_held_order(owner, container, clock)
    made = decisions(container, order_id, operator)

    def decide(name: str) -> str:
        opened = (
            container.db.transaction(Tenant(owner.id, None, "test"))
            if name == "cancel"
            else container.db.system_transaction()
        )
        with opened as tx:
            return made[name](tx).status.value

    def is_someone_waiting() -> bool:
        with container.db.system_transaction() as tx:
            return bool(tx.execute(WAITING).scalar_one())

    with ThreadPoolExecutor(1) as thread:
        later: Future[str]
        with container.db.system_transaction() as tx:
            made[first](tx)
            later = thread.submit(decide, second)
            wait_until(is_someone_waiting)
        with pytest.raises((Conflict, Refused)):
            later.result()
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(orders).where(orders.c.id == order_id)).one()
    assert row.status == ends_as
    assert len(stored_decisions(container)) == (first != "cancel")
    held_back = sum(cents if kind == "authorise" else -cents for kind, cents in books(container))
    assert held_back == row.order_total == (109 if ends_as == "processing" else 0)
