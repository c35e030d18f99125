"""Encrypts every encrypted column and file again under the current key. Rows are read without a lock, and written only
where the old bytes are unchanged. What is done is recognized by its key id, so that an interrupted run can start again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from quillpost.accounts.service import response_encryption_context
from quillpost.accounts.users.second_factor import totp_context
from quillpost.core.database import Database
from quillpost.core.database.encrypted_columns import (
    EncryptedColumn,
    RotationCount,
    count_by_key,
    reencrypt,
    reencrypt_locked,
)
from quillpost.core.database.tables.accounts import erasures, people
from quillpost.core.database.tables.base import idempotency_keys, mailing_lists
from quillpost.core.database.tables.fulfillment import batch_files
from quillpost.core.database.tables.notifications import notices, webhooks
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import DecryptionFailed, read_key_id
from quillpost.core.outbox import encryption_context
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.batches.files import BatchFileStorage, batch_file_key, list_all_secret_files
from quillpost.notifications.webhooks.service import secret_context
from quillpost.orders.giftcards.issuance import card_context, claim_context, stock_context
from quillpost.privacy import service as private_files
from quillpost.privacy.queries import subject_encryption_context
from quillpost.recipients.lists.service import get_key_context

ENCRYPTED_COLUMNS: Final[Sequence[EncryptedColumn]] = (
    EncryptedColumn(webhooks, "secret_sealed", secret_context, ["id"]),
    EncryptedColumn(webhooks, "previous_secret_sealed", secret_context, ["id"]),
    EncryptedColumn(mailing_lists, "key_sealed", get_key_context, ["id"]),
    EncryptedColumn(people, "totp_sealed", totp_context, ["id"]),
    EncryptedColumn(erasures, "whom_sealed", subject_encryption_context, ["id"]),
    EncryptedColumn(notices, "secret_sealed", encryption_context, ["key"]),
    EncryptedColumn(
        idempotency_keys,
        "answer_body",
        response_encryption_context,
        ["account_id", "path", "key"],
        condition=idempotency_keys.c.sealed,
    ),
    EncryptedColumn(giftcards, "claim_sealed", claim_context, ["item_id"]),
    EncryptedColumn(giftcards, "card_sealed", card_context, ["item_id"]),
    EncryptedColumn(giftcard_stock, "card_sealed", stock_context, ["id"]),
)

PRINT_FILES: Final = "print files"

ENCRYPTED_TABLES: Final[Sequence[sa.Table]] = tuple(
    dict.fromkeys([*(column.table for column in ENCRYPTED_COLUMNS), batch_files])
)

RotationProgress = tuple[str, RotationCount]


def count_all_by_key(db: Database, batch_store: BatchFileStorage) -> Mapping[str, Mapping[str, int]]:
    """How many encrypted values there are, by location and key id."""
    with db.system_transaction() as tx:
        counts = {str(column): count_by_key(tx, column) for column in ENCRYPTED_COLUMNS}
        secret_files = list_all_secret_files(tx)
    # Outside the transaction: the store may be slow.
    counts[PRINT_FILES] = count_files_by_key(batch_store, secret_files)
    return {location: count for location, count in counts.items() if count}


def count_files_by_key(batch_store: BatchFileStorage, secret_files: Iterable[tuple[int, str]]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for batch_id, name in secret_files:
        try:
            key_id = read_key_id(batch_store.read_header(batch_id, name))
        except FileMissing:  # past its time, and removed since
            continue
        counts[key_id] = counts.get(key_id, 0) + 1
    return counts


def reencrypt_all(db: Database, batch_store: BatchFileStorage, *, now: datetime) -> Iterator[RotationProgress]:
    """Encrypt everything again that is under another key than the current one."""
    for column in ENCRYPTED_COLUMNS:
        has_locked_rows = False
        for count in reencrypt(db, batch_store.encryptor, column):
            has_locked_rows = has_locked_rows or count.skipped > 0
            yield str(column), count
        if has_locked_rows:
            for count in reencrypt_locked(db, batch_store.encryptor, column):
                yield str(column), RotationCount(count.reencrypted, count.skipped)
    for count in _reencrypt_files(db, batch_store, now=now):
        yield PRINT_FILES, count


def _reencrypt_files(db: Database, batch_store: BatchFileStorage, *, now: datetime) -> Iterator[RotationCount]:
    with db.system_transaction() as tx:
        secret_files = list_all_secret_files(tx)
    for batch_id, name in secret_files:
        try:
            if batch_store.read_header(batch_id, name).startswith(batch_store.encryptor.current_header):
                continue
            batch_store.reencrypt(batch_id, name)
            _delete_if_expired(db, batch_id, name, now=now)
        except FileMissing:
            continue
        except DecryptionFailed:
            yield RotationCount(failed=1)
        else:
            yield RotationCount(reencrypted=1)


def _delete_if_expired(db: Database, batch_id: int, name: str, *, now: datetime) -> None:
    """A file that expired while it was encrypted was deleted, and then put back by us."""
    with db.system_transaction() as tx:
        conditions = batch_files.c.batch_id == batch_id, batch_files.c.name == name
        if tx.execute(sa.select(batch_files.c.name).where(*conditions)).first() is None:
            private_files.queue_file_deletion(tx, [batch_file_key(batch_id, name)], now=now)
