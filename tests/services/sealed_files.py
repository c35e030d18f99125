"""Print files that lie sealed in the store, without any press."""

import sqlalchemy as sa

from quillpost.app.container import Parts
from quillpost.fulfillment.files import BatchStore


def sealed_file(parts: Parts) -> int:
    """A batch of gift cards with its print file."""
    with parts.db.work() as tx:
        batch = tx.execute(
            sa.text(
                """insert into batches (mode, status, piece, mail_class, created_at, item_count)
                   values ('test', 'mailed', 'giftcard', 'first', now(), 0) returning id"""
            )
        ).scalar_one()
        tx.execute(
            sa.text("insert into batch_files values (:batch, 'print.pdf', 4, '', true)"), {"batch": batch}
        )
    BatchStore(parts.shelf.store, parts.sealer).put(batch, {"print.pdf": b"%PDF"}, secret={"print.pdf"})
    return int(batch)
