"""In testing mode a recipient's name decides how the piece ends, and the money follows."""

import pytest
from sqlalchemy import text

from quillpost.app.container import Container
from support.factories import Account, Clock, person, run_jobs_for

ENDS = {
    "Jane Doe": ("Delivered", None),
    "Test Returned": ("Returned to Sender", "Returned by the postal service"),
    "Test Rerouted": ("Delivered", None),
    "Test Lost": ("Failed", "Lost in the mail"),
    "Test Undeliverable": ("Failed", "Undeliverable address"),
    "Test Printer Failure": ("Failed", "Printer failure"),
}
WAYS = {
    "Test Returned": ["Processing", "Printed", "In Transit", "In Local Area", "Returned to Sender"],
    "Test Rerouted": [
        *("Processing", "Printed", "In Transit", "Re-routed"),
        *("In Local Area", "Processed for Delivery", "Delivered"),
    ],
    "Test Lost": ["Processing", "Printed", "In Transit", "Failed"],
    "Test Undeliverable": ["Processing", "Failed"],
    "Test Printer Failure": ["Processing", "Failed"],
}
BOOKS = text(
    """select book, sum(cents) from (
           select target as book, cents from ledger_moves union all
           select source, -cents from ledger_moves) moves group by book"""
)
MOVES = text("select kind, sum(cents) from ledger_moves group by kind")
WAY = text(
    """select f.current from facts f join items i on i.id = f.item_id
        where i.name = :name order by f.id"""
)


@pytest.fixture
def order_id(owner: Account, container: Container, clock: Clock) -> int:
    """One order to everybody, at its end."""
    everyone = [person(name=name, address=f"{n} Main St") for n, name in enumerate(ENDS, start=1)]
    sent = owner.send(recipients=everyone)
    assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=40)
    return int(sent.json()["id"])


def test_each_name_ends_as_it_says(owner: Account, order_id: int) -> None:
    items = owner.get(f"/orders/{order_id}/items").json()["data"]
    assert {item["recipient"]["name"]: (item["status"], item["failure"]) for item in items} == ENDS
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Fulfilled"


@pytest.mark.usefixtures("order_id")
def test_each_name_passes_through_its_statuses(container: Container) -> None:
    with container.db.system_transaction() as tx:
        ways = {name: list(tx.execute(WAY, {"name": name}).scalars()) for name in WAYS}
    assert ways == WAYS


def test_the_books_balance_and_only_mailed_pieces_are_paid(owner: Account, container: Container, order_id: int) -> None:
    order = owner.get(f"/orders/{order_id}").json()
    with container.db.system_transaction() as tx:
        books = {book: int(cents) for book, cents in tx.execute(BOOKS)}
        moved = {kind: int(cents) for kind, cents in tx.execute(MOVES)}
    piece = moved["authorise"] // len(ENDS)
    assert moved == {"authorise": 6 * piece, "release": 2 * piece, "capture": 4 * piece, "refund": piece}
    assert books == {"credit": -3 * piece, "held": 0, "earned": 3 * piece}
    assert order["order_total"] == 3 * piece


def test_a_piece_that_failed_the_review_is_not_printed(container: Container, order_id: int) -> None:
    with container.db.system_transaction() as tx:
        batched = tx.execute(text("select name from items join prints on item_id = items.id")).scalars()
        assert "Test Undeliverable" not in set(batched)
