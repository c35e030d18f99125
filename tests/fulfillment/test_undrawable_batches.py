"""What becomes of a batch when something that it is drawn with is gone, or this machine lacks something."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.rendering.files import PrintFiles
from support.factories import Clock
from support.orders import create_order, item_rows, open_account
from support.production import batch_rows, sweep_due_orders

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def test_an_order_whose_hand_is_gone_holds_up_no_one(container: Container, clock: Clock, owner: Caller) -> None:
    good, bad = create_order(container, owner, message="Fine"), create_order(container, owner, message="Handless")
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        tx.execute(sa.text("update orders set style = 987 where id = :bad"), {"bad": bad.id})
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch.id).status == "composed"
        assert [row.status for row in item_rows(tx, good)] == ["Processing"]
        assert [(row.status, row.failure) for row in item_rows(tx, bad)] == [("Failed", NOT_COMPOSABLE)]


@pytest.mark.parametrize("error", [MemoryError(), OSError("no space left"), Unavailable("No database.")])
@pytest.mark.parametrize("step", ["compose", "find_misfits"])
def test_what_this_machine_lacks_fails_no_order_that_it_meets(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch, error: Exception, step: str
) -> None:
    create_order(container, owner, message="Fine")
    create_order(container, owner, message="Unlucky")
    draw, look_at = container.production.renderer.compose, container.production.renderer.find_misfits

    def runs_out(designs: Any, copies: Any, **how: Any) -> PrintFiles:
        if any(design.message == "Unlucky" for design in designs.values()):
            raise error
        return draw(designs, copies, **how)

    def runs_out_early(design: Any, *what: Any, **how: Any) -> Any:
        if step == "find_misfits" and design.message == "Unlucky":
            raise error
        return look_at(design, *what, **how)

    monkeypatch.setattr(container.production.renderer, "compose", runs_out)
    sweep_due_orders(container, clock)
    monkeypatch.setattr(container.production.renderer, "find_misfits", runs_out_early)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    with pytest.raises(type(error)):
        batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch.id).status == "new"
        assert tx.execute(sa.text("select distinct status from items")).scalars().all() == ["Processing"]
