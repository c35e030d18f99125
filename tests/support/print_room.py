"""Batches with a printer, and orders that wait for an operator, made for tests by real sends."""

from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import batches
from support.factories import Account, Clock, people, run_jobs_for

HOME = {
    "return_name": "Dana", "return_address": "1 Elm St", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78702",
}  # fmt: skip


def hand_over_batch(sender: Account, container: Container, clock: Clock, how_many: int = 3, **changes: Any) -> int:
    """The batch of an order to so many, with the printer."""
    sent = sender.send(recipients=people(how_many), **HOME | changes)
    assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=4)
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.select(batches).order_by(batches.c.id.desc()).limit(1)).one()
    assert found.status == "handed", found
    return int(found.id)


UNFILLED = "Hello %COMPANY%!"
"""A message for which the people of these tests have nothing: the review holds it."""


def create_held_orders(sender: Account, container: Container, clock: Clock, how_many: int, **changes: Any) -> list[int]:
    """Orders that wait for an operator."""
    made = [int(sender.send(**{"message": UNFILLED} | changes).json()["id"]) for _ in range(how_many)]
    run_jobs_for(container, clock, seconds=11)
    assert {sender.get(f"/orders/{order_id}").json()["status"] for order_id in made} == {"Paused"}
    return made


def create_held_order(sender: Account, container: Container, clock: Clock, **changes: Any) -> int:
    return create_held_orders(sender, container, clock, 1, **changes)[0]
