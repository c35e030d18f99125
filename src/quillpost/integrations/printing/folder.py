"""Print partners with a folder: the embedded one, and a hot folder. A job appears at once, whole, under its reference,
and only once, even where the printer moves it away. So each attempt builds the job hidden under `.quillpost/`, then
claims the reference by renaming a folder that holds the attempt's name, which only one attempt can do. The job with the
claim is renamed to its place. After a crash the next call goes on: without a claim nothing was published; with a claim
and its job, the last step is missing; with only a claim, the job was published."""

import hashlib
import json
import secrets
from contextlib import suppress
from datetime import datetime

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.batches.rules import SECRET_FILES_NOTE
from quillpost.fulfillment.ports import PartnerDown, PrintJob
from quillpost.integrations.folders.local import StorageFolder
from quillpost.integrations.folders.models import OpenFolder
from quillpost.integrations.printing.models import TICKET_FILE, JobFolders, build_job_files, read_object


class FolderPartner(JobFolders):
    def __init__(self, store: FileStore, folder: str) -> None:
        super().__init__(StorageFolder(store, folder))

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """A job that has its ticket is complete."""
        with self.open_folder() as folder:
            if folder.exists(f"{job.reference}/{TICKET_FILE}"):
                return
            if job.secret_names:
                folder.put(f"{job.reference}/{SECRET_FILES_NOTE}", _build_secret_note(job).encode())
            for name, data in build_job_files(job, now=now).items():
                if name not in job.secret_names:
                    folder.put(f"{job.reference}/{name}", data)


def _build_secret_note(job: PrintJob) -> str:
    names = ", ".join(sorted(job.secret_names))
    return (
        f"Not kept here in clear, as it holds the claims of gift cards: {names}\n"
        f"Get it with: quillpost print download {job.reference} --to FOLDER\n"
        f"or, with an operator's token, from the address that GET /print/batches/{{id}} has for it.\n"
        f"Both are noted in the audit log.\n"
    )


WORK_FOLDER = ".quillpost"
CLAIM_FILE = "claim.json"
MAX_CLAIM_BYTES = 1_000
PRINT_FILE = "print.pdf"


class HotFolder(JobFolders):
    def submit(self, job: PrintJob, *, now: datetime) -> None:
        with self.open_folder() as folder:
            claim = f"{WORK_FOLDER}/{job.reference}.claim"
            if not folder.exists(claim):
                attempt = _write_attempt(folder, job, now=now)
                # Another attempt may have been faster: then ours is deleted below, or was by it.
                with suppress(FileMissing):
                    folder.rename(f"{WORK_FOLDER}/{attempt}/claim", claim)
            self._publish_job(folder, job, claim)
            _delete_attempts(folder, job.reference)

    def _publish_job(self, folder: OpenFolder, job: PrintJob, claim: str) -> None:
        """Give the claimed job its name, unless that was done."""
        try:
            claim_data = folder.get(f"{claim}/{CLAIM_FILE}", max_bytes=MAX_CLAIM_BYTES)
        except FileMissing:
            raise PartnerDown(
                f"{claim} in {self.label} has been emptied: remove it if {job.reference} was never printed."
            ) from None
        claim_values = read_object(claim_data, source=f"{claim} in {self.label}")
        if claim_values.get("print_sha256") != _digest_print_file(job):
            raise PartnerDown(
                f"{self.label} has another job called {job.reference}, which was printed from other"
                f" files: give each service a folder of its own, or remove {claim}."
            )
        hidden_folder = f"{WORK_FOLDER}/{claim_values.get('attempt')}/job"
        if not folder.exists(hidden_folder):
            return
        try:
            is_published = folder.rename(hidden_folder, job.reference)
        except FileMissing:  # another call has done it meanwhile
            return
        if not is_published:
            raise PartnerDown(f"{self.label} has a folder {job.reference} that is not ours: move it away.")


def _write_attempt(folder: OpenFolder, job: PrintJob, *, now: datetime) -> str:
    attempt = f"{job.reference}.{secrets.token_hex(8)}"
    for name, data in build_job_files(job, now=now).items():
        folder.put(f"{WORK_FOLDER}/{attempt}/job/{name}", data, is_secret=bool(job.secret_names))
    claim = json.dumps({"attempt": attempt, "print_sha256": _digest_print_file(job)}).encode()
    folder.put(f"{WORK_FOLDER}/{attempt}/claim/{CLAIM_FILE}", claim)
    return attempt


def _delete_attempts(folder: OpenFolder, reference: str) -> None:
    for name in folder.names(WORK_FOLDER):
        if name.startswith(f"{reference}.") and name != f"{reference}.claim":
            folder.delete(f"{WORK_FOLDER}/{name}")


def _digest_print_file(job: PrintJob) -> str:
    return hashlib.sha256(job.files.get(PRINT_FILE, b"")).hexdigest()
