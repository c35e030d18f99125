"""A batch's ticket says the same in JSON and in the manner of XJDF."""

import json
import re
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from quillpost.fulfillment.batches.rules import XJDF_NAMESPACE, JobTicket, TicketFile, build_ticket_files
from quillpost.rendering.layout.templates import load_shipped_products

PIECES = load_shipped_products(None)
MADE = datetime(2026, 5, 4, 12, tzinfo=UTC)
FILES = [TicketFile.of("print.pdf", b"pdf"), TicketFile.of("manifest.csv", b"csv")]


def ticket(piece: str = "postcard-4x6", **changes: object) -> JobTicket:
    values = {"reference": "batch-000007", "item_count": 4_999, "mail_class": "first", "files": FILES} | changes
    return JobTicket(layout=PIECES[piece], created_at=MADE, **{"stock": PIECES[piece].stock} | values)  # type: ignore[arg-type]


def in_json(of: JobTicket) -> dict[str, object]:
    return dict(json.loads(build_ticket_files(of)["ticket.json"]))


def in_xjdf(of: JobTicket) -> ET.Element:
    return ET.fromstring(build_ticket_files(of)["ticket.xjdf"])


def one(root: ET.Element, path: str) -> dict[str, str]:
    """The attributes of the one element there."""
    [found] = root.findall(re.sub(r"/(?=\w)", "/{*}", path))
    return found.attrib


def test_the_json_ticket_says_what_to_print() -> None:
    assert in_json(ticket()) == {
        "reference": "batch-000007",
        "piece": "postcard-4x6",
        "product": "Postcard",
        "stock": "14 pt C2S",
        "pieces": 4_999,
        "mail_class": "first",
        "rush": False,
        "due": None,
        "made_at": "2026-05-04T12:00:00Z",
        "reprint_of": None,
        "replaces": None,
        "sheet_inches": [6.0, 4.0],
        "finished_inches": [6.0, 4.0],
        "printed_sides": 2,
        "envelope_inches": None,
        "files": [{"name": file.name, "size": 3, "sha256": file.sha256} for file in FILES],
    }


def test_the_xjdf_ticket_says_the_same() -> None:
    root = in_xjdf(ticket())
    assert (root.tag, root.attrib["JobID"]) == (f"{{{XJDF_NAMESPACE}}}XJDF", "batch-000007")
    product = one(root, "./ProductList/Product")
    assert (product["Amount"], product["ProductType"]) == ("4999", "Postcard")
    layout = one(root, ".//LayoutIntent")
    assert layout == {"Dimensions": "432 288", "FinishedDimensions": "432 288 0", "Sides": "TwoSided"}
    assert root.find(".//{*}Resource[@ID='stock']").attrib["DescriptiveName"] == "14 pt C2S"  # type: ignore[union-attr]
    assert one(root, "./GeneralID") == {"IDUsage": "MailClass", "IDValue": "first"}
    assert one(root, ".//NodeInfo") == {"Priority": "50"}


def test_every_file_is_named_with_its_size_and_digest() -> None:
    root = in_xjdf(ticket())
    named = [
        (
            resource.attrib["DescriptiveName"],
            resource.find("{*}GeneralID").attrib["IDValue"],  # type: ignore[union-attr]
            resource.find("{*}RunList/{*}FileSpec").attrib,  # type: ignore[union-attr]
        )
        for resource in root.findall("./{*}ResourceSet[@Name='RunList']/{*}Resource")
    ]
    assert named == [
        ("print.pdf", FILES[0].sha256, {"URL": "print.pdf", "MimeType": "application/pdf", "FileSize": "3"}),
        ("manifest.csv", FILES[1].sha256, {"URL": "manifest.csv", "MimeType": "text/csv", "FileSize": "3"}),
    ]


def test_a_rush_is_before_others() -> None:
    rushed = ticket(rush=True, reprint_of="batch-000003")
    assert one(in_xjdf(rushed), ".//NodeInfo") == {"Priority": "90"}
    parsed = in_json(rushed)
    assert (parsed["rush"], parsed["reprint_of"]) == (True, "batch-000003")
    usages = {each.attrib["IDUsage"]: each.attrib["IDValue"] for each in in_xjdf(rushed).findall("{*}GeneralID")}
    assert usages["ReprintOf"] == "batch-000003"


def test_a_folded_card_has_a_flat_and_a_finished_size_and_an_envelope() -> None:
    parsed = in_json(ticket("notecard"))
    assert (parsed["sheet_inches"], parsed["finished_inches"]) == ([8.5, 5.5], [4.25, 5.5])
    assert parsed["envelope_inches"] == [5.75, 4.375]
    layout = one(in_xjdf(ticket("notecard")), ".//LayoutIntent")
    assert (layout["Dimensions"], layout["FinishedDimensions"]) == ("612 396", "306 396 0")
    media = in_xjdf(ticket("notecard")).find(".//{*}Resource[@ID='envelope']/{*}Media")
    assert media is not None
    assert media.attrib == {"MediaType": "Envelope", "Dimension": "414 315"}


@pytest.mark.parametrize("piece", PIECES)
def test_every_piece_has_a_ticket_and_always_the_same(piece: str) -> None:
    assert build_ticket_files(ticket(piece)) == build_ticket_files(ticket(piece))
    sides = {1: "OneSided", 2: "TwoSided"}[len(PIECES[piece].sides)]
    assert one(in_xjdf(ticket(piece)), ".//LayoutIntent")["Sides"] == sides


def test_a_stock_of_the_operators_own_cannot_break_the_xml() -> None:
    odd = ticket(stock='120 lb "cotton" <&> \x01\x0b')
    stock = in_xjdf(odd).find(".//{*}Resource[@ID='stock']")
    assert stock is not None
    assert stock.attrib["DescriptiveName"] == '120 lb "cotton" <&>   '


@pytest.mark.parametrize(
    ("positions", "ranges"), [([7], "7"), ([2, 3], "2-3"), ([1, 2, 3, 7, 9, 10], "1-3 7 9-10"), ([], "")]
)
def test_replaced_positions_are_listed_as_ranges(positions: list[int], ranges: str) -> None:
    again = ticket(reprint_of="batch-000001", replaced_positions=positions)
    assert in_json(again)["replaces"] == {"reference": "batch-000001", "positions": positions}
    general = {each.attrib["IDUsage"]: each.attrib["IDValue"] for each in in_xjdf(again).findall("./{*}GeneralID")}
    assert (general["ReprintOf"], general["ReplacesPositions"]) == ("batch-000001", ranges)
