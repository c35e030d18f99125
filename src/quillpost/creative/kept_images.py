"""The images of templates on the shelf. Each lies where its template does, for whoever may use that."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from quillpost.creative.shelf import Kept, Shelf
from quillpost.database import Database, Tenant, Tx
from quillpost.database.tables import files
from quillpost.ports.files import Fetched


@dataclass(frozen=True, slots=True)
class KeptImage:
    """An image on the shelf; where it is `new`, it still waits for its row."""

    id: UUID
    home: Tenant
    new: Kept | None = None


def keep_image(db: Database, shelf: Shelf, home: Tenant, image: Fetched, *, now: datetime) -> KeptImage:
    """Put the image away before the transaction opens; one that is there already is not kept again."""
    with db.transaction(home) as tx:
        known = shelf.find(tx, [image.body], purpose="creative").get(image.body)
    if known is not None:
        return KeptImage(known, home)
    kept = shelf.put(image.body, purpose="creative", content_type=image.content_type, now=now)
    return KeptImage(kept.id, home, kept)


def record_image(tx: Tx, shelf: Shelf, image: KeptImage, *, now: datetime) -> None:
    """Say whose it is, unless that is known."""
    if image.new is not None:
        home = image.home
        shelf.record(tx, image.new, account_id=home.account_id, sub_account_id=home.sub_account_id, now=now)


def read_image(db: Database, shelf: Shelf, home: Tenant, file_id: UUID) -> Fetched:
    """An image as it lies on the shelf."""
    with db.transaction(home) as tx:
        row = tx.execute(sa.select(files.c.key, files.c.content_type).where(files.c.id == file_id)).one()
    return Fetched(row.content_type, shelf.store.get(row.key))
