"""Stored files: bytes in the store, a row with the owner, signed links."""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import files
from quillpost.core.ports import FileStore
from quillpost.core.tokens import LinkSigner

PURPOSES = ("creative", "preview")
ORPHAN_DAYS = range(1, 8)  # a failed transaction leaves a file without a row; today's files may still get one
NEVER_EXPIRES = datetime(9999, 12, 31, tzinfo=UTC)
MAX_WRITE_TIME = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file in the store that has no row yet."""

    id: UUID
    key: str
    purpose: str
    content_type: str
    size: int
    sha256: bytes
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredFile:
    id: UUID
    key: str
    digest: str


def find_files(tx: Tx, file_ids: Iterable[UUID | None]) -> dict[UUID, StoredFile]:
    """Those that this transaction may see."""
    present_ids = [file_id for file_id in file_ids if file_id is not None]
    if not present_ids:
        return {}
    rows = tx.execute(sa.select(files.c.id, files.c.key, files.c.sha256).where(files.c.id.in_(present_ids)))
    return {row.id: StoredFile(row.id, row.key, bytes(row.sha256).hex()) for row in rows}


SELECT_ORDER_FILES = sa.text("select * from files_of_order(:order_id)")


def find_order_files(tx: Tx, order_id: int) -> dict[UUID, StoredFile]:
    """The files of an order that this transaction has read already, of any owner."""
    rows = tx.execute(SELECT_ORDER_FILES, {"order_id": order_id})
    return {row.id: StoredFile(row.id, row.key, bytes(row.sha256).hex()) for row in rows}


class FileStorage:
    def __init__(self, store: FileStore, signer: LinkSigner) -> None:
        self.store = store
        self._signer = signer

    def put(
        self, data: bytes, *, purpose: str, content_type: str, expires_at: datetime | None = None, now: datetime
    ) -> PendingFile:
        """Call it before a transaction opens: storage may be far away."""
        file_id = uuid4()
        key = f"{_day_folder(purpose, now)}/{file_id}"
        self.store.put(key, data)
        digest = hashlib.sha256(data).digest()
        return PendingFile(file_id, key, purpose, content_type, len(data), digest, expires_at)

    def find_by_content(self, tx: Tx, contents: Iterable[bytes], *, purpose: str) -> dict[bytes, UUID]:
        """Those contents that a file has which this transaction may see."""
        by_digest = {hashlib.sha256(body).digest(): body for body in contents}
        rows = tx.execute(
            sa.select(files.c.sha256, files.c.id).where(
                files.c.sha256.in_(by_digest), files.c.purpose == purpose, files.c.expires_at.is_(None)
            )
        )
        return {by_digest[bytes(row.sha256)]: row.id for row in rows}

    def record_file(
        self, tx: Tx, file: PendingFile, *, account_id: int, sub_account_id: int | None, now: datetime
    ) -> None:
        tx.execute(
            sa.insert(files).values(
                **asdict(file), account_id=account_id, sub_account_id=sub_account_id, created_at=now
            )
        )

    def signed_path(self, subject: str | UUID, *, expires_at: datetime) -> str:
        """A link that opens this one file until then, for anyone."""
        return f"/files/{self._signer.sign_file_id(str(subject), expires_at=expires_at)}"

    def permanent_path(self, subject: str | UUID) -> str:
        """The same text wherever a picture is shown."""
        return self.signed_path(subject, expires_at=NEVER_EXPIRES)

    def verify_token(self, token: str, *, now: datetime) -> str | None:
        """None when it is forged or expired."""
        return self._signer.read_file_id(token, now=now)


def delete_expired_files(db: Database, storage: FileStorage, *, now: datetime) -> int:
    """The row goes first, so that no link leads to a missing file."""
    with db.system_transaction() as tx:
        keys = tx.execute(sa.delete(files).where(files.c.expires_at < now).returning(files.c.key)).scalars().all()
    for key in keys:
        storage.store.delete(key)
    return len(keys)


def delete_orphaned_files(db: Database, storage: FileStorage, *, now: datetime) -> int:
    """Remove recent files without a row, and what killed writers left."""
    deleted = storage.store.delete_unfinished(before=now - MAX_WRITE_TIME)
    for purpose in PURPOSES:
        for age in ORPHAN_DAYS:
            stored_keys = list(storage.store.keys(_day_folder(purpose, now - timedelta(days=age)) + "/"))
            if not stored_keys:
                continue
            with db.system_transaction() as tx:
                recorded_keys = set(tx.execute(sa.select(files.c.key).where(files.c.key.in_(stored_keys))).scalars())
            for key in set(stored_keys) - recorded_keys:
                storage.store.delete(key)
                deleted += 1
    return deleted


def _day_folder(purpose: str, moment: datetime) -> str:
    return f"{purpose}/{moment:%Y-%m-%d}"
