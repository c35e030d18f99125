"""The printer of testing mode: a job folder like the real one, worked off by itself after a moment."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from quillpost.adapters.printing.folder import FolderPartner
from quillpost.ports import FileStore, PrintJob, PrintProgress

PRINTER_FAILURE_NAME = "Test Printer Failure"
MAILBOX = "sandbox/mailbox"
"""Where mailed jobs are dropped, and the sandbox carrier collects them."""


class SandboxPrinter:
    """Prints after a tenth of the journey and mails after an eighth."""

    def __init__(self, store: FileStore, folder: str, *, journey: timedelta) -> None:
        self._store = store
        self._jobs = FolderPartner(store, folder)
        self._journey = journey

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        self._jobs.submit(job, now=now)

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        known = self._jobs.progress(reference, now=now)
        ticket = self._jobs.ticket(reference)
        if ticket is None:
            return known
        submitted = datetime.fromisoformat(str(ticket["submitted_at"]))
        if known.printed_at is None and now >= submitted + self._journey * 0.1:
            self._jobs.mark_printed(reference, spoiled=self._spoiled(reference), now=now)
        if known.mailed_at is None and now >= submitted + self._journey * 0.125:
            self._store.put(f"{MAILBOX}/{reference}", now.isoformat().encode())
            self._jobs.mark_mailed(reference, now=now)
        return self._jobs.progress(reference, now=now)

    def _spoiled(self, reference: str) -> Mapping[int, str]:
        return {
            int(str(piece["item_id"])): "Printer failure"
            for piece in self._jobs.manifest(reference)
            if str(piece["name"]).lower() == PRINTER_FAILURE_NAME.lower()
        }
