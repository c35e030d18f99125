"""Gift cards: orders of them, an operator's stock, issuers that go wrong, and what holds whatever they do."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pypdfium2 as pdfium
import sqlalchemy as sa
import zxingcpp

from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import PRINT_FILE, BatchFileStorage
from quillpost.fulfillment.models import ProductionContext
from quillpost.fulfillment.review import service as review_service
from quillpost.integrations.giftcards.stock import StockCards
from quillpost.orders.giftcards import issuance, stock
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret, GiftcardIssuer
from quillpost.orders.giftcards.rules import claim_digest
from quillpost.orders.giftcards.tasks import CardReturns
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.rules import ItemStatus
from support.factories import GIFT, Account, Clock
from support.orders import end_review, item_ids
from support.production import batch_rows
from support.rows import run, scalar, scalars

BRAND, VALUE = str(GIFT["giftcard_brand"]), int(GIFT["giftcard_amount"])


def send_giftcards(sender: Account, **changes: Any) -> int:
    """An order of gift cards; its id."""
    sent = sender.send("giftcard", **changes)
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def issue_cards(container: Container, whose: Sequence[int]) -> None:
    """Each piece that waits for a card has one, of those that testing mode makes up."""
    issuer, now = container.production.giftcard_issuers["test"], container.clock()
    with container.db.system_transaction() as tx:
        pending = issuance.request_cards(tx, whose, issuer=issuer.name, now=now)
    given = issuer.issue([each.card_request for each in pending], now=now)
    cards = {each.item_id: given[each.card_request.reference] for each in pending}
    sealed = issuance.encrypt_cards(
        container.encryptor, {item_id: card for item_id, card in cards.items() if isinstance(card, CardSecret)}
    )
    with container.db.system_transaction() as tx:
        issuance.store_cards(tx, sealed, issuer=issuer.name, now=now)


def move_items(container: Container, whose: Sequence[int], *way: ItemStatus) -> None:
    for to in way:
        changes = [StatusChange(each, to, reason="so it went") for each in whose]
        run(container, change_item_statuses, changes, now=container.clock())


def issue_order_cards(container: Container, order_id: int) -> list[int]:
    """The order is being made, and all its cards are issued; its pieces."""
    end_review(container, order_id)
    pieces = item_ids(container, order_id)
    issue_cards(container, pieces)
    return pieces


def mail_giftcard(container: Container, sender: Account, **changes: Any) -> int:
    """A piece with a card that is in the mail."""
    [piece] = issue_order_cards(container, send_giftcards(sender, **changes))
    move_items(container, [piece], ItemStatus.PRINTED, ItemStatus.IN_TRANSIT)
    return piece


def read_claim(container: Container, item_id: int) -> str:
    """What is printed on the piece."""
    found = scalar(container, sa.select(giftcards.c.claim_sealed).where(giftcards.c.item_id == item_id))
    return issuance.decrypt_claim(container.encryptor, item_id, bytes(found))


def claim_card(container: Container, item_id: int) -> None:
    """Whoever has the piece has its code shown, if that may be."""
    claim = read_claim(container, item_id)
    run(container, giftcard_service.claim_card, container.encryptor, claim, now=container.clock())


def card_row(container: Container, item_id: int) -> sa.Row[Any]:
    with container.db.system_transaction() as tx:
        return tx.execute(sa.select(giftcards).where(giftcards.c.item_id == item_id)).one()


READABLE_DPI = 150

ADD = sa.text(
    """
    insert into giftcard_stock (id, mode, brand, cents, card_sealed, source, loaded_at)
    overriding system value values (:id, :mode, :brand, :cents, :card, 'cards.csv', :now)
    """
)
NEXT_IDS = sa.text("select nextval('giftcard_stock_id_seq') from generate_series(1, :n)")

Answers = Mapping[str, CardSecret | CardNotIssued]


@dataclass(frozen=True)
class Issuer:
    """A real one, and what happens to it: `during` is called while it is asked, and sees what it answers."""

    real: GiftcardIssuer
    during: Callable[[Sequence[CardRequest], Answers], Answers] = lambda _card_requests, answers: answers
    name: str = "stock"

    def issue(self, card_requests: Sequence[CardRequest], *, now: datetime) -> Answers:
        return self.during(card_requests, self.real.issue(card_requests, now=now))

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        return self.real.in_stock(brand, product, cents)

    def return_card(self, reference: str, *, now: datetime) -> bool:
        return self.real.return_card(reference, now=now)


def stock_of(container: Container, mode: str = "test") -> StockCards:
    """An operator's own cards; in testing mode, too, where all else is quick."""
    return StockCards(container.db, container.encryptor, clock=container.clock, mode=mode)


def production_with(container: Container, issuer: GiftcardIssuer) -> ProductionContext:
    return replace(container.production, giftcard_issuers={"test": issuer, "live": issuer})


def stocked(
    container: Container,
    how_many: int,
    during: Callable[[Sequence[CardRequest], Answers], Answers] | None = None,
    *,
    name: str = "stock",
) -> ProductionContext:
    """With so many more cards in stock; `during` happens while it is asked for them."""
    load_stock(container, how_many)
    real = stock_of(container)
    return production_with(container, Issuer(real, name=name) if during is None else Issuer(real, during, name))


def give_back(container: Container, production: ProductionContext) -> None:
    """Void cards go back to their issuers."""
    CardReturns(container.db, production.giftcard_issuers).return_cards(now=container.clock())


def load_stock(container: Container, how_many: int, mode: str = "test") -> None:
    with container.db.system_transaction() as tx:
        for number in tx.execute(NEXT_IDS, {"n": how_many}).scalars().all():
            card = issuance.encrypt_card(
                container.encryptor, issuance.stock_context(number), CardSecret(code=f"OWN-{number:06d}")
            )
            row = {"id": number, "mode": mode, "brand": BRAND, "cents": VALUE, "card": card}
            tx.execute(ADD, row | {"now": container.clock()})


def end_reviews(production: ProductionContext, container: Container, clock: Clock) -> list[int]:
    """Every order that there is has been looked at, and what may be is in a batch; the batches."""
    clock.advance(days=1)
    review_service.sweep_due_orders(production, now=container.clock())
    return [batch.id for batch in batch_rows(container)]


def compose_all(production: ProductionContext, container: Container) -> None:
    """Compose every batch that is new, whenever its time is."""
    for batch in [row.id for row in batch_rows(container) if row.status == "new"]:
        batch_tasks.compose_batch(production, batch, now=container.clock())


def print_file(container: Container, batch_id: int) -> bytes:
    return BatchFileStorage(container.storage.store, container.encryptor).read_file(
        batch_id, PRINT_FILE, is_secret=True
    )


def claims_on_paper(container: Container, batch_id: int) -> dict[int, str]:
    """What a phone reads on each piece of a composed batch: the code of its claim, by the item."""
    pieces = json.loads(container.storage.store.get(f"batches/{batch_id}/manifest.json"))["pieces"]
    found = {}
    with pdfium.PdfDocument(io.BytesIO(print_file(container, batch_id))) as document:
        for piece in pieces:
            pages = range(piece["first_page"] - 1, piece["last_page"])
            seen = [text for page in pages for text in _codes(document[page])]
            [claim] = [text for text in seen if "/gift/" in text]
            found[piece["item_id"]] = claim.rpartition("/")[2]
    return found


def _codes(page: pdfium.PdfPage) -> list[str]:
    picture = page.render(scale=READABLE_DPI / 72).to_pil()
    return [code.text for code in zxingcpp.read_barcodes(picture)]


# What is seen


def statuses(container: Container) -> list[str]:
    return scalars(container, sa.select(giftcards.c.status).order_by(giftcards.c.item_id))


def free_in_stock(container: Container) -> int:
    return int(scalar(container, sa.select(sa.func.count()).where(giftcard_stock.c.taken_by.is_(None))))


def batches_of(container: Container) -> list[tuple[str, int, str | None]]:
    return [(row.status, row.item_count, row.trouble) for row in batch_rows(container)]


def warnings(sender: Account, order_id: int) -> list[str]:
    return list(sender.get(f"/orders/{order_id}").json()["warnings"])


# What must hold

CARDS = sa.text("select * from giftcards order by item_id")
ON_PAPER = sa.text("select id from batches where status <> 'new' and item_count > 0 order by id")
# By order: what its cards are worth that are good, and what the ledger and the pieces say of that.
BOOKS = sa.text(
    """
    select o.id, o.gift_total,
           (select coalesce(sum(cents), 0) from giftcards g where g.order_id = o.id and g.status = 'issued')
               as good,
           (select coalesce(sum(case kind when 'issue' then cents when 'return' then -cents end), 0)
              from ledger_moves m where m.order_id = o.id) as moved,
           (select coalesce(sum(case when target = 'held' then cents when source = 'held' then -cents end), 0)
              from ledger_moves m where m.order_id = o.id) as held,
           (select coalesce(sum(price_cents
                   + case when giftcard_brand is null then gift_cents else 0 end), 0)
              from items i where i.order_id = o.id and i.status = 'Processing') as owed,
           (select coalesce(sum(gift_cents), 0)
              from items i where i.order_id = o.id and i.giftcard_brand is not null) as brought,
           (select coalesce(sum(gift_cents), 0)
              from items i where i.order_id = o.id and i.giftcard_brand is null and i.status = 'Processing')
               as awaited
      from orders o order by o.id
    """
)
TAKEN = sa.text("select taken_by::text from giftcard_stock where taken_by is not null order by 1")


def assert_books_agree(tx: Tx) -> None:
    """The money is where the cards and the pieces say, to the cent, at every moment."""
    for row in tx.execute(BOOKS):
        assert row.moved == row.good == row.brought, row
        assert row.held == row.owed, row
        assert row.gift_total == row.good + row.awaited, row


def assert_each_card_once(tx: Tx, container: Container) -> None:
    """No claim is on two cards, no code either; what left the stock is a piece's, and each opens."""
    rows = [row for row in tx.execute(CARDS) if row.status == "issued"]
    cards = [
        issuance.decrypt_card(container.encryptor, issuance.card_context(r.item_id), bytes(r.card_sealed)) for r in rows
    ]
    assert len({card.code for card in cards}) == len(rows)
    claims = [issuance.decrypt_claim(container.encryptor, row.item_id, bytes(row.claim_sealed)) for row in rows]
    assert [claim_digest(claim) for claim in claims] == [bytes(row.claim_digest) for row in rows]
    assert len(set(claims)) == len(rows)
    assert list(tx.execute(TAKEN).scalars()) == sorted(str(row.reference) for row in rows)


def assert_printed_as_issued(container: Container) -> None:
    """Every good card is on paper once, as its row has it; besides, what became void once it was drawn."""
    with container.db.system_transaction() as tx:
        composed = list(tx.execute(ON_PAPER).scalars())
        rows = tx.execute(CARDS).all()
    printed: dict[int, bytes] = {}
    for batch in composed:
        on_paper = {item: claim_digest(code) for item, code in claims_on_paper(container, batch).items()}
        assert not printed.keys() & on_paper.keys()
        printed |= on_paper
    digests = {row.item_id: bytes(row.claim_digest) for row in rows if row.claim_digest is not None}
    assert printed == {item: digests[item] for item in printed}
    good, void = ({row.item_id for row in rows if row.status == status} for status in ("issued", "void"))
    assert good <= printed.keys() <= good | void


def assert_all_is_printed(container: Container) -> None:
    assert_all_is_well(container)
    assert_printed_as_issued(container)


def assert_all_is_well(container: Container) -> None:
    with container.db.system_transaction() as tx:
        assert_books_agree(tx)
        assert_each_card_once(tx, container)


def card(reference: str | None = None, **more: Any) -> CardRequest:
    usual: dict[str, Any] = {"brand": BRAND, "issuer_product": "PRODUCT1", "cents": VALUE}
    return CardRequest(reference or str(uuid4()), **(usual | more))


def add_stock(
    container: Container, folder: Path, clock: Clock, codes: list[str], *, expires_on: date | None = None
) -> None:
    file = folder / f"{uuid4()}.csv"
    rows = [f"{BRAND},25.00,{code},{expires_on or ''}" for code in codes]
    file.write_text("\n".join(["brand,amount,code,expires_on", *rows]))
    stock.load_stock(container.db, container.encryptor, file, now=clock.now())


def is_issued(found: Any) -> list[CardSecret]:
    cards = list(found.values())
    assert all(isinstance(each, CardSecret) and (each.code or each.url) for each in cards), cards
    return cards
