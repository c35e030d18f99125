"""An operator's own gift cards in a backup, and in the service that is restored from it."""

from dataclasses import replace
from uuid import uuid4

from quillpost.app.container import Container
from quillpost.cli.doctor.operations import check_giftcards
from quillpost.core.settings import Settings
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret
from quillpost.orders.giftcards.stock import count_stock, release_set_aside
from support.giftcard_orders import BRAND, VALUE, load_stock, stock_of

CARD = CardRequest(str(uuid4()), BRAND, BRAND, VALUE)


def have_two_cards_and_give_one(container: Container) -> None:
    load_stock(container, 2, mode="live")
    stock_of(container, "live").issue([CARD], now=container.clock())


def assert_no_card_is_given_before_it_is_released(container: Container) -> None:
    """Not the one that was free then, and not the one that a piece had and that comes back."""
    stock, now = stock_of(container, "live"), container.clock()
    stock.return_card(CARD.reference, now=now)
    another = replace(CARD, reference=str(uuid4()))
    assert isinstance(stock.issue([another], now=now)[another.reference], CardNotIssued)
    with container.db.system_transaction() as tx:
        [storage] = count_stock(tx, now=now)
        found = {each.subject for each in check_giftcards(tx, Settings(), now=now)}
        assert (storage.free, storage.set_aside, "restored gift cards" in found) == (0, 2, True)
        assert (release_set_aside(tx, "another", now=now), release_set_aside(tx, None, now=now)) == (0, 2)
        found = {each.subject for each in check_giftcards(tx, Settings(), now=now)}
        assert "restored gift cards" not in found
    assert isinstance(stock.issue([another], now=now)[another.reference], CardSecret)
