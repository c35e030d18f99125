"""The printer of testing mode: a job folder like the real one, worked off by itself after a moment."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.ports import PrintJob, PrintProgress
from quillpost.integrations.carriers.sandbox import PRINTER_FAILURE_NAME, Chances, Mailbox
from quillpost.integrations.printing.folder import FolderPartner

PRINTED_AFTER, MAILED_AFTER = 0.1, 0.125
"""Shares of the journey."""


class SandboxPrinter:
    """Prints after a tenth of the journey and mails after an eighth."""

    def __init__(
        self, store: FileStore, folder: str, *, journey: timedelta, chances: Chances | None = None
    ) -> None:
        self._store = store
        self._folder = folder
        self._jobs = FolderPartner(store, folder)
        self._journey = journey
        self._chances = chances or Chances()
        self._mailbox = Mailbox(store, self._chances, journey=journey)

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        self._jobs.submit(job, now=now)

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        known = self._jobs.progress(reference, now=now)
        ticket = self._jobs.ticket(reference)
        if ticket is None:
            return known
        submitted = datetime.fromisoformat(str(ticket["submitted_at"]))
        if known.printed_at is None and now >= submitted + self._journey * PRINTED_AFTER:
            self._jobs.mark_printed(reference, spoiled=self._spoiled(reference), now=now)
        if known.mailed_at is None and now >= submitted + self._journey * MAILED_AFTER:
            self._mail(reference, now=now)
        return self._jobs.progress(reference, now=now)

    def _mail(self, reference: str, *, now: datetime) -> None:
        """Into the mailbox, then the mark. After a crash in between they leave again at the same moment."""
        leaving = self._leaving(reference, now=now)
        spoiled = self._jobs.progress(reference, now=now).spoiled or {}
        pieces = [
            piece for piece in self._jobs.manifest(reference) if int(str(piece["item_id"])) not in spoiled
        ]
        self._mailbox.drop(reference, pieces, mailed_at=leaving)
        self._jobs.mark_mailed(reference, now=leaving)

    def _leaving(self, reference: str, *, now: datetime) -> datetime:
        key = f"{self._folder}/{reference}/leaving.json"
        try:
            return datetime.fromisoformat(str(json.loads(self._store.get(key))["at"]))
        except FileMissing:
            self._store.put(key, json.dumps({"at": now.isoformat()}).encode())
            return now

    def _spoiled(self, reference: str) -> Mapping[int, str]:
        return {
            int(str(piece["item_id"])): reason
            for piece in self._jobs.manifest(reference)
            if (reason := self._fault(piece)) is not None
        }

    def _fault(self, piece: Mapping[str, object]) -> str | None:
        if str(piece["name"]).lower() == PRINTER_FAILURE_NAME:
            return "Printer failure"
        return "Spoiled in printing" if self._chances.spoils(piece) else None
