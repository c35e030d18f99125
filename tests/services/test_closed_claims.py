"""No gift card is printed without its claim; one that cannot be read holds up nobody else's pieces."""

from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from gift_press import (
    assert_all_is_well,
    assert_printed_as_issued,
    batches_of,
    claims_on_paper,
    compose_all,
    end_reviews,
    load,
    press_with,
    stock_of,
    warnings,
)
from gifted import card_row, issued, move, pieces_of, send_gifts
from waiting import wait_until

from makers import Account, Clock, people
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.giftcards import giftcard_stock, giftcards
from quillpost.core.errors import Unavailable
from quillpost.fulfillment import drawing, production
from quillpost.fulfillment import giftcard_stock as gift_stock
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.orders.rules import ItemStatus
from quillpost.privacy import retention


def set_claim(parts: Parts, item_id: int, sealed: bytes) -> None:
    with parts.db.work() as tx:
        card = sa.update(giftcards).where(giftcards.c.item_id == item_id)
        tx.execute(card.values(claim_sealed=sealed))


def test_a_claim_that_does_not_open_waits_apart_and_the_others_go_on(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    order = send_gifts(owner, recipients=people(3))
    [batch] = end_reviews(parts.press, parts, clock)
    [piece, *_] = issued(parts, order)
    claim = bytes(card_row(parts, piece).claim_sealed)
    set_claim(parts, piece, claim[:-1])
    production.compose(parts.press, batch, now=parts.clock())
    [(status, left, _), (waits, apart, trouble)] = batches_of(parts)
    assert (status, left, waits, apart) == ("composed", 2, "new", 1)
    assert trouble is not None
    assert trouble.startswith("1 piece cannot be printed: the claim to the gift card does not open")
    compose_all(parts.press, parts)
    assert [each[:2] for each in batches_of(parts)] == [("composed", 2), ("new", 1)]

    set_claim(parts, piece, claim)
    compose_all(parts.press, parts)
    assert batches_of(parts) == [("composed", 2, None), ("composed", 1, None)]
    assert_printed_as_issued(parts)


def test_a_gift_is_never_drawn_without_its_claim(parts: Parts, clock: Clock, owner: Account) -> None:
    order = send_gifts(owner, recipients=people(2))
    [batch] = end_reviews(parts.press, parts, clock)
    [bare, good] = pieces_of(parts, order)
    with parts.db.work() as tx:
        tx.execute(sa.update(items).where(items.c.id == bare).values(gift_cents=0))
    production.compose(parts.press, batch, now=parts.clock())
    [(_, left, _), (waits, _, trouble)] = batches_of(parts)
    assert (left, waits) == (1, "new")
    assert trouble is not None
    assert claims_on_paper(parts, batch).keys() == {good}
    with parts.db.work() as tx:
        contents = drawing.read_contents(tx, fulfillment_queries.read_batch(tx, batch + 1))
    with pytest.raises(Unavailable, match=f"Item {bare} has no claim"):
        drawing.draw(parts.press, contents, indicia=[], qr_base="https://x.example", opt_out=None)


def test_pieces_that_end_apart_leave_no_warning(parts: Parts, clock: Clock, owner: Account) -> None:
    press = press_with(parts, stock_of(parts))
    load(parts, 2)
    order = send_gifts(owner, recipients=people(2))
    end_reviews(press, parts, clock)
    with parts.db.work() as tx:
        tx.execute(sa.delete(giftcard_stock).where(giftcard_stock.c.id > 1))
    compose_all(press, parts)
    assert any("wait for gift cards" in told for told in warnings(owner, order))
    move(parts, pieces_of(parts, order)[1:], ItemStatus.FAILED)
    compose_all(press, parts)
    assert not any("wait for gift cards" in told for told in warnings(owner, order))
    assert [each[:2] for each in batches_of(parts)] == [("composed", 1), ("mailed", 0)]
    assert_all_is_well(parts)


def test_what_is_promised_is_counted_before_any_order_is_held(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    press = press_with(parts, stock_of(parts))
    load(parts, 5)
    send_gifts(owner, recipients=people(2))
    end_reviews(press, parts, clock)
    send_gifts(owner)
    clock.advance(days=1)
    assert list(gift_stock.look(press, now=parts.clock()).values()) == [3]


def test_a_claim_is_not_forgotten_while_it_is_printed_again(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    """Retention comes while the reprint is not committed yet: it waits for the card, and passes it by."""
    [piece] = pieces_of(parts, send_gifts(owner))
    [batch] = end_reviews(parts.press, parts, clock)
    production.compose(parts.press, batch, now=parts.clock())
    with parts.db.work() as tx:
        in_the_mail = sa.text("update batches set status = 'mailed', handed_at = :at, mailed_at = :at")
        tx.execute(in_the_mail, {"at": parts.clock()})
    clock.advance(days=20)
    forgetting_is: list[Future[object]] = []

    def meanwhile(_tx: Tx) -> None:
        forgetting_is.append(
            thread.submit(retention.forget_old, parts.db, parts.retention, now=parts.clock())
        )
        wait_until(lambda: is_anyone_waiting(parts) or forgetting_is[0].done())
        assert not forgetting_is[0].done()

    with ThreadPoolExecutor(1) as thread:
        world = parts.press.worlds["test"]
        again = print_room_service.reprint(
            parts.db, world, batch, positions=[1], reason="Torn", noted=meanwhile, now=parts.clock()
        )
        forgetting_is[0].result()
    assert card_row(parts, piece).claim_sealed is not None
    production.compose(parts.press, again.batch_id, now=parts.clock())
    assert claims_on_paper(parts, again.batch_id) == claims_on_paper(parts, batch)


def test_whoever_tells_of_a_batch_tells_no_claim(parts: Parts, clock: Clock, owner: Account) -> None:
    [piece] = pieces_of(parts, send_gifts(owner))
    [batch] = end_reviews(parts.press, parts, clock)
    production.compose(parts.press, batch, now=parts.clock())
    production.hand_over(parts.press, batch, now=parts.clock())
    claim = claims_on_paper(parts, batch)[piece]
    print_room_service.take_progress(
        parts.db, batch, PrintProgress(spoiled={piece: f"{claim} is torn"}), now=parts.clock()
    )
    with parts.db.work() as tx:
        fulfillment_queries.note_trouble(tx, batch, f"Who is {claim}?", now=parts.clock())
        failure = tx.execute(sa.select(items.c.failure)).scalar_one()
    assert failure == "[hidden] is torn"
    assert [trouble for _, _, trouble in batches_of(parts)] == ["Who is [hidden]?"]


WAITING = sa.text(
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


def is_anyone_waiting(parts: Parts) -> bool:
    with parts.db.work() as tx:
        return bool(tx.execute(WAITING).scalar_one())
