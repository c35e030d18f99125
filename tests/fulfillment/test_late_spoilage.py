"""What is called spoiled after the carrier has seen it, and paper that a reprint replaces."""

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.errors import Invalid
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import queries as print_room_queries
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.reports import PartnerReport, SpoiledItem, record_partner_report
from support.factories import Clock, people
from support.orders import create_order, open_account
from support.production import compose_batch, sweep_due_orders

pytestmark = pytest.mark.usefixtures("conninfo")

SEEN = (
    "In Transit", "In Local Area", "Processed for Delivery", "Re-routed", "Delivered", "Returned to Sender",
)  # fmt: skip


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def batch_id(container: Container, clock: Clock, owner: Caller) -> int:
    """Three pieces, with the printer."""
    made = compose_batch(container, clock, owner, people(3))
    batch_tasks.hand_over_batch(container.production, made, now=clock.now())
    return made


def inside(container: Container, batch_id: int) -> dict[int, int]:
    with container.db.system_transaction() as tx:
        return {position: item.id for position, item in fulfillment_queries.read_batch_items(tx, batch_id).items()}


def see(container: Container, item_id: int, status: str) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update items set status = :s where id = :i"), {"s": status, "i": item_id})


def statuses(container: Container, batch_id: int) -> list[str]:
    with container.db.system_transaction() as tx:
        return [item.status.value for item in fulfillment_queries.read_batch_items(tx, batch_id).values()]


@pytest.mark.parametrize("seen_as", SEEN)
def test_a_mailed_piece_that_a_printer_reports_spoiled_stays_mailed(
    container: Container, clock: Clock, batch_id: int, seen_as: str
) -> None:
    items = inside(container, batch_id)
    see(container, items[2], seen_as)
    progress = PrintProgress(spoiled={items[2]: "Torn", items[3]: "Torn"})
    with capture_logs() as logs:
        print_room_service.record_printer_progress(container.db, batch_id, progress, now=clock.now())
    assert statuses(container, batch_id) == ["Processing", seen_as, "Failed"]
    assert [line["item_ids"] for line in logs if line["event"] == "batches.spoiled_items_already_mailed"] == [
        [items[2]]
    ]
    with container.db.system_transaction() as tx:
        refunds = tx.execute(sa.select(ledger_moves).where(ledger_moves.c.kind == "refund")).all()
    assert refunds == []


def test_a_call_of_a_partner_is_taken_but_for_the_piece_in_the_mail(
    container: Container, clock: Clock, batch_id: int
) -> None:
    see(container, inside(container, batch_id)[2], "In Transit")
    pieces = [SpoiledItem(position=2), SpoiledItem(position=3)]
    word = PartnerReport("batch-000001", "printed", clock.now(), pieces)
    record_partner_report(container.db, container.environments["test"], word, now=clock.now())
    assert statuses(container, batch_id) == ["Printed", "In Transit", "Failed"]


@pytest.mark.parametrize("name", ["position", "item_id"])
def test_the_error_names_the_piece_that_is_already_in_the_mail(
    container: Container, clock: Clock, batch_id: int, name: str
) -> None:
    items = inside(container, batch_id)
    see(container, items[2], "In Transit")
    second = SpoiledItem(position=2) if name == "position" else SpoiledItem(item_id=items[2])
    spoiled = [SpoiledItem(position=1), second]
    with pytest.raises(Invalid) as error:
        reports.mark_batch(container.db, batch_id, "spoiled", spoiled=spoiled, now=clock.now())
    assert error.value.fields == {
        f"spoiled.1.{name}": ["Piece 2 is in the mail already (In Transit): it cannot be spoiled."]
    }
    assert statuses(container, batch_id) == ["Processing", "In Transit", "Processing"]


def test_a_spoiled_piece_of_another_batch_alone_acknowledges_nothing(
    container: Container, clock: Clock, batch_id: int
) -> None:
    progress = PrintProgress(spoiled={999_999: "Nobody's"})
    assert print_room_service.record_printer_progress(container.db, batch_id, progress, now=clock.now()) == [999_999]
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch_id).acknowledged_at is None


# Paper that is replaced


def reprint(container: Container, clock: Clock, batch_id: int, *positions: int) -> int:
    environment = container.environments["test"]
    made = print_room_service.reprint_items(
        container.db, environment, batch_id, positions=positions, reason="Smudged", now=clock.now()
    )
    for step in (batch_tasks.compose_batch, batch_tasks.hand_over_batch):
        step(container.production, made.batch_id, now=clock.now())
    return made.batch_id


def ticket(container: Container, batch_id: int, kind: str) -> bytes:
    return container.storage.store.get(f"print-jobs/test/batch-{batch_id:06}/ticket.{kind}")


def replaced(container: Container, batch_id: int) -> Any:
    return json.loads(ticket(container, batch_id, "json"))["replaces"]


@pytest.mark.parametrize("name", ["position", "item_id"])
def test_the_error_names_the_batch_in_which_a_piece_was_reprinted(
    container: Container, clock: Clock, batch_id: int, name: str
) -> None:
    items = inside(container, batch_id)
    third = SpoiledItem(position=3) if name == "position" else SpoiledItem(item_id=items[3])
    spoiled = [SpoiledItem(position=1), third]
    newest = batch_id
    for position in (3, 1):  # the third of the first batch is the first of its own
        newest = reprint(container, clock, newest, position)
        with pytest.raises(Invalid) as error:
            reports.mark_batch(container.db, batch_id, "printed", spoiled=spoiled, now=clock.now())
        assert error.value.fields == {
            f"spoiled.1.{name}": [f"Piece 3 was reprinted in batch-{newest:06}: mark it there."]
        }
    assert statuses(container, batch_id) == ["Processing"] * 3
    reports.mark_batch(container.db, newest, "spoiled", spoiled=[SpoiledItem(position=1)], now=clock.now())
    assert statuses(container, batch_id) == ["Processing", "Processing", "Failed"]


def test_a_piece_that_ended_before_it_was_printed_again_is_in_no_batch_to_mark(
    container: Container, clock: Clock, batch_id: int
) -> None:
    print_room_service.reprint_items(
        container.db, container.environments["test"], batch_id, positions=[3], reason="Torn", now=clock.now()
    )
    see(container, inside(container, batch_id)[3], "Failed")
    batch_tasks.compose_batch(container.production, batch_id + 1, now=clock.now())
    with pytest.raises(Invalid, match=r"^Piece 3 was to be reprinted, and has ended before \(Failed\)\.$"):
        reports.mark_batch(container.db, batch_id, "spoiled", spoiled=[SpoiledItem(position=3)], now=clock.now())


def test_a_call_of_a_partner_is_taken_but_for_the_piece_that_was_reprinted(
    container: Container, clock: Clock, batch_id: int
) -> None:
    items = inside(container, batch_id)
    reprint(container, clock, batch_id, 2)
    pieces = [SpoiledItem(position=2), SpoiledItem(position=3)]
    word = PartnerReport("batch-000001", "printed", clock.now(), pieces)
    with capture_logs() as logs:
        record_partner_report(container.db, container.environments["test"], word, now=clock.now())
    assert statuses(container, batch_id) == ["Printed", "Processing", "Failed"]
    assert [line["item_ids"] for line in logs if line["event"] == "batches.spoiled_items_already_void"] == [[items[2]]]


def test_a_mark_says_how_many_pieces_it_spoils(container: Container, clock: Clock, batch_id: int) -> None:
    items = inside(container, batch_id)

    def spoil(*spoiled: SpoiledItem) -> tuple[int, int]:
        done = reports.mark_batch(container.db, batch_id, "spoiled", spoiled=spoiled, now=clock.now())
        return done.spoiled, done.skipped

    assert spoil(SpoiledItem(position=1), SpoiledItem(item_id=items[1])) == (1, 0)
    assert spoil(SpoiledItem(position=1), SpoiledItem(position=2)) == (1, 1)
    assert spoil(SpoiledItem(position=1)) == (0, 1)


def test_a_reprint_says_which_pieces_it_leaves_out(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, people(6))
    batch_tasks.hand_over_batch(container.production, batch_id, now=clock.now())
    items = inside(container, batch_id)
    new_batch_id = reprint(container, clock, batch_id, 2, 5)
    for position, status in ((1, "Failed"), (3, "Re-routed"), (4, "Delivered"), (5, "In Transit")):
        see(container, items[position], status)
    made = print_room_service.reprint_items(
        container.db,
        container.environments["test"],
        batch_id,
        positions=[6, 1, 2, 3, 6, 1],
        item_ids=[items[4], items[5], items[6]],
        reason="Jam",
        now=clock.now(),
    )
    assert (made.item_count, list(inside(container, made.batch_id).values())) == (1, [items[6]])
    assert [(piece.position, piece.item_id, piece.reason) for piece in made.skipped] == [
        (1, items[1], "Ended already (Failed)."),
        (2, items[2], f"Reprinted in batch-{new_batch_id:06}."),
        (3, items[3], "In the mail already (Re-routed)."),
        (4, items[4], "Ended already (Delivered)."),
        (5, items[5], "In the mail already (In Transit)."),
    ]


def test_the_ticket_of_a_reprint_says_which_paper_it_replaces(
    container: Container, clock: Clock, batch_id: int
) -> None:
    new_batch_id = reprint(container, clock, batch_id, 3, 2)
    assert replaced(container, batch_id) is None
    assert replaced(container, new_batch_id) == {"reference": "batch-000001", "positions": [2, 3]}
    found = ET.fromstring(ticket(container, new_batch_id, "xjdf")).findall("./{*}GeneralID")
    attributes = {each.attrib["IDUsage"]: each.attrib["IDValue"] for each in found}
    assert (attributes["ReprintOf"], attributes["ReplacesPositions"]) == ("batch-000001", "2-3")
    third = reprint(container, clock, new_batch_id, 2)
    assert replaced(container, third) == {"reference": f"batch-{new_batch_id:06}", "positions": [2]}


def test_a_batch_that_is_not_printed_yet_shows_what_is_void(container: Container, clock: Clock, batch_id: int) -> None:
    new_batch_id = reprint(container, clock, batch_id, 2, 3)
    with container.db.system_transaction() as tx:
        batch = print_room_queries.read_batch_details(tx, batch_id)
    assert (batch.batch.status, batch.void, batch.pieces) == ("handed", 2, {"Processing": 1})
    assert batch.reprints == [new_batch_id]


# Rushing


def test_an_order_whose_pieces_are_all_in_batches_is_not_rushed(
    container: Container, clock: Clock, owner: Caller
) -> None:
    pooled = create_order(container, owner)
    sweep_due_orders(container, clock)
    waiting = create_order(container, owner)
    rushed = print_room_service.rush_orders(
        container.db, "test", [pooled.id, waiting.id], operator_id=None, now=clock.now()
    )
    assert rushed == [waiting.id]
