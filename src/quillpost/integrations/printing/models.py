"""A print job as files in a folder, and what a printer reports of it.

All files of a job lie under its reference, `ticket.json` last, so a folder with a ticket is whole. Whoever
prints it says how far it is by marks beside them: `acknowledged.json`, `printed.json`, which may name spoiled
pieces, and `mailed.json`. A mark that cannot be read is trouble that the print room sees; the job waits.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from quillpost.core import exact_json
from quillpost.core.ports import FileMissing
from quillpost.core.tokens import hide_secrets
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.integrations.folders.models import OpenPlace, Place, PlaceDown, TooLarge

LARGEST_MARK = 2_000_000
"""Bytes: a whole batch spoiled, with a long reason for each piece."""

EARLY = timedelta(days=1)
"""Clocks differ, and people write local times; what lies further ahead is a slip."""

LARGEST_ID = 2**63 - 1
LONGEST_REASON = 200
EXAMPLE = '{"at": "2026-05-04T12:00:00Z"}'


def read_object(data: bytes, *, source: str) -> dict[str, Any]:
    """The JSON object, or `PartnerDown` with a sentence that names the source."""
    try:
        found = exact_json.read(data)
    except exact_json.NotJson as wrong:
        raise _unusable(source, str(wrong)) from None
    if not isinstance(found, dict):
        raise _unusable(source, f"It must be an object such as {EXAMPLE}.")
    return found


def read_moment(value: object, *, now: datetime, source: str) -> datetime:
    """A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise _unusable(source, f"It must say when, as in {EXAMPLE}.")
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if not datetime.min.replace(tzinfo=UTC) + EARLY < moment <= now + EARLY:
        raise _unusable(source, "Its time lies in the future.")
    return moment.astimezone(UTC)


def read_spoiled(value: object, *, source: str) -> dict[int, str]:
    """`{"17": "Torn"}` or `[{"item_id": 17, "reason": "Torn"}]`: the reason by the item's id."""
    if value is None:
        return {}
    try:
        return dict(_spoiled(value))
    except (ValueError, KeyError, TypeError, AttributeError):
        example = '{"17": "Torn"} or [{"item_id": 17, "reason": "Torn"}]'
        raise _unusable(source, f"Its spoiled pieces must be written as {example}.") from None


def _spoiled(value: object) -> Iterator[tuple[int, str]]:
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(piece["item_id"], piece.get("reason")) for piece in value]
    else:
        raise TypeError
    for item, reason in pairs:
        if not isinstance(reason, str | None):
            raise TypeError
        yield _item_id(item), one_line(reason or "")


def _item_id(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 0 < number <= LARGEST_ID:
        raise ValueError
    return number


def one_line(text: str, *, longest: int = LONGEST_REASON) -> str:
    """Others' words as we keep and show them: they may quote a file that they were given."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: 10 * longest])
    return hide_secrets(" ".join(plain.split()))[:longest]


def _unusable(source: str, why: str) -> PartnerDown:
    return PartnerDown(f"{source} cannot be used: it is put right by writing it again. {why}")


TICKET = "ticket.json"
ACKNOWLEDGED, PRINTED, MAILED = "acknowledged.json", "printed.json", "mailed.json"


class JobFolders:
    """The jobs in one place, as every partner that works off folders sees them."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @property
    def shown(self) -> str:
        return self._place.shown

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        with self.visiting() as place:
            acknowledged, printed, mailed = (
                self._mark(place, reference, name) for name in (ACKNOWLEDGED, PRINTED, MAILED)
            )
        return PrintProgress(
            acknowledged_at=self._moment(acknowledged, reference, ACKNOWLEDGED, now=now),
            printed_at=self._moment(printed, reference, PRINTED, now=now),
            mailed_at=self._moment(mailed, reference, MAILED, now=now),
            spoiled=read_spoiled((printed or {}).get("spoiled"), source=self._named(reference, PRINTED)),
        )

    def mark_acknowledged(self, reference: str, *, now: datetime) -> None:
        self._write(reference, ACKNOWLEDGED, {"at": now.isoformat()})

    def mark_printed(self, reference: str, *, spoiled: Mapping[int, str], now: datetime) -> None:
        marks = {str(item): why for item, why in spoiled.items()}
        self._write(reference, PRINTED, {"at": now.isoformat(), "spoiled": marks})

    def mark_mailed(self, reference: str, *, now: datetime) -> None:
        self._write(reference, MAILED, {"at": now.isoformat()})

    def ticket(self, reference: str) -> Mapping[str, object] | None:
        with self.visiting() as place:
            return self._mark(place, reference, TICKET)

    def manifest(self, reference: str) -> list[dict[str, object]]:
        """The rows of the manifest, which is our own."""
        with self.visiting() as place:
            try:
                data = place.get(f"{reference}/manifest.json")
            except FileMissing:
                return []
        pieces: list[dict[str, object]] = json.loads(data)["pieces"]
        return pieces

    @contextmanager
    def visiting(self) -> Iterator[OpenPlace]:
        try:
            with self._place.open() as place:
                yield place
        except (PlaceDown, TooLarge) as fault:
            raise PartnerDown(str(fault)) from fault

    def _mark(self, place: OpenPlace, reference: str, name: str) -> dict[str, object] | None:
        try:
            data = place.get(f"{reference}/{name}", most_bytes=LARGEST_MARK)
        except FileMissing:
            return None
        return read_object(data, source=self._named(reference, name))

    def _moment(
        self, mark: Mapping[str, object] | None, reference: str, name: str, *, now: datetime
    ) -> datetime | None:
        if mark is None:
            return None
        return read_moment(mark.get("at"), now=now, source=self._named(reference, name))

    def _write(self, reference: str, name: str, value: Mapping[str, object]) -> None:
        with self.visiting() as place:
            place.put(f"{reference}/{name}", json.dumps(value, indent=1).encode())

    def _named(self, reference: str, name: str) -> str:
        return f"{name} of {reference} in {self._place.shown}"


def laid_out(job: PrintJob, *, now: datetime) -> dict[str, bytes]:
    """Every file of the job in the order in which it is written."""
    ticket = json.dumps({**job.ticket, "submitted_at": now.isoformat()}, ensure_ascii=False, indent=1)
    return {name: data for name, data in job.files.items() if name != TICKET} | {TICKET: ticket.encode()}
