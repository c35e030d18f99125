"""An order that its sender put off while it was held: released, it waits for its day like any other."""

from collections.abc import Callable
from datetime import datetime

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, items, orders
from quillpost.core.database.tables.fulfillment import batches, order_verdicts
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.recipients.rules import SUPPRESSED
from support.factories import Account, Clock, person, run_due_jobs, run_jobs_for
from support.list_rows import make_list

pytestmark = pytest.mark.usefixtures("clean_database")

BOB = person(name="Bob", address="9 Oak Ave")


@pytest.fixture
def later(clock: Clock) -> datetime:
    return clock.now().replace(hour=20)


@pytest.fixture
def order_id(owner: Account, operator: Account, container: Container, clock: Clock, later: datetime) -> int:
    """Held, put off by its sender, then released."""
    number = int(owner.send(message="Hello %COMPANY%!", recipients=[person(), BOB]).json()["id"])
    run_jobs_for(container, clock, seconds=11)
    assert owner.get(f"/orders/{number}").json()["status"] == "Paused"
    owner.put(f"/orders/{number}", {"schedule_for": later.isoformat()})
    released = operator.post(f"/orders/{number}/release", {"reason": "It reads well."})
    assert (released.status_code, released.json()["status"]) == (200, "Reviewing"), released.text
    return number


def test_nothing_of_it_is_printed_yet_and_its_sender_may_still_cancel_it(
    owner: Account, container: Container, clock: Clock, order_id: int
) -> None:
    run_jobs_for(container, clock, seconds=3)
    order = owner.get(f"/orders/{order_id}").json()
    assert (order["status"], order["warnings"], order["cancellable"]) == ("Reviewing", [], True)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(orders.c.pool_at)).scalar_one() is None
        assert tx.execute(sa.select(batches)).all() == []
        status_change = tx.execute(sa.select(facts.c.previous, facts.c.current).order_by(facts.c.id.desc()).limit(1))
        assert tuple(status_change.one()) == ("paused", "reviewing")
        [decision] = tx.execute(sa.select(order_verdicts)).all()
    assert (decision.verdict, decision.reason, len(decision.reasons)) == ("released", "It reads well.", 1)
    assert owner.post(f"/orders/{order_id}/cancel").status_code == 200
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Cancelled"


def test_when_it_is_due_it_is_checked_again(
    owner: Account, operator: Account, container: Container, clock: Clock, order_id: int
) -> None:
    clock.advance(hours=8)
    run_due_jobs(container)
    held = owner.get(f"/orders/{order_id}").json()
    assert (held["status"], len(held["warnings"])) == ("Paused", 1)
    assert operator.post(f"/orders/{order_id}/release").json()["status"] == "Processing"


def test_when_it_is_due_it_is_printed_but_not_for_people_suppressed_in_the_meantime(
    owner: Account, container: Container, clock: Clock, order_id: int
) -> None:
    owner.put(f"/orders/{order_id}", {"message": "Hello!"})
    make_list(container, Caller(owner.id, "test"), [person()], suppresses=True)
    clock.advance(hours=8)
    run_due_jobs(container)
    assert owner.get(f"/orders/{order_id}").json()["status"] in ("Processing", "Printing")
    with container.db.system_transaction() as tx:
        assert len(tx.execute(sa.select(batches)).all()) == 1
        jane, bob = tx.execute(sa.select(items).where(items.c.order_id == order_id).order_by(items.c.id)).all()
    assert (jane.status, jane.failure, bob.failure) == ("Failed", SUPPRESSED, None)


def test_nobody_makes_batches_of_an_order_before_it_is_due(
    container: Container, clock: Clock, later: datetime, order_id: int
) -> None:
    def pool_now() -> int:
        return print_room_service.pool_orders_now(container.db, "test", now=clock.now())

    def rush() -> None:
        print_room_service.rush_orders(container.db, "test", [order_id], operator_id=None, now=clock.now())

    deeds: tuple[Callable[[], object], ...] = (pool_now, rush)
    for deed in deeds:
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(orders).values(status="processing", pool_at=later.replace(hour=22)))
        for _ in range(2):
            deed()
        with container.db.system_transaction() as tx:
            assert tx.execute(sa.select(orders.c.pool_at)).scalar_one() == later
        assert pool_now() == 0
