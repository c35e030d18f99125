"""Gift cards are issued once it is their turn, and a claim opens one, once: against voiding, reports and deaths."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.database.tables.notifications import notices
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Conflict, Unavailable
from quillpost.fulfillment.batches.files import redraw_batch_files
from quillpost.integrations.giftcards.stock import StockCards
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader, compose_message
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.giftcards import tasks as giftcard_tasks
from quillpost.orders.giftcards.ports import CardNotIssued, CardSecret
from quillpost.orders.giftcards.service import CardReport, ClaimState, ClaimView, RevealedCard
from quillpost.orders.rules import ItemStatus
from support import giftcard_orders as cards
from support.factories import Account, Clock, people
from support.giftcard_orders import (
    BRAND,
    VALUE,
    add_stock,
    assert_all_is_printed,
    card_row,
    issue_order_cards,
    read_claim,
    send_giftcards,
)
from support.orders import item_ids
from support.production import compose, hand_over, read_batch, reprint
from support.rows import execute, run
from support.sign_in import make_user
from support.waiting import is_lock_awaited, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")


def test_a_stock_gives_what_expires_first_and_not_too_soon(container: Container, tmp_path: Path, clock: Clock) -> None:
    today = clock.now().date()
    add_stock(container, tmp_path, clock, ["NEVER"])
    add_stock(container, tmp_path, clock, ["LATE"], expires_on=today + timedelta(days=90))
    add_stock(container, tmp_path, clock, ["SOON"], expires_on=today + timedelta(days=40))
    stock = StockCards(container.db, container.encryptor, clock=clock.now)
    assert [each.code for each in cards.is_issued(stock.issue([cards.card()], now=clock.now()))] == ["SOON"]
    add_stock(container, tmp_path, clock, ["SOONER"], expires_on=today + timedelta(days=35))
    clock.advance(days=6)
    assert stock.in_stock(cards.BRAND, "", VALUE) == 2
    found = stock.issue([cards.card() for _ in range(3)], now=clock.now())
    codes = [each.code if isinstance(each, CardSecret) else each.reason for each in found.values()]
    assert codes == ["LATE", "NEVER", "There are no cards of brindlewick over 2500 cents left."]
    assert {each.issuer_status for each in found.values() if isinstance(each, CardNotIssued)} == {"none"}
    assert stock.in_stock(cards.BRAND, "", VALUE + 1) == stock.in_stock("another", "", VALUE) == 0


def test_a_card_that_is_held_for_a_moment_is_waited_for(container: Container, tmp_path: Path, clock: Clock) -> None:
    add_stock(container, tmp_path, clock, ["ONLY"])
    stock = StockCards(container.db, container.encryptor, clock=clock.now)
    with ThreadPoolExecutor(1) as pool:
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(giftcard_stock).values(source="sealed anew"))
            issuing = pool.submit(stock.issue, [cards.card()], now=clock.now())
            wait_until(lambda: is_lock_awaited(container) or issuing.done())
            assert not issuing.done()
        assert [each.code for each in cards.is_issued(issuing.result())] == ["ONLY"]


def printed_batch(container: Container, clock: Clock) -> int:
    [batch] = cards.end_reviews(container.production, container, clock)
    return compose(container, batch)


def test_every_piece_is_printed_with_its_own_claim(container: Container, clock: Clock, owner: Account) -> None:
    path = f"/orders/{send_giftcards(owner, recipients=people(3))}/items"
    assert owner.get(path).json()["data"][0]["giftcard"] is None
    printed_batch(container, clock)
    assert cards.batches_of(container) == [("composed", 3, None)]
    assert_all_is_printed(container)
    shown = [item["giftcard"] for item in owner.get(path).json()["data"]]
    assert shown == [{"brand": "brindlewick", "amount": VALUE}] * 3
    move = sa.select(ledger_moves.c.source, ledger_moves.c.target, ledger_moves.c.cents)
    assert execute(container, move.where(ledger_moves.c.kind == "issue")) == [("held", "gifts", 3 * VALUE)]


def test_a_batch_is_made_again_to_the_byte_when_a_card_is_void_or_the_keys_have_changed(
    container: Container, clock: Clock, owner: Account
) -> None:
    order = send_giftcards(owner, recipients=people(2))
    batch = printed_batch(container, clock)
    printed = cards.print_file(container, batch)
    cards.move_items(container, item_ids(container, order)[:1], ItemStatus.FAILED)
    assert cards.statuses(container) == ["void", "issued"]
    known, newer = read_batch(container, batch), Encryptor({"2": b"2" * 32}, "2")
    assert redraw_batch_files(container.production, known)["print.pdf"] == printed
    for row in execute(container, sa.select(giftcards.c.item_id, giftcards.c.claim_sealed)):
        context = f"giftcards:{row.item_id}:claim"
        sealed = newer.encrypt(container.encryptor.decrypt(bytes(row.claim_sealed), context=context), context=context)
        execute(container, sa.update(giftcards).where(giftcards.c.item_id == row.item_id).values(claim_sealed=sealed))
    assert redraw_batch_files(replace(container.production, encryptor=newer), known)["print.pdf"] == printed


def test_a_reprint_has_the_same_claim_while_it_is_kept(container: Container, clock: Clock, owner: Account) -> None:
    send_giftcards(owner, recipients=people(2))
    batch = hand_over(container, printed_batch(container, clock))
    first = cards.claims_on_paper(container, batch)
    again = compose(container, reprint(container, batch, 2).batch_id)
    [(item, claim)] = cards.claims_on_paper(container, again).items()
    assert first[item] == claim
    cards.assert_all_is_well(container)
    execute(container, sa.update(giftcards).values(claim_sealed=None))
    with pytest.raises(Unavailable, match="claims of its gift cards are forgotten"):
        redraw_batch_files(container.production, read_batch(container, batch))
    with pytest.raises(Conflict, match="None of these pieces"):
        reprint(container, batch, 1)


@pytest.mark.parametrize("table", ["orders", "giftcards"])
def test_cards_are_sealed_once_it_is_their_turn(
    table: str, container: Container, clock: Clock, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they could wait for it under a key that is forgotten meanwhile."""
    seal = issuance.encrypt_cards
    sealed: list[int] = []

    def looks(encryptor: Encryptor, drawn: Mapping[int, CardSecret]) -> list[issuance.EncryptedCard]:
        with pytest.raises(Unavailable) as waits, container.db.system_transaction() as tx:
            tx.execute(sa.text(f"select from {table} for no key update nowait"))
        assert "could not obtain lock" in str(waits.value.__cause__)
        sealed.extend(drawn)
        return seal(encryptor, drawn)

    monkeypatch.setattr(issuance, "encrypt_cards", looks)
    order = send_giftcards(owner)
    printed_batch(container, clock)
    assert sealed == item_ids(container, order)


SHOP = "https://shop.example/thanks"
T = TypeVar("T")


def look(container: Container, claim: str, *, notes: bool = True) -> ClaimView:
    found = run(container, giftcard_service.open_claim_page, claim, records_opening=notes, now=container.clock())
    assert found is not None
    return found


def have_shown(container: Container, claim: str) -> RevealedCard:
    found = run(container, giftcard_service.claim_card, container.encryptor, claim, now=container.clock())
    assert found is not None
    return found


def report(container: Container, claim: str, reason: str = "lost") -> CardReport:
    with container.db.system_transaction() as tx:
        found = giftcard_service.report_card(tx, claim, reason, now=container.clock())
        assert found is not None
        if found.is_new:
            notification_service.notify_of_giftcard_report(tx, found.view, now=container.clock())
    return found


def void(container: Container, item_id: int) -> int:
    return run(container, giftcard_tasks.void_cards, [item_id], reason="Lost", now=container.clock())


def one_piece(container: Container, sender: Account, **changes: Any) -> tuple[int, str]:
    """A piece with a good card, and what is printed on it."""
    [piece] = issue_order_cards(container, send_giftcards(sender, **changes))
    return piece, read_claim(container, piece)


def true_card(container: Container, item_id: int) -> CardSecret:
    sealed = bytes(card_row(container, item_id).card_sealed)
    return issuance.decrypt_card(container.encryptor, issuance.card_context(item_id), sealed)


def letters(container: Container) -> list[Any]:
    return execute(container, sa.select(notices).order_by(notices.c.address))


def of_shown(container: Container, claim: str) -> tuple[CardSecret | None, ClaimState]:
    shown = have_shown(container, claim)
    return shown.card, shown.view.state


@contextmanager
def in_the_way(container: Container, late: Callable[[], T]) -> Iterator[tuple[Tx, Future[T]]]:
    """A transaction; the late deed begins and waits for it before it ends."""
    with ThreadPoolExecutor(1) as thread:
        with container.db.system_transaction() as tx:
            found: Future[T] = Future()
            yield tx, found
            begun = thread.submit(late)
            wait_until(lambda: is_lock_awaited(tx))
        found.set_result(begun.result())


def test_each_step_is_noted_once_and_in_its_turn(container: Container, clock: Clock, owner: Account) -> None:
    piece, claim = one_piece(container, owner, landing_page_url=SHOP)
    look(container, claim, notes=False)
    assert card_row(container, piece).opened_at is None
    at = {}
    steps: dict[str, Callable[[], object]] = {
        "opened_at": lambda: look(container, claim),
        "visited_at": lambda: run(container, giftcard_service.visit_landing_page, claim, now=container.clock()),
        "claimed_at": lambda: have_shown(container, claim),
    }
    for name, step in steps.items():
        clock.advance(minutes=1)
        at[name] = clock.now()
        step()
    for step in steps.values():
        clock.advance(minutes=1)
        step()
    row = card_row(container, piece)
    assert {name: getattr(row, name) for name in steps} == at
    unknown = run(container, giftcard_service.visit_landing_page, "nobody's", now=container.clock())
    assert (unknown, card_row(container, piece)) == (None, row)


def test_a_void_card_and_one_that_is_not_issued_yet_are_not_shown(container: Container, owner: Account) -> None:
    piece, claim = one_piece(container, owner)
    assert void(container, piece) == 1
    assert of_shown(container, claim) == (None, ClaimState.VOID)
    assert report(container, claim).is_new is False
    reset = {"status": "asked", "voided_at": None, "void_reason": None}
    execute(container, sa.update(giftcards).where(giftcards.c.item_id == piece).values(reset))
    assert of_shown(container, claim) == (None, ClaimState.NOT_YET)
    assert look(container, claim).state is ClaimState.NOT_YET
    assert card_row(container, piece).opened_at is None


def test_a_void_waits_for_a_claim_and_then_comes_too_late(container: Container, owner: Account) -> None:
    piece, claim = one_piece(container, owner)
    with in_the_way(container, lambda: void(container, piece)) as (tx, late):
        shown = giftcard_service.claim_card(tx, container.encryptor, claim, now=container.clock())
    assert late.result() == 0
    assert shown is not None
    assert shown.card is not None
    assert_money_fits(container, [piece])


def test_a_claim_waits_for_a_void_or_a_report_and_then_shows_nothing(container: Container, owner: Account) -> None:
    piece, claim = one_piece(container, owner)
    with in_the_way(container, lambda: of_shown(container, claim)) as (tx, late):
        assert giftcard_tasks.void_cards(tx, [piece], reason="Lost", now=container.clock()) == 1
    assert late.result() == (None, ClaimState.VOID)
    assert_money_fits(container, [piece])
    reported, claim = one_piece(container, owner)
    with in_the_way(container, lambda: of_shown(container, claim)) as (tx, late):
        giftcard_service.report_card(tx, claim, "lost", now=container.clock())
    assert late.result() == (None, ClaimState.LOCKED)
    assert card_row(container, reported).claimed_at is None


def test_of_a_claim_and_a_void_at_the_same_moment_one_wins(container: Container, owner: Account) -> None:
    pieces = issue_order_cards(container, send_giftcards(owner, recipients=people(25)))
    claims = [read_claim(container, piece) for piece in pieces]
    begin = Barrier(2)

    def void_each() -> list[bool]:
        return [begin.wait() >= 0 and void(container, piece) == 1 for piece in pieces]

    def claim_each() -> list[bool]:
        return [begin.wait() >= 0 and have_shown(container, claim).card is not None for claim in claims]

    with ThreadPoolExecutor(2) as threads:
        voided, claimed = threads.submit(void_each), threads.submit(claim_each)
    assert [a != b for a, b in zip(voided.result(), claimed.result(), strict=True)] == [True] * len(pieces)
    assert_money_fits(container, pieces)


def test_one_that_is_reported_after_it_was_shown_stays_as_it_is(container: Container, owner: Account) -> None:
    piece, claim = one_piece(container, owner)
    shown, card = have_shown(container, claim), true_card(container, piece)
    found = report(container, claim, "broken")
    assert (found.is_new, found.view.state) == (True, ClaimState.CLAIMED)
    assert have_shown(container, claim).card == card
    [letter] = letters(container)
    assert letter.address == "owner@example.com", "without owners the account itself is notified"
    assert "Its code has been shown already" in letter.words
    for text in (repr(shown), str(shown), repr(found)):
        assert not [secret for secret in (claim, str(card.code), f"pin='{card.pin}'") if secret in text]
    assert BRAND.title() in repr(shown)


def test_owners_and_contacts_learn_of_a_report_once(container: Container, owner: Account, stranger: Account) -> None:
    make_user(container, owner.id, "boss@example.com")
    make_user(container, owner.id, "clerk@example.com", role="member")
    make_user(container, stranger.id, "nosy@example.com")
    addresses = ["Boss@example.com", "desk@example.com", "+15125550100@sms", "enough@example.com"]
    with container.db.system_transaction() as tx:
        notification_service.unsubscribe(tx, NotificationReader(owner.id, "enough@example.com"), now=container.clock())
    piece, claim = one_piece(container, owner, notification_emails=addresses)
    order_id = card_row(container, piece).order_id
    for _ in range(2):
        report(container, claim, "not_mine")
    posted = letters(container)
    assert [each.address for each in posted] == ["+15125550100@sms", "boss@example.com", "desk@example.com"]
    text, letter, _ = posted
    card = "Brindlewick Coffee over $25.00"
    assert text.words == f"Gift card reported: order {order_id}, piece {piece}, {card}. It is not mine."
    for word in (f"piece {piece} of your order {order_id}", card, "- It is not mine",
                 f"PUT /order-items/{piece}/invalidate-giftcard", '{"reissue": true}'):  # fmt: skip
        assert word in letter.words
    with container.db.system_transaction() as tx:
        later = container.clock()
        [_, mail] = [*outbox.claim_due_notifications(tx, "text", limit=9, leased_until=later, now=later),
                     *outbox.claim_due_notifications(tx, "mail", limit=1, leased_until=later, now=later)]  # fmt: skip
    written = compose_message(mail, build_link=lambda _: "", now=container.clock())
    assert "You get this because you look after the account Dana Whitfield" in written.text
    assert written.unsubscribe_url is None
    for each in posted:
        assert claim not in str(each)


def assert_money_fits(container: Container, pieces: list[int]) -> None:
    """What became cards and did not come back is what the good cards hold; and those are the claimed ones."""
    rows = execute(container, sa.select(giftcards).where(giftcards.c.item_id.in_(pieces)))
    moves = execute(container, sa.select(ledger_moves.c.kind, ledger_moves.c.cents))
    good = [row for row in rows if row.status == "issued"]
    assert all((row.claimed_at is not None) == (row.status == "issued") for row in rows)
    assert sum(cents for kind, cents in moves if kind == "issue") == len(pieces) * VALUE
    assert sum(cents for kind, cents in moves if kind == "return") == (len(pieces) - len(good)) * VALUE
