"""Pieces of somebody who is erased: stopped before the press, drawn again without them, or waited for."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import erasing_files, erasing_pieces
from quillpost.fulfillment.batches import files as batch_files
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room.reports import BatchSelection
from quillpost.orders.models import Order
from quillpost.privacy import tasks as privacy_tasks
from quillpost.privacy.erasure import service as erasure_service
from quillpost.privacy.erasure.queries import parse_subject
from quillpost.privacy.erasure.service import ERASED_REASON, SECOND_PASS_DELAY, ErasureResult, erase_subject
from quillpost.privacy.service import erase_items
from support.factories import Account, Clock, make_account, person, postcard, run_due_jobs
from support.orders import balances, create_order, end_review, item_rows, open_account, order_row
from support.production import batch_rows, create_batches, files_of, sweep_due_orders
from support.test_client import TestClient

SUPPRESSED_ITEMS = sa.text("select id from suppressed_items(array[cast(:order as bigint)]) as found (id)")
JANE, JO = person(email="Jane@Example.com"), person(name="Jo Roe", address="9 Oak Ave")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def home(container: Container, http: TestClient) -> Account:
    return make_account(container, http, "home@example.com")


def erase(container: Container, caller: Tenant | Caller, **whom: str) -> ErasureResult:
    home = caller if isinstance(caller, Tenant) else Tenant(caller.account_id, caller.sub_account_id)
    with container.db.system_transaction() as tx:
        return erase_subject(tx, container.encryptor, home, parse_subject(whom), now=container.clock())


def finish(container: Container) -> None:
    erasure_service.finish_erasures(container.db, container.encryptor, container.storage.store, now=container.clock())


def rows_of(container: Container, order: Order) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return item_rows(tx, order)


def names_of(container: Container, order: Order) -> list[tuple[str | None, str]]:
    return [(row.name, row.status) for row in rows_of(container, order)]


def pooled(container: Container, clock: Clock, owner: Caller) -> tuple[Order, int]:
    """An order to Jane and to Jo, in a batch."""
    order = create_order(container, owner, [JANE, JO])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    return order, int(batch.id)


def status_of(container: Container, batch_id: int) -> tuple[str, int]:
    with container.db.system_transaction() as tx:
        [batch] = [row for row in batch_rows(tx) if row.id == batch_id]
    return batch.status, batch.item_count


def test_a_piece_under_review_fails_and_its_money_comes_back(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, [JANE, JO], cents=100)
    done = erase(container, owner, email="JANE@example.COM")
    assert (done.erased["items"], done.waiting) == (1, 0)
    jane, jo = rows_of(container, order)
    assert (jane.status, jane.failure, jane.name, jane.address_key) == ("Failed", ERASED_REASON, None, None)
    assert (jo.status, jo.name) == ("Processing", "Jo Roe")
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).order_total == 100
        assert balances(tx, order)["held"] == 100


def test_a_batch_that_no_printer_has_is_drawn_again_without_them(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order, batch_id = pooled(container, clock, owner)
    batch_tasks.compose_batch(container.production, batch_id, now=clock.now())
    assert status_of(container, batch_id) == ("composed", 2)
    assert erase(container, owner, email="jane@example.com").waiting == 0
    assert names_of(container, order) == [(None, "Failed"), ("Jo Roe", "Processing")]
    run_due_jobs(container)
    assert status_of(container, batch_id)[1] == 1
    manifest = files_of(container, batch_id)[f"batches/{batch_id}/manifest.csv"].decode().upper()
    assert ("JO ROE" in manifest, "JANE" in manifest) == (True, False)


def test_whoever_is_erased_while_their_batch_is_drawn_is_not_printed(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, batch_id = pooled(container, clock, owner)
    drawn: list[int] = []
    draw_batch_files = batch_files.draw_batch_files

    def draw(production: Any, contents: Any, **how: Any) -> dict[str, bytes]:
        files = draw_batch_files(production, contents, **how)
        drawn.append(len(contents.items))
        if len(drawn) == 1:
            erase(container, owner, email="jane@example.com")
        return files

    monkeypatch.setattr(batch_files, "draw_batch_files", draw)
    batch_tasks.compose_batch(container.production, batch_id, now=clock.now())
    assert (drawn, status_of(container, batch_id)) == ([2, 1], ("composed", 1))


def test_what_a_printer_has_is_erased_once_it_is_mailed(container: Container, clock: Clock, owner: Caller) -> None:
    order, batch_id = pooled(container, clock, owner)
    batch_tasks.compose_batch(container.production, batch_id, now=clock.now())
    batch_tasks.hand_over_batch(container.production, batch_id, now=clock.now())
    assert erase(container, owner, address="12 Main St, Austin, TX 78701").waiting == 1
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
    found = reports.reprint_selection(
        container.db,
        container.environments["test"],
        batch_id,
        BatchSelection(positions=[1, 2]),
        reason="Wet",
        now=clock.now(),
    )
    assert (found.item_count, [left.reason for left in found.skipped]) == (1, ["Its recipient was erased."])


def test_files_that_could_not_be_removed_are_removed_later(
    container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    container.storage.store.put("preview/2026-05-04/x", b"Jane")
    with container.db.system_transaction() as tx:
        tx.execute(sa.insert(erasing_files).values(key="preview/2026-05-04/x", since=container.clock()))
    with monkeypatch.context() as away:
        away.setattr(type(container.storage.store), "delete", lambda *_: (_ for _ in ()).throw(OSError("away")))
        with pytest.raises(OSError, match="away"):
            finish(container)
    assert container.storage.store.exists("preview/2026-05-04/x")
    finish(container)
    assert not container.storage.store.exists("preview/2026-05-04/x")


def test_what_was_written_beside_the_first_pass_is_found_by_the_second(
    container: Container, clock: Clock, owner: Caller
) -> None:
    erase(container, owner, email="jane@example.com")
    beside = create_order(container, owner, [JANE])
    clock.advance(seconds=SECOND_PASS_DELAY.seconds - 60)
    added_again = create_order(container, owner, [JANE])
    finish(container)
    assert names_of(container, beside) == [("Jane Doe", "Processing")]
    clock.advance(seconds=60)
    finish(container)
    assert names_of(container, beside) == [(None, "Failed")]
    assert names_of(container, added_again) == [("Jane Doe", "Processing")]


def test_both_modes_are_erased_and_nobody_elses(container: Container, owner: Caller) -> None:
    stranger = open_account(container, "stranger@example.com")
    tested = create_order(container, owner, [JANE])
    mailed = create_order(container, Caller(owner.account_id, "live"), [JANE])
    other = create_order(container, stranger, [JANE])
    assert build_tenant(owner).mode == "test"
    assert erase(container, owner, email="jane@example.com").erased["items"] == 2
    assert [names_of(container, each)[0][0] for each in (tested, mailed, other)] == [None, None, "Jane Doe"]


def test_a_reader_bars_the_address_of_a_piece_whose_recipient_is_forgotten(
    container: Container, clock: Clock, owner: Caller
) -> None:
    live = Caller(owner.account_id, "live")
    order, tried_out = create_order(container, live, [JANE]), create_order(container, owner, [JO])
    for each in (order, tried_out):
        end_review(container, each)
        with container.db.system_transaction() as tx:
            create_batches(container, tx, each)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update items set code = 'ABCDEFG' || case mode when 'live' then 'L' else 'T' end"))
        everyone = [row.id for each in (order, tried_out) for row in item_rows(tx, each)]
        erase_items(tx, everyone, now=clock.now())
        for code in ("ABCDEFGL", "ABCDEFGT"):
            privacy_tasks.record_request(tx, code, now=clock.now())
    privacy_tasks.process_requests(container.db, container.encryptor, clock=container.clock)
    again = create_order(container, live, [person(name="Bob"), JO])
    with container.db.system_transaction() as tx:
        suppressed = set(tx.execute(SUPPRESSED_ITEMS, {"order": again.id}).scalars())
        # What was only tried out bars nobody.
        assert [row.id in suppressed for row in item_rows(tx, again)] == [True, False]


def test_warnings_about_a_doubtful_address_are_erased_with_the_person(
    container: Container, home: Account, clock: Clock
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
