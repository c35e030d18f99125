"""Items that cannot be drawn or whose gift card cannot be read: they fail, and the others go on."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.batches import files
from quillpost.fulfillment.batches import giftcards as gift_stock
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.orders.rules import ItemStatus
from quillpost.privacy import tasks as privacy_tasks
from quillpost.rendering.files import PrintFiles
from support.factories import Account, Clock, people
from support.giftcard_orders import card_row, issue_order_cards, item_ids_of, move_items, send_giftcards
from support.giftcard_production import (
    assert_all_is_well,
    assert_printed_as_issued,
    batches_of,
    claims_on_paper,
    compose_all,
    end_reviews,
    load_stock,
    production_with,
    stock_of,
    warnings,
)
from support.orders import create_order, item_rows, open_account
from support.production import batch_rows, sweep_due_orders
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def caller(container: Container) -> Caller:
    return open_account(container)


def test_an_order_whose_hand_is_gone_holds_up_no_one(container: Container, clock: Clock, caller: Caller) -> None:
    good, bad = create_order(container, caller, message="Fine"), create_order(container, caller, message="Handless")
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
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch, error: Exception, step: str
) -> None:
    create_order(container, caller, message="Fine")
    create_order(container, caller, message="Unlucky")
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


def set_claim(container: Container, item_id: int, sealed: bytes) -> None:
    with container.db.system_transaction() as tx:
        card = sa.update(giftcards).where(giftcards.c.item_id == item_id)
        tx.execute(card.values(claim_sealed=sealed))


def test_a_claim_that_does_not_open_waits_apart_and_the_others_go_on(
    container: Container, clock: Clock, owner: Account
) -> None:
    order = send_giftcards(owner, recipients=people(3))
    [batch] = end_reviews(container.production, container, clock)
    [piece, *_] = issue_order_cards(container, order)
    claim = bytes(card_row(container, piece).claim_sealed)
    set_claim(container, piece, claim[:-1])
    batch_tasks.compose_batch(container.production, batch, now=container.clock())
    [(status, left, _), (waits, apart, error)] = batches_of(container)
    assert (status, left, waits, apart) == ("composed", 2, "new", 1)
    assert error is not None
    assert error.startswith("1 piece cannot be printed: the claim to the gift card does not open")
    compose_all(container.production, container)
    assert [each[:2] for each in batches_of(container)] == [("composed", 2), ("new", 1)]

    set_claim(container, piece, claim)
    compose_all(container.production, container)
    assert batches_of(container) == [("composed", 2, None), ("composed", 1, None)]
    assert_printed_as_issued(container)


def test_a_gift_is_never_drawn_without_its_claim(container: Container, clock: Clock, owner: Account) -> None:
    order = send_giftcards(owner, recipients=people(2))
    [batch] = end_reviews(container.production, container, clock)
    [bare, good] = item_ids_of(container, order)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(items).where(items.c.id == bare).values(gift_cents=0))
    batch_tasks.compose_batch(container.production, batch, now=container.clock())
    [(_, left, _), (waits, _, error)] = batches_of(container)
    assert (left, waits) == (1, "new")
    assert error is not None
    assert claims_on_paper(container, batch).keys() == {good}
    with container.db.system_transaction() as tx:
        contents = files.read_batch_contents(tx, fulfillment_queries.read_batch(tx, batch + 1))
    with pytest.raises(Unavailable, match=f"Item {bare} has no claim"):
        files.draw_batch_files(container.production, contents)


def test_pieces_that_end_apart_leave_no_warning(container: Container, clock: Clock, owner: Account) -> None:
    production = production_with(container, stock_of(container))
    load_stock(container, 2)
    order = send_giftcards(owner, recipients=people(2))
    end_reviews(production, container, clock)
    with container.db.system_transaction() as tx:
        first = sa.select(sa.func.min(giftcard_stock.c.id)).scalar_subquery()
        tx.execute(sa.delete(giftcard_stock).where(giftcard_stock.c.id > first))
    compose_all(production, container)
    assert any("wait for gift cards" in warning for warning in warnings(owner, order))
    move_items(container, item_ids_of(container, order)[1:], ItemStatus.FAILED)
    compose_all(production, container)
    assert not any("wait for gift cards" in warning for warning in warnings(owner, order))
    assert [each[:2] for each in batches_of(container)] == [("composed", 1), ("mailed", 0)]
    assert_all_is_well(container)


def test_what_is_promised_is_counted_before_any_order_is_held(
    container: Container, clock: Clock, owner: Account
) -> None:
    production = production_with(container, stock_of(container))
    load_stock(container, 5)
    send_giftcards(owner, recipients=people(2))
    end_reviews(production, container, clock)
    send_giftcards(owner)
    clock.advance(days=1)
    assert list(gift_stock.read_card_stock(production, now=container.clock()).values()) == [3]


def test_a_claim_is_not_forgotten_while_it_is_printed_again(container: Container, clock: Clock, owner: Account) -> None:
    """Retention comes while the reprint is not committed yet: it waits for the card, and passes it by."""
    [piece] = item_ids_of(container, send_giftcards(owner))
    [batch] = end_reviews(container.production, container, clock)
    batch_tasks.compose_batch(container.production, batch, now=container.clock())
    with container.db.system_transaction() as tx:
        in_the_mail = sa.text("update batches set status = 'mailed', handed_at = :at, mailed_at = :at")
        tx.execute(in_the_mail, {"at": container.clock()})
    clock.advance(days=20)
    forgetting_is: list[Future[object]] = []

    def meanwhile(_tx: Tx) -> None:
        forgetting_is.append(
            thread.submit(privacy_tasks.delete_overdue, container.db, container.retention_days, now=container.clock())
        )
        wait_until(lambda: is_anyone_waiting(container) or forgetting_is[0].done())
        assert not forgetting_is[0].done()

    with ThreadPoolExecutor(1) as thread:
        environment = container.production.environments["test"]
        again = print_room_service.reprint_items(
            container.db, environment, batch, positions=[1], reason="Torn", write_audit=meanwhile, now=container.clock()
        )
        forgetting_is[0].result()
    assert card_row(container, piece).claim_sealed is not None
    batch_tasks.compose_batch(container.production, again.batch_id, now=container.clock())
    assert claims_on_paper(container, again.batch_id) == claims_on_paper(container, batch)


def test_whoever_tells_of_a_batch_tells_no_claim(container: Container, clock: Clock, owner: Account) -> None:
    [piece] = item_ids_of(container, send_giftcards(owner))
    [batch] = end_reviews(container.production, container, clock)
    batch_tasks.compose_batch(container.production, batch, now=container.clock())
    batch_tasks.hand_over_batch(container.production, batch, now=container.clock())
    claim = claims_on_paper(container, batch)[piece]
    print_room_service.record_printer_progress(
        container.db, batch, PrintProgress(spoiled={piece: f"{claim} is torn"}), now=container.clock()
    )
    with container.db.system_transaction() as tx:
        fulfillment_queries.record_batch_error(tx, batch, f"Who is {claim}?", now=container.clock())
        failure = tx.execute(sa.select(items.c.failure)).scalar_one()
    assert failure == "[hidden] is torn"
    assert [error for _, _, error in batches_of(container)] == ["Who is [hidden]?"]


WAITING = sa.text(
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


def is_anyone_waiting(container: Container) -> bool:
    with container.db.system_transaction() as tx:
        return bool(tx.execute(WAITING).scalar_one())
