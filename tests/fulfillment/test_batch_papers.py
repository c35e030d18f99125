"""What goes with a batch on paper, pieces that spoil once the carrier has seen them, reprints, and damaged pictures."""

import io
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from structlog.testing import capture_logs

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, ledger_moves
from quillpost.core.errors import Invalid, Unavailable
from quillpost.fulfillment.batches import rules
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.print_room import queries as print_room_queries
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room.reports import PartnerReport, SpoiledItem, record_partner_report
from quillpost.orders.models import Order
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.layout.templates import load_shipped_products
from support import production
from support.factories import Clock, people
from support.images import saved
from support.orders import create_order, item_rows, order_row
from support.production import batch_statuses, compose, hand_over, only_batch, reprint, sweep_due_orders
from support.rows import execute, run, run_as, scalar

pytestmark = pytest.mark.usefixtures("clean_database")

PIECES = load_shipped_products(None)
MADE = datetime(2026, 5, 4, 12, tzinfo=UTC)
FILES = [rules.TicketFile.of("print.pdf", b"pdf"), rules.TicketFile.of("manifest.csv", b"csv")]


def ticket(piece: str = "postcard-4x6", **changes: object) -> rules.JobTicket:
    values = {"reference": "batch-000007", "item_count": 4_999, "mail_class": "first", "files": FILES} | changes
    return rules.JobTicket(layout=PIECES[piece], created_at=MADE, **{"stock": PIECES[piece].stock} | values)  # type: ignore[arg-type]


def in_json(of: rules.JobTicket) -> dict[str, object]:
    return dict(json.loads(rules.build_ticket_files(of)["ticket.json"]))


def in_xjdf(of: rules.JobTicket) -> ET.Element:
    return ET.fromstring(rules.build_ticket_files(of)["ticket.xjdf"])


def one(root: ET.Element, path: str) -> dict[str, str]:
    """The attributes of the one element there."""
    [found] = root.findall(re.sub(r"/(?=\w)", "/{*}", path))
    return found.attrib


def test_both_tickets_say_what_to_print_and_name_every_file() -> None:
    assert in_json(ticket()) == {
        "reference": "batch-000007", "piece": "postcard-4x6", "product": "Postcard", "stock": "14 pt C2S",
        "pieces": 4_999, "mail_class": "first", "rush": False, "due": None, "made_at": "2026-05-04T12:00:00Z",
        "reprint_of": None, "replaces": None, "sheet_inches": [6.0, 4.0], "finished_inches": [6.0, 4.0],
        "printed_sides": 2, "envelope_inches": None,
        "files": [{"name": file.name, "size": 3, "sha256": file.sha256} for file in FILES],
    }  # fmt: skip
    root = in_xjdf(ticket())
    assert (root.tag, root.attrib["JobID"]) == (f"{{{rules.XJDF_NAMESPACE}}}XJDF", "batch-000007")
    product = one(root, "./ProductList/Product")
    assert (product["Amount"], product["ProductType"]) == ("4999", "Postcard")
    layout = one(root, ".//LayoutIntent")
    assert layout == {"Dimensions": "432 288", "FinishedDimensions": "432 288 0", "Sides": "TwoSided"}
    assert one(root, ".//Resource[@ID='stock']")["DescriptiveName"] == "14 pt C2S"
    assert one(root, "./GeneralID") == {"IDUsage": "MailClass", "IDValue": "first"}
    assert one(root, ".//NodeInfo") == {"Priority": "50"}
    named = [
        (
            resource.attrib["DescriptiveName"],
            resource.find("{*}GeneralID").attrib["IDValue"],  # type: ignore[union-attr]
            resource.find("{*}RunList/{*}FileSpec").attrib,  # type: ignore[union-attr]
        )
        for resource in in_xjdf(ticket()).findall("./{*}ResourceSet[@Name='RunList']/{*}Resource")
    ]
    assert named == [
        ("print.pdf", FILES[0].sha256, {"URL": "print.pdf", "MimeType": "application/pdf", "FileSize": "3"}),
        ("manifest.csv", FILES[1].sha256, {"URL": "manifest.csv", "MimeType": "text/csv", "FileSize": "3"}),
    ]


def test_a_reprint_is_rushed_and_names_what_it_replaces_as_ranges() -> None:
    rushed = ticket(rush=True, reprint_of="batch-000003")
    assert one(in_xjdf(rushed), ".//NodeInfo") == {"Priority": "90"}
    parsed = in_json(rushed)
    assert (parsed["rush"], parsed["reprint_of"], general_ids(rushed)["ReprintOf"]) == (True, *["batch-000003"] * 2)
    ranges = {(7,): "7", (2, 3): "2-3", (1, 2, 3, 7, 9, 10): "1-3 7 9-10", (): ""}
    for positions, text in ranges.items():
        again = ticket(reprint_of="batch-000001", replaced_positions=list(positions))
        assert in_json(again)["replaces"] == {"reference": "batch-000001", "positions": list(positions)}
        found = general_ids(again)
        assert (found["ReprintOf"], found["ReplacesPositions"]) == ("batch-000001", text)


def general_ids(of: rules.JobTicket) -> dict[str, str]:
    return {each.attrib["IDUsage"]: each.attrib["IDValue"] for each in in_xjdf(of).findall("./{*}GeneralID")}


def test_every_piece_has_its_ticket_that_no_stock_breaks() -> None:
    parsed, root = in_json(ticket("notecard")), in_xjdf(ticket("notecard"))
    assert (parsed["sheet_inches"], parsed["finished_inches"]) == ([8.5, 5.5], [4.25, 5.5])
    assert parsed["envelope_inches"] == [5.75, 4.375]
    intent = one(root, ".//LayoutIntent")
    assert (intent["Dimensions"], intent["FinishedDimensions"]) == ("612 396", "306 396 0")
    assert one(root, ".//Resource[@ID='envelope']/Media") == {"MediaType": "Envelope", "Dimension": "414 315"}
    for piece, layout in PIECES.items():
        assert rules.build_ticket_files(ticket(piece)) == rules.build_ticket_files(ticket(piece))
        sides = {1: "OneSided", 2: "TwoSided"}[len(layout.sides)]
        assert one(in_xjdf(ticket(piece)), ".//LayoutIntent")["Sides"] == sides
    odd = in_xjdf(ticket(stock='120 lb "cotton" <&> \x01\x0b'))
    assert one(odd, ".//Resource[@ID='stock']")["DescriptiveName"] == '120 lb "cotton" <&>   '


MAILER = "123456789"


def row(position: int, postal_code: str, *, country: str = "US") -> dict[str, object]:
    tracking = f"00310{MAILER}{position:06d}" if country == "US" else None
    return {"position": position, "postal_code": postal_code, "country": country, "tracking": tracking}


def of(rows: list[dict[str, object]], *, mailer_id: str | None = MAILER) -> dict[str, Any]:
    return rules.build_statement(
        rows, reference="batch-000007", product_name="postcard-4x6", mail_class="first", mailer_id=mailer_id,
        indicia=["FIRST-CLASS", "PERMIT 1"], created_at=MADE,
    )  # fmt: skip


def test_the_statement_sums_up_what_goes_to_the_post() -> None:
    rows = [row(1, "10001"), row(2, "10002-0003"), row(3, "78701"), row(4, "H0H 0H0", country="CA")]
    assert of(rows) == {
        "reference": "batch-000007",
        "made_at": "2026-05-04T12:00:00Z",
        "piece": "postcard-4x6",
        "mail_class": "first",
        "mailer_id": MAILER,
        "indicia": ["FIRST-CLASS", "PERMIT 1"],
        "pieces": 4,
        "with_barcode": 3,
        "without_barcode": 1,
        "domestic": 3,
        "abroad": 1,
        "serials": {"first": "000001", "last": "000003"},
        "by_zip3": [
            {"zip3": "100", "pieces": 2, "first_position": 1, "last_position": 2},
            {"zip3": "787", "pieces": 1, "first_position": 3, "last_position": 3},
        ],
        "by_country": {"CA": 1},
    }
    found = of([row(1, "SW1A 1AA", country="GB")], mailer_id=None)
    assert (found["serials"], found["mailer_id"], found["by_zip3"]) == (None, None, [])
    short = of([{"tracking": "00310" + "999999" + "000000042", "country": "US"}], mailer_id="999999")
    assert short["serials"] == {"first": "000000042", "last": "000000042"}
    [group] = of([{"country": "US", "postal_code": "10001"}] * 2)["by_zip3"]
    assert (group["first_position"], group["last_position"]) == (1, 2)


@given(
    st.lists(
        st.tuples(st.from_regex(r"[0-9]{5}", fullmatch=True), st.sampled_from(["US", "US", "CA", "GB"])), max_size=50
    )
)
def test_every_piece_is_counted_once(pieces: list[tuple[str, str]]) -> None:
    rows = [row(place, code, country=country) for place, (code, country) in enumerate(sorted(pieces), 1)]
    found = json.loads(rules.statement_to_json(of(rows)))
    groups = found["by_zip3"]
    assert found["pieces"] == len(rows) == found["domestic"] + found["abroad"]
    assert found["with_barcode"] + found["without_barcode"] == len(rows)
    assert sum(group["pieces"] for group in groups) == found["domestic"]
    assert sum(found["by_country"].values()) == found["abroad"]
    places = [group[end] for group in groups for end in ("first_position", "last_position")]
    assert places == sorted(places)


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


RED = saved(Image.new("RGB", (1875, 1275), "red"), "PNG")


def put(container: Container, caller: Caller, data: bytes) -> sa.ColumnElement[object]:
    """A picture on the shelf as it is; its file's id."""
    storage, now, account_id = container.storage, container.clock(), caller.account_id
    kept = storage.put(data, purpose="creative", content_type="image/png", now=now)
    run_as(container, caller, storage.record_file, kept, account_id=account_id, sub_account_id=None, now=now)
    return sa.literal(kept.id)


def compose_all(container: Container, clock: Clock) -> list[Image.Image]:
    """Everything that is due as one batch; its pages."""
    sweep_due_orders(container, clock)
    batch_id = compose(container, only_batch(container).id)
    drawn = container.storage.store.get(f"batches/{batch_id}/print.pdf")
    return [Image.open(io.BytesIO(page)).convert("RGB") for page in rasterize_pages(drawn, dpi=20)]


def is_reddish(page: Image.Image) -> bool:
    pixel = page.getpixel((page.width // 2, page.height // 2))
    assert isinstance(pixel, tuple)
    red, green, blue = pixel
    return red > 180 and max(green, blue) < 80


def test_one_damaged_picture_sets_its_own_order_aside_alone(container: Container, clock: Clock, caller: Caller) -> None:
    damaged, sound = create_order(container, caller, people(3)), create_order(container, caller, people(2))
    red, junk = put(container, caller, RED), put(container, caller, b"junk")
    give_pictures(container, damaged, [red, junk, red])
    give_pictures(container, sound, [red, red])
    pages = compose_all(container, clock)
    assert [is_reddish(page) for page in pages] == [True, False] * 2
    assert {(row.status, row.failure) for row in item_rows(container, damaged)} == {("Failed", NOT_COMPOSABLE)}
    assert {row.status for row in item_rows(container, sound)} == {"Processing"}
    assert order_row(container, sound).status == "processing"


def give_pictures(container: Container, order: Order, files: Sequence[sa.ColumnElement[object]]) -> None:
    for row, file in zip(item_rows(container, order), files, strict=True):
        execute(container, sa.update(items).where(items.c.id == row.id).values(front_file_id=file))


def test_files_that_pieces_need_cannot_be_removed_and_are_not_made_again_without_a_lost_picture(
    container: Container, clock: Clock, caller: Caller
) -> None:
    give_pictures(container, create_order(container, caller), [put(container, caller, RED)])
    with pytest.raises(sa.exc.IntegrityError):
        execute(container, "delete from files")
    compose_all(container, clock)
    container.storage.store.delete(scalar(container, "select key from files"))
    with pytest.raises(Unavailable, match="Bring it back from a backup"):
        batch_tasks.remake_files(container.production, only_batch(container).id)
