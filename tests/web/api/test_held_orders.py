"""Orders that wait for an operator: which they are, and how an operator decides on each, once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import facts, orders
from quillpost.core.database.tables.fulfillment import order_verdicts
from quillpost.core.errors import Conflict, Refused
from quillpost.core.paging import OLDEST_FIRST, PageRequest, select_page_ids
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.review.service import PAUSED_STATUS
from quillpost.orders import changes
from quillpost.orders.changes import MESSAGE_CHANGED_WHILE_HELD
from quillpost.orders.models import Order
from support import factories
from support.factories import Account, Clock, make_live, make_operator, people, run_due_jobs, run_jobs_for
from support.mailing_lists import ListOwner, ledger_entries
from support.orders import HOME, UNFILLED, create_held_order, create_held_orders, fact_rows, insert_orders, order_row
from support.rows import execute
from support.test_client import TestClient
from support.traces import assert_refused, unchanged
from support.waiting import is_lock_awaited, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

ACTS = ("release", "refuse")
WHY = {"reason": "The picture is not yours."}


def read(owner: Account, order_id: int) -> tuple[str, list[str]]:
    order = owner.get(f"/orders/{order_id}").json()
    return order["status"], order["warnings"]


def decisions_on(container: Container, order_id: int) -> list[tuple[str, str, list[str]]]:
    rows = execute(container, sa.select(order_verdicts).filter_by(order_id=order_id))
    return [(row.verdict, row.reason, row.reasons) for row in rows]


def books(container: Container, order_id: int) -> list[tuple[str, int]]:
    return [(kind, cents) for kind, cents, _ in ledger_entries(container, order_id)]


def listed(operator: Account, query: str = "") -> list[int]:
    found = operator.get(f"/print/held{query}")
    assert found.status_code == 200, found.text
    return [order["id"] for order in found.json()["data"]]


def test_held_orders_of_every_account_are_listed_oldest_first(
    owner: Account, stranger: Account, operator: Account, container: Container, clock: Clock
) -> None:
    page = operator.get("/print/held").json()
    assert (page["data"], page["meta"]["total"], page["meta"]["last_page"]) == ([], 0, 1)
    branch = factories.make_sub_account(container, stranger)
    first = create_held_order(owner, container, clock, recipients=people(3))
    second = create_held_order(stranger, container, clock, sub_account_id=branch, size="6x11")
    one, other = operator.get("/print/held").json()["data"]
    [why] = read(owner, first)[1]
    assert one == {
        "id": first, "account_id": owner.id, "account_email": "owner@example.com", "sub_account_id": None,
        "type": "postcard", "recipient_count": 3, "pieces": 3, "grand_total": 327,
        "created_at": "2026-05-04T12:00:00Z", "paused_at": "2026-05-04T12:00:11Z", "reasons": [why],
    }  # fmt: skip
    theirs = {"id": second, "account_id": stranger.id, "account_email": "stranger@example.com"}
    more = {"sub_account_id": branch, "type": "postcard6x11", "paused_at": "2026-05-04T12:00:22Z"}
    assert (theirs | more).items() <= other.items()
    third = create_held_order(owner, container, clock)
    assert listed(operator, "?items_per_page=2") == [first, second]
    assert listed(operator, "?items_per_page=2&page=2") == listed(operator, "?limit=1&page=3") == [third]
    page = operator.get("/print/held?items_per_page=2").json()
    assert (page["meta"]["total"], page["meta"]["last_page"], page["links"]["prev"]) == (3, 2, None)
    assert page["links"]["next"].endswith("/api/v2/print/held?items_per_page=2&page=2")
    beyond = operator.get("/print/held?page=9").json()
    assert (beyond["data"], beyond["meta"]["total"], beyond["meta"]["from"]) == ([], 3, None)
    for query in ("page=0", "items_per_page=-1", "limit=many"):
        refused = operator.get(f"/print/held?{query}")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [query.split("=")[0]])
    # Neither a change by the sender nor what becomes of its pieces restarts the wait.
    clock.advance(hours=2)
    assert owner.put(f"/orders/{first}", {"message": "Hi!"}).status_code == 200
    pauses_of_pieces = """insert into facts (account_id, mode, kind, order_id, item_id, order_status, current, at)
                          select account_id, mode, 'item.status', order_id, id, 'paused', 'paused', :now from items"""
    execute(container, pauses_of_pieces, now=clock.now())
    assert operator.get("/print/held").json()["data"][0] == one | {"reasons": [why, MESSAGE_CHANGED_WHILE_HELD]}


def test_only_what_waits_is_listed(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    released, refused, cancelled, waits = create_held_orders(owner, container, clock, 4)
    owner.send()
    operator.post(f"/orders/{released}/release")
    operator.post(f"/orders/{refused}/refuse", WHY)
    order = owner.put(f"/orders/{cancelled}/cancel").json()["order"]
    assert (order["status"], order["order_total"], read(owner, cancelled)) == ("Cancelled", 0, ("Cancelled", []))
    assert listed(operator) == [waits]


def test_few_held_orders_are_found_among_many(container: Container, owner: Account, conninfo: str) -> None:
    for status, how_many in (("fulfilled", 10_000), ("paused", 400)):
        insert_orders(container, owner.id, how_many, status=status)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("vacuum analyze orders")
    filters = orders.c.mode == "test", orders.c.status == PAUSED_STATUS
    with container.db.system_transaction() as tx:
        for page, direction in ((1, ""), (100, "Backward ")):
            query = select_page_ids(orders, filters, PageRequest(page, 4), total=400, sorting=OLDEST_FIRST)
            written = query.compile(dialect=tx.dialect, compile_kwargs={"literal_binds": True})
            plan = "\n".join(tx.execute(sa.text(f"explain {written}")).scalars())
            assert f"Index Only Scan {direction}using orders_paused on orders" in plan, plan
            assert "Sort" not in plan


def test_a_released_order_is_printed(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    order_id, *others = create_held_orders(owner, container, clock, 5)
    [why] = read(owner, order_id)[1]
    answer = operator.post(f"/orders/{order_id}/release", {"reason": "It reads well all the same."})
    assert answer.status_code == 200, answer.text
    order = answer.json()
    assert (order["id"], order["status"], order["cancellable"]) == (order_id, "Processing", False)
    assert order["warnings"] == []
    assert decisions_on(container, order_id) == [("released", "It reads well all the same.", [why])]
    for body, other in zip((None, {}, {"reason": None}, {"reason": "  "}), others, strict=True):
        assert operator.post(f"/orders/{other}/release", body).status_code == 200
        assert decisions_on(container, other) == [("released", "", [why])]
    run_due_jobs(container)
    run_jobs_for(container, clock, seconds=5)
    assert read(owner, order_id)[0] in ("Printing", "Mailed", "Fulfilled")
    statuses = [fact.current for fact in fact_rows(container, order_id) if fact.item_id is None]
    assert statuses[:4] == ["reviewing", "paused", "processing", "printing"]


def test_a_refused_order_is_repaid_once(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    order_id = create_held_order(owner, container, clock, recipients=people(3))
    before = len(fact_rows(container, order_id))
    once: dict[str, Any] = {"headers": {"Idempotency-Key": "once"}}
    answer, again = (operator.post(f"/orders/{order_id}/refuse", WHY, **once) for _ in range(2))
    assert (answer.status_code, again.content) == (200, answer.content)
    order = owner.get(f"/orders/{order_id}").json()
    assert order == answer.json() | {"high_quality_preview": order["high_quality_preview"]}
    assert (order["status"], order["cancellable"], order["order_total"]) == ("Error", False, 0)
    assert order["warnings"] == ["An operator refused this order: The picture is not yours."]
    items = owner.get(f"/orders/{order_id}/items").json()["data"]
    ended = ("Failed", "Order refused: The picture is not yours.")
    assert {(item["status"], item["failure"]) for item in items} == {ended}
    events = owner.get(f"/order-items/{items[0]['id']}").json()["events"]
    assert [event["status"] for event in events] == ["Processing", "Failed"]
    stats = owner.get(f"/orders/{order_id}/track").json()["data"]["stats"]
    assert (stats["failed"], stats["processing"]) == (3, 0)
    assert books(container, order_id) == [("authorise", 327), ("release", 327)]
    [event] = fact_rows(container, order_id)[before:]
    assert (event.kind, event.item_id, event.previous, event.current) == ("order.status", None, "paused", "error")
    assert [verdict for verdict, *_ in decisions_on(container, order_id)] == ["refused"]


def test_a_refusal_before_a_hold_counts(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    lists = ListOwner(owner)
    friends = lists.make()
    lists.add(friends)
    reviewing, unfilled = owner.send().json(), owner.send(mailing_list_ids=[friends], recipients=None).json()
    for order in (reviewing, unfilled):
        assert operator.post(f"/orders/{order['id']}/refuse", WHY).json()["status"] == "Error"
    run_jobs_for(container, clock, seconds=30)
    for order in (reviewing, unfilled):
        read_again = owner.get(f"/orders/{order['id']}").json()
        assert (read_again["status"], read_again["order_total"]) == ("Error", 0)
        assert [kind for kind, _ in books(container, order["id"])] == ["authorise", "release"]
    assert owner.get(f"/orders/{unfilled['id']}/items").json()["data"] == []
    assert list(container.storage.store.keys("")) == []


def test_people_suppressed_while_an_order_is_held_are_not_mailed(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock, recipients=people(2))
    lists = ListOwner(owner)
    lists.add(lists.make(is_suppression_list=True), **people(1)[0])
    operator.post(f"/orders/{order_id}/release")
    failures = [item["failure"] for item in owner.get(f"/orders/{order_id}/items").json()["data"]]
    assert failures == ["This address is on a suppression list.", None]


def test_an_order_is_decided_only_once(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    refused, released = create_held_orders(owner, container, clock, 2)
    processing = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=11)
    operator.post(f"/orders/{refused}/refuse", WHY)
    operator.post(f"/orders/{released}/release")
    reviewing, cancelled = (owner.send().json()["id"] for _ in range(2))
    owner.put(f"/orders/{cancelled}/cancel")
    with unchanged(container):
        for order_id, status in ((reviewing, "Reviewing"), (cancelled, "Cancelled")):
            answer = operator.post(f"/orders/{order_id}/release")
            message = f"Only a paused order can be released: this one is {status}."
            assert (answer.status_code, answer.json()) == (409, {"message": message})
        for order_id in (processing, refused, released):
            for act in ACTS:
                assert operator.post(f"/orders/{order_id}/{act}", WHY).status_code == 409


def test_unready_live_mail_is_not_sent(http: TestClient, operator: Account, container: Container, clock: Clock) -> None:
    live = make_operator(container, http, "live@example.com", mode="live")
    order_id = live.send(**HOME).json()["id"]
    run_jobs_for(container, clock, seconds=1)
    clock.advance(hours=1)
    run_due_jobs(container)
    gaps = container.environments["live"].gaps
    status, warnings = read(live, order_id)
    assert (status, len(gaps) >= 4) == ("Paused", True)
    assert {gap.params["for_sender"] for gap in gaps} <= set(warnings)
    shown = [caller.get("/print/batches").json()["meta"].get("gaps") for caller in (live, operator)]
    assert shown == [list(gaps), None]
    answer = live.post(f"/orders/{order_id}/release")
    assert (answer.status_code, [gap for gap in gaps if gap not in answer.json()["message"]]) == (409, [])
    assert live.post(f"/orders/{order_id}/refuse", WHY).json()["status"] == "Error"


BAD_REASONS: dict[str, list[Any]] = {
    "This field is required.": [{}],
    "This must be a string.": [{"reason": None}, {"reason": 5}, {"reason": ["x"]}],
    "Give a reason: the sender reads it.": [{"reason": ""}, {"reason": " \n "}],
    "At most 500 characters, please.": [{"reason": "x" * 501}],
    "This text holds a NUL character, which cannot be printed or stored.": [{"reason": "a\x00b"}],
}


def test_a_token_decides_in_its_own_mode(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    order_id = create_held_order(owner, container, clock)
    live = make_live(container, operator)
    with unchanged(container):
        for act in ACTS:
            assert live.post(f"/orders/{order_id}/{act}", WHY).status_code == 404
            for unknown in ("999999", "0", "x", "9" * 30):
                answer = operator.post(f"/orders/{unknown}/{act}", WHY)
                assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})
    assert (listed(live), listed(operator)) == ([], [order_id])
    [in_live] = insert_orders(container, owner.id, 1, mode="live", status="paused")
    paused = sa.insert(facts).values(
        account_id=owner.id, mode="live", kind="order.status", order_id=in_live, order_status="paused",
        previous="reviewing", current="paused", at=clock.now(), inferred=False, event_id=sa.func.gen_random_uuid(),
    )  # fmt: skip
    execute(container, paused)
    assert (listed(live), listed(operator)) == ([in_live], [order_id])


def test_a_decision_with_a_bad_reason_is_refused(
    subtests: pytest.Subtests, owner: Account, operator: Account, container: Container
) -> None:
    order_id = owner.send().json()["id"]
    refusals = [(body, "reason", words) for words, bodies in BAD_REASONS.items() for body in bodies]
    assert_refused(subtests, container, partial(operator.post, f"/orders/{order_id}/refuse"), refusals)
    releases: list[tuple[dict[str, Any], str]] = [({"reason": 5}, "reason"), ({"reason": "x" * 501}, "reason")]
    assert_refused(subtests, container, partial(operator.post, f"/orders/{order_id}/release"), releases)


def test_an_operator_sees_what_its_sender_changed_and_new_words_are_checked_before_they_go(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    reworded, unfilled, *same = create_held_orders(owner, container, clock, 4)
    [why] = read(owner, reworded)[1]
    for order_id, words in ((reworded, "Hello!"), (reworded, "Hello again!"), (unfilled, "Dear %CUSTOM1%!")):
        changed = owner.put(f"/orders/{order_id}", {"message": words})
        assert (changed.status_code, changed.json()["status"]) == (200, "Paused")
        assert changed.json()["warnings"] == [why, MESSAGE_CHANGED_WHILE_HELD]
    assert operator.get("/print/held").json()["data"][0]["reasons"] == [why, MESSAGE_CHANGED_WHILE_HELD]
    for order_id, change in zip(same, ({"message": UNFILLED}, {"metadata": {"a": 1}}), strict=True):
        assert owner.put(f"/orders/{order_id}", change).json()["warnings"] == [why]  # that is no news
    run_jobs_for(container, clock, seconds=70)
    for order_id, status in (
        (reworded, "Reviewing"), (unfilled, "Reviewing"), *((each, "Processing") for each in same),
    ):  # fmt: skip
        assert read(owner, order_id)[0] == "Paused"
        released = operator.post(f"/orders/{order_id}/release").json()
        assert (released["status"], released["warnings"]) == (status, [])
    run_jobs_for(container, clock, seconds=2)
    assert read(owner, reworded)[0] in ("Processing", "Printing")
    status, [why] = read(owner, unfilled)
    assert (status, "%CUSTOM1%" in why) == ("Paused", True)
    assert operator.post(f"/orders/{unfilled}/release").json()["status"] == "Processing"


RACES = {
    ("release", "refuse"): "processing", ("release", "release"): "processing", ("refuse", "release"): "error",
    ("refuse", "cancel"): "error", ("cancel", "release"): "cancelled", ("cancel", "refuse"): "cancelled",
    ("release", "cancel"): "processing",
}  # fmt: skip


def test_of_two_concurrent_decisions_one_wins(
    subtests: pytest.Subtests, owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    held = create_held_orders(owner, container, clock, len(RACES))
    environment = container.environments["test"]
    how: dict[str, Any] = {"operator_id": operator.id, "now": clock.now()}
    decisions: dict[str, Callable[[Tx, int], Order]] = {
        "release": lambda tx, order_id: review_service.release_order(tx, environment, order_id, **how),
        "refuse": lambda tx, order_id: review_service.refuse_order(tx, environment, order_id, reason="No.", **how),
        "cancel": lambda tx, order_id: changes.cancel_order(tx, order_id, now=clock.now()),
    }

    def decide(name: str, order_id: int) -> None:
        of_owner = container.db.transaction(Tenant(owner.id, None, "test"))
        with of_owner if name == "cancel" else container.db.system_transaction() as tx:
            decisions[name](tx, order_id)

    for order_id, ((first, second), ends_as) in zip(held, RACES.items(), strict=True):
        with subtests.test(f"{first}, then {second}"), ThreadPoolExecutor(1) as thread:
            with container.db.system_transaction() as tx:
                decisions[first](tx, order_id)
                later = thread.submit(decide, second, order_id)
                wait_until(partial(is_lock_awaited, container))
            with pytest.raises((Conflict, Refused)):
                later.result()
            row = order_row(container, order_id)
            assert row.status == ends_as
            assert len(decisions_on(container, order_id)) == (first != "cancel")
            held_back = sum(cents if kind == "authorise" else -cents for kind, cents in books(container, order_id))
            assert held_back == row.order_total == (109 if ends_as == "processing" else 0)
