"""Print files that lie sealed in the store, without any press."""

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.fulfillment.batches.files import BatchFileStorage


def encrypted_file(container: Container) -> int:
    """A batch of gift cards with its print file."""
    with container.db.system_transaction() as tx:
        batch = tx.execute(
            sa.text(
                """insert into batches (mode, status, piece, mail_class, created_at, item_count)
                   values ('test', 'mailed', 'giftcard', 'first', now(), 0) returning id"""
            )
        ).scalar_one()
        tx.execute(sa.text("insert into batch_files values (:batch, 'print.pdf', 4, '', true)"), {"batch": batch})
    BatchFileStorage(container.storage.store, container.encryptor).put_files(
        batch, {"print.pdf": b"%PDF"}, secret_names={"print.pdf"}
    )
    return int(batch)
