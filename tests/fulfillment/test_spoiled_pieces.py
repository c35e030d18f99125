"""Pieces that spoil, also once the carrier has seen them, and their reprints."""

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
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.print_room import queries as print_room_queries
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room.reports import PartnerReport, SpoiledItem, record_partner_report
from support import production
from support.factories import Clock, people
from support.production import batch_statuses, hand_over, reprint
from support.rows import execute, run

pytestmark = pytest.mark.usefixtures("clean_database")

SEEN = ("In Transit", "In Local Area", "Processed for Delivery", "Re-routed", "Delivered", "Returned to Sender")


@pytest.fixture
def batch_id(container: Container, clock: Clock, caller: Caller) -> int:
    """Three pieces, with the printer."""
    return hand_over(container, production.compose_batch(container, clock, caller, people(3)))


def inside(container: Container, batch_id: int) -> dict[int, int]:
    return {position: item.id for position, item in production.batch_items(container, batch_id).items()}


def see(container: Container, item_id: int, status: str) -> None:
    execute(container, "update items set status = :status where id = :id", status=status, id=item_id)


def mark(container: Container, batch_id: int, event: Any, *spoiled: SpoiledItem) -> tuple[int, int]:
    """How many pieces that spoils, and how many it skips."""
    done = reports.mark_batch(container.db, batch_id, event, spoiled=spoiled, now=container.clock())
    return done.spoiled, done.skipped


def hear_partner(container: Container, batch_id: int, *positions: int) -> None:
    pieces = [SpoiledItem(position=position) for position in positions]
    report = PartnerReport(batch_reference(batch_id), "printed", container.clock(), pieces)
    record_partner_report(container.db, container.environments["test"], report, now=container.clock())


def printed_again(container: Container, batch_id: int, *positions: int) -> int:
    return hand_over(container, production.compose(container, reprint(container, batch_id, *positions).batch_id))


def test_mailed_pieces_that_are_called_spoiled_stay_mailed(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = hand_over(container, production.compose_batch(container, clock, caller, people(len(SEEN) + 1)))
    *mailed, torn = inside(container, batch_id).values()
    for item_id, status in zip(mailed, SEEN, strict=True):
        see(container, item_id, status)
    with capture_logs() as logs:
        production.hear_printer(container, batch_id, spoiled=dict.fromkeys([*mailed, torn], "Torn"))
    assert batch_statuses(container, batch_id) == [*SEEN, "Failed"]
    [told] = [line["item_ids"] for line in logs if line["event"] == "batches.spoiled_items_already_mailed"]
    assert sorted(told) == mailed
    assert execute(container, sa.select(ledger_moves).where(ledger_moves.c.kind == "refund")) == []


def test_a_call_of_a_partner_is_taken_but_for_the_piece_in_the_mail(container: Container, batch_id: int) -> None:
    see(container, inside(container, batch_id)[2], "In Transit")
    hear_partner(container, batch_id, 2, 3)
    assert batch_statuses(container, batch_id) == ["Printed", "In Transit", "Failed"]


def test_a_mark_says_how_many_pieces_it_spoils_and_another_batch_s_none(container: Container, batch_id: int) -> None:
    nobodys = inside(container, batch_id)[3] + 999
    assert production.hear_printer(container, batch_id, spoiled={nobodys: "Nobody's"}) == [nobodys]
    assert production.read_batch(container, batch_id).acknowledged_at is None
    first, second = SpoiledItem(position=1), SpoiledItem(position=2)
    by_id = SpoiledItem(item_id=inside(container, batch_id)[1])
    assert mark(container, batch_id, "spoiled", first, by_id) == (1, 0)
    assert mark(container, batch_id, "spoiled", first, second) == (1, 1)
    assert mark(container, batch_id, "spoiled", first) == (0, 1)


# Paper that is replaced


def kept_ticket(container: Container, batch_id: int, kind: str) -> bytes:
    return container.storage.store.get(f"print-jobs/test/{batch_reference(batch_id)}/ticket.{kind}")


def replaced(container: Container, batch_id: int) -> Any:
    return json.loads(kept_ticket(container, batch_id, "json"))["replaces"]


def test_the_error_names_the_batch_in_which_a_piece_was_reprinted(container: Container, batch_id: int) -> None:
    items, newest = inside(container, batch_id), batch_id
    for position in (3, 1):  # the third of the first batch is the first of its own
        newest = printed_again(container, newest, position)
        for name, third in (("position", SpoiledItem(position=3)), ("item_id", SpoiledItem(item_id=items[3]))):
            reason = f"Piece 3 was reprinted in {batch_reference(newest)}: mark it there."
            with pytest.raises(Invalid) as error:
                mark(container, batch_id, "printed", SpoiledItem(position=1), third)
            assert error.value.fields == {f"spoiled.1.{name}": [reason]}
    assert batch_statuses(container, batch_id) == ["Processing"] * 3
    mark(container, newest, "spoiled", SpoiledItem(position=1))
    assert batch_statuses(container, batch_id) == ["Processing", "Processing", "Failed"]


def test_a_piece_that_ended_before_its_reprint_is_in_no_batch_to_mark(container: Container, batch_id: int) -> None:
    again = reprint(container, batch_id, 3).batch_id
    see(container, inside(container, batch_id)[3], "Failed")
    production.compose(container, again)
    with pytest.raises(Invalid, match=r"^Piece 3 was to be reprinted, and has ended before \(Failed\)\.$"):
        mark(container, batch_id, "spoiled", SpoiledItem(position=3))


def test_a_call_of_a_partner_is_taken_but_for_the_piece_that_was_reprinted(container: Container, batch_id: int) -> None:
    items = inside(container, batch_id)
    printed_again(container, batch_id, 2)
    with capture_logs() as logs:
        hear_partner(container, batch_id, 2, 3)
    assert batch_statuses(container, batch_id) == ["Printed", "Processing", "Failed"]
    assert [line["item_ids"] for line in logs if line["event"] == "batches.spoiled_items_already_void"] == [[items[2]]]


def test_a_reprint_says_which_pieces_it_leaves_out(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = hand_over(container, production.compose_batch(container, clock, caller, people(6)))
    items, new_batch_id = inside(container, batch_id), printed_again(container, batch_id, 2, 5)
    for position, status in ((1, "Failed"), (3, "Re-routed"), (4, "Delivered"), (5, "In Transit")):
        see(container, items[position], status)
    made = reprint(container, batch_id, 6, 1, 2, 3, 6, 1, item_ids=[items[4], items[5], items[6]])
    assert (made.item_count, list(inside(container, made.batch_id).values())) == (1, [items[6]])
    assert [(piece.position, piece.item_id, piece.reason) for piece in made.skipped] == [
        (1, items[1], "Ended already (Failed)."), (2, items[2], f"Reprinted in {batch_reference(new_batch_id)}."),
        (3, items[3], "In the mail already (Re-routed)."), (4, items[4], "Ended already (Delivered)."),
        (5, items[5], "In the mail already (In Transit)."),
    ]  # fmt: skip


def test_the_ticket_of_a_reprint_says_which_paper_it_replaces(container: Container, batch_id: int) -> None:
    new_batch_id, reference = printed_again(container, batch_id, 3, 2), batch_reference(batch_id)
    assert replaced(container, batch_id) is None
    assert replaced(container, new_batch_id) == {"reference": reference, "positions": [2, 3]}
    found = ET.fromstring(kept_ticket(container, new_batch_id, "xjdf")).findall("./{*}GeneralID")
    attributes = {each.attrib["IDUsage"]: each.attrib["IDValue"] for each in found}
    assert (attributes["ReprintOf"], attributes["ReplacesPositions"]) == (reference, "2-3")
    third = printed_again(container, new_batch_id, 2)
    assert replaced(container, third) == {"reference": batch_reference(new_batch_id), "positions": [2]}
    batch = run(container, print_room_queries.read_batch_details, batch_id)
    assert (batch.batch.status, batch.void, batch.pieces) == ("handed", 2, {"Processing": 1})
    assert batch.reprints == [new_batch_id]
