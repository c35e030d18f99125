"""Items that cannot be drawn or whose gift card cannot be read: they fail, and the others go on."""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.orders import giftcards
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.batches import files
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.orders.models import Order
from quillpost.privacy import tasks as privacy_tasks
from quillpost.rendering.images.rules import UnprintableImage
from support.factories import Account, Clock, people
from support.giftcard_orders import card_row, issue_order_cards, item_ids_of, send_giftcards
from support.giftcard_production import assert_printed_as_issued, batches_of, claims_on_paper, compose_all, end_reviews
from support.orders import balances, create_order, item_rows, order_row
from support.production import compose, files_of, hand_over, only_batch, read_batch, stumble_over, sweep_due_orders
from support.rows import execute
from support.waiting import is_lock_awaited, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")


NOT_DRAWN = [("Failed", NOT_COMPOSABLE)]


def due_batch(container: Container, clock: Clock, caller: Caller, *messages: str) -> list[Order]:
    """An order of each of these words, in one batch that is yet to be composed."""
    placed = [create_order(container, caller, message=message) for message in messages]
    sweep_due_orders(container, clock)
    return placed


def fates(container: Container, order: Order) -> list[tuple[str, str | None]]:
    return [(row.status, row.failure) for row in item_rows(container, order)]


def test_an_order_that_cannot_be_drawn_holds_up_no_one(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, broken, handless = due_batch(container, clock, caller, "Fine", "Broken", "Handless")
    execute(container, "update orders set style = 987 where id = :id", id=handless.id)
    stumble_over(container, monkeypatch, ValueError("a decoder stumbles"), "Broken")
    batch_id = compose(container, only_batch(container).id)
    assert read_batch(container, batch_id).status == "composed"
    assert [fates(container, order) for order in (good, broken, handless)] == [
        [("Processing", None)], NOT_DRAWN, NOT_DRAWN,
    ]  # fmt: skip
    assert balances(container, broken)["held"] == 0
    manifest = json.loads(files_of(container, batch_id)[f"batches/{batch_id}/manifest.json"])
    assert [piece["order_id"] for piece in manifest["pieces"]] == [good.id]


def test_a_batch_of_which_nothing_can_be_drawn_is_closed(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    [order] = due_batch(container, clock, caller, "Broken")
    stumble_over(container, monkeypatch, UnprintableImage("The picture is damaged."))
    batch_id = compose(container, only_batch(container).id)
    assert (read_batch(container, batch_id).status, order_row(container, order).status) == ("mailed", "fulfilled")


def test_an_error_that_every_order_meets_fails_no_mail(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_batch(container, clock, caller, "Fine")
    stumble_over(container, monkeypatch, LookupError("The font is not installed."))
    batch_id = only_batch(container).id
    with pytest.raises(LookupError):
        compose(container, batch_id)
    assert read_batch(container, batch_id).status == "new"


def test_what_this_machine_lacks_fails_no_order_that_it_meets(
    container: Container, clock: Clock, caller: Caller, subtests: pytest.Subtests
) -> None:
    several = due_batch(container, clock, caller, "Fine", "Unlucky")
    batch_id = only_batch(container).id
    look_at = container.production.renderer.find_misfits
    for error in (MemoryError(), OSError("no space left"), Unavailable("No database.")):
        for step in ("compose", "find_misfits"):

            def runs_out(design: Any, *what: Any, error: Exception = error, **how: Any) -> Any:
                if design.message == "Unlucky":
                    raise error
                return look_at(design, *what, **how)

            with subtests.test(error=error, step=step), pytest.MonkeyPatch.context() as patch:
                stumble_over(container, patch, error, "Unlucky")
                if step == "find_misfits":
                    patch.setattr(container.production.renderer, "find_misfits", runs_out)
                with pytest.raises(type(error)):
                    compose(container, batch_id)
                assert read_batch(container, batch_id).status == "new"
                assert [fates(container, order) for order in several] == [[("Processing", None)]] * 2


def set_claim(container: Container, item_id: int, sealed: bytes) -> None:
    card = sa.update(giftcards).where(giftcards.c.item_id == item_id)
    execute(container, card.values(claim_sealed=sealed))


def test_a_claim_that_does_not_open_waits_apart_and_the_others_go_on(
    container: Container, clock: Clock, owner: Account
) -> None:
    order = send_giftcards(owner, recipients=people(3))
    [batch] = end_reviews(container.production, container, clock)
    [piece, *_] = issue_order_cards(container, order)
    claim = bytes(card_row(container, piece).claim_sealed)
    set_claim(container, piece, claim[:-1])
    compose(container, batch)
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
    execute(container, sa.update(items).where(items.c.id == bare).values(gift_cents=0))
    compose(container, batch)
    [(_, left, _), (waits, _, error)] = batches_of(container)
    assert (left, waits, bool(error)) == (1, "new", True)
    assert claims_on_paper(container, batch).keys() == {good}
    with container.db.system_transaction() as tx:
        contents = files.read_batch_contents(tx, fulfillment_queries.read_batch(tx, batch + 1))
    with pytest.raises(Unavailable, match=f"Item {bare} has no claim"):
        files.draw_batch_files(container.production, contents)


def test_a_claim_is_not_forgotten_while_it_is_printed_again(container: Container, clock: Clock, owner: Account) -> None:
    """Retention comes while the reprint is not committed yet: it waits for the card, and passes it by."""
    [piece] = item_ids_of(container, send_giftcards(owner))
    [batch] = end_reviews(container.production, container, clock)
    compose(container, batch)
    in_the_mail = sa.text("update batches set status = 'mailed', handed_at = :at, mailed_at = :at")
    execute(container, in_the_mail, at=container.clock())
    clock.advance(days=20)
    forgetting_is: list[Future[object]] = []

    def meanwhile(_tx: Tx) -> None:
        forgetting_is.append(
            thread.submit(privacy_tasks.delete_overdue, container.db, container.retention_days, now=container.clock())
        )
        wait_until(lambda: is_lock_awaited(container) or forgetting_is[0].done())
        assert not forgetting_is[0].done()

    with ThreadPoolExecutor(1) as thread:
        environment = container.production.environments["test"]
        again = print_room_service.reprint_items(
            container.db, environment, batch, positions=[1], reason="Torn", write_audit=meanwhile, now=container.clock()
        )
        forgetting_is[0].result()
    assert card_row(container, piece).claim_sealed is not None
    compose(container, again.batch_id)
    assert claims_on_paper(container, again.batch_id) == claims_on_paper(container, batch)


def test_whoever_tells_of_a_batch_tells_no_claim(container: Container, clock: Clock, owner: Account) -> None:
    [piece] = item_ids_of(container, send_giftcards(owner))
    [batch] = end_reviews(container.production, container, clock)
    compose(container, batch)
    hand_over(container, batch)
    claim = claims_on_paper(container, batch)[piece]
    print_room_service.record_printer_progress(
        container.db, batch, PrintProgress(spoiled={piece: f"{claim} is torn"}), now=container.clock()
    )
    with container.db.system_transaction() as tx:
        fulfillment_queries.record_batch_error(tx, batch, f"Who is {claim}?", now=container.clock())
        failure = tx.execute(sa.select(items.c.failure)).scalar_one()
    assert failure == "[hidden] is torn"
    assert [error for _, _, error in batches_of(container)] == ["Who is [hidden]?"]
