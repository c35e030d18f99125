"""Pieces and gift cards of somebody who is erased, and what becomes of cards whose pieces fail or senders go."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import erasing_files, erasing_pieces
from quillpost.core.database.tables.base import accounts, items, ledger_moves
from quillpost.core.database.tables.orders import giftcard_stock
from quillpost.fulfillment.batches import files as batch_files
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room.reports import BatchSelection
from quillpost.orders.giftcards import tasks as giftcard_tasks
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.privacy import tasks as privacy_tasks
from quillpost.privacy.erasure import service as erasure_service
from quillpost.privacy.erasure.queries import parse_subject
from quillpost.privacy.erasure.service import ERASED_REASON, SECOND_PASS_DELAY, ErasureResult, erase_subject
from quillpost.privacy.service import erase_ended_items, erase_items
from support import giftcard_orders
from support.factories import Account, Clock, make_sub_account, make_teammate, people, person, run_due_jobs
from support.giftcard_orders import VALUE, card_row, claim_card, issue_order_cards, mail_giftcard, send_giftcards
from support.orders import balances, create_order, end_review, item_rows, open_account, order_row
from support.production import batch_rows, create_batches, files_of, sweep_due_orders
from support.rows import execute, run, scalar, scalars
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

SUPPRESSED_ITEMS = sa.text("select id from suppressed_items(array[cast(:order as bigint)]) as found (id)")
JANES_ADDRESS = {"address": "12 Main St, Austin, TX 78701"}
JANE, JO = person(email="Jane@Example.com"), person(name="Jo Roe", address="9 Oak Ave")


@pytest.fixture
def sender(container: Container) -> Caller:
    return open_account(container)


def erase(container: Container, caller: Caller, **whom: str) -> ErasureResult:
    tenant = Tenant(caller.account_id, caller.sub_account_id)
    return run(container, erase_subject, container.encryptor, tenant, parse_subject(whom), now=container.clock())


def finish(container: Container) -> None:
    erasure_service.finish_erasures(container.db, container.encryptor, container.storage.store, now=container.clock())


def rows_of(container: Container, order: Order) -> list[sa.Row[Any]]:
    return run(container, item_rows, order)


def names_of(container: Container, order: Order) -> list[tuple[str | None, str]]:
    return [(row.name, row.status) for row in rows_of(container, order)]


def pooled(container: Container, clock: Clock, sender: Caller) -> tuple[Order, int]:
    """An order to Jane and to Jo, in a batch."""
    order = create_order(container, sender, [JANE, JO])
    sweep_due_orders(container, clock)
    [batch] = run(container, batch_rows)
    return order, int(batch.id)


def status_of(container: Container, batch_id: int) -> tuple[str, int]:
    [batch] = [row for row in run(container, batch_rows) if row.id == batch_id]
    return batch.status, batch.item_count


def test_a_piece_under_review_fails_in_each_mode_and_its_money_comes_back(container: Container, sender: Caller) -> None:
    order = create_order(container, sender, [JANE, JO], cents=100)
    mailed = create_order(container, Caller(sender.account_id, "live"), [JANE])
    other = create_order(container, open_account(container, "stranger@example.com"), [JANE])
    done = erase(container, sender, email="JANE@example.COM")
    assert (done.erased["items"], done.waiting) == (2, 0)
    jane, jo = rows_of(container, order)
    assert (jane.status, jane.failure, jane.name, jane.address_key) == ("Failed", ERASED_REASON, None, None)
    assert (jo.status, jo.name) == ("Processing", "Jo Roe")
    assert [names_of(container, each)[0][0] for each in (mailed, other)] == [None, "Jane Doe"]
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).order_total == 100
        assert balances(tx, order)["held"] == 100


def test_a_batch_that_no_printer_has_is_drawn_without_them(container: Container, clock: Clock, sender: Caller) -> None:
    order, batch_id = pooled(container, clock, sender)
    batch_tasks.compose_batch(container.production, batch_id, now=clock.now())
    assert status_of(container, batch_id) == ("composed", 2)
    assert erase(container, sender, email="jane@example.com").waiting == 0
    assert names_of(container, order) == [(None, "Failed"), ("Jo Roe", "Processing")]
    run_due_jobs(container)
    assert status_of(container, batch_id)[1] == 1
    manifest = files_of(container, batch_id)[f"batches/{batch_id}/manifest.csv"].decode().upper()
    assert ("JO ROE" in manifest, "JANE" in manifest) == (True, False)


def test_nobody_is_printed_whom_one_erased(
    container: Container, clock: Clock, sender: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, batch_id = pooled(container, clock, sender)
    drawn: list[int] = []
    draw_batch_files = batch_files.draw_batch_files

    def draw(production: Any, contents: Any, **how: Any) -> dict[str, bytes]:
        files = draw_batch_files(production, contents, **how)
        drawn.append(len(contents.items))
        if len(drawn) == 1:
            erase(container, sender, email="jane@example.com")
        return files

    monkeypatch.setattr(batch_files, "draw_batch_files", draw)
    batch_tasks.compose_batch(container.production, batch_id, now=clock.now())
    assert (drawn, status_of(container, batch_id)) == ([2, 1], ("composed", 1))


def test_what_a_printer_has_is_erased_once_it_is_mailed(container: Container, clock: Clock, sender: Caller) -> None:
    order, batch_id = pooled(container, clock, sender)
    batch_tasks.compose_batch(container.production, batch_id, now=clock.now())
    batch_tasks.hand_over_batch(container.production, batch_id, now=clock.now())
    assert erase(container, sender, address="12 Main St, Austin, TX 78701").waiting == 1
    finish(container)
    assert names_of(container, order)[0] == ("Jane Doe", "Processing")
    clock.advance(seconds=SECOND_PASS_DELAY.seconds)
    finish(container)
    assert names_of(container, order)[0] == ("Jane Doe", "Processing")

    for status in ("printed", "mailed"):
        reports.mark_batch(container.db, batch_id, status, now=clock.now())
    finish(container)
    assert names_of(container, order) == [(None, "Printed"), ("Jo Roe", "Printed")]
    assert [key.rpartition("/")[2] for key in files_of(container, batch_id)] == ["statement.json"]
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(erasing_pieces)).all() == tx.execute(sa.select(erasing_files)).all() == []

    # Nobody can be printed again who is not known any more; the other one can.
    both, environment = BatchSelection(positions=[1, 2]), container.environments["test"]
    found = reports.reprint_selection(container.db, environment, batch_id, both, reason="Wet", now=clock.now())
    assert (found.item_count, [left.reason for left in found.skipped]) == (1, ["Its recipient was erased."])


def test_files_are_removed_when_possible(container: Container, sender: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    container.storage.store.put("preview/2026-05-04/x", b"Jane")
    execute(container, sa.insert(erasing_files).values(key="preview/2026-05-04/x", since=container.clock()))
    with monkeypatch.context() as away:
        away.setattr(type(container.storage.store), "delete", lambda *_: (_ for _ in ()).throw(OSError("away")))
        with pytest.raises(OSError, match="away"):
            finish(container)
    assert container.storage.store.exists("preview/2026-05-04/x")
    finish(container)
    assert not container.storage.store.exists("preview/2026-05-04/x")


def test_what_the_first_pass_missed_the_second_finds(container: Container, clock: Clock, sender: Caller) -> None:
    erase(container, sender, email="jane@example.com")
    beside = create_order(container, sender, [JANE])
    clock.advance(seconds=SECOND_PASS_DELAY.seconds - 60)
    added_again = create_order(container, sender, [JANE])
    finish(container)
    assert names_of(container, beside) == [("Jane Doe", "Processing")]
    clock.advance(seconds=60)
    finish(container)
    assert names_of(container, beside) == [(None, "Failed")]
    assert names_of(container, added_again) == [("Jane Doe", "Processing")]


def test_a_reader_bars_the_address_of_a_forgotten_recipient(container: Container, clock: Clock, sender: Caller) -> None:
    live = Caller(sender.account_id, "live")
    order, tried_out = create_order(container, live, [JANE]), create_order(container, sender, [JO])
    for each in (order, tried_out):
        end_review(container, each)
        with container.db.system_transaction() as tx:
            create_batches(container, tx, each)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update items set code = 'ABCDEFG' || case mode when 'live' then 'L' else 'T' end"))
        erase_items(tx, [row.id for each in (order, tried_out) for row in item_rows(tx, each)], now=clock.now())
        for code in ("ABCDEFGL", "ABCDEFGT"):
            privacy_tasks.record_request(tx, code, now=clock.now())
    privacy_tasks.process_requests(container.db, container.encryptor, clock=container.clock)
    again = create_order(container, live, [person(name="Bob"), JO])
    with container.db.system_transaction() as tx:
        suppressed = set(tx.execute(SUPPRESSED_ITEMS, {"order": again.id}).scalars())
        # What was only tried out bars nobody.
        assert [row.id in suppressed for row in item_rows(tx, again)] == [True, False]


def test_an_erased_recipient_s_unmade_card_goes_back(owner: Account, container: Container, clock: Clock) -> None:
    jane, joe = issue_order_cards(container, send_giftcards(owner, recipients=[person(), person(address="9 Oak St")]))
    before = int(owner.get("/account").json()["credit"])
    assert owner.post("/recipients/erase", JANES_ADDRESS).status_code == 200
    assert (card_row(container, jane).status, card_row(container, joe).status) == ("void", "issued")
    assert int(owner.get("/account").json()["credit"]) > before + VALUE
    clock.advance(seconds=2)
    run_due_jobs(container)
    assert card_row(container, jane).given_back_at == clock.now()
    assert scalars(container, sa.select(giftcard_stock.c.taken_by)) == [card_row(container, joe).reference]


def test_whoever_was_erased_after_the_mailing_may_still_claim_the_card(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    before = int(owner.get("/account").json()["credit"])
    assert owner.post("/recipients/erase", JANES_ADDRESS).status_code == 200
    shown = owner.get(f"/order-items/{item_id}").json()
    assert (shown["recipient"]["name"], shown["giftcard"]["amount"]) == (None, VALUE)
    claim_card(container, item_id)
    assert card_row(container, item_id).claimed_at is not None
    assert int(owner.get("/account").json()["credit"]) == before


def test_a_piece_that_forgets_its_recipient_keeps_its_card_but_no_reasons(owner: Account, container: Container) -> None:
    good, taken_back = issue_order_cards(container, send_giftcards(owner, recipients=people(2)))
    lost = mail_giftcard(container, owner)
    giftcard_orders.move_items(container, [lost], ItemStatus.FAILED)
    path = f"/order-items/{taken_back}/invalidate-giftcard"
    assert owner.put(path, {"reason": "Person 2 has moved"}).status_code == 200
    run(container, erase_ended_items, [good, taken_back, lost], now=container.clock())
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


def test_an_account_is_deleted_with_its_gift_cards_and_their_replacements(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    assert owner.put(f"/order-items/{item_id}/invalidate-giftcard", {"reissue": True}).status_code == 200
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(accounts).where(accounts.c.id == owner.id))
        for table in ("giftcards", "items", "ledger_moves", "account_credit"):
            assert tx.execute(sa.text(f"select count(*) from {table}")).scalar_one() == 0


def test_cards_of_pieces_that_fail_together_are_one_entry(owner: Account, container: Container) -> None:
    pieces = issue_order_cards(container, send_giftcards(owner, recipients=people(4)))
    claim_card(container, pieces[3])
    giftcard_orders.move_items(container, pieces[:1], ItemStatus.PRINTED)
    giftcard_orders.move_items(container, pieces, ItemStatus.FAILED)
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
        return int(scalar(container, waiting)) > 0

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
    assert ("return" in scalars(container, sa.select(ledger_moves.c.kind))) == (first == "void")


def test_money_of_gift_cards_moves_between_its_books_only(container: Container, account: int) -> None:
    order = create_order(container, Caller(account, "live"))
    entry = """
        insert into ledger_moves (account_id, mode, order_id, kind, source, target, cents, key, at)
        values (%s, 'live', %s, %s, %s, %s, 100, %s, '2026-05-01Z')"""
    with psycopg.connect(container.db.conninfo, autocommit=True) as admin:
        stored = admin.execute("select gift_total, giftcard_brand, giftcard_amount from orders").fetchone()
        item = admin.execute("select gift_cents, giftcard_brand from items").fetchone()
        assert (stored, item) == ((0, None, None), (0, None))
        for kind, source, target in (("issue", "held", "gifts"), ("return", "gifts", "credit")):
            admin.execute(entry, [account, order.id, kind, source, target, kind])
            for wrong in (("held", "earned"), (target, source)):
                with pytest.raises(psycopg.errors.CheckViolation):
                    admin.execute(entry, [account, order.id, kind, *wrong, f"{kind} {wrong}"])
        with pytest.raises(psycopg.errors.CheckViolation):
            admin.execute(entry, [account, order.id, "capture", "gifts", "earned", "wrong"])
        assert admin.execute("select sum(cents) from account_spending").fetchone() == (0,)
