"""From the end of the review to the printer: each step happens twice, and what cannot be drawn fails alone."""

import hashlib
import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pypdfium2 as pdfium
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.database.tables.orders import giftcards
from quillpost.core.errors import Refused, Unavailable
from quillpost.fulfillment.batches import files
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME, batch_reference
from quillpost.fulfillment.models import COMPOSE, HAND_OVER, POLL_PRINTER
from quillpost.fulfillment.ports import PrintJob, PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.service import SPOILED_REASON
from quillpost.fulfillment.review import service as review_service
from quillpost.orders import changes
from quillpost.orders.models import Order
from quillpost.privacy import tasks as privacy_tasks
from quillpost.rendering.images.rules import UnprintableImage
from support import giftcard_orders as gifts
from support import production
from support.factories import Account, Build, Clock, people, person
from support.orders import REVIEW, balances, create_order, fact_rows, item_ids, item_rows, open_account, order_row
from support.rows import execute, run, run_as, scalar
from support.waiting import is_lock_awaited, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")


class Printer:
    """A printer that is as far as it was told."""

    def __init__(self, **progress: Any) -> None:
        self._progress = PrintProgress(**progress)

    def submit(self, job: PrintJob, *, now: Any) -> None: ...

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        return self._progress


def cancel(container: Container, caller: Caller, order_id: int) -> None:
    run_as(container, caller, changes.cancel_order, order_id, now=container.clock())


def test_an_order_is_made_and_final_when_its_review_is_over(container: Container, clock: Clock, caller: Caller) -> None:
    order, cancelled = create_order(container, caller), create_order(container, caller)
    cancel(container, caller, cancelled.id)
    clock.advance(seconds=REVIEW.seconds - 1)
    review_service.sweep_due_orders(container.production, now=container.clock())
    assert (order_row(container, order).status, production.batch_rows(container)) == ("reviewing", [])
    clock.advance(seconds=1)
    review_service.sweep_due_orders(container.production, now=container.clock())
    assert production.only_batch(container).item_count == 1
    with pytest.raises(Refused, match="can no longer be cancelled: it is Processing"):
        cancel(container, caller, order.id)


def test_live_mail_with_gaps_is_paused_with_each_gap_named(container: Container, clock: Clock) -> None:
    order = create_order(container, open_account(container, mode="live"))
    production.sweep_due_orders(container, clock)
    gaps, row = list(container.environments["live"].gaps), order_row(container, order)
    assert (row.status, row.hold_reasons, len(gaps)) == ("paused", gaps, 5)
    assert production.batch_rows(container) == []
    transitions = [(f.previous, f.current) for f in fact_rows(container, order) if f.item_id is None]
    assert transitions == [(None, "reviewing"), ("reviewing", "paused")]


def test_live_mail_without_gaps_goes_to_print_whatever_the_name(build: Build, clock: Clock) -> None:
    """The name that fails in testing mode is somebody's in live mode."""
    container = build(**production.LIVE_SETTINGS)
    order = create_order(container, open_account(container, mode="live"), [person(name=UNDELIVERABLE_NAME)])
    production.sweep_due_orders(container, clock)
    assert production.only_batch(container).mode == "live"
    assert production.print_rows(container, order)[0].tracking.startswith("00310123456789")
    assert item_rows(container, order)[0].status == "Processing"


def test_test_undeliverable_fails_at_review_unprinted(container: Container, clock: Clock, caller: Caller) -> None:
    order = create_order(container, caller, [person(), person(name=UNDELIVERABLE_NAME.upper(), address="9 Elm St")])
    nothing = create_order(container, caller, [person(name=UNDELIVERABLE_NAME)])
    production.sweep_due_orders(container, clock)
    good, bad = item_rows(container, order)
    assert (good.status, bad.status, bad.failure) == ("Processing", "Failed", "Undeliverable address")
    assert [printed.item_id for printed in production.print_rows(container, order)] == [good.id]
    assert (order_row(container, nothing).status, production.print_rows(container, nothing)) == ("fulfilled", [])


def test_a_batch_is_composed_once_into_the_same_bytes(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = production.compose_batch(container, clock, caller, people(3))
    first = production.files_of(container, batch_id)
    names = {key.rpartition("/")[2]: data for key, data in first.items()}
    assert [*names] == ["manifest.csv", "manifest.json", "print.pdf", "statement.json"]
    digests = run(container, fulfillment_queries.read_file_digests, batch_id)
    assert digests == {name: hashlib.sha256(data).digest() for name, data in names.items()}
    pieces, inside = json.loads(names["manifest.json"])["pieces"], production.batch_items(container, batch_id)
    found = [(piece["position"], piece["item_id"], piece["tracking"]) for piece in pieces]
    assert found == [(position, item.id, item.tracking) for position, item in inside.items()]
    assert [(piece["first_page"], piece["last_page"]) for piece in pieces] == [(1, 2), (3, 4), (5, 6)]

    execute(container, sa.update(batches).values(status="new"))
    clock.advance(days=1)
    production.compose(container, batch_id)
    assert production.files_of(container, batch_id) == first
    container.storage.store.delete(f"batches/{batch_id}/print.pdf")
    production.compose(container, batch_id)
    assert f"batches/{batch_id}/print.pdf" not in production.files_of(container, batch_id), "it is composed already"
    assert production.enqueued_steps(container).count((HAND_OVER, {"batch_id": batch_id})) == 1


def test_what_goes_in_an_envelope_has_its_own_page_there(container: Container, clock: Clock, caller: Caller) -> None:
    create_order(container, caller, people(3))
    execute(container, sa.update(orders).values(piece="notecard"))
    production.sweep_due_orders(container, clock)
    batch_id = production.hand_over(container, production.compose(container, production.only_batch(container).id))
    files = production.files_of(container, batch_id)
    pieces = json.loads(files[f"batches/{batch_id}/manifest.json"])["pieces"]
    assert [(piece["envelope_page"], piece["first_page"]) for piece in pieces] == [(1, 1), (2, 3), (3, 5)]
    envelopes = container.storage.store.get(f"print-jobs/test/{batch_reference(batch_id)}/envelopes.pdf")
    assert envelopes == files[f"batches/{batch_id}/envelopes.pdf"]
    with pdfium.PdfDocument(envelopes) as document:
        for page, piece in zip(document, pieces, strict=True):
            assert piece["name"].split()[1] in page.get_textpage().get_text_bounded().split()


def test_handing_over_and_asking_again_change_nothing(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = production.compose_batch(container, clock, caller, people(2))
    production.delete_jobs(container)
    for _ in range(2):
        production.hand_over(container, batch_id)
    poll = [(POLL_PRINTER, {"batch_id": batch_id})]
    assert production.enqueued_steps(container) == poll
    order_id = scalar(container, sa.select(orders.c.id))
    assert [f.current for f in fact_rows(container, order_id) if f.item_id is None].count("printing") == 1
    for _ in range(3):
        batch_tasks.poll_printer(container.production, batch_id, now=container.clock())
    assert production.enqueued_steps(container) == poll


def test_spoiled_pieces_fail_and_the_rest_are_printed(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = production.hand_over(container, production.compose_batch(container, clock, caller, people(3)))
    first, second, third = (piece.id for piece in production.batch_items(container, batch_id).values())
    printer = Printer(printed_at=container.clock(), spoiled={first: "Smudged", second: ""})
    for _ in range(2):
        parts = production.with_environment(container, printer=printer).production
        batch_tasks.poll_printer(parts, batch_id, now=container.clock())
    found = {piece.id: (piece.status, piece.failure) for piece in production.batch_items(container, batch_id).values()}
    assert found == {first: ("Failed", "Smudged"), second: ("Failed", SPOILED_REASON), third: ("Printed", None)}
    assert production.read_batch(container, batch_id).status == "printed"


def test_what_is_in_the_mail_was_printed(container: Container, clock: Clock, caller: Caller) -> None:
    """Of a printer that says nothing before the pieces are mailed."""
    batch_id = production.hand_over(container, production.compose_batch(container, clock, caller, [person()]))
    silent = production.with_environment(container, printer=Printer(mailed_at=clock.now())).production
    batch_tasks.poll_printer(silent, batch_id, now=container.clock())
    assert production.read_batch(container, batch_id).status == "mailed"
    assert [item.status.value for item in production.batch_items(container, batch_id).values()] == ["Printed"]


def test_resuming_books_the_missing_step_once(container: Container, clock: Clock, caller: Caller) -> None:
    create_order(container, caller)
    production.sweep_due_orders(container, clock)
    booked = production.enqueued_steps(container)
    batch_tasks.resume_batches(container.production)
    assert production.enqueued_steps(container) == booked
    execute(container, "update procrastinate_jobs set status = 'failed'")
    batch_tasks.resume_batches(container.production)
    assert production.enqueued_steps(container) == [], "what was given up is a person's"
    batch_id = production.only_batch(container).id
    steps = {"new": COMPOSE, "composed": HAND_OVER, "handed": POLL_PRINTER, "printed": POLL_PRINTER, "mailed": None}
    for status, step in steps.items():
        production.delete_jobs(container)
        execute(container, sa.update(batches).values(status=status))
        for _ in range(2):
            batch_tasks.resume_batches(container.production)
        assert production.enqueued_steps(container) == ([(step, {"batch_id": batch_id})] if step else []), status


def test_two_sweeps_at_once_share_the_orders(container: Container, clock: Clock, caller: Caller) -> None:
    several = [create_order(container, caller) for _ in range(2)]
    clock.advance(seconds=REVIEW.seconds)
    with container.db.system_transaction() as one, container.db.system_transaction() as other:
        first = fulfillment_queries.claim_due_orders(one, now=container.clock(), limit=1)
        rest = fulfillment_queries.claim_due_orders(other, now=container.clock(), limit=10)
    assert (first, rest) == ({"test": [several[0].id]}, {"test": [several[1].id]})


@pytest.mark.parametrize("damage", [b"another file", None])
def test_a_file_that_was_lost_or_changed_is_made_again_before_it_is_handed_over(
    container: Container, clock: Clock, caller: Caller, damage: bytes | None
) -> None:
    batch_id = production.compose_batch(container, clock, caller, people(2))
    before = production.files_of(container, batch_id)
    print_file = f"batches/{batch_id}/print.pdf"
    container.storage.store.delete(print_file)
    if damage is not None:
        container.storage.store.put(print_file, damage)
    production.hand_over(container, batch_id)
    assert production.files_of(container, batch_id) == before
    handed = container.storage.store.get(f"print-jobs/test/{batch_reference(batch_id)}/print.pdf")
    assert handed == before[print_file]


NOT_DRAWN = [("Failed", NOT_COMPOSABLE)]


def due_batch(container: Container, clock: Clock, caller: Caller, *messages: str) -> list[Order]:
    """An order of each of these words, in one batch that is yet to be composed."""
    placed = [create_order(container, caller, message=message) for message in messages]
    production.sweep_due_orders(container, clock)
    return placed


def fates(container: Container, order: Order) -> list[tuple[str, str | None]]:
    return [(row.status, row.failure) for row in item_rows(container, order)]


def test_an_order_that_cannot_be_drawn_holds_up_no_one(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, broken, handless = due_batch(container, clock, caller, "Fine", "Broken", "Handless")
    execute(container, "update orders set style = 987 where id = :id", id=handless.id)
    production.stumble_over(container, monkeypatch, ValueError("a decoder stumbles"), "Broken")
    batch_id = production.compose(container, production.only_batch(container).id)
    assert production.read_batch(container, batch_id).status == "composed"
    assert [fates(container, order) for order in (good, broken, handless)] == [
        [("Processing", None)], NOT_DRAWN, NOT_DRAWN,
    ]  # fmt: skip
    assert balances(container, broken)["held"] == 0
    manifest = json.loads(production.files_of(container, batch_id)[f"batches/{batch_id}/manifest.json"])
    assert [piece["order_id"] for piece in manifest["pieces"]] == [good.id]


def test_a_batch_of_which_nothing_can_be_drawn_is_closed(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    [order] = due_batch(container, clock, caller, "Broken")
    production.stumble_over(container, monkeypatch, UnprintableImage("The picture is damaged."))
    batch_id = production.compose(container, production.only_batch(container).id)
    statuses = (production.read_batch(container, batch_id).status, order_row(container, order).status)
    assert statuses == ("mailed", "fulfilled")


def test_an_error_that_every_order_meets_fails_no_mail(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_batch(container, clock, caller, "Fine")
    production.stumble_over(container, monkeypatch, LookupError("The font is not installed."))
    batch_id = production.only_batch(container).id
    with pytest.raises(LookupError):
        production.compose(container, batch_id)
    assert production.read_batch(container, batch_id).status == "new"


def test_what_this_machine_lacks_fails_no_order_that_it_meets(
    container: Container, clock: Clock, caller: Caller, subtests: pytest.Subtests
) -> None:
    several = due_batch(container, clock, caller, "Fine", "Unlucky")
    batch_id = production.only_batch(container).id
    look_at = container.production.renderer.find_misfits
    for error in (MemoryError(), OSError("no space left"), Unavailable("No database.")):
        for step in ("compose", "find_misfits"):

            def runs_out(design: Any, *what: Any, error: Exception = error, **how: Any) -> Any:
                if design.message == "Unlucky":
                    raise error
                return look_at(design, *what, **how)

            with subtests.test(error=error, step=step), pytest.MonkeyPatch.context() as patch:
                production.stumble_over(container, patch, error, "Unlucky")
                if step == "find_misfits":
                    patch.setattr(container.production.renderer, "find_misfits", runs_out)
                with pytest.raises(type(error)):
                    production.compose(container, batch_id)
                assert production.read_batch(container, batch_id).status == "new"
                assert [fates(container, order) for order in several] == [[("Processing", None)]] * 2


def set_claim(container: Container, item_id: int, sealed: bytes) -> None:
    execute(container, sa.update(giftcards).where(giftcards.c.item_id == item_id).values(claim_sealed=sealed))


def test_a_claim_that_does_not_open_waits_and_others_go_on(container: Container, clock: Clock, owner: Account) -> None:
    order = gifts.send_giftcards(owner, recipients=people(3))
    [batch] = gifts.end_reviews(container.production, container, clock)
    [piece, *_] = gifts.issue_order_cards(container, order)
    claim = bytes(gifts.card_row(container, piece).claim_sealed)
    set_claim(container, piece, claim[:-1])
    production.compose(container, batch)
    [(status, left, _), (waits, apart, error)] = gifts.batches_of(container)
    assert (status, left, waits, apart) == ("composed", 2, "new", 1)
    assert error is not None
    assert error.startswith("1 piece cannot be printed: the claim to the gift card does not open")
    gifts.compose_all(container.production, container)
    assert [each[:2] for each in gifts.batches_of(container)] == [("composed", 2), ("new", 1)]

    set_claim(container, piece, claim)
    gifts.compose_all(container.production, container)
    assert gifts.batches_of(container) == [("composed", 2, None), ("composed", 1, None)]
    gifts.assert_printed_as_issued(container)


def test_a_gift_is_never_drawn_without_its_claim(container: Container, clock: Clock, owner: Account) -> None:
    order = gifts.send_giftcards(owner, recipients=people(2))
    [batch] = gifts.end_reviews(container.production, container, clock)
    [bare, good] = item_ids(container, order)
    execute(container, sa.update(items).where(items.c.id == bare).values(gift_cents=0))
    production.compose(container, batch)
    [(_, left, _), (waits, _, error)] = gifts.batches_of(container)
    assert (left, waits, bool(error)) == (1, "new", True)
    assert gifts.claims_on_paper(container, batch).keys() == {good}
    with container.db.system_transaction() as tx:
        contents = files.read_batch_contents(tx, fulfillment_queries.read_batch(tx, batch + 1))
    with pytest.raises(Unavailable, match=f"Item {bare} has no claim"):
        files.draw_batch_files(container.production, contents)


def test_a_claim_is_not_forgotten_while_it_is_printed_again(container: Container, clock: Clock, owner: Account) -> None:
    """Retention comes while the reprint is not committed yet: it waits for the card, and passes it by."""
    [piece] = item_ids(container, gifts.send_giftcards(owner))
    [batch] = gifts.end_reviews(container.production, container, clock)
    production.compose(container, batch)
    in_the_mail = sa.text("update batches set status = 'mailed', handed_at = :at, mailed_at = :at")
    execute(container, in_the_mail, at=container.clock())
    clock.advance(days=20)
    forgetting_is: list[Future[object]] = []

    def meanwhile(_tx: Tx) -> None:
        days, now = container.retention_days, container.clock()
        forgetting_is.append(thread.submit(privacy_tasks.delete_overdue, container.db, days, now=now))
        wait_until(lambda: is_lock_awaited(container) or forgetting_is[0].done())
        assert not forgetting_is[0].done()

    with ThreadPoolExecutor(1) as thread:
        environment = container.production.environments["test"]
        again = print_room_service.reprint_items(
            container.db, environment, batch, positions=[1], reason="Torn", write_audit=meanwhile, now=container.clock()
        )
        forgetting_is[0].result()
    assert gifts.card_row(container, piece).claim_sealed is not None
    production.compose(container, again.batch_id)
    assert gifts.claims_on_paper(container, again.batch_id) == gifts.claims_on_paper(container, batch)


def test_whoever_tells_of_a_batch_tells_no_claim(container: Container, clock: Clock, owner: Account) -> None:
    [piece] = item_ids(container, gifts.send_giftcards(owner))
    [batch] = gifts.end_reviews(container.production, container, clock)
    production.compose(container, batch)
    production.hand_over(container, batch)
    claim = gifts.claims_on_paper(container, batch)[piece]
    progress = PrintProgress(spoiled={piece: f"{claim} is torn"})
    print_room_service.record_printer_progress(container.db, batch, progress, now=container.clock())
    with container.db.system_transaction() as tx:
        fulfillment_queries.record_batch_error(tx, batch, f"Who is {claim}?", now=container.clock())
        failure = tx.execute(sa.select(items.c.failure)).scalar_one()
    assert failure == "[hidden] is torn"
    assert [error for _, _, error in gifts.batches_of(container)] == ["Who is [hidden]?"]
