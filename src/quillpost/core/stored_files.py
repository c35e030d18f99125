"""The shelf: bytes in the file store, a row that says whose they are, a signed link for whoever may look."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import files
from quillpost.core.ports import FileStore
from quillpost.core.tokens import LinkSigner

PURPOSES = ("creative", "preview")
ORPHAN_DAYS = range(1, 8)
"""A file without a row is the trace of a transaction that failed. Today's may still get theirs."""

FOR_GOOD = datetime(9999, 12, 31, tzinfo=UTC)
"""Until when a link opens that has no end of its own: the picture is there for as long as it is shown."""

LONGEST_WRITE = timedelta(days=1)
"""What was begun longer ago nobody will finish."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A file in the store that waits for its row."""

    id: UUID
    key: str
    purpose: str
    content_type: str
    size: int
    sha256: bytes
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ShelfFile:
    """A file that has its row: where it lies in the store, and what is in it, by its digest."""

    id: UUID
    key: str
    digest: str


def find_files(tx: Tx, file_ids: Iterable[UUID | None]) -> dict[UUID, ShelfFile]:
    """Those of the files that this transaction may see."""
    wanted = [file_id for file_id in file_ids if file_id is not None]
    if not wanted:
        return {}
    rows = tx.execute(sa.select(files.c.id, files.c.key, files.c.sha256).where(files.c.id.in_(wanted)))
    return {row.id: ShelfFile(row.id, row.key, bytes(row.sha256).hex()) for row in rows}


FILES_OF_ORDER = sa.text("select * from files_of_order(:order_id)")


def files_of_order(tx: Tx, order_id: int) -> dict[UUID, ShelfFile]:
    """The files of an order that this transaction has read already, whosever they are."""
    rows = tx.execute(FILES_OF_ORDER, {"order_id": order_id})
    return {row.id: ShelfFile(row.id, row.key, bytes(row.sha256).hex()) for row in rows}


class Shelf:
    def __init__(self, store: FileStore, signer: LinkSigner) -> None:
        self.store = store
        self._signer = signer

    def put(
        self,
        data: bytes,
        *,
        purpose: str,
        content_type: str,
        expires_at: datetime | None = None,
        now: datetime,
    ) -> Kept:
        """Store the bytes. Done before a transaction opens: storage may be far away."""
        file_id = uuid4()
        key = f"{_day_folder(purpose, now)}/{file_id}"
        self.store.put(key, data)
        digest = hashlib.sha256(data).digest()
        return Kept(file_id, key, purpose, content_type, len(data), digest, expires_at)

    def find(self, tx: Tx, bodies: Iterable[bytes], *, purpose: str) -> dict[bytes, UUID]:
        """Those of the bytes that lie in a file which this transaction may see, each with such a file."""
        by_digest = {hashlib.sha256(body).digest(): body for body in bodies}
        rows = tx.execute(
            sa.select(files.c.sha256, files.c.id).where(
                files.c.sha256.in_(by_digest), files.c.purpose == purpose, files.c.expires_at.is_(None)
            )
        )
        return {by_digest[bytes(row.sha256)]: row.id for row in rows}

    def record(
        self, tx: Tx, kept: Kept, *, account_id: int, sub_account_id: int | None, now: datetime
    ) -> None:
        """Say whose file it is."""
        tx.execute(
            sa.insert(files).values(
                id=kept.id,
                account_id=account_id,
                sub_account_id=sub_account_id,
                purpose=kept.purpose,
                key=kept.key,
                content_type=kept.content_type,
                size=kept.size,
                sha256=kept.sha256,
                created_at=now,
                expires_at=kept.expires_at,
            )
        )

    def record_all(
        self, tx: Tx, files: Iterable[Kept], *, account_id: int, sub_account_id: int | None, now: datetime
    ) -> None:
        for kept in files:
            self.record(tx, kept, account_id=account_id, sub_account_id=sub_account_id, now=now)

    def path(self, subject: str | UUID, *, expires: datetime) -> str:
        """A link that opens this one thing until then, for whoever holds it."""
        return f"/files/{self._signer.sign(str(subject), expires=expires)}"

    def lasting_path(self, subject: str | UUID) -> str:
        """The one address of a picture that never changes: the same text wherever it is shown."""
        return self.path(subject, expires=FOR_GOOD)

    def subject(self, token: str, *, now: datetime) -> str | None:
        """What a link opens, or None when it is forged or too old."""
        return self._signer.read(token, now=now)


def forget_expired(db: Database, shelf: Shelf, *, now: datetime) -> int:
    """Remove files past their time: the row first, so that nobody is led to a missing file."""
    with db.work() as tx:
        keys = (
            tx.execute(sa.delete(files).where(files.c.expires_at < now).returning(files.c.key))
            .scalars()
            .all()
        )
    for key in keys:
        shelf.store.delete(key)
    return len(keys)


def forget_orphans(db: Database, shelf: Shelf, *, now: datetime) -> int:
    """Remove files of the last days that no row speaks of, and what killed writers left half."""
    gone = shelf.store.forget_drafts(before=now - LONGEST_WRITE)
    for purpose in PURPOSES:
        for age in ORPHAN_DAYS:
            found = list(shelf.store.keys(_day_folder(purpose, now - timedelta(days=age)) + "/"))
            if not found:
                continue
            with db.work() as tx:
                known = set(tx.execute(sa.select(files.c.key).where(files.c.key.in_(found))).scalars())
            for key in set(found) - known:
                shelf.store.delete(key)
                gone += 1
    return gone


def _day_folder(purpose: str, moment: datetime) -> str:
    return f"{purpose}/{moment:%Y-%m-%d}"
