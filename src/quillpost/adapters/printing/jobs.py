"""One job as files in a folder, wherever that is.

All files of a job lie under its reference, `ticket.json` last, so a folder with a ticket is whole. Whoever
prints it says how far it is by marks beside them: `acknowledged.json`, `printed.json`, which may name spoiled
pieces, and `mailed.json`. A mark that cannot be read is trouble that the print room sees; the job waits.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from quillpost.adapters.places.place import OpenPlace, Place, PlaceDown, TooLarge
from quillpost.adapters.printing.marks import LARGEST_MARK, read_moment, read_object, read_spoiled
from quillpost.ports.files import FileMissing
from quillpost.ports.printing import PartnerDown, PrintJob, PrintProgress

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
