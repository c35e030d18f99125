"""The embedded print partner: a job folder in the file store that a person, or a simulator, works off."""

from datetime import datetime

from quillpost.adapters.places.store import StorePlace
from quillpost.adapters.printing.jobs import TICKET, JobFolders, laid_out
from quillpost.ports import FileStore, PrintJob


class FolderPartner(JobFolders):
    def __init__(self, store: FileStore, folder: str) -> None:
        super().__init__(StorePlace(store, folder))

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """Lay the job out. A job that has its ticket is there already."""
        with self.visiting() as place:
            if place.exists(f"{job.reference}/{TICKET}"):
                return
            for name, data in laid_out(job, now=now).items():
                place.put(f"{job.reference}/{name}", data)
