"""Cards of pieces that end, before or after they were issued: their issuer has them back."""

from collections.abc import Sequence
from datetime import datetime

import pytest
import sqlalchemy as sa
from gift_press import (
    Answers,
    Issuer,
    assert_all_is_well,
    assert_books_agree,
    assert_printed_as_issued,
    compose_all,
    end_reviews,
    free_in_stock,
    load,
    press_with,
    statuses,
    stock_of,
)
from gifted import card_row, move, pieces_of, send_gifts
from structlog.testing import capture_logs

from makers import Account, Clock, people
from quillpost.app.container import Parts
from quillpost.core.database.tables.giftcards import giftcards
from quillpost.fulfillment import production
from quillpost.orders.giftcards.ports import CardAsked, IssuerDown, NoCard
from quillpost.orders.giftcards.returns import MOST_FAILURES, Returns
from quillpost.orders.rules import ItemStatus


def test_a_card_that_comes_too_late_is_void_and_goes_back(parts: Parts, clock: Clock, owner: Account) -> None:
    order = send_gifts(owner, recipients=people(2))
    first, _ = pieces_of(parts, order)

    def first_fails(_asked: Sequence[CardAsked], answers: Answers) -> Answers:
        move(parts, [first], ItemStatus.FAILED)
        return answers

    load(parts, 2)
    press = press_with(parts, Issuer(stock_of(parts), first_fails))
    end_reviews(press, parts, clock)
    compose_all(press, parts)
    assert statuses(parts) == ["void", "issued"]
    assert card_row(parts, first).card_sealed is None
    with parts.db.work() as tx:
        assert_books_agree(tx)
    Returns(parts.db, press.issuers).give_back(now=parts.clock())
    assert free_in_stock(parts) == 1
    assert_all_is_well(parts)
    assert_printed_as_issued(parts)


def test_a_card_that_comes_after_somebody_else_was_refused_it_goes_back(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    def never(asked: Sequence[CardAsked], _answers: Answers) -> Answers:
        return {card.reference: NoCard("Never.", "never") for card in asked}

    [piece] = pieces_of(parts, send_gifts(owner))
    load(parts, 1)
    refused = press_with(parts, Issuer(stock_of(parts), never))

    def another_is_refused(_asked: Sequence[CardAsked], answers: Answers) -> Answers:
        compose_all(refused, parts)
        assert statuses(parts) == ["refused"]
        return answers

    press = press_with(parts, Issuer(stock_of(parts), another_is_refused))
    [batch] = end_reviews(press, parts, clock)
    production.compose(press, batch, now=parts.clock())
    assert (statuses(parts), card_row(parts, piece).card_sealed) == (["void"], None)
    Returns(parts.db, press.issuers).give_back(now=parts.clock())
    assert free_in_stock(parts) == 1
    assert_all_is_well(parts)


def test_a_card_whose_answer_was_lost_and_whose_piece_ended_goes_back(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    def dies(_asked: Sequence[CardAsked], _answers: Answers) -> Answers:
        raise ConnectionResetError

    [piece] = pieces_of(parts, send_gifts(owner))
    load(parts, 1)
    press = press_with(parts, Issuer(stock_of(parts), dies))
    [batch] = end_reviews(press, parts, clock)
    with pytest.raises(ConnectionResetError):
        production.compose(press, batch, now=parts.clock())
    move(parts, [piece], ItemStatus.FAILED)
    returns = Returns(parts.db, press.issuers)
    returns.give_back(now=parts.clock())
    assert (statuses(parts), free_in_stock(parts)) == (["asked"], 0)  # who composes may be about to ask
    production.compose(press, batch, now=parts.clock())
    returns.give_back(now=parts.clock())
    assert (statuses(parts), free_in_stock(parts)) == (["void"], 1)
    assert_all_is_well(parts)


def test_void_cards_go_back_once_their_issuer_is_there(parts: Parts, clock: Clock, owner: Account) -> None:
    order = send_gifts(owner, recipients=people(3))
    load(parts, 3)
    real = stock_of(parts)
    press = press_with(parts, real)
    end_reviews(press, parts, clock)
    compose_all(press, parts)
    move(parts, pieces_of(parts, order), ItemStatus.FAILED)
    calls = []

    class Shaky(Issuer):
        def give_back(self, reference: str, *, now: datetime) -> bool:
            calls.append(reference)
            if len(calls) == 2:
                raise IssuerDown("Gone.")
            return super().give_back(reference, now=now)

    returns = Returns(parts.db, {"test": Shaky(real)})
    returns.give_back(now=parts.clock())
    assert free_in_stock(parts) == 2, "one that fails is in nobody's way"
    returns.give_back(now=parts.clock())
    returns.give_back(now=parts.clock())
    assert free_in_stock(parts) == 3
    assert len(calls) == 4
    with parts.db.work() as tx:
        assert set(tx.execute(sa.select(giftcards.c.card_sealed)).scalars()) == {None}


def test_cards_that_always_fail_are_passed_by_and_an_issuer_who_is_down_is_left_in_peace(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    pieces = pieces_of(parts, send_gifts(owner, recipients=people(MOST_FAILURES + 2)))
    load(parts, len(pieces))
    press = press_with(parts, stock_of(parts))
    end_reviews(press, parts, clock)
    compose_all(press, parts)
    move(parts, pieces, ItemStatus.FAILED)
    odd = {str(card_row(parts, piece).reference) for piece in pieces[:MOST_FAILURES]}
    calls = []

    class Odd(Issuer):
        def give_back(self, reference: str, *, now: datetime) -> bool:
            calls.append(reference)
            if reference in odd:
                raise IssuerDown("It cannot be read.")
            return super().give_back(reference, now=now)

    returns = Returns(parts.db, {"test": Odd(stock_of(parts))})
    returns.give_back(now=parts.clock())
    assert (len(calls), free_in_stock(parts)) == (MOST_FAILURES, 0)
    returns.give_back(now=parts.clock())
    assert (len(calls), free_in_stock(parts)) == (len(pieces), 2)
    odd.clear()
    returns.give_back(now=parts.clock())
    assert free_in_stock(parts) == len(pieces)


def test_cards_of_another_issuer_are_left_alone_and_said_once(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    [piece] = pieces_of(parts, send_gifts(owner))
    load(parts, 1)
    press = press_with(parts, stock_of(parts))
    end_reviews(press, parts, clock)
    compose_all(press, parts)
    move(parts, [piece], ItemStatus.FAILED)
    returns = Returns(parts.db, {"test": Issuer(stock_of(parts), name="another")})
    with capture_logs() as logs:
        returns.give_back(now=parts.clock())
        returns.give_back(now=parts.clock())
    assert [line["event"] for line in logs] == ["giftcards.of_another_issuer"]
    assert (free_in_stock(parts), card_row(parts, piece).given_back_at) == (0, None)
