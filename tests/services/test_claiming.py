"""A claim opens one card, once and for all: against voiding, reports, and servers that die in between."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from gifted import BRAND, VALUE, card_row, claim_of, issued, send_gifts
from signed_in import make_person
from waiting import wait_until

from makers import Account, Clock, people
from quillpost.app.container import Parts
from quillpost.core import outbox
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.database.tables.giftcards import giftcards
from quillpost.core.database.tables.notifications import notices
from quillpost.core.encryption import SealBroken
from quillpost.notifications import emails, unsubscribe
from quillpost.notifications.service import compose
from quillpost.notifications.unsubscribe import Reader
from quillpost.orders.giftcards import claims as claiming
from quillpost.orders.giftcards import issuance, returns
from quillpost.orders.giftcards.claims import REPORTS, Held, Reported, Shown, State
from quillpost.orders.giftcards.ports import GiftCard

SHOP = "https://shop.example/thanks"
NEVER_TOLD = "2" * 26
WAITING = sa.text("select count(*) from pg_locks where not granted")


def look(parts: Parts, claim: str, *, notes: bool = True) -> Held:
    with parts.db.work() as tx:
        found = claiming.look(tx, claim, notes=notes, now=parts.clock())
    assert found is not None
    return found


def visit(parts: Parts, claim: str) -> None:
    with parts.db.work() as tx:
        claiming.visit(tx, claim, now=parts.clock())


def have_shown(parts: Parts, claim: str) -> Shown:
    with parts.db.work() as tx:
        found = claiming.claim_card(tx, parts.sealer, claim, now=parts.clock())
    assert found is not None
    return found


def report(parts: Parts, claim: str, said: str = "lost") -> Reported:
    with parts.db.work() as tx:
        found = claiming.report(tx, claim, said, now=parts.clock())
        assert found is not None
        if found.is_news:
            emails.tell(tx, found.held, now=parts.clock())
    return found


def void(parts: Parts, item_id: int) -> int:
    with parts.db.work() as tx:
        return returns.void(tx, [item_id], why="Lost", now=parts.clock())


def one_piece(parts: Parts, sender: Account, **changes: Any) -> tuple[int, str]:
    """A piece with a good card, and what is printed on it."""
    [piece] = issued(parts, send_gifts(sender, **changes))
    return piece, claim_of(parts, piece)


def true_card(parts: Parts, item_id: int) -> GiftCard:
    sealed = bytes(card_row(parts, item_id).card_sealed)
    return issuance.open_card(parts.sealer, issuance.card_context(item_id), sealed)


def letters(parts: Parts) -> list[Any]:
    with parts.db.work() as tx:
        return list(tx.execute(sa.select(notices).order_by(notices.c.address)))


def test_each_step_is_noted_once_and_in_its_turn(parts: Parts, clock: Clock, owner: Account) -> None:
    piece, claim = one_piece(parts, owner, landing_page_url=SHOP)
    look(parts, claim, notes=False)
    assert card_row(parts, piece).opened_at is None
    at = {}
    steps: dict[str, Callable[[], object]] = {
        "opened_at": lambda: look(parts, claim),
        "visited_at": lambda: visit(parts, claim),
        "claimed_at": lambda: have_shown(parts, claim),
    }
    for name, step in steps.items():
        clock.advance(minutes=1)
        at[name] = clock.now()
        step()
    for step in steps.values():
        clock.advance(minutes=1)
        step()
    row = card_row(parts, piece)
    assert {name: getattr(row, name) for name in steps} == at


def test_the_code_is_shown_after_the_visit_and_not_before(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner, landing_page_url=SHOP)
    refused = have_shown(parts, claim)
    assert (refused.card, refused.held.state) == (None, State.VISIT_FIRST)
    assert card_row(parts, piece).claimed_at is None
    visit(parts, claim)
    assert look(parts, claim).state is State.READY
    shown = have_shown(parts, claim)
    assert (shown.card, shown.held.state) == (true_card(parts, piece), State.CLAIMED)


def test_a_card_is_shown_again_to_whoever_missed_the_answer(parts: Parts, owner: Account) -> None:
    """As after a server that died between the row and the page."""
    piece, claim = one_piece(parts, owner)
    first, again = have_shown(parts, claim), have_shown(parts, claim)
    assert first.card == again.card == true_card(parts, piece)


def test_a_claim_shows_its_own_card_and_no_other(parts: Parts, owner: Account, stranger: Account) -> None:
    pieces = issued(parts, send_gifts(owner, recipients=people(2))) + issued(parts, send_gifts(stranger))
    shown = [have_shown(parts, claim_of(parts, piece)) for piece in pieces]
    assert [each.held.item_id for each in shown] == pieces
    assert [each.card for each in shown] == [true_card(parts, piece) for piece in pieces]
    assert len({each.card.code for each in shown if each.card}) == 3


def test_a_claim_that_nobody_has_finds_nothing_and_changes_nothing(parts: Parts, owner: Account) -> None:
    piece, _ = one_piece(parts, owner)
    before = card_row(parts, piece)
    with parts.db.work() as tx:
        now = parts.clock()
        assert claiming.look(tx, NEVER_TOLD, notes=True, now=now) is None
        assert claiming.visit(tx, NEVER_TOLD, now=now) is None
        assert claiming.claim_card(tx, parts.sealer, NEVER_TOLD, now=now) is None
        assert claiming.report(tx, NEVER_TOLD, "lost", now=now) is None
    assert card_row(parts, piece) == before


def test_a_card_whose_seal_does_not_open_is_not_claimed(parts: Parts, owner: Account) -> None:
    """Its sender can still take it back."""
    pieces = issued(parts, send_gifts(owner, recipients=people(2)))
    with parts.db.work() as tx:
        of = sa.select(giftcards.c.card_sealed).where(giftcards.c.item_id == pieces[1])
        spoil = sa.update(giftcards).where(giftcards.c.item_id == pieces[0])
        tx.execute(spoil.values(card_sealed=of.scalar_subquery()))
    with pytest.raises(SealBroken):
        have_shown(parts, claim_of(parts, pieces[0]))
    assert card_row(parts, pieces[0]).claimed_at is None
    assert void(parts, pieces[0]) == 1


def test_a_void_card_and_one_that_is_not_issued_yet_are_not_shown(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner)
    assert void(parts, piece) == 1
    shown = have_shown(parts, claim)
    assert (shown.card, shown.held.state) == (None, State.VOID)
    assert report(parts, claim).is_news is False
    with parts.db.work() as tx:
        reset = {"status": "asked", "voided_at": None, "void_reason": None}
        tx.execute(sa.update(giftcards).where(giftcards.c.item_id == piece).values(reset))
    shown = have_shown(parts, claim)
    assert (shown.card, shown.held.state) == (None, State.NOT_YET)
    assert look(parts, claim).state is State.NOT_YET
    assert card_row(parts, piece).opened_at is None


def test_a_void_waits_for_a_claim_and_then_comes_too_late(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner)
    with ThreadPoolExecutor(1) as thread:
        with parts.db.work() as tx:
            shown = claiming.claim_card(tx, parts.sealer, claim, now=parts.clock())
            late = thread.submit(void, parts, piece)
            wait_until(lambda: is_someone_waiting(tx))
        assert late.result() == 0
    assert shown is not None
    assert shown.card is not None
    assert_money_fits(parts, [piece])


def test_a_claim_waits_for_a_void_and_then_shows_nothing(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner)
    with ThreadPoolExecutor(1) as thread:
        with parts.db.work() as tx:
            assert returns.void(tx, [piece], why="Lost", now=parts.clock()) == 1
            late = thread.submit(have_shown, parts, claim)
            wait_until(lambda: is_someone_waiting(tx))
        assert (late.result().card, late.result().held.state) == (None, State.VOID)
    assert_money_fits(parts, [piece])


def test_of_a_claim_and_a_void_at_the_same_moment_one_wins(parts: Parts, owner: Account) -> None:
    pieces = issued(parts, send_gifts(owner, recipients=people(25)))
    claims = [claim_of(parts, piece) for piece in pieces]
    begin = Barrier(2)

    def void_each() -> list[bool]:
        return [begin.wait() >= 0 and void(parts, piece) == 1 for piece in pieces]

    def claim_each() -> list[bool]:
        return [begin.wait() >= 0 and have_shown(parts, claim).card is not None for claim in claims]

    with ThreadPoolExecutor(2) as threads:
        voided, claimed = threads.submit(void_each), threads.submit(claim_each)
    assert [a != b for a, b in zip(voided.result(), claimed.result(), strict=True)] == [True] * len(pieces)
    assert_money_fits(parts, pieces)


def test_one_that_is_reported_unclaimed_is_locked_for_everybody(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner)
    found = report(parts, claim)
    assert (found.is_news, found.held.state, found.held.report) == (True, State.LOCKED, REPORTS["lost"])
    assert have_shown(parts, claim).card is None
    assert report(parts, claim, "broken").is_news is False
    row = card_row(parts, piece)
    assert (row.claimed_at, row.report) == (None, REPORTS["lost"])
    assert void(parts, piece) == 1, "its sender decides"


def test_a_claim_waits_for_a_report_and_then_shows_nothing(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner)
    with ThreadPoolExecutor(1) as thread:
        with parts.db.work() as tx:
            claiming.report(tx, claim, "lost", now=parts.clock())
            late = thread.submit(have_shown, parts, claim)
            wait_until(lambda: is_someone_waiting(tx))
        assert (late.result().card, late.result().held.state) == (None, State.LOCKED)
    assert card_row(parts, piece).claimed_at is None


def test_one_that_is_reported_after_it_was_shown_stays_as_it_is(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner)
    have_shown(parts, claim)
    found = report(parts, claim, "broken")
    assert (found.is_news, found.held.state) == (True, State.CLAIMED)
    assert have_shown(parts, claim).card == true_card(parts, piece)
    [letter] = letters(parts)
    assert "Its code has been shown already" in letter.words


def test_those_who_look_after_the_order_hear_of_a_report_once(
    parts: Parts, owner: Account, stranger: Account
) -> None:
    make_person(parts, owner.id, "boss@example.com")
    make_person(parts, owner.id, "clerk@example.com", role="member")
    make_person(parts, stranger.id, "nosy@example.com")
    told = ["Boss@example.com", "desk@example.com", "+15125550100@sms", "enough@example.com"]
    with parts.db.work() as tx:
        unsubscribe.refuse(tx, Reader(owner.id, "enough@example.com"), now=parts.clock())
    piece, claim = one_piece(parts, owner, notification_emails=told)
    order_id = card_row(parts, piece).order_id
    for _ in range(2):
        report(parts, claim, "not_mine")
    posted = letters(parts)
    assert [each.address for each in posted] == ["+15125550100@sms", "boss@example.com", "desk@example.com"]
    text, letter, _ = posted
    card = "Brindlewick Coffee over $25.00"
    assert text.words == f"Gift card reported: order {order_id}, piece {piece}, {card}. It is not mine."
    for word in (f"piece {piece} of your order {order_id}", card, "- It is not mine",
                 f"PUT /order-items/{piece}/invalidate-giftcard", '{"reissue": true}'):  # fmt: skip
        assert word in letter.words
    with parts.db.work() as tx:
        later = parts.clock()
        [_, mail] = [*outbox.claim(tx, "text", most=9, lease=later, now=later),
                     *outbox.claim(tx, "mail", most=1, lease=later, now=later)]  # fmt: skip
    written = compose(mail, link_to=lambda _: "", now=parts.clock())
    assert "You get this because you look after the account Dana Whitfield" in written.text
    assert written.unsubscribe is None
    for each in posted:
        assert claim not in str(each)


def test_without_owners_the_account_itself_is_told(parts: Parts, owner: Account) -> None:
    _, claim = one_piece(parts, owner)
    report(parts, claim)
    assert [each.address for each in letters(parts)] == ["owner@example.com"]


def test_no_repr_shows_a_code(parts: Parts, owner: Account) -> None:
    piece, claim = one_piece(parts, owner)
    shown, card = have_shown(parts, claim), true_card(parts, piece)
    for text in (repr(shown), str(shown), repr(report(parts, claim))):
        assert claim not in text
        assert str(card.code) not in text
        assert f"pin='{card.pin}'" not in text
    assert BRAND.title() in repr(shown)


def is_someone_waiting(tx: Tx) -> bool:
    return int(tx.execute(WAITING).scalar_one()) > 0


def assert_money_fits(parts: Parts, pieces: list[int]) -> None:
    """What became cards and did not come back is what the good cards hold; and those are the claimed ones."""
    with parts.db.work() as tx:
        rows = tx.execute(sa.select(giftcards).where(giftcards.c.item_id.in_(pieces))).all()
        moves = tx.execute(sa.select(ledger_moves.c.kind, ledger_moves.c.cents)).all()
    good = [row for row in rows if row.status == "issued"]
    assert all((row.claimed_at is not None) == (row.status == "issued") for row in rows)
    assert sum(cents for kind, cents in moves if kind == "issue") == len(pieces) * VALUE
    assert sum(cents for kind, cents in moves if kind == "return") == (len(pieces) - len(good)) * VALUE
