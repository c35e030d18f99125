"""The printer of testing mode: a job folder like the real one, processed after a moment."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.ports import PrintJob, PrintProgress
from quillpost.integrations.carriers.sandbox import PRINTER_FAILURE_NAME, MailSimulation, SandboxMailbox
from quillpost.integrations.printing.folder import FolderPartner

PRINTED_AFTER_SHARE, MAILED_AFTER_SHARE = 0.1, 0.125  # of the journey


class SandboxPrinter:
    def __init__(
        self, store: FileStore, folder: str, *, journey: timedelta, simulation: MailSimulation | None = None
    ) -> None:
        self._store = store
        self._folder = folder
        self._jobs = FolderPartner(store, folder)
        self._journey = journey
        self._simulation = simulation or MailSimulation()
        self._mailbox = SandboxMailbox(store, self._simulation, journey=journey)

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        self._jobs.submit(job, now=now)

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        progress_before = self._jobs.progress(reference, now=now)
        ticket = self._jobs.read_ticket(reference)
        if ticket is None:
            return progress_before
        submitted = datetime.fromisoformat(str(ticket["submitted_at"]))
        if progress_before.printed_at is None and now >= submitted + self._journey * PRINTED_AFTER_SHARE:
            self._jobs.mark_printed(reference, spoiled=self._choose_spoiled(reference), now=now)
        if progress_before.mailed_at is None and now >= submitted + self._journey * MAILED_AFTER_SHARE:
            self._mail_job(reference, now=now)
        return self._jobs.progress(reference, now=now)

    def _mail_job(self, reference: str, *, now: datetime) -> None:
        """Into the mailbox, then the mark. After a crash in between they are mailed again with the same time."""
        mailed_at = self._get_mailing_time(reference, now=now)
        spoiled = self._jobs.progress(reference, now=now).spoiled or {}
        items = [item for item in self._jobs.read_manifest(reference) if int(str(item["item_id"])) not in spoiled]
        self._mailbox.mail_items(reference, items, mailed_at=mailed_at)
        self._jobs.mark_mailed(reference, now=mailed_at)

    def _get_mailing_time(self, reference: str, *, now: datetime) -> datetime:
        key = f"{self._folder}/{reference}/leaving.json"
        try:
            return datetime.fromisoformat(str(json.loads(self._store.get(key))["at"]))
        except FileMissing:
            self._store.put(key, json.dumps({"at": now.isoformat()}).encode())
            return now

    def _choose_spoiled(self, reference: str) -> Mapping[int, str]:
        return {
            int(str(item["item_id"])): reason
            for item in self._jobs.read_manifest(reference)
            if (reason := self._get_spoil_reason(item)) is not None
        }

    def _get_spoil_reason(self, item: Mapping[str, object]) -> str | None:
        if str(item["name"]).lower() == PRINTER_FAILURE_NAME:
            return "Printer failure"
        return "Spoiled in printing" if self._simulation.is_spoiled(item) else None
