"""What becomes of pieces for which nobody issues a card, at the press and before."""

from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.database.tables.orders import giftcard_stock
from quillpost.fulfillment.batches import giftcards
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, IssuerDown
from quillpost.orders.giftcards.service import NEVER_ISSUED
from quillpost.orders.giftcards.tasks import CardReturns
from quillpost.orders.rules import ItemStatus
from support.factories import Account, Clock, people
from support.giftcard_orders import card_row, item_ids_of, move_items, send_giftcards
from support.giftcard_production import (
    VALUE,
    Answers,
    Issuer,
    assert_all_is_well,
    assert_books_agree,
    assert_printed_as_issued,
    batches_of,
    compose_all,
    end_reviews,
    free_in_stock,
    load_stock,
    production_with,
    statuses,
    stock_of,
    warnings,
)
from support.production import enqueued_steps

pytestmark = pytest.mark.usefixtures("conninfo")

# At the press


def test_pieces_without_a_card_wait_apart_and_the_others_go_on(
    container: Container, clock: Clock, owner: Account
) -> None:
    production = production_with(container, stock_of(container))
    load_stock(container, 3)
    order = send_giftcards(owner, recipients=people(3))
    end_reviews(production, container, clock)
    with container.db.system_transaction() as tx:
        codes = set(tx.execute(sa.select(prints.c.tracking)).scalars())
        tx.execute(sa.delete(giftcard_stock).where(giftcard_stock.c.id > 2))
    compose_all(production, container)
    [(status, pieces, _), (waits, waiting, error)] = batches_of(container)
    assert (status, pieces, waits, waiting) == ("composed", 2, "new", 1)
    assert error is not None
    assert error.startswith("1 piece waits for its gift card. There are no cards of ")
    assert any("wait for gift cards of Brindlewick" in warning for warning in warnings(owner, order))
    with container.db.system_transaction() as tx:
        assert "fulfillment.compose_batch" in [task for task, args in enqueued_steps(tx) if args == {"batch_id": 2}]
    compose_all(production, container)
    assert len(batches_of(container)) == 2
    load_stock(container, 1)
    compose_all(production, container)
    assert batches_of(container) == [("composed", 2, None), ("composed", 1, None)]
    assert not any("wait for gift cards" in warning for warning in warnings(owner, order))
    with container.db.system_transaction() as tx:
        assert set(tx.execute(sa.select(prints.c.tracking)).scalars()) == codes
    assert_all_is_well(container)
    assert_printed_as_issued(container)


def test_an_order_whose_last_piece_ends_waiting_waits_no_more(
    container: Container, clock: Clock, owner: Account
) -> None:
    production = production_with(container, stock_of(container))
    order = send_giftcards(owner)
    end_reviews(container.production, container, clock)
    compose_all(production, container)
    assert any("wait for gift cards" in warning for warning in warnings(owner, order))
    move_items(container, item_ids_of(container, order), ItemStatus.FAILED)
    assert not any("wait for gift cards" in warning for warning in warnings(owner, order))
    compose_all(production, container)
    assert batches_of(container) == [("mailed", 0, None)]
    assert_all_is_well(container)


def test_an_issuer_that_is_down_is_waited_for(container: Container, clock: Clock, owner: Account) -> None:
    def is_down(_requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        raise IssuerDown("The issuer does not answer.")

    send_giftcards(owner)
    production = production_with(container, stock_of(container))
    load_stock(container, 1)
    [batch] = end_reviews(production, container, clock)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs"))
    batch_tasks.compose_batch(
        production_with(container, Issuer(stock_of(container), is_down)), batch, now=container.clock()
    )
    assert batches_of(container) == [("new", 1, "The issuer does not answer.")]
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == [("fulfillment.compose_batch", {"batch_id": batch})]
    compose_all(production, container)
    assert_all_is_well(container)
    assert_printed_as_issued(container)


def test_a_piece_whose_card_is_refused_for_good_fails_and_costs_nothing(
    container: Container, clock: Clock, owner: Account
) -> None:
    def refuses_one(requests: Sequence[CardRequest], answers: Answers) -> Answers:
        return {**answers, requests[0].reference: CardNotIssued("The order was cancelled there.", "never")}

    order = send_giftcards(owner, recipients=people(2))
    load_stock(container, 2)
    production = production_with(container, Issuer(stock_of(container), refuses_one))
    end_reviews(production, container, clock)
    compose_all(production, container)
    assert statuses(container) == ["refused", "issued"]
    with container.db.system_transaction() as tx:
        pieces = tx.execute(sa.select(items).order_by(items.c.id)).all()
        assert [(row.status, row.failure) for row in pieces] == [
            ("Failed", giftcards.CARD_REFUSED),
            ("Processing", None),
        ]
        assert_books_agree(tx)
    assert owner.get(f"/orders/{order}").json()["grand_total"] == pieces[1].price_cents + VALUE
    assert_printed_as_issued(container)


def test_a_card_requested_from_one_issuer_is_requested_from_no_other(
    container: Container, clock: Clock, owner: Account
) -> None:
    """Whoever was asked may have issued it, whatever became of the answer."""

    def dies(_requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        raise ConnectionResetError

    send_giftcards(owner)
    load_stock(container, 2)
    [batch] = end_reviews(production_with(container, stock_of(container)), container, clock)
    with pytest.raises(ConnectionResetError):
        batch_tasks.compose_batch(
            production_with(container, Issuer(stock_of(container), dies)), batch, now=container.clock()
        )
    another = production_with(container, Issuer(stock_of(container), name="another"))
    batch_tasks.compose_batch(another, batch, now=container.clock())
    [(status, _, error)] = batches_of(container)
    assert status == "new"
    assert error is not None
    assert "asked of stock" in error
    compose_all(production_with(container, stock_of(container)), container)
    assert_all_is_well(container)
    assert_printed_as_issued(container)


def test_a_card_that_is_ordered_and_not_made_yet_stays_with_its_issuer(
    container: Container, clock: Clock, owner: Account
) -> None:
    """It is paid for there: another would issue a second one, and its own would never be given back."""

    def not_yet(requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        return {card.reference: CardNotIssued("It waits to be approved.", "ordered") for card in requests}

    order = send_giftcards(owner)
    load_stock(container, 2)
    production = production_with(container, stock_of(container))
    end_reviews(production, container, clock)
    compose_all(production_with(container, Issuer(stock_of(container), not_yet)), container)
    assert batches_of(container) == [("new", 1, "1 piece waits for its gift card. It waits to be approved.")]
    assert any("that are not issued yet" in warning for warning in warnings(owner, order))
    compose_all(production_with(container, Issuer(stock_of(container), name="another")), container)
    [piece] = item_ids_of(container, order)
    assert (card_row(container, piece).issuer, statuses(container)) == ("stock", ["asked"])
    move_items(container, [piece], ItemStatus.FAILED)
    compose_all(production, container)
    CardReturns(container.db, production.giftcard_issuers).return_cards(now=container.clock())
    assert (statuses(container), free_in_stock(container)) == (["void"], 2)
    refused = owner.put(f"/order-items/{piece}/invalidate-giftcard")
    assert (refused.status_code, NEVER_ISSUED in refused.text) == (400, True)
    assert_all_is_well(container)


def test_an_issuer_without_stock_is_replaced_by_another(container: Container, clock: Clock, owner: Account) -> None:
    send_giftcards(owner)
    production = production_with(container, stock_of(container))
    load_stock(container, 1)
    end_reviews(production, container, clock)
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(giftcard_stock))
    compose_all(production, container)
    load_stock(container, 1)
    compose_all(production_with(container, Issuer(stock_of(container), name="another")), container)
    assert [row.issuer for row in [card_row(container, 1)]] == ["another"]
    assert_printed_as_issued(container)


# At the end of the review


def test_an_order_for_which_there_are_too_few_cards_is_held(container: Container, clock: Clock, owner: Account) -> None:
    production = production_with(container, stock_of(container))
    load_stock(container, 5)
    promised = send_giftcards(owner, recipients=people(2))
    end_reviews(production, container, clock)
    fits, too_many, fits_too = (send_giftcards(owner, recipients=people(n)) for n in (1, 3, 2))
    plain = owner.send(recipients=people(9)).json()["id"]
    end_reviews(production, container, clock)
    with container.db.system_transaction() as tx:
        stand = {row.id: row.status for row in tx.execute(sa.select(orders))}
    assert stand == {
        promised: "processing",
        fits: "processing",
        too_many: "paused",
        fits_too: "processing",
        plain: "processing",
    }
    [warning] = [warning for warning in warnings(owner, too_many) if "gift card" in warning]
    assert "needs 3 gift cards of Brindlewick" in warning
    assert "over $25.00, and 2 are free: have it released when there are more, or send" in warning
