"""Files of a batch in the hands of an operator: what is handed out, also the secret ones, is noted before."""

from collections.abc import Sequence

from quillpost.core.database import Database
from quillpost.fulfillment.files import BatchFileStorage
from quillpost.fulfillment.print_room.queries import BatchFileInfo, read_file
from quillpost.fulfillment.print_room.service import AuditCallback


def read_files_for_download(
    db: Database,
    storage: BatchFileStorage,
    batch_id: int,
    files: Sequence[BatchFileInfo],
    *,
    write_audit: AuditCallback,
) -> dict[str, bytes]:
    """The files in clear, by name. What cannot be read is handed to nobody, and then nothing is noted."""
    contents = {file.name: read_file(storage, batch_id, file) for file in files}
    with db.system_transaction() as tx:
        write_audit(tx)
    return contents
