"""Cancelling against the press: for each order one side wins, and the loser changes nothing."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.engine import Tenant
from quillpost.core.errors import Refused
from quillpost.fulfillment.review import service as review_service
from quillpost.orders.changes import cancel_order
from support.factories import Account, Clock, person

ORDERS, SWEEPS = 24, 4

OUTCOME = sa.text(
    """
    select o.id, o.status, o.order_total,
           array_agg(distinct i.status) as pieces,
           bool_and(exists (select 1 from prints p where p.item_id = i.id)) as is_batched,
           (select sum(case when m.target = 'held' then m.cents else 0 end
                       - case when m.source = 'held' then m.cents else 0 end)
              from ledger_moves m where m.order_id = o.id) as held,
           (select array_agg(f.current order by f.id) from facts f
             where f.order_id = o.id and f.item_id is null) as statuses
      from orders o join items i on i.order_id = o.id
     group by o.id order by o.id
    """
)


def all_at_once(deeds: Sequence[Callable[[], bool]]) -> list[bool]:
    """Each on its own thread, let go at the same moment."""
    gate = threading.Barrier(len(deeds))

    def go(deed: Callable[[], bool]) -> bool:
        gate.wait()
        return deed()

    with ThreadPoolExecutor(len(deeds)) as threads:
        return list(threads.map(go, deeds))


def test_an_order_is_cancelled_or_processed_and_never_both(owner: Account, container: Container, clock: Clock) -> None:
    order_ids = [send(owner, number) for number in range(ORDERS)]
    clock.advance(minutes=1)

    def cancel(order_id: int) -> bool:
        try:
            with container.db.transaction(Tenant(owner.id, None, "test")) as tx:
                cancel_order(tx, order_id, now=clock.now())
        except Refused:
            return False
        return True

    def sweep() -> bool:
        review_service.sweep_due_orders(container.production, now=clock.now())
        return True

    deeds: list[Callable[[], bool]] = [partial(cancel, order) for order in order_ids]
    for place in range(SWEEPS):
        deeds.insert(place * ORDERS // SWEEPS, sweep)
    outcome = all_at_once(deeds)
    cancels = [won for deed, won in zip(deeds, outcome, strict=True) if deed is not sweep]
    sweep()

    with container.db.system_transaction() as tx:
        orders = tx.execute(OUTCOME).all()
    for order, was_cancelled in zip(orders, cancels, strict=True):
        if was_cancelled:
            assert order.status == "cancelled"
            assert order.pieces == ["Failed"]
            assert not order.is_batched
            assert (order.held, order.order_total) == (0, 0)
            assert order.statuses == ["reviewing", "cancelled"]
        else:
            assert order.status == "processing"
            assert order.pieces == ["Processing"]
            assert order.is_batched
            assert order.held == order.order_total > 0
            assert order.statuses == ["reviewing", "processing"]


def send(owner: Account, number: int) -> int:
    sent = owner.send(recipients=[person(address=f"{number + 1} Main St")])
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])
