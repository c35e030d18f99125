"""An operator's own gift cards in a backup, and in the service that is restored from it."""

from dataclasses import replace
from uuid import uuid4

from gift_press import BRAND, VALUE, load, stock_of

from quillpost.app.container import Parts
from quillpost.cli.doctor.operations import check_cards
from quillpost.core.settings import Settings
from quillpost.orders.giftcards.ports import CardAsked, GiftCard, NoCard
from quillpost.orders.giftcards.stock import count_stock, release

CARD = CardAsked(str(uuid4()), BRAND, BRAND, VALUE)


def have_two_cards_and_give_one(parts: Parts) -> None:
    load(parts, 2, mode="live")
    stock_of(parts, "live").issue([CARD], now=parts.clock())


def assert_no_card_is_given_before_it_is_released(parts: Parts) -> None:
    """Not the one that was free then, and not the one that a piece had and that comes back."""
    stock, now = stock_of(parts, "live"), parts.clock()
    stock.give_back(CARD.reference, now=now)
    another = replace(CARD, reference=str(uuid4()))
    assert isinstance(stock.issue([another], now=now)[another.reference], NoCard)
    with parts.db.work() as tx:
        [shelf] = count_stock(tx, now=now)
        found = {each.subject for each in check_cards(tx, Settings(), now=now)}
        assert (shelf.free, shelf.set_aside, "restored gift cards" in found) == (0, 2, True)
        assert (release(tx, "another", now=now), release(tx, None, now=now)) == (0, 2)
        found = {each.subject for each in check_cards(tx, Settings(), now=now)}
        assert "restored gift cards" not in found
    assert isinstance(stock.issue([another], now=now)[another.reference], GiftCard)
