"""A folder that a printer's own system watches, on this machine or over SFTP.

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

from quillpost.adapters.places.place import OpenPlace
from quillpost.adapters.printing.jobs import JobFolders, laid_out
from quillpost.adapters.printing.marks import read_object
from quillpost.ports.files import FileMissing
from quillpost.ports.printing import PartnerDown, PrintJob

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
