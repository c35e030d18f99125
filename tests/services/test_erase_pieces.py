"""Pieces of somebody who is erased: stopped before the press, drawn again without them, or waited for."""

from typing import Any

import pytest
import sqlalchemy as sa
from placing import balances, end_review, item_rows, open_account, order_row, place
from pressing import batch_rows, files_of, pool, sweep

from direct import TestClient
from makers import Account, Clock, do_due_jobs, guest, make_account, person, postcard
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database import Tenant
from quillpost.core.database.tables.privacy import erasing_files, erasing_pieces
from quillpost.fulfillment import drawing, production
from quillpost.fulfillment.print_room import marks
from quillpost.fulfillment.print_room.marks import Pieces
from quillpost.orders.models import Order
from quillpost.privacy import do_not_mail, erasure
from quillpost.privacy.erasure import ERASED, SECOND_PASS, Erasure, erase
from quillpost.privacy.items import empty
from quillpost.privacy.models import whom_of

BARRED = sa.text("select id from suppressed_items(array[cast(:order as bigint)]) as found (id)")
JANE, JO = person(email="Jane@Example.com"), person(name="Jo Roe", address="9 Oak Ave")


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


@pytest.fixture
def home(parts: Parts, http: TestClient) -> Account:
    return make_account(parts, http, "home@example.com")


def forget(parts: Parts, who: Tenant | Caller, **whom: str) -> Erasure:
    home = who if isinstance(who, Tenant) else Tenant(who.account_id, who.sub_account_id)
    with parts.db.work() as tx:
        return erase(tx, parts.sealer, home, whom_of(whom), now=parts.clock())


def finish(parts: Parts) -> None:
    erasure.finish(parts.db, parts.sealer, parts.shelf.store, now=parts.clock())


def rows_of(parts: Parts, order: Order) -> list[sa.Row[Any]]:
    with parts.db.work() as tx:
        return item_rows(tx, order)


def names_of(parts: Parts, order: Order) -> list[tuple[str | None, str]]:
    return [(row.name, row.status) for row in rows_of(parts, order)]


def pooled(parts: Parts, clock: Clock, owner: Caller) -> tuple[Order, int]:
    """An order to Jane and to Jo, in a batch."""
    order = place(parts, owner, [JANE, JO])
    sweep(parts, clock)
    with parts.db.work() as tx:
        [batch] = batch_rows(tx)
    return order, int(batch.id)


def status_of(parts: Parts, batch_id: int) -> tuple[str, int]:
    with parts.db.work() as tx:
        [batch] = [row for row in batch_rows(tx) if row.id == batch_id]
    return batch.status, batch.item_count


def test_a_piece_under_review_fails_and_its_money_comes_back(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner, [JANE, JO], cents=100)
    done = forget(parts, owner, email="JANE@example.COM")
    assert (done.erased["items"], done.waiting) == (1, 0)
    jane, jo = rows_of(parts, order)
    assert (jane.status, jane.failure, jane.name, jane.address_key) == ("Failed", ERASED, None, None)
    assert (jo.status, jo.name) == ("Processing", "Jo Roe")
    with parts.db.work() as tx:
        assert order_row(tx, order).order_total == 100
        assert balances(tx, order)["held"] == 100


def test_a_batch_that_no_printer_has_is_drawn_again_without_them(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    order, batch_id = pooled(parts, clock, owner)
    production.compose(parts.press, batch_id, now=clock.now())
    assert status_of(parts, batch_id) == ("composed", 2)
    assert forget(parts, owner, email="jane@example.com").waiting == 0
    assert names_of(parts, order) == [(None, "Failed"), ("Jo Roe", "Processing")]
    do_due_jobs(parts)
    assert status_of(parts, batch_id)[1] == 1
    manifest = files_of(parts, batch_id)[f"batches/{batch_id}/manifest.csv"].decode().upper()
    assert ("JO ROE" in manifest, "JANE" in manifest) == (True, False)


def test_whoever_is_erased_while_their_batch_is_drawn_is_not_printed(
    parts: Parts, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, batch_id = pooled(parts, clock, owner)
    drawn: list[int] = []

    def draw(press: Any, contents: Any, **how: Any) -> dict[str, bytes]:
        files = drawing.draw(press, contents, **how)
        drawn.append(len(contents.items))
        if len(drawn) == 1:
            forget(parts, owner, email="jane@example.com")
        return files

    monkeypatch.setattr(production, "draw", draw)
    production.compose(parts.press, batch_id, now=clock.now())
    assert (drawn, status_of(parts, batch_id)) == ([2, 1], ("composed", 1))


def test_what_a_printer_has_is_erased_once_it_is_mailed(parts: Parts, clock: Clock, owner: Caller) -> None:
    order, batch_id = pooled(parts, clock, owner)
    production.compose(parts.press, batch_id, now=clock.now())
    production.hand_over(parts.press, batch_id, now=clock.now())
    assert forget(parts, owner, address="12 Main St, Austin, TX 78701").waiting == 1
    finish(parts)
    assert names_of(parts, order)[0] == ("Jane Doe", "Processing")
    clock.advance(seconds=SECOND_PASS.seconds)
    finish(parts)
    assert names_of(parts, order)[0] == ("Jane Doe", "Processing")

    for status in ("printed", "mailed"):
        marks.mark(parts.db, batch_id, status, now=clock.now())
    finish(parts)
    assert names_of(parts, order) == [(None, "Printed"), ("Jo Roe", "Printed")]
    assert [key.rpartition("/")[2] for key in files_of(parts, batch_id)] == ["statement.json"]
    with parts.db.work() as tx:
        assert tx.execute(sa.select(erasing_pieces)).all() == tx.execute(sa.select(erasing_files)).all() == []

    # Nobody can be printed again who is not known any more; the other one can.
    found = marks.reprint(
        parts.db, parts.worlds["test"], batch_id, Pieces(positions=[1, 2]), reason="Wet", now=clock.now()
    )
    assert (found.pieces, [left.reason for left in found.left_out]) == (1, ["Its recipient was erased."])


def test_files_that_could_not_be_removed_are_removed_later(
    parts: Parts, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.shelf.store.put("preview/2026-05-04/x", b"Jane")
    with parts.db.work() as tx:
        tx.execute(sa.insert(erasing_files).values(key="preview/2026-05-04/x", since=parts.clock()))
    with monkeypatch.context() as away:
        away.setattr(type(parts.shelf.store), "delete", lambda *_: (_ for _ in ()).throw(OSError("away")))
        with pytest.raises(OSError, match="away"):
            finish(parts)
    assert parts.shelf.store.exists("preview/2026-05-04/x")
    finish(parts)
    assert not parts.shelf.store.exists("preview/2026-05-04/x")


def test_what_was_written_beside_the_first_pass_is_found_by_the_second(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    forget(parts, owner, email="jane@example.com")
    beside = place(parts, owner, [JANE])
    clock.advance(seconds=SECOND_PASS.seconds - 60)
    added_again = place(parts, owner, [JANE])
    finish(parts)
    assert names_of(parts, beside) == [("Jane Doe", "Processing")]
    clock.advance(seconds=60)
    finish(parts)
    assert names_of(parts, beside) == [(None, "Failed")]
    assert names_of(parts, added_again) == [("Jane Doe", "Processing")]


def test_both_modes_are_erased_and_nobody_elses(parts: Parts, owner: Caller) -> None:
    stranger = open_account(parts, "stranger@example.com")
    tested = place(parts, owner, [JANE])
    mailed = place(parts, Caller(owner.account_id, "live"), [JANE])
    other = place(parts, stranger, [JANE])
    assert tenant(owner).mode == "test"
    assert forget(parts, owner, email="jane@example.com").erased["items"] == 2
    assert [names_of(parts, each)[0][0] for each in (tested, mailed, other)] == [None, None, "Jane Doe"]


def test_a_door_is_found_under_the_key_of_an_older_release(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner, [dict(guest(address="12 Main Street"))])
    with parts.db.work() as tx:
        older = {"key": "12MAINSTREET||78701|US", "order": order.id}
        tx.execute(sa.text("update items set address_key = :key where order_id = :order"), older)
    assert forget(parts, owner, address="12 main STREET, Austin, TX 78701").erased["items"] == 1


def test_a_reader_bars_the_address_of_a_piece_whose_recipient_is_forgotten(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    live = Caller(owner.account_id, "live")
    order, tried_out = place(parts, live, [JANE]), place(parts, owner, [JO])
    for each in (order, tried_out):
        end_review(parts, each)
        with parts.db.work() as tx:
            pool(parts, tx, each)
    with parts.db.work() as tx:
        tx.execute(
            sa.text("update items set code = 'ABCDEFG' || case mode when 'live' then 'L' else 'T' end")
        )
        everyone = [row.id for each in (order, tried_out) for row in item_rows(tx, each)]
        empty(tx, everyone, now=clock.now())
        for code in ("ABCDEFGL", "ABCDEFGT"):
            do_not_mail.ask(tx, code, now=clock.now())
    do_not_mail.take_in(parts.db, parts.sealer, clock=parts.clock)
    again = place(parts, live, [person(name="Bob"), JO])
    with parts.db.work() as tx:
        barred = set(tx.execute(BARRED, {"order": again.id}).scalars())
        # What was only tried out bars nobody.
        assert [row.id in barred for row in item_rows(tx, again)] == [True, False]


def test_what_is_told_of_a_doubtful_address_goes_with_the_person(
    parts: Parts, home: Account, clock: Clock
) -> None:
    whom = person(email="j@example.com", city="Smallville")
    once = {"Idempotency-Key": "once"}
    sent = home.post("/send/postcard", postcard(recipients=[whom]), headers=once)
    assert "not to Smallville" in sent.headers["X-Warnings"]
    home.post("/recipients/erase", {"email": "j@example.com"})
    shown = home.get(f"/orders/{sent.json()['id']}").json()
    assert "1 address is doubtful." in shown["warnings"]
    again = home.post("/send/postcard", postcard(recipients=[whom]), headers=once)
    assert "Smallville" not in str(shown) + again.text + str(again.headers)
