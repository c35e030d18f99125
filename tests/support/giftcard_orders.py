"""Gift card orders whose cards are issued, claimed and reported without any paper."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.orders import giftcards
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.giftcards.ports import CardSecret
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.queries import change_status
from quillpost.orders.rules import ItemStatus, OrderStatus
from support.factories import GIFT, Account

BRAND, VALUE = str(GIFT["giftcard_brand"]), int(GIFT["giftcard_amount"])


def send_giftcards(sender: Account, **changes: Any) -> int:
    """An order of gift cards; its id."""
    sent = sender.send("giftcard", **changes)
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def item_ids_of(container: Container, order_id: int) -> list[int]:
    with container.db.system_transaction() as tx:
        found = sa.select(items.c.id).where(items.c.order_id == order_id).order_by(items.c.id)
        return list(tx.execute(found).scalars())


def end_review_of(container: Container, order_id: int) -> None:
    ends = {"expected": [OrderStatus.REVIEWING], "new_status": OrderStatus.PROCESSING}
    with container.db.system_transaction() as tx:
        change_status(tx, [order_id], now=container.clock(), **ends)  # type: ignore[arg-type]


def issue_cards(container: Container, item_ids: Sequence[int]) -> None:
    """Each piece that waits for a card has one, of those that testing mode makes up."""
    issuer, now = container.production.giftcard_issuers["test"], container.clock()
    with container.db.system_transaction() as tx:
        pending = issuance.request_cards(tx, item_ids, issuer=issuer.name, now=now)
    given = issuer.issue([each.card_request for each in pending], now=now)
    cards = {each.item_id: given[each.card_request.reference] for each in pending}
    sealed = issuance.encrypt_cards(
        container.encryptor, {item_id: card for item_id, card in cards.items() if isinstance(card, CardSecret)}
    )
    with container.db.system_transaction() as tx:
        issuance.store_cards(tx, sealed, issuer=issuer.name, now=now)


def move_items(container: Container, item_ids: Sequence[int], *way: ItemStatus) -> None:
    for to in way:
        with container.db.system_transaction() as tx:
            change_item_statuses(
                tx, [StatusChange(each, to, reason="so it went") for each in item_ids], now=container.clock()
            )


def issue_order_cards(container: Container, order_id: int) -> list[int]:
    """The order is being made, and all its cards are issued; its pieces."""
    end_review_of(container, order_id)
    pieces = item_ids_of(container, order_id)
    issue_cards(container, pieces)
    return pieces


def mail_giftcard(container: Container, sender: Account, **changes: Any) -> int:
    """A piece with a card that is in the mail."""
    [piece] = issue_order_cards(container, send_giftcards(sender, **changes))
    move_items(container, [piece], ItemStatus.PRINTED, ItemStatus.IN_TRANSIT)
    return piece


def read_claim(container: Container, item_id: int) -> str:
    """What is printed on the piece."""
    with container.db.system_transaction() as tx:
        found = sa.select(giftcards.c.claim_sealed).where(giftcards.c.item_id == item_id)
        return issuance.decrypt_claim(container.encryptor, item_id, bytes(tx.execute(found).scalar_one()))


def claim_card(container: Container, item_id: int) -> None:
    """Whoever has the piece has its code shown, if that may be."""
    with container.db.system_transaction() as tx:
        giftcard_service.claim_card(tx, container.encryptor, read_claim(container, item_id), now=container.clock())


def card_row(container: Container, item_id: int) -> sa.Row[Any]:
    with container.db.system_transaction() as tx:
        return tx.execute(sa.select(giftcards).where(giftcards.c.item_id == item_id)).one()
