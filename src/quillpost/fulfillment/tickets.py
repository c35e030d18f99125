"""A batch's job ticket and its mailing statement."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import PurePosixPath
from typing import Self
from xml.etree import ElementTree as ET

from quillpost.core.clock import iso
from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.layout.products import Piece

XJDF = "http://www.CIP4.org/JDFSchema_2_0"
TICKET_JSON, TICKET_XJDF = "ticket.json", "ticket.xjdf"
ORDINARY, RUSH = "50", "90"
"""Priorities of XJDF, of 0 to 100."""

MIME_TYPES = {".pdf": "application/pdf", ".csv": "text/csv", ".json": "application/json"}


Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TicketFile:
    """A file of the job; the digest in hexadecimal."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, data: bytes) -> Self:
        return cls(name, len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTicket:
    """Sizes in inches: of the trimmed sheet as it lies flat, of the piece once it is folded, of the envelope.

    `files` are all but the tickets themselves. `reprint_of` is the reference of the batch whose pieces are
    printed again, and `replaces` where in it they lie: that paper is thrown away.
    """

    reference: str
    piece: str
    product: str
    stock: str
    pieces: int
    mail_class: str
    sheet: Size
    finished: Size
    printed_sides: int
    files: Sequence[TicketFile]
    made_at: datetime
    rush: bool = False
    due: datetime | None = None
    envelope: Size | None = None
    reprint_of: str | None = None
    replaces: Sequence[int] = ()


def job_ticket(
    piece: Piece,
    *,
    reference: str,
    pieces: int,
    mail_class: str,
    files: Sequence[TicketFile],
    made_at: datetime,
    stock: str | None = None,
    rush: bool = False,
    due: datetime | None = None,
    reprint_of: str | None = None,
    replaces: Sequence[int] = (),
) -> JobTicket:
    """The ticket of a batch of this piece; on its own stock where there is no other."""
    first, envelope = piece.sides[0], piece.envelope
    return JobTicket(
        reference=reference,
        piece=piece.name,
        product=piece.product,
        stock=stock or piece.stock,
        pieces=pieces,
        mail_class=mail_class,
        sheet=_inches(first.trim),
        finished=_inches(first.shown),
        printed_sides=min(len(piece.sides), 2),
        files=files,
        made_at=made_at,
        rush=rush,
        due=due,
        envelope=None if envelope is None else _inches(envelope.trim),
        reprint_of=reprint_of,
        replaces=replaces,
    )


def ticket_files(ticket: JobTicket) -> dict[str, bytes]:
    """The same ticket in both forms; the same bytes each time."""
    return {
        TICKET_XJDF: ticket_xjdf(ticket),
        TICKET_JSON: json.dumps(ticket_dict(ticket), ensure_ascii=False, indent=1).encode(),
    }


def ticket_dict(ticket: JobTicket) -> dict[str, object]:
    return {
        "reference": ticket.reference,
        "piece": ticket.piece,
        "product": ticket.product,
        "stock": ticket.stock,
        "pieces": ticket.pieces,
        "mail_class": ticket.mail_class,
        "rush": ticket.rush,
        "due": iso(ticket.due),
        "made_at": iso(ticket.made_at),
        "reprint_of": ticket.reprint_of,
        "replaces": _replaces(ticket),
        "sheet_inches": list(ticket.sheet),
        "finished_inches": list(ticket.finished),
        "printed_sides": ticket.printed_sides,
        "envelope_inches": None if ticket.envelope is None else list(ticket.envelope),
        "files": [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in ticket.files],
    }


def _replaces(ticket: JobTicket) -> dict[str, object] | None:
    if ticket.reprint_of is None:
        return None
    return {"reference": ticket.reprint_of, "positions": list(ticket.replaces)}


def ranges(positions: Sequence[int]) -> str:
    """Ascending positions as a person reads them: 2-5 9."""
    runs = list[list[int]]()
    for position in positions:
        if runs and position == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], position]
        else:
            runs.append([position])
    return " ".join("-".join(map(str, run)) for run in runs)


def ticket_xjdf(ticket: JobTicket) -> bytes:
    root = ET.Element(
        "XJDF", {"xmlns": XJDF, "Version": "2.1", "JobID": ticket.reference, "Types": "Product"}
    )
    _general(root, "MailClass", ticket.mail_class)
    if ticket.reprint_of is not None:
        _general(root, "ReprintOf", ticket.reprint_of)
        _general(root, "ReplacesPositions", ranges(ticket.replaces))
    _products(root, ticket)
    _schedule(root, ticket)
    _media(root, ticket)
    _run_lists(root, ticket)
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _products(root: ET.Element, ticket: JobTicket) -> None:
    product = _add(
        _add(root, "ProductList"),
        "Product",
        ID=ticket.piece,
        IsRoot="true",
        ProductType=ticket.product,
        Amount=str(ticket.pieces),
    )
    _add(
        _add(product, "Intent", Name="LayoutIntent"),
        "LayoutIntent",
        Dimensions=_points(ticket.sheet),
        FinishedDimensions=f"{_points(ticket.finished)} 0",
        Sides="TwoSided" if ticket.printed_sides == 2 else "OneSided",
    )
    _add(_add(product, "Intent", Name="MediaIntent"), "MediaIntent", MediaType="Paper")
    delivery = _add(_add(product, "Intent", Name="DeliveryIntent"), "DeliveryIntent")
    _add(delivery, "DropIntent", Method="Mail")


def _schedule(root: ET.Element, ticket: JobTicket) -> None:
    times = {} if ticket.due is None else {"LastEnd": iso(ticket.due)}
    node = _add(_resource_set(root, "NodeInfo"), "Resource")
    _add(node, "NodeInfo", Priority=RUSH if ticket.rush else ORDINARY, **times)


def _media(root: ET.Element, ticket: JobTicket) -> None:
    stocks = _resource_set(root, "Media")
    paper = _add(stocks, "Resource", ID="stock", DescriptiveName=ticket.stock)
    _add(paper, "Media", MediaType="Paper")
    if ticket.envelope is not None:
        envelope = _add(stocks, "Resource", ID="envelope", DescriptiveName="Envelope")
        _add(envelope, "Media", MediaType="Envelope", Dimension=_points(ticket.envelope))


def _run_lists(root: ET.Element, ticket: JobTicket) -> None:
    files = _resource_set(root, "RunList")
    for file in ticket.files:
        resource = _add(files, "Resource", DescriptiveName=file.name)
        _general(resource, "SHA-256", file.sha256)
        kind = MIME_TYPES.get(PurePosixPath(file.name).suffix, "application/octet-stream")
        run = _add(resource, "RunList")
        _add(run, "FileSpec", URL=file.name, MimeType=kind, FileSize=str(file.size))


def _resource_set(root: ET.Element, name: str) -> ET.Element:
    return _add(root, "ResourceSet", Name=name, Usage="Input")


def _general(parent: ET.Element, usage: str, value: str) -> None:
    """What XJDF has no attribute for stands under a name of its own."""
    _add(parent, "GeneralID", IDUsage=usage, IDValue=value)


def _add(parent: ET.Element, name: str, /, **attributes: str) -> ET.Element:
    return ET.SubElement(parent, name, _written(attributes))


def _written(attributes: Mapping[str, str]) -> dict[str, str]:
    """XML has no place for control characters, which a stock of an operator's own could hold."""
    return {
        name: "".join(letter if letter.isprintable() else " " for letter in value)
        for name, value in attributes.items()
    }


def _inches(box: Box) -> Size:
    return round(box.width / INCH, 4), round(box.height / INCH, 4)


def _points(size: Size) -> str:
    return " ".join(f"{length * INCH:g}" for length in size)


MAILER_DIGITS = slice(5, None)
"""Where the mailer id starts in a tracking code: after the barcode id and the service type."""

ZIP3 = 3


@dataclass(frozen=True, slots=True)
class _Piece:
    position: int
    tracking: str | None
    country: str
    postal_code: str

    @property
    def zip3(self) -> str | None:
        """The start of the ZIP code, by which trays are made; None outside the US."""
        return self.postal_code[:ZIP3] if self.country == "US" else None


def statement(
    rows: Sequence[Mapping[str, object]],
    *,
    reference: str,
    piece: str,
    mail_class: str,
    mailer_id: str | None,
    indicia: Sequence[str],
    made_at: datetime,
) -> dict[str, object]:
    """From the rows of the manifest, in the order in which they are printed."""
    pieces = [_read(place, row) for place, row in enumerate(rows, start=1)]
    barcodes = [each.tracking for each in pieces if each.tracking]
    domestic = sum(each.zip3 is not None for each in pieces)
    return {
        "reference": reference,
        "made_at": iso(made_at),
        "piece": piece,
        "mail_class": mail_class,
        "mailer_id": mailer_id or None,
        "indicia": list(indicia),
        "pieces": len(pieces),
        "with_barcode": len(barcodes),
        "without_barcode": len(pieces) - len(barcodes),
        "domestic": domestic,
        "abroad": len(pieces) - domestic,
        "serials": _serials(barcodes, mailer_id),
        "by_zip3": list(_zip_groups(pieces)),
        "by_country": _counted(each.country for each in pieces if each.zip3 is None),
    }


def statement_json(summary: Mapping[str, object]) -> bytes:
    return json.dumps(summary, ensure_ascii=False, indent=1).encode()


def _read(place: int, row: Mapping[str, object]) -> _Piece:
    position = row.get("position")
    return _Piece(
        place if position is None else int(str(position)),
        str(row["tracking"]) if row.get("tracking") else None,
        str(row.get("country") or ""),
        str(row.get("postal_code") or ""),
    )


def _serials(barcodes: Sequence[str], mailer_id: str | None) -> dict[str, str] | None:
    """The first and the last as printed: a count that passed its last digit goes on from zero."""
    if not barcodes:
        return None
    start = MAILER_DIGITS.start + len(mailer_id or "")
    return {"first": barcodes[0][start:], "last": barcodes[-1][start:]}


def _zip_groups(pieces: Sequence[_Piece]) -> Iterator[dict[str, object]]:
    """As they lie: where the order of the press parts a ZIP, it is here twice."""
    for zip3, group in groupby(pieces, key=lambda each: each.zip3):
        if zip3 is not None:
            inside = list(group)
            yield {
                "zip3": zip3,
                "pieces": len(inside),
                "first_position": inside[0].position,
                "last_position": inside[-1].position,
            }


def _counted(names: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))
