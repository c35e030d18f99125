"""What becomes of gift cards when recipients are erased or forgotten, pieces fail, or their senders go."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, items, ledger_moves
from quillpost.core.database.tables.orders import giftcard_stock
from quillpost.orders.giftcards import tasks as giftcard_tasks
from quillpost.orders.rules import ItemStatus
from quillpost.privacy.service import erase_ended_items
from support.factories import Account, Clock, make_sub_account, make_teammate, people, person, run_due_jobs
from support.giftcard_orders import (
    VALUE,
    card_row,
    claim_card,
    issue_order_cards,
    mail_giftcard,
    move_items,
    send_giftcards,
)
from support.waiting import wait_until

S = ItemStatus
JANE = {"address": "12 Main St, Austin, TX 78701"}


def credit(sender: Account) -> int:
    return int(sender.get("/account").json()["credit"])


def test_an_erased_recipient_s_card_goes_back_if_its_piece_is_not_made(
    owner: Account, container: Container, clock: Clock
) -> None:
    jane, joe = issue_order_cards(container, send_giftcards(owner, recipients=[person(), person(address="9 Oak St")]))
    before = credit(owner)
    assert owner.post("/recipients/erase", JANE).status_code == 200
    assert (card_row(container, jane).status, card_row(container, joe).status) == ("void", "issued")
    assert credit(owner) > before + VALUE
    clock.advance(seconds=2)
    run_due_jobs(container)
    assert card_row(container, jane).given_back_at == clock.now()
    with container.db.system_transaction() as tx:
        kept = tx.execute(sa.select(giftcard_stock.c.taken_by)).scalars().all()
    assert kept == [card_row(container, joe).reference]


def test_whoever_was_erased_after_the_mailing_may_still_claim_the_card(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    before = credit(owner)
    assert owner.post("/recipients/erase", JANE).status_code == 200
    shown = owner.get(f"/order-items/{item_id}").json()
    assert (shown["recipient"]["name"], shown["giftcard"]["amount"]) == (None, VALUE)
    claim_card(container, item_id)
    assert card_row(container, item_id).claimed_at is not None
    assert credit(owner) == before


def test_a_piece_that_forgets_its_recipient_keeps_its_card_and_forgets_why_another_was_void(
    owner: Account, container: Container
) -> None:
    good, taken_back = issue_order_cards(container, send_giftcards(owner, recipients=people(2)))
    lost = mail_giftcard(container, owner)
    move_items(container, [lost], S.FAILED)
    path = f"/order-items/{taken_back}/invalidate-giftcard"
    assert owner.put(path, {"reason": "Person 2 has moved"}).status_code == 200
    with container.db.system_transaction() as tx:
        erase_ended_items(tx, [good, taken_back, lost], now=container.clock())
    assert [card_row(container, each).void_reason for each in (taken_back, lost)] == [None, "The piece failed"]
    claim_card(container, good)
    assert card_row(container, good).claimed_at is not None


def test_a_sub_account_with_gift_cards_is_retired_and_they_stay_good(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    item_id = mail_giftcard(container, owner, sub_account_id=branch)
    other = mail_giftcard(container, owner, sub_account_id=branch)
    mate = make_teammate(container, owner, branch)
    assert owner.delete(f"/sub-accounts/{branch}").status_code == 200
    path = "/order-items/{}/invalidate-giftcard"
    assert mate.put(path.format(item_id)).status_code == 401
    gone = owner.put(path.format(item_id), {"reissue": True})
    assert (gone.status_code, card_row(container, item_id).status) == (400, "issued")
    assert owner.put(path.format(item_id)).status_code == 200
    claim_card(container, other)
    assert card_row(container, other).claimed_at is not None


def test_an_account_is_deleted_with_its_gift_cards_and_their_replacements(
    owner: Account, container: Container, conninfo: str
) -> None:
    item_id = mail_giftcard(container, owner)
    assert owner.put(f"/order-items/{item_id}/invalidate-giftcard", {"reissue": True}).status_code == 200
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(accounts).where(accounts.c.id == owner.id))
        for table in ("giftcards", "items", "ledger_moves", "account_credit"):
            assert tx.execute(sa.text(f"select count(*) from {table}")).scalar_one() == 0


# Moves, claims and voids at the same moment


def test_cards_of_pieces_that_fail_together_are_one_entry(owner: Account, container: Container) -> None:
    pieces = issue_order_cards(container, send_giftcards(owner, recipients=people(4)))
    claim_card(container, pieces[3])
    move_items(container, pieces[:1], S.PRINTED)
    move_items(container, pieces, S.FAILED)
    with container.db.system_transaction() as tx:
        moves = tx.execute(sa.select(ledger_moves.c.kind, ledger_moves.c.cents).order_by(ledger_moves.c.id))
        entries = [tuple(row) for row in moves]
        left = tx.execute(sa.select(items.c.giftcard_brand).order_by(items.c.id)).scalars().all()
    paper = 349
    assert entries[1] == ("issue", 4 * VALUE)
    assert sorted(entries[3:]) == [("refund", paper), ("release", 3 * paper), ("return", 3 * VALUE)]
    assert [card_row(container, each).status for each in pieces] == ["void", "void", "void", "issued"]
    assert [brand is not None for brand in left] == [False, False, False, True]


@pytest.mark.parametrize("first", ["claim", "void"])
def test_of_a_claim_and_a_void_at_once_the_first_wins(owner: Account, container: Container, first: str) -> None:
    item_id = mail_giftcard(container, owner)
    path = f"/order-items/{item_id}/invalidate-giftcard"
    waiting = sa.text("select count(*) from pg_locks where not granted")

    def is_anyone_waiting() -> bool:
        with container.db.system_transaction() as tx:
            return int(tx.execute(waiting).scalar_one()) > 0

    with ThreadPoolExecutor(1) as thread:
        with container.db.system_transaction() as tx:
            if first == "claim":
                tx.execute(sa.text("update giftcards set claimed_at = :now"), {"now": container.clock()})
                second = thread.submit(lambda: owner.put(path).status_code)
            else:
                tx.execute(sa.text("select id from orders for no key update"))
                assert giftcard_tasks.void_cards(tx, [item_id], reason=None, now=container.clock()) == 1
                second = thread.submit(lambda: claim_card(container, item_id) or 0)  # type: ignore[func-returns-value]
            wait_until(lambda: is_anyone_waiting() or second.done())
            assert not second.done()
        assert second.result() == (400 if first == "claim" else 0)
    card = card_row(container, item_id)
    assert (card.status, card.claimed_at is None) == (("issued", False) if first == "claim" else ("void", True))
    with container.db.system_transaction() as tx:
        kinds = tx.execute(sa.select(ledger_moves.c.kind)).scalars().all()
    assert ("return" in kinds) == (first == "void")


# An upgrade

ORDER_WITHOUT_GIFT = """
    insert into accounts (email, name, created_at, updated_at) values ('a@example.com', 'A', now(), now());
    insert into orders (account_id, mode, type, piece, mail_class, status, method, message, style,
                        handwriting_color, handwriting_realism, font_size, total_estimated_recipients,
                        recipient_count, due_at, authorization_total, order_total, n_processing,
                        created_at, updated_at)
    values (1, 'live', 'notecard', 'notecard', 'first', 'processing', 'api', 'Hi', 1, 'rgba(0,0,255,1)',
            false, 'medium', 1, 1, now(), 300, 300, 1, now(), now());
    insert into items (account_id, mode, order_id, status, price_cents, scans, country, created_at,
                       updated_at)
    values (1, 'live', 1, 'Processing', 300, 0, 'US', now(), now());
    insert into ledger_moves (account_id, mode, order_id, kind, source, target, cents, key, at)
    values (1, 'live', 1, 'authorise', 'credit', 'held', 300, 'a', now());
"""


def test_money_of_gift_cards_moves_between_its_books_only(conninfo: str) -> None:
    entry = """
        insert into ledger_moves (account_id, mode, order_id, kind, source, target, cents, key, at)
        values (1, 'live', 1, %s, %s, %s, 100, %s, '2026-05-01Z')"""
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute(ORDER_WITHOUT_GIFT)
        order = admin.execute("select gift_total, giftcard_brand, giftcard_amount from orders").fetchone()
        item = admin.execute("select gift_cents, giftcard_brand from items").fetchone()
        assert (order, item) == ((0, None, None), (0, None))
        for kind, source, target in (("issue", "held", "gifts"), ("return", "gifts", "credit")):
            admin.execute(entry, [kind, source, target, kind])
            for wrong in (("held", "earned"), (target, source)):
                with pytest.raises(psycopg.errors.CheckViolation):
                    admin.execute(entry, [kind, *wrong, f"{kind} {wrong}"])
        with pytest.raises(psycopg.errors.CheckViolation):
            admin.execute(entry, ["capture", "gifts", "earned", "wrong"])
        spent = admin.execute("select sum(cents) from account_spending").fetchone()
        assert spent == (0,)
