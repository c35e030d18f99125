"""How items become batches, the numbers in barcodes, job tickets and mailing statements."""

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import groupby
from pathlib import PurePosixPath
from typing import Self
from xml.etree import ElementTree as ET

from quillpost.core.text import format_iso
from quillpost.rendering.layout.models import ProductLayout
from quillpost.rendering.models import INCH, Box

MAX_BATCH_ITEMS = 5_000
MAX_BATCH_BYTES = 64_000_000  # of images; a batch may exceed it by those of one design

SERVICE_TYPES: Mapping[str, str] = {"first": "310", "standard": "311"}
FULL_SERVICE_TYPES: Mapping[str, str] = {"first": "270", "standard": "271"}  # by class; codes for mail with tracing
SERIAL_REUSE_AFTER = timedelta(days=45)  # after mailing, when a barcode may be used again
SECRET_FILES_NOTE = "secret-files.txt"  # stands for secret files in job folders of our own store
UNDELIVERABLE_NAME = "Test Undeliverable"  # fails the review in testing mode
MANIFEST_COLUMNS = (
    "position", "item_id", "order_id", "first_page", "last_page", "envelope_page", "tracking",
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
)  # fmt: skip


def batch_reference(batch_id: int) -> str:
    return f"batch-{batch_id:06d}"


def download_name(batch_id: int, file_name: str) -> str:
    return f"{batch_reference(batch_id)}-{file_name}"


def parse_batch_reference(name: str) -> int | None:
    match = re.fullmatch(r"batch-(\d{6,18})", name, re.ASCII)
    return int(match[1]) if match and batch_reference(int(match[1])) == name else None


def count_serial_digits(mailer_id: str) -> int:
    """Of 15 digits that mailer id and serial share."""
    return 15 - len(mailer_id)


def next_cutoff(now: datetime, cutoff: time | None, zone: tzinfo) -> datetime:
    """When items that are ready now are pooled: at once, or at the cutoff today or tomorrow."""
    if cutoff is None:
        return now
    local_now = now.astimezone(zone)
    cutoff_today = datetime.combine(local_now.date(), cutoff, zone)
    day = local_now.date() if cutoff_today >= local_now else local_now.date() + timedelta(days=1)
    return datetime.combine(day, cutoff, zone).astimezone(UTC)


def build_manifest_csv(rows: Sequence[Mapping[str, object]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, MANIFEST_COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({name: _escape_formula(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


def build_manifest_json(rows: Sequence[Mapping[str, object]]) -> bytes:
    return json.dumps({"pieces": list(rows)}, ensure_ascii=False, indent=1).encode()


def _escape_formula(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


XJDF_NAMESPACE = "http://www.CIP4.org/JDFSchema_2_0"
TICKET_JSON, TICKET_XJDF = "ticket.json", "ticket.xjdf"
NORMAL_PRIORITY, RUSH_PRIORITY = "50", "90"  # of 0 to 100, in XJDF
MIME_TYPES = {".pdf": "application/pdf", ".csv": "text/csv", ".json": "application/json"}
SizeInInches = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TicketFile:
    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, data: bytes) -> Self:
        return cls(name, len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTicket:
    """`files` excludes the tickets. `replaced_positions` are those in the batch `reprint_of`: that paper is thrown
    away."""

    layout: ProductLayout
    reference: str
    stock: str
    item_count: int
    mail_class: str
    files: Sequence[TicketFile]
    created_at: datetime
    rush: bool = False
    reprint_of: str | None = None
    replaced_positions: Sequence[int] = ()

    @property
    def sheet_size(self) -> SizeInInches:
        return _to_inches(self.layout.sides[0].trim)

    @property
    def finished_size(self) -> SizeInInches:
        return _to_inches(self.layout.sides[0].preview_area)

    @property
    def envelope_size(self) -> SizeInInches | None:
        return None if self.layout.envelope is None else _to_inches(self.layout.envelope.trim)

    @property
    def printed_sides(self) -> int:
        return min(len(self.layout.sides), 2)


def build_ticket_files(ticket: JobTicket) -> dict[str, bytes]:
    """The ticket as XJDF and as JSON; the same bytes each time."""
    return {
        TICKET_XJDF: ticket_to_xjdf(ticket),
        TICKET_JSON: json.dumps(ticket_to_dict(ticket), ensure_ascii=False, indent=1).encode(),
    }


def ticket_to_dict(ticket: JobTicket) -> dict[str, object]:
    return {
        "reference": ticket.reference,
        "piece": ticket.layout.name,
        "product": ticket.layout.product,
        "stock": ticket.stock,
        "pieces": ticket.item_count,
        "mail_class": ticket.mail_class,
        "rush": ticket.rush,
        "due": None,
        "made_at": format_iso(ticket.created_at),
        "reprint_of": ticket.reprint_of,
        "replaces": ticket.reprint_of
        and {"reference": ticket.reprint_of, "positions": list(ticket.replaced_positions)},
        "sheet_inches": list(ticket.sheet_size),
        "finished_inches": list(ticket.finished_size),
        "printed_sides": ticket.printed_sides,
        "envelope_inches": None if ticket.envelope_size is None else list(ticket.envelope_size),
        "files": [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in ticket.files],
    }


def format_ranges(positions: Sequence[int]) -> str:
    """Ascending positions as a person reads them: 2-5 9."""
    runs = list[list[int]]()
    for position in positions:
        if runs and position == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], position]
        else:
            runs.append([position])
    return " ".join("-".join(map(str, run)) for run in runs)


def ticket_to_xjdf(ticket: JobTicket) -> bytes:
    root = ET.Element(
        "XJDF", {"xmlns": XJDF_NAMESPACE, "Version": "2.1", "JobID": ticket.reference, "Types": "Product"}
    )
    _add_general_id(root, "MailClass", ticket.mail_class)
    if ticket.reprint_of is not None:
        _add_general_id(root, "ReprintOf", ticket.reprint_of)
        _add_general_id(root, "ReplacesPositions", format_ranges(ticket.replaced_positions))
    _add_products(root, ticket)
    node = _add_element(_add_resource_set(root, "NodeInfo"), "Resource")
    _add_element(node, "NodeInfo", Priority=RUSH_PRIORITY if ticket.rush else NORMAL_PRIORITY)
    _add_media(root, ticket)
    _add_run_lists(root, ticket)
    ET.indent(root)
    xml: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _add_products(root: ET.Element, ticket: JobTicket) -> None:
    product = _add_element(
        _add_element(root, "ProductList"),
        "Product",
        ID=ticket.layout.name,
        IsRoot="true",
        ProductType=ticket.layout.product,
        Amount=str(ticket.item_count),
    )
    _add_element(
        _add_element(product, "Intent", Name="LayoutIntent"),
        "LayoutIntent",
        Dimensions=_to_points(ticket.sheet_size),
        FinishedDimensions=f"{_to_points(ticket.finished_size)} 0",
        Sides="TwoSided" if ticket.printed_sides == 2 else "OneSided",
    )
    _add_element(_add_element(product, "Intent", Name="MediaIntent"), "MediaIntent", MediaType="Paper")
    delivery = _add_element(_add_element(product, "Intent", Name="DeliveryIntent"), "DeliveryIntent")
    _add_element(delivery, "DropIntent", Method="Mail")


def _add_media(root: ET.Element, ticket: JobTicket) -> None:
    stocks = _add_resource_set(root, "Media")
    paper = _add_element(stocks, "Resource", ID="stock", DescriptiveName=ticket.stock)
    _add_element(paper, "Media", MediaType="Paper")
    if ticket.envelope_size is not None:
        envelope = _add_element(stocks, "Resource", ID="envelope", DescriptiveName="Envelope")
        _add_element(envelope, "Media", MediaType="Envelope", Dimension=_to_points(ticket.envelope_size))


def _add_run_lists(root: ET.Element, ticket: JobTicket) -> None:
    files = _add_resource_set(root, "RunList")
    for file in ticket.files:
        resource = _add_element(files, "Resource", DescriptiveName=file.name)
        _add_general_id(resource, "SHA-256", file.sha256)
        mime_type = MIME_TYPES.get(PurePosixPath(file.name).suffix, "application/octet-stream")
        run_list = _add_element(resource, "RunList")
        _add_element(run_list, "FileSpec", URL=file.name, MimeType=mime_type, FileSize=str(file.size))


def _add_resource_set(root: ET.Element, name: str) -> ET.Element:
    return _add_element(root, "ResourceSet", Name=name, Usage="Input")


def _add_general_id(parent: ET.Element, usage: str, value: str) -> None:
    """For what XJDF has no attribute for."""
    _add_element(parent, "GeneralID", IDUsage=usage, IDValue=value)


def _add_element(parent: ET.Element, name: str, /, **attributes: str) -> ET.Element:
    # XML allows no control characters, which an operator's stock name could hold.
    printable = {
        key: "".join(char if char.isprintable() else " " for char in value) for key, value in attributes.items()
    }
    return ET.SubElement(parent, name, printable)


def _to_inches(box: Box) -> SizeInInches:
    return round(box.width / INCH, 4), round(box.height / INCH, 4)


def _to_points(size: SizeInInches) -> str:
    return " ".join(f"{length * INCH:g}" for length in size)


MAILER_ID_SLICE = slice(5, None)  # of a tracking code, after barcode id and service type
ZIP3_LENGTH = 3


@dataclass(frozen=True, slots=True)
class _StatementItem:
    position: int
    tracking: str | None
    country: str
    postal_code: str

    @property
    def zip3(self) -> str | None:
        """The start of the ZIP code, by which trays are made; None outside the US."""
        return self.postal_code[:ZIP3_LENGTH] if self.country == "US" else None


def build_statement(
    rows: Sequence[Mapping[str, object]],
    *,
    reference: str,
    product_name: str,
    mail_class: str,
    mailer_id: str | None,
    indicia: Sequence[str],
    created_at: datetime,
) -> dict[str, object]:
    """From the rows of the manifest, in print order."""
    statement_items = [_read_item(index, row) for index, row in enumerate(rows, start=1)]
    barcodes = [item.tracking for item in statement_items if item.tracking]
    domestic_count = sum(item.zip3 is not None for item in statement_items)
    return {
        "reference": reference,
        "made_at": format_iso(created_at),
        "piece": product_name,
        "mail_class": mail_class,
        "mailer_id": mailer_id or None,
        "indicia": list(indicia),
        "pieces": len(statement_items),
        "with_barcode": len(barcodes),
        "without_barcode": len(statement_items) - len(barcodes),
        "domestic": domestic_count,
        "abroad": len(statement_items) - domestic_count,
        "serials": _first_and_last_serial(barcodes, mailer_id),
        "by_zip3": list(_group_by_zip3(statement_items)),
        "by_country": dict(sorted(Counter(item.country for item in statement_items if item.zip3 is None).items())),
    }


def statement_to_json(summary: Mapping[str, object]) -> bytes:
    return json.dumps(summary, ensure_ascii=False, indent=1).encode()


def _read_item(index: int, row: Mapping[str, object]) -> _StatementItem:
    position = row.get("position")
    return _StatementItem(
        index if position is None else int(str(position)),
        str(row["tracking"]) if row.get("tracking") else None,
        str(row.get("country") or ""),
        str(row.get("postal_code") or ""),
    )


def _first_and_last_serial(barcodes: Sequence[str], mailer_id: str | None) -> dict[str, str] | None:
    """As printed: a serial that passed its last digit goes on from zero."""
    if not barcodes:
        return None
    start = MAILER_ID_SLICE.start + len(mailer_id or "")
    return {"first": barcodes[0][start:], "last": barcodes[-1][start:]}


def _group_by_zip3(statement_items: Sequence[_StatementItem]) -> Iterator[dict[str, object]]:
    """In print order, so a ZIP may occur twice."""
    for zip3, group in groupby(statement_items, key=lambda each: each.zip3):
        if zip3 is not None:
            group_items = list(group)
            yield {
                "zip3": zip3,
                "pieces": len(group_items),
                "first_position": group_items[0].position,
                "last_position": group_items[-1].position,
            }
