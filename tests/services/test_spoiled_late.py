"""What is called spoiled after the carrier has seen it, and paper that a reprint replaces."""

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import sqlalchemy as sa
from placing import open_account, place
from pressing import composed_batch, sweep
from structlog.testing import capture_logs

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.errors import Invalid
from quillpost.fulfillment import production
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.partners import SpoiledPiece, Word, take_word
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import marks
from quillpost.fulfillment.print_room import queries as print_room_queries
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.marks import Spoiled

SEEN = (
    "In Transit", "In Local Area", "Processed for Delivery", "Re-routed", "Delivered", "Returned to Sender",
)  # fmt: skip


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


@pytest.fixture
def batch_id(parts: Parts, clock: Clock, owner: Caller) -> int:
    """Three pieces, with the printer."""
    made = composed_batch(parts, clock, owner, people(3))
    production.hand_over(parts.press, made, now=clock.now())
    return made


def inside(parts: Parts, batch_id: int) -> dict[int, int]:
    with parts.db.work() as tx:
        return {position: item.id for position, item in fulfillment_queries.batch_items(tx, batch_id).items()}


def see(parts: Parts, item_id: int, status: str) -> None:
    with parts.db.work() as tx:
        tx.execute(sa.text("update items set status = :s where id = :i"), {"s": status, "i": item_id})


def statuses(parts: Parts, batch_id: int) -> list[str]:
    with parts.db.work() as tx:
        return [item.status.value for item in fulfillment_queries.batch_items(tx, batch_id).values()]


@pytest.mark.parametrize("seen_as", SEEN)
def test_a_printer_who_calls_a_piece_in_the_mail_spoiled_is_passed_over(
    parts: Parts, clock: Clock, batch_id: int, seen_as: str
) -> None:
    items = inside(parts, batch_id)
    see(parts, items[2], seen_as)
    progress = PrintProgress(spoiled={items[2]: "Torn", items[3]: "Torn"})
    with capture_logs() as logs:
        print_room_service.take_progress(parts.db, batch_id, progress, now=clock.now())
    assert statuses(parts, batch_id) == ["Processing", seen_as, "Failed"]
    assert [line["items"] for line in logs if line["event"] == "batch.spoiled_in_the_mail"] == [[items[2]]]
    with parts.db.work() as tx:
        refunds = tx.execute(sa.select(ledger_moves).where(ledger_moves.c.kind == "refund")).all()
    assert refunds == []


def test_a_call_of_a_partner_is_taken_but_for_the_piece_in_the_mail(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    see(parts, inside(parts, batch_id)[2], "In Transit")
    pieces = [SpoiledPiece(position=2), SpoiledPiece(position=3)]
    word = Word("batch-000001", "printed", clock.now(), pieces)
    take_word(parts.db, parts.worlds["test"], word, now=clock.now())
    assert statuses(parts, batch_id) == ["Printed", "In Transit", "Failed"]


@pytest.mark.parametrize("name", ["position", "item_id"])
def test_a_person_is_told_which_piece_is_in_the_mail(
    parts: Parts, clock: Clock, batch_id: int, name: str
) -> None:
    items = inside(parts, batch_id)
    see(parts, items[2], "In Transit")
    second = Spoiled(position=2) if name == "position" else Spoiled(item_id=items[2])
    spoiled = [Spoiled(position=1), second]
    with pytest.raises(Invalid) as told:
        marks.mark(parts.db, batch_id, "spoiled", spoiled=spoiled, now=clock.now())
    assert told.value.fields == {
        f"spoiled.1.{name}": ["Piece 2 is in the mail already (In Transit): it cannot be spoiled."]
    }
    assert statuses(parts, batch_id) == ["Processing", "In Transit", "Processing"]


def test_a_spoiled_piece_of_another_batch_alone_acknowledges_nothing(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    progress = PrintProgress(spoiled={999_999: "Nobody's"})
    assert print_room_service.take_progress(parts.db, batch_id, progress, now=clock.now()) == [999_999]
    with parts.db.work() as tx:
        assert fulfillment_queries.read_batch(tx, batch_id).acknowledged_at is None


# Paper that is replaced


def reprint(parts: Parts, clock: Clock, batch_id: int, *positions: int) -> int:
    world = parts.worlds["test"]
    made = print_room_service.reprint(
        parts.db, world, batch_id, positions=positions, reason="Smudged", now=clock.now()
    )
    for step in (production.compose, production.hand_over):
        step(parts.press, made.batch_id, now=clock.now())
    return made.batch_id


def ticket(parts: Parts, batch_id: int, kind: str) -> bytes:
    return parts.shelf.store.get(f"print-jobs/test/batch-{batch_id:06}/ticket.{kind}")


def replaced(parts: Parts, batch_id: int) -> Any:
    return json.loads(ticket(parts, batch_id, "json"))["replaces"]


@pytest.mark.parametrize("name", ["position", "item_id"])
def test_a_person_is_told_where_the_piece_is_that_was_reprinted(
    parts: Parts, clock: Clock, batch_id: int, name: str
) -> None:
    items = inside(parts, batch_id)
    third = Spoiled(position=3) if name == "position" else Spoiled(item_id=items[3])
    spoiled = [Spoiled(position=1), third]
    newest = batch_id
    for position in (3, 1):  # the third of the first batch is the first of its own
        newest = reprint(parts, clock, newest, position)
        with pytest.raises(Invalid) as told:
            marks.mark(parts.db, batch_id, "printed", spoiled=spoiled, now=clock.now())
        assert told.value.fields == {
            f"spoiled.1.{name}": [f"Piece 3 was reprinted in batch-{newest:06}: mark it there."]
        }
    assert statuses(parts, batch_id) == ["Processing"] * 3
    marks.mark(parts.db, newest, "spoiled", spoiled=[Spoiled(position=1)], now=clock.now())
    assert statuses(parts, batch_id) == ["Processing", "Processing", "Failed"]


def test_a_piece_that_ended_before_it_was_printed_again_is_in_no_batch_to_mark(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    print_room_service.reprint(
        parts.db, parts.worlds["test"], batch_id, positions=[3], reason="Torn", now=clock.now()
    )
    see(parts, inside(parts, batch_id)[3], "Failed")
    production.compose(parts.press, batch_id + 1, now=clock.now())
    with pytest.raises(Invalid, match=r"^Piece 3 was to be reprinted, and has ended before \(Failed\)\.$"):
        marks.mark(parts.db, batch_id, "spoiled", spoiled=[Spoiled(position=3)], now=clock.now())


def test_a_call_of_a_partner_is_taken_but_for_the_piece_that_was_reprinted(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    items = inside(parts, batch_id)
    reprint(parts, clock, batch_id, 2)
    pieces = [SpoiledPiece(position=2), SpoiledPiece(position=3)]
    word = Word("batch-000001", "printed", clock.now(), pieces)
    with capture_logs() as logs:
        take_word(parts.db, parts.worlds["test"], word, now=clock.now())
    assert statuses(parts, batch_id) == ["Printed", "Processing", "Failed"]
    assert [line["items"] for line in logs if line["event"] == "batch.spoiled_when_void"] == [[items[2]]]


def test_a_mark_says_how_many_pieces_it_spoils(parts: Parts, clock: Clock, batch_id: int) -> None:
    items = inside(parts, batch_id)

    def spoil(*spoiled: Spoiled) -> tuple[int, int]:
        done = marks.mark(parts.db, batch_id, "spoiled", spoiled=spoiled, now=clock.now())
        return done.spoiled, done.passed_over

    assert spoil(Spoiled(position=1), Spoiled(item_id=items[1])) == (1, 0)
    assert spoil(Spoiled(position=1), Spoiled(position=2)) == (1, 1)
    assert spoil(Spoiled(position=1)) == (0, 1)


def test_a_reprint_says_which_pieces_it_leaves_out(parts: Parts, clock: Clock, owner: Caller) -> None:
    batch_id = composed_batch(parts, clock, owner, people(6))
    production.hand_over(parts.press, batch_id, now=clock.now())
    items = inside(parts, batch_id)
    anew = reprint(parts, clock, batch_id, 2, 5)
    for position, status in ((1, "Failed"), (3, "Re-routed"), (4, "Delivered"), (5, "In Transit")):
        see(parts, items[position], status)
    made = print_room_service.reprint(
        parts.db,
        parts.worlds["test"],
        batch_id,
        positions=[6, 1, 2, 3, 6, 1],
        item_ids=[items[4], items[5], items[6]],
        reason="Jam",
        now=clock.now(),
    )
    assert (made.pieces, list(inside(parts, made.batch_id).values())) == (1, [items[6]])
    assert [(piece.position, piece.item_id, piece.reason) for piece in made.left_out] == [
        (1, items[1], "Ended already (Failed)."),
        (2, items[2], f"Reprinted in batch-{anew:06}."),
        (3, items[3], "In the mail already (Re-routed)."),
        (4, items[4], "Ended already (Delivered)."),
        (5, items[5], "In the mail already (In Transit)."),
    ]


def test_the_ticket_of_a_reprint_says_which_paper_it_replaces(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    anew = reprint(parts, clock, batch_id, 3, 2)
    assert replaced(parts, batch_id) is None
    assert replaced(parts, anew) == {"reference": "batch-000001", "positions": [2, 3]}
    found = ET.fromstring(ticket(parts, anew, "xjdf")).findall("./{*}GeneralID")
    said = {each.attrib["IDUsage"]: each.attrib["IDValue"] for each in found}
    assert (said["ReprintOf"], said["ReplacesPositions"]) == ("batch-000001", "2-3")
    third = reprint(parts, clock, anew, 2)
    assert replaced(parts, third) == {"reference": f"batch-{anew:06}", "positions": [2]}


def test_a_batch_that_is_not_printed_yet_shows_what_is_void(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    anew = reprint(parts, clock, batch_id, 2, 3)
    with parts.db.work() as tx:
        batch = print_room_queries.read_batch_shown(tx, batch_id)
    assert (batch.batch.status, batch.void, batch.pieces) == ("handed", 2, {"Processing": 1})
    assert batch.reprints == [anew]


# Rushing


def test_an_order_whose_pieces_are_all_in_batches_is_not_rushed(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    pooled = place(parts, owner)
    sweep(parts, clock)
    waiting = place(parts, owner)
    rushed = print_room_service.rush(
        parts.db, "test", [pooled.id, waiting.id], operator_id=None, now=clock.now()
    )
    assert rushed == [waiting.id]
