"""The mailing statement of a batch, summed up for whoever takes it to the post."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from quillpost.kit.times import iso

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
