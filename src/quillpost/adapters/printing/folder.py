"""The embedded print partner: a job folder in the file store that a person, or a simulator, works off.

A secret file would lie there in clear, for whoever reads the store or a backup of it. In its place is a note
on how to get it.
"""

from datetime import datetime

from quillpost.adapters.places.store import StorePlace
from quillpost.adapters.printing.jobs import TICKET, JobFolders, laid_out
from quillpost.fulfilment.rules import NOTE_FILE
from quillpost.ports.files import FileStore
from quillpost.ports.printing import PrintJob


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
