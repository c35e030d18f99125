"""From the end of the review to the printer: pauses, composing, handing over, and steps that happen twice."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pypdfium2 as pdfium
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.errors import Refused
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME
from quillpost.fulfillment.ports import PrintJob, PrintProgress
from quillpost.fulfillment.print_room.service import SPOILED_REASON
from quillpost.fulfillment.review import service as review_service
from quillpost.orders import changes
from quillpost.orders.models import Order
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.images.rules import UnprintableImage
from support.factories import Clock, people, person
from support.orders import REVIEW, balances, create_order, fact_rows, item_rows, open_account, order_row
from support.production import (
    LIVE_SETTINGS,
    batch_rows,
    compose_batch,
    delete_jobs,
    enqueued_steps,
    files_of,
    print_rows,
    sweep_due_orders,
)


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def test_an_order_stays_in_review_until_it_is_due(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner)
    clock.advance(seconds=REVIEW.seconds - 1)
    review_service.sweep_due_orders(container.production, now=container.clock())
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).status == "reviewing"
        assert batch_rows(tx) == []


def test_a_cancelled_order_is_never_batched(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner)
    with container.db.transaction(build_tenant(owner)) as tx:
        changes.cancel_order(tx, order.id, now=container.clock())
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        assert batch_rows(tx) == []


def test_an_order_in_production_cannot_be_cancelled(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner)
    sweep_due_orders(container, clock)
    with (
        container.db.transaction(build_tenant(owner)) as tx,
        pytest.raises(Refused, match="can no longer be cancelled: it is Processing"),
    ):
        changes.cancel_order(tx, order.id, now=container.clock())


def test_live_mail_with_gaps_is_paused_with_each_gap_named(container: Container, clock: Clock) -> None:
    order = create_order(container, open_account(container, mode="live"))
    sweep_due_orders(container, clock)
    gaps = list(container.environments["live"].gaps)
    assert len(gaps) == 5
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        assert (row.status, row.hold_reasons) == ("paused", gaps)
        assert batch_rows(tx) == []
        transitions = [(f.previous, f.current) for f in fact_rows(tx, order) if f.item_id is None]
    assert transitions == [(None, "reviewing"), ("reviewing", "paused")]


def test_live_mail_without_gaps_goes_to_print(build: Any, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS)
    order = create_order(container, open_account(container, mode="live"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        assert batch.mode == "live"
        assert print_rows(tx, order)[0].tracking.startswith("00310123456789")


def test_test_undeliverable_fails_at_review_and_is_not_printed(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = create_order(container, owner, [person(), person(name=UNDELIVERABLE_NAME.upper(), address="9 Elm St")])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        good, bad = item_rows(tx, order)
        assert (good.status, bad.status) == ("Processing", "Failed")
        assert bad.failure == "Undeliverable address"
        assert [printed.item_id for printed in print_rows(tx, order)] == [good.id]


def test_an_order_whose_every_piece_fails_at_review_has_ended(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = create_order(container, owner, [person(name=UNDELIVERABLE_NAME)])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).status == "fulfilled"
        assert batch_rows(tx) == []


def test_in_live_mode_the_reserved_name_is_a_name(build: Any, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS)
    order = create_order(container, open_account(container, mode="live"), [person(name=UNDELIVERABLE_NAME)])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        assert item_rows(tx, order)[0].status == "Processing"


def test_composing_twice_writes_the_same_bytes(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, people(3))
    first = files_of(container, batch_id)
    assert [key.rpartition("/")[2] for key in first] == [
        "manifest.csv", "manifest.json", "print.pdf", "statement.json",
    ]  # fmt: skip
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status="new"))
    clock.advance(days=1)
    batch_tasks.compose_batch(container.production, batch_id, now=container.clock())
    assert files_of(container, batch_id) == first


def test_a_batch_that_is_composed_is_not_drawn_again(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, people(1))
    container.storage.store.delete(f"batches/{batch_id}/print.pdf")
    batch_tasks.compose_batch(container.production, batch_id, now=container.clock())
    assert f"batches/{batch_id}/print.pdf" not in files_of(container, batch_id)
    with container.db.system_transaction() as tx:
        assert [name for name, _ in enqueued_steps(tx)].count("fulfillment.hand_over_batch") == 1


def test_the_manifest_says_where_each_piece_is(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, people(3))
    manifest = json.loads(files_of(container, batch_id)[f"batches/{batch_id}/manifest.json"])
    with container.db.system_transaction() as tx:
        inside = fulfillment_queries.read_batch_items(tx, batch_id)
    assert [(p["position"], p["item_id"], p["tracking"]) for p in manifest["pieces"]] == [
        (position, item.id, item.tracking) for position, item in inside.items()
    ]
    assert [(p["first_page"], p["last_page"]) for p in manifest["pieces"]] == [(1, 2), (3, 4), (5, 6)]


def test_what_goes_in_an_envelope_has_its_own_page_there(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner, people(3))
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == order.id).values(piece="notecard"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    files = files_of(container, batch.id)
    manifest = json.loads(files[f"batches/{batch.id}/manifest.json"])
    assert [piece["envelope_page"] for piece in manifest["pieces"]] == [1, 2, 3]
    assert [piece["first_page"] for piece in manifest["pieces"]] == [1, 3, 5]
    batch_tasks.hand_over_batch(container.production, batch.id, now=container.clock())
    folder = f"print-jobs/test/batch-{batch.id:06d}"
    envelopes = container.storage.store.get(f"{folder}/envelopes.pdf")
    assert envelopes == files[f"batches/{batch.id}/envelopes.pdf"]
    with pdfium.PdfDocument(envelopes) as document:
        for page, piece in zip(document, manifest["pieces"], strict=True):
            words = page.get_textpage().get_text_bounded().split()
            assert piece["name"].split()[1] in words


def test_handing_over_again_changes_nothing(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, people(2))
    delete_jobs(container)
    for _ in range(2):
        batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == [("fulfillment.poll_printer", {"batch_id": batch_id})]
        [order] = fulfillment_queries.read_batch_orders(tx, batch_id)
        assert [f.current for f in fact_rows(tx, order) if f.item_id is None].count("printing") == 1


def test_spoiled_pieces_fail_and_the_rest_are_printed(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, people(3))
    batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
    with container.db.system_transaction() as tx:
        first, second, third = (piece.id for piece in fulfillment_queries.read_batch_items(tx, batch_id).values())
    printer = Printer(PrintProgress(printed_at=container.clock(), spoiled={first: "Smudged", second: ""}))
    environments = {"test": replace(container.environments["test"], printer=printer)}
    production = replace(container.production, environments=environments)
    for _ in range(2):
        batch_tasks.poll_printer(production, batch_id, now=container.clock())
    with container.db.system_transaction() as tx:
        inside = fulfillment_queries.read_batch_items(tx, batch_id).values()
        found = {piece.id: (piece.status, piece.failure) for piece in inside}
        assert fulfillment_queries.read_batch(tx, batch_id).status == "printed"
    assert found == {first: ("Failed", "Smudged"), second: ("Failed", SPOILED_REASON), third: ("Printed", None)}


@pytest.mark.parametrize(
    ("status", "step"),
    [
        ("new", "fulfillment.compose_batch"),
        ("composed", "fulfillment.hand_over_batch"),
        ("handed", "fulfillment.poll_printer"),
        ("printed", "fulfillment.poll_printer"),
    ],
)
def test_resuming_books_the_missing_step_once(
    container: Container, clock: Clock, owner: Caller, status: str, step: str
) -> None:
    create_order(container, owner)
    sweep_due_orders(container, clock)
    delete_jobs(container)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        tx.execute(sa.update(batches).values(status=status))
    for _ in range(2):
        batch_tasks.resume_batches(container.production)
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == [(step, {"batch_id": batch.id})]


def test_resuming_leaves_what_is_booked_and_what_is_mailed(container: Container, clock: Clock, owner: Caller) -> None:
    create_order(container, owner)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        before = enqueued_steps(tx)
    batch_tasks.resume_batches(container.production)
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == before
        tx.execute(sa.update(batches).values(status="mailed"))
    delete_jobs(container)
    batch_tasks.resume_batches(container.production)
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == []


def test_two_sweeps_at_once_share_the_orders(container: Container, clock: Clock, owner: Caller) -> None:
    several: list[Order] = [create_order(container, owner) for _ in range(2)]
    clock.advance(seconds=REVIEW.seconds)
    with container.db.system_transaction() as one, container.db.system_transaction() as other:
        first = fulfillment_queries.claim_due_orders(one, now=container.clock(), limit=1)
        rest = fulfillment_queries.claim_due_orders(other, now=container.clock(), limit=10)
    assert (first, rest) == ({"test": [several[0].id]}, {"test": [several[1].id]})


class Printer:
    """A printer that is as far as it was told."""

    def __init__(self, progress: PrintProgress) -> None:
        self._progress = progress

    def submit(self, job: PrintJob, *, now: Any) -> None:
        raise AssertionError("Nothing is handed over here.")

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        return self._progress


def test_resuming_leaves_what_was_given_up_to_a_person(container: Container, clock: Clock, owner: Caller) -> None:
    create_order(container, owner)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update procrastinate_jobs set status = 'failed'"))
    batch_tasks.resume_batches(container.production)
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == []


def test_an_order_that_cannot_be_drawn_holds_up_no_one(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = create_order(container, owner, message="Fine"), create_order(container, owner, message="Broken")
    draw = container.production.renderer.compose

    def draws_all_but_the_broken(designs: Any, copies: Any, **how: Any) -> PrintFiles:
        if any(designs[copy.design].message == "Broken" for copy in copies):
            raise ValueError("a decoder stumbles")
        return draw(designs, copies, **how)

    monkeypatch.setattr(container.production.renderer, "compose", draws_all_but_the_broken)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch.id).status == "composed"
        assert [row.status for row in item_rows(tx, good)] == ["Processing"]
        assert [(row.status, row.failure) for row in item_rows(tx, bad)] == [("Failed", NOT_COMPOSABLE)]
        assert balances(tx, bad)["held"] == 0
    manifest = json.loads(files_of(container, batch.id)[f"batches/{batch.id}/manifest.json"])
    assert [piece["order_id"] for piece in manifest["pieces"]] == [good.id]


def test_an_internal_error_fails_no_mail(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbles(_designs: Any, _copies: Any, **_how: Any) -> PrintFiles:
        raise LookupError("The font is not installed.")

    monkeypatch.setattr(container.production.renderer, "compose", stumbles)
    create_order(container, owner)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    with pytest.raises(LookupError):
        batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch.id).status == "new"


def test_each_file_of_a_batch_is_known_by_its_digest(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, [person()])
    with container.db.system_transaction() as tx:
        known = fulfillment_queries.read_file_digests(tx, batch_id)
    files = {key.rpartition("/")[2]: data for key, data in files_of(container, batch_id).items()}
    assert known == {name: hashlib.sha256(data).digest() for name, data in files.items()}


def test_a_batch_of_which_nothing_can_be_drawn_is_closed(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbles(_designs: Any, _copies: Any, **_how: Any) -> PrintFiles:
        raise UnprintableImage("The picture is damaged.")

    monkeypatch.setattr(container.production.renderer, "compose", stumbles)
    order = create_order(container, owner)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch.id).status == "mailed"
        assert order_row(tx, order).status == "fulfilled"


@pytest.mark.parametrize("damage", [b"another file", None])
def test_a_file_that_was_lost_or_changed_is_made_again_before_it_is_handed_over(
    container: Container, clock: Clock, owner: Caller, damage: bytes | None
) -> None:
    batch_id = compose_batch(container, clock, owner, people(2))
    before = files_of(container, batch_id)
    print_file = f"batches/{batch_id}/print.pdf"
    container.storage.store.delete(print_file)
    if damage is not None:
        container.storage.store.put(print_file, damage)
    batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
    assert files_of(container, batch_id) == before
    handed = container.storage.store.get(f"print-jobs/test/batch-{batch_id:06d}/print.pdf")
    assert handed == before[print_file]


def test_what_is_in_the_mail_was_printed(container: Container, clock: Clock, owner: Caller) -> None:
    class Silent:
        """A printer that says nothing before the pieces are mailed."""

        def submit(self, job: PrintJob, *, now: Any) -> None: ...

        def progress(self, reference: str, *, now: Any) -> PrintProgress:
            return PrintProgress(mailed_at=now)

    environment = replace(container.environments["test"], printer=Silent())
    production = replace(container.production, environments={"test": environment})
    batch_id = compose_batch(container, clock, owner, [person()])
    batch_tasks.hand_over_batch(production, batch_id, now=container.clock())
    batch_tasks.poll_printer(production, batch_id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch_id).status == "mailed"
        assert {item.status.value for item in fulfillment_queries.read_batch_items(tx, batch_id).values()} == {
            "Printed"
        }


def test_a_step_is_never_booked_twice_side_by_side(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, [person()])
    batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
    for _ in range(3):
        batch_tasks.poll_printer(container.production, batch_id, now=container.clock())
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx).count(("fulfillment.poll_printer", {"batch_id": batch_id})) == 1
