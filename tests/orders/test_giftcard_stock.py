"""An operator's own cards: which of them is given, and when."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.orders import giftcard_stock
from quillpost.integrations.giftcards.stock import StockCards
from quillpost.orders.giftcards.ports import CardNotIssued, CardSecret
from support.factories import Clock
from support.giftcard_requests import BRAND, CENTS, add_stock, card, is_issued
from support.waiting import wait_until

IS_WAITING = sa.text("select count(*) from pg_locks where not granted")


def test_a_stock_gives_what_expires_first_and_nothing_that_expires_soon(
    container: Container, tmp_path: Path, clock: Clock
) -> None:
    today = clock.now().date()
    add_stock(container, tmp_path, clock, ["NEVER"])
    add_stock(container, tmp_path, clock, ["LATE"], expires_on=today + timedelta(days=90))
    add_stock(container, tmp_path, clock, ["SOON"], expires_on=today + timedelta(days=40))
    stock = StockCards(container.db, container.encryptor, clock=clock.now)
    assert [each.code for each in is_issued(stock.issue([card()], now=clock.now()))] == ["SOON"]
    add_stock(container, tmp_path, clock, ["SOONER"], expires_on=today + timedelta(days=35))
    clock.advance(days=6)
    assert stock.in_stock(BRAND, "", CENTS) == 2
    found = stock.issue([card() for _ in range(3)], now=clock.now())
    codes = [each.code if isinstance(each, CardSecret) else each.reason for each in found.values()]
    assert codes == ["LATE", "NEVER", "There are no cards of brindlewick over 2500 cents left."]
    assert {each.issuer_status for each in found.values() if isinstance(each, CardNotIssued)} == {"none"}
    assert stock.in_stock(BRAND, "", CENTS + 1) == stock.in_stock("another", "", CENTS) == 0


def test_a_card_that_is_held_for_a_moment_is_waited_for(container: Container, tmp_path: Path, clock: Clock) -> None:
    add_stock(container, tmp_path, clock, ["ONLY"])
    stock = StockCards(container.db, container.encryptor, clock=clock.now)

    def is_anyone_waiting() -> bool:
        with container.db.system_transaction() as tx:
            return int(tx.execute(IS_WAITING).scalar_one()) > 0

    with ThreadPoolExecutor(1) as pool:
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(giftcard_stock).values(source="sealed anew"))
            issuing = pool.submit(stock.issue, [card()], now=clock.now())
            wait_until(lambda: is_anyone_waiting() or issuing.done())
            assert not issuing.done()
        assert [each.code for each in is_issued(issuing.result())] == ["ONLY"]
