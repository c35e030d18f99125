"""What goes with a batch on paper: the tickets of its job and the statement for the post."""

import json
import re
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from quillpost.fulfillment.batches import rules
from quillpost.rendering.layout.templates import load_shipped_products

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
