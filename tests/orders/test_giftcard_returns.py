"""Cards of pieces that end, before or after they were issued: their issuer has them back."""

from collections.abc import Sequence
from datetime import datetime

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.app.container import Container
from quillpost.core.database.tables.orders import giftcards
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, IssuerDown
from quillpost.orders.giftcards.tasks import MAX_FAILURES, CardReturns
from quillpost.orders.rules import ItemStatus
from support.factories import Account, Clock, people
from support.giftcard_orders import card_row, item_ids_of, move_items, send_giftcards
from support.giftcard_production import (
    Answers,
    Issuer,
    assert_all_is_well,
    assert_books_agree,
    assert_printed_as_issued,
    compose_all,
    end_reviews,
    free_in_stock,
    load_stock,
    production_with,
    statuses,
    stock_of,
)

pytestmark = pytest.mark.usefixtures("clean_database")


def test_a_card_that_comes_too_late_is_void_and_goes_back(container: Container, clock: Clock, owner: Account) -> None:
    order = send_giftcards(owner, recipients=people(2))
    first, _ = item_ids_of(container, order)

    def first_fails(_requests: Sequence[CardRequest], answers: Answers) -> Answers:
        move_items(container, [first], ItemStatus.FAILED)
        return answers

    load_stock(container, 2)
    production = production_with(container, Issuer(stock_of(container), first_fails))
    end_reviews(production, container, clock)
    compose_all(production, container)
    assert statuses(container) == ["void", "issued"]
    assert card_row(container, first).card_sealed is None
    with container.db.system_transaction() as tx:
        assert_books_agree(tx)
    CardReturns(container.db, production.giftcard_issuers).return_cards(now=container.clock())
    assert free_in_stock(container) == 1
    assert_all_is_well(container)
    assert_printed_as_issued(container)


def test_a_card_that_comes_after_somebody_else_was_refused_it_goes_back(
    container: Container, clock: Clock, owner: Account
) -> None:
    def never(requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        return {card.reference: CardNotIssued("Never.", "never") for card in requests}

    [piece] = item_ids_of(container, send_giftcards(owner))
    load_stock(container, 1)
    refused = production_with(container, Issuer(stock_of(container), never))

    def another_is_refused(_requests: Sequence[CardRequest], answers: Answers) -> Answers:
        compose_all(refused, container)
        assert statuses(container) == ["refused"]
        return answers

    production = production_with(container, Issuer(stock_of(container), another_is_refused))
    [batch] = end_reviews(production, container, clock)
    batch_tasks.compose_batch(production, batch, now=container.clock())
    assert (statuses(container), card_row(container, piece).card_sealed) == (["void"], None)
    CardReturns(container.db, production.giftcard_issuers).return_cards(now=container.clock())
    assert free_in_stock(container) == 1
    assert_all_is_well(container)


def test_a_card_whose_answer_was_lost_and_whose_piece_ended_goes_back(
    container: Container, clock: Clock, owner: Account
) -> None:
    def dies(_requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        raise ConnectionResetError

    [piece] = item_ids_of(container, send_giftcards(owner))
    load_stock(container, 1)
    production = production_with(container, Issuer(stock_of(container), dies))
    [batch] = end_reviews(production, container, clock)
    with pytest.raises(ConnectionResetError):
        batch_tasks.compose_batch(production, batch, now=container.clock())
    move_items(container, [piece], ItemStatus.FAILED)
    returns = CardReturns(container.db, production.giftcard_issuers)
    returns.return_cards(now=container.clock())
    assert (statuses(container), free_in_stock(container)) == (["asked"], 0)  # who composes may be about to ask
    batch_tasks.compose_batch(production, batch, now=container.clock())
    returns.return_cards(now=container.clock())
    assert (statuses(container), free_in_stock(container)) == (["void"], 1)
    assert_all_is_well(container)


def test_void_cards_go_back_once_their_issuer_is_there(container: Container, clock: Clock, owner: Account) -> None:
    order = send_giftcards(owner, recipients=people(3))
    load_stock(container, 3)
    real = stock_of(container)
    production = production_with(container, real)
    end_reviews(production, container, clock)
    compose_all(production, container)
    move_items(container, item_ids_of(container, order), ItemStatus.FAILED)
    calls = []

    class Shaky(Issuer):
        def return_card(self, reference: str, *, now: datetime) -> bool:
            calls.append(reference)
            if len(calls) == 2:
                raise IssuerDown("Gone.")
            return super().return_card(reference, now=now)

    returns = CardReturns(container.db, {"test": Shaky(real)})
    returns.return_cards(now=container.clock())
    assert free_in_stock(container) == 2, "one that fails is in nobody's way"
    returns.return_cards(now=container.clock())
    returns.return_cards(now=container.clock())
    assert free_in_stock(container) == 3
    assert len(calls) == 4
    with container.db.system_transaction() as tx:
        assert set(tx.execute(sa.select(giftcards.c.card_sealed)).scalars()) == {None}


def test_cards_that_always_fail_are_skipped_and_an_issuer_that_is_down_is_left_alone(
    container: Container, clock: Clock, owner: Account
) -> None:
    pieces = item_ids_of(container, send_giftcards(owner, recipients=people(MAX_FAILURES + 2)))
    load_stock(container, len(pieces))
    production = production_with(container, stock_of(container))
    end_reviews(production, container, clock)
    compose_all(production, container)
    move_items(container, pieces, ItemStatus.FAILED)
    odd = {str(card_row(container, piece).reference) for piece in pieces[:MAX_FAILURES]}
    calls = []

    class Odd(Issuer):
        def return_card(self, reference: str, *, now: datetime) -> bool:
            calls.append(reference)
            if reference in odd:
                raise IssuerDown("It cannot be read.")
            return super().return_card(reference, now=now)

    returns = CardReturns(container.db, {"test": Odd(stock_of(container))})
    returns.return_cards(now=container.clock())
    assert (len(calls), free_in_stock(container)) == (MAX_FAILURES, 0)
    returns.return_cards(now=container.clock())
    assert (len(calls), free_in_stock(container)) == (len(pieces), 2)
    odd.clear()
    returns.return_cards(now=container.clock())
    assert free_in_stock(container) == len(pieces)


def test_cards_of_another_issuer_are_left_alone_and_logged_once(
    container: Container, clock: Clock, owner: Account
) -> None:
    [piece] = item_ids_of(container, send_giftcards(owner))
    load_stock(container, 1)
    production = production_with(container, stock_of(container))
    end_reviews(production, container, clock)
    compose_all(production, container)
    move_items(container, [piece], ItemStatus.FAILED)
    returns = CardReturns(container.db, {"test": Issuer(stock_of(container), name="another")})
    with capture_logs() as logs:
        returns.return_cards(now=container.clock())
        returns.return_cards(now=container.clock())
    assert [line["event"] for line in logs] == ["giftcards.issuer_not_configured"]
    assert (free_in_stock(container), card_row(container, piece).given_back_at) == (0, None)
