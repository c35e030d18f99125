"""Print partners that work off a folder: the embedded one, and a hot folder.

A secret file would lie there in clear, for whoever reads the store or a backup of it. In its place is a note
on how to get it.

A job appears there at once, whole, under its reference; and it appears once, even where the printer moves it
away at once. So each attempt builds the job out of sight, under `.quillpost/`, then **claims** the reference:
it renames a folder that holds the attempt's own name, which of several attempts one can do. The job of the
attempt that has the claim, and no other, is renamed to its place. After a crash at any point the next call
goes on from what it finds: no claim, so nothing was shown yet; a claim and its job beside it, so the last
step is missing; a claim alone, so the job was shown, wherever it is now.
"""

import hashlib
import json
import secrets
from contextlib import suppress
from datetime import datetime

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.ports import PartnerDown, PrintJob
from quillpost.fulfillment.rules import NOTE_FILE
from quillpost.integrations.folders.models import OpenPlace
from quillpost.integrations.folders.objects import StorePlace
from quillpost.integrations.printing.models import TICKET, JobFolders, laid_out, read_object


class FolderPartner(JobFolders):
    def __init__(self, store: FileStore, folder: str) -> None:
        super().__init__(StorePlace(store, folder))

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """Lay the job out. A job that has its ticket is there already."""
        with self.visiting() as place:
            if place.exists(f"{job.reference}/{TICKET}"):
                return
            if job.secret:
                place.put(f"{job.reference}/{NOTE_FILE}", _note(job).encode())
            for name, data in laid_out(job, now=now).items():
                if name not in job.secret:
                    place.put(f"{job.reference}/{name}", data)


def _note(job: PrintJob) -> str:
    names = ", ".join(sorted(job.secret))
    return (
        f"Not kept here in clear, as it holds the claims of gift cards: {names}\n"
        f"Get it with: quillpost print download {job.reference} --to FOLDER\n"
        f"or, with an operator's token, from the address that GET /print/batches/{{id}} has for it.\n"
        f"Both are noted in the audit log.\n"
    )


WORK = ".quillpost"
CLAIM_FILE = "claim.json"
LARGEST_CLAIM = 1_000
PRINT_FILE = "print.pdf"


class HotFolder(JobFolders):
    def submit(self, job: PrintJob, *, now: datetime) -> None:
        with self.visiting() as place:
            claim = f"{WORK}/{job.reference}.claim"
            if not place.exists(claim):
                attempt = _build(place, job, now=now)
                # Another attempt may have been faster: then ours is cleaned away below, or was by it.
                with suppress(FileMissing):
                    place.rename(f"{WORK}/{attempt}/claim", claim)
            self._show(place, job, claim)
            _clean(place, job.reference)

    def _show(self, place: OpenPlace, job: PrintJob, claim: str) -> None:
        """Give the claimed job its name, unless it has it, or had it."""
        try:
            written = place.get(f"{claim}/{CLAIM_FILE}", most_bytes=LARGEST_CLAIM)
        except FileMissing:
            raise PartnerDown(
                f"{claim} in {self.shown} has been emptied: remove it if {job.reference} was never printed."
            ) from None
        told = read_object(written, source=f"{claim} in {self.shown}")
        if told.get("print_sha256") != _digest(job):
            raise PartnerDown(
                f"{self.shown} has another job called {job.reference}, which was printed from other"
                f" files: give each service a folder of its own, or remove {claim}."
            )
        hidden = f"{WORK}/{told.get('attempt')}/job"
        if not place.exists(hidden):
            return
        try:
            is_shown = place.rename(hidden, job.reference)
        except FileMissing:  # another call has done it meanwhile
            return
        if not is_shown:
            raise PartnerDown(f"{self.shown} has a folder {job.reference} that is not ours: move it away.")


def _build(place: OpenPlace, job: PrintJob, *, now: datetime) -> str:
    attempt = f"{job.reference}.{secrets.token_hex(8)}"
    for name, data in laid_out(job, now=now).items():
        place.put(f"{WORK}/{attempt}/job/{name}", data, is_secret=bool(job.secret))
    claim = json.dumps({"attempt": attempt, "print_sha256": _digest(job)}).encode()
    place.put(f"{WORK}/{attempt}/claim/{CLAIM_FILE}", claim)
    return attempt


def _clean(place: OpenPlace, reference: str) -> None:
    """Remove what attempts have left: the one that was shown, and those that died."""
    for name in place.names(WORK):
        if name.startswith(f"{reference}.") and name != f"{reference}.claim":
            place.delete(f"{WORK}/{name}")


def _digest(job: PrintJob) -> str:
    return hashlib.sha256(job.files.get(PRINT_FILE, b"")).hexdigest()
