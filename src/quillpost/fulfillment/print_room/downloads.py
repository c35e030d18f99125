"""Files of a batch in the hands of an operator: what is handed out, also the secret ones, is noted before."""

from collections.abc import Sequence

from quillpost.core.database import Database
from quillpost.fulfillment.files import BatchStore
from quillpost.fulfillment.print_room.queries import BatchFile, read_file
from quillpost.fulfillment.print_room.service import Deed


def take_files(
    db: Database, kept: BatchStore, batch_id: int, files: Sequence[BatchFile], *, noted: Deed
) -> dict[str, bytes]:
    """The files in clear, by name. What cannot be read is handed to nobody, and then nothing is noted."""
    found = {file.name: read_file(kept, batch_id, file) for file in files}
    with db.work() as tx:
        noted(tx)
    return found
