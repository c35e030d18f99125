"""The embedded print partner: a job folder in the file store that a person, or a simulator, works off.

`ticket.json` is written last, so a folder with a ticket is whole. Someone marks the job by putting
`printed.json` and `mailed.json` beside it.
"""

import json
from collections.abc import Mapping
from datetime import datetime

from quillpost.ports import FileMissing, FileStore, PrintJob, PrintProgress


class FolderPartner:
    def __init__(self, store: FileStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """Lay the job out. A job that has its ticket is there already."""
        if self._store.exists(self._place(job.reference, "ticket.json")):
            return
        for name, data in job.files.items():
            self._store.put(self._place(job.reference, name), data)
        self._write(job.reference, "ticket.json", {**job.ticket, "submitted_at": now.isoformat()})

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:  # noqa: ARG002
        printed = self._read(reference, "printed.json")
        mailed = self._read(reference, "mailed.json")
        spoiled = printed.get("spoiled", {}) if printed else {}
        return PrintProgress(
            printed_at=_moment(printed),
            mailed_at=_moment(mailed),
            spoiled={int(item): str(why) for item, why in dict(spoiled).items()},  # type: ignore[call-overload]
        )

    def mark_printed(self, reference: str, *, spoiled: Mapping[int, str], now: datetime) -> None:
        marks = {str(item): why for item, why in spoiled.items()}
        self._write(reference, "printed.json", {"at": now.isoformat(), "spoiled": marks})

    def mark_mailed(self, reference: str, *, now: datetime) -> None:
        self._write(reference, "mailed.json", {"at": now.isoformat()})

    def ticket(self, reference: str) -> Mapping[str, object] | None:
        return self._read(reference, "ticket.json")

    def manifest(self, reference: str) -> list[dict[str, object]]:
        pieces = (self._read(reference, "manifest.json") or {}).get("pieces", [])
        return list(pieces)  # type: ignore[call-overload, no-any-return]

    def _place(self, reference: str, name: str) -> str:
        return f"{self._folder}/{reference}/{name}"

    def _write(self, reference: str, name: str, value: Mapping[str, object]) -> None:
        self._store.put(self._place(reference, name), json.dumps(value, indent=1).encode())

    def _read(self, reference: str, name: str) -> dict[str, object] | None:
        try:
            found = json.loads(self._store.get(self._place(reference, name)))
        except FileMissing:
            return None
        return dict(found)


def _moment(mark: Mapping[str, object] | None) -> datetime | None:
    return None if mark is None else datetime.fromisoformat(str(mark["at"]))
