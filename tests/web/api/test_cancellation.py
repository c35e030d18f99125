"""Cancelling: while under review, once, and with the money given back."""

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, ledger_moves
from support.factories import Account, Clock, people, run_jobs_for
from support.traces import traces

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/orders/{}/cancel"),
        ("POST", "/orders/{}/cancel"),
        ("DELETE", "/orders/{}/cancel"),
        ("PUT", "/order/{}/cancel"),
    ],
)
def test_an_order_is_cancelled_by_every_spelling(owner: Account, method: str, path: str) -> None:
    order_id = owner.send(metadata={"crm": 1}).json()["id"]
    answer = owner.call(method, path.format(order_id))
    assert answer.status_code == 200
    order = answer.json()["order"]
    assert list(answer.json()) == ["order"]
    assert (order["id"], order["status"], order["cancellable"]) == (order_id, "Cancelled", False)
    assert order["metadata"] == {"crm": 1}
    assert (order["order_total"], order["grand_total"], order["authorization_total"]) == (0, 0, 109)


def test_items_of_a_canceled_order_fail_and_one_event_is_stored(owner: Account, container: Container) -> None:
    order_id = owner.send(recipients=people(3)).json()["id"]
    with container.db.system_transaction() as tx:
        last = tx.execute(sa.select(sa.func.max(facts.c.id))).scalar_one()
    owner.call("PUT", f"/orders/{order_id}/cancel")
    items = owner.get(f"/orders/{order_id}/items").json()["data"]
    assert {(item["status"], item["failure"]) for item in items} == {("Failed", "Order cancelled")}
    stats = owner.get(f"/orders/{order_id}/track").json()["data"]["stats"]
    assert (stats["failed"], stats["processing"]) == (3, 0)
    with container.db.system_transaction() as tx:
        (event,) = tx.execute(sa.select(facts).where(facts.c.id > last))
    assert (event.kind, event.item_id, event.previous, event.current) == (
        "order.status", None, "reviewing", "cancelled",
    )  # fmt: skip


def test_what_was_held_is_released(owner: Account, container: Container) -> None:
    order_id = owner.send(recipients=people(3)).json()["id"]
    owner.call("PUT", f"/orders/{order_id}/cancel")
    with container.db.system_transaction() as tx:
        moves = tx.execute(sa.select(ledger_moves).order_by(ledger_moves.c.id)).all()
    assert [(m.kind, m.source, m.target, m.cents) for m in moves] == [
        ("authorise", "credit", "held", 327),
        ("release", "held", "credit", 327),
    ]


def test_an_order_is_cancelled_once(owner: Account, container: Container) -> None:
    order_id = owner.send().json()["id"]
    owner.call("PUT", f"/orders/{order_id}/cancel")
    before = traces(container)
    again = owner.call("PUT", f"/orders/{order_id}/cancel")
    assert again.status_code == 400
    assert again.json() == {"message": "This order can no longer be cancelled: it is Cancelled."}
    assert traces(container) == before


def test_after_the_review_it_is_too_late(owner: Account, container: Container, clock: Clock) -> None:
    order_id = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=11)
    assert owner.get(f"/orders/{order_id}").json()["cancellable"] is False
    refused = owner.call("PUT", f"/orders/{order_id}/cancel")
    assert refused.status_code == 400
    assert "can no longer be cancelled" in refused.json()["message"]


def test_a_cancelled_order_is_never_made(owner: Account, container: Container, clock: Clock) -> None:
    order_id = owner.send().json()["id"]
    owner.call("PUT", f"/orders/{order_id}/cancel")
    run_jobs_for(container, clock, seconds=30)
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Cancelled"
    assert list(container.storage.store.keys("")) == []
