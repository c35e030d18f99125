"""Every encrypted column and file, encrypted again under the current key.

Rows are read and sealed without a lock. A value is written only where the old bytes are still there, so that
one that was changed meanwhile is left alone, and two that do this at once do each other no harm. What is done
is seen by its key's name: whoever is interrupted starts again, and skips it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from quillpost.accounts.service import answer_context
from quillpost.accounts.users.second_factor import totp_context
from quillpost.core.database import Database
from quillpost.core.database.encrypted_columns import Done, SealedColumn, count_by_key, reseal, reseal_held
from quillpost.core.database.tables.base import idempotency_keys, mailing_lists
from quillpost.core.database.tables.giftcards import giftcard_stock, giftcards
from quillpost.core.database.tables.notifications import notices, webhooks
from quillpost.core.database.tables.print_room import batch_files
from quillpost.core.database.tables.privacy import erasures
from quillpost.core.database.tables.users import people
from quillpost.core.encryption import SealBroken, key_named_in
from quillpost.core.outbox import context_of
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.files import BatchStore, all_secret, place_of
from quillpost.notifications.webhooks.service import secret_context
from quillpost.orders.giftcards.issuance import card_context, claim_context, stock_context
from quillpost.privacy import files as print_files
from quillpost.privacy.models import whom_context
from quillpost.recipients.lists.service import key_context

COLUMNS: Final[Sequence[SealedColumn]] = (
    SealedColumn(webhooks, "secret_sealed", secret_context, ["id"]),
    SealedColumn(webhooks, "previous_secret_sealed", secret_context, ["id"]),
    SealedColumn(mailing_lists, "key_sealed", key_context, ["id"]),
    SealedColumn(people, "totp_sealed", totp_context, ["id"]),
    SealedColumn(erasures, "whom_sealed", whom_context, ["id"]),
    SealedColumn(notices, "secret_sealed", context_of, ["key"]),
    SealedColumn(
        idempotency_keys,
        "answer_body",
        answer_context,
        ["account_id", "path", "key"],
        only=idempotency_keys.c.sealed,
    ),
    SealedColumn(giftcards, "claim_sealed", claim_context, ["item_id"]),
    SealedColumn(giftcards, "card_sealed", card_context, ["item_id"]),
    SealedColumn(giftcard_stock, "card_sealed", stock_context, ["id"]),
)

FILES: Final = "print files"

TABLES: Final[Sequence[sa.Table]] = tuple(dict.fromkeys([*(column.table for column in COLUMNS), batch_files]))
"""Whoever seals something writes to one of these."""

Told = tuple[str, Done]
"""Where something was sealed anew, and how much."""


def count_all(db: Database, files: BatchStore) -> Mapping[str, Mapping[str, int]]:
    """By where they lie, and by the id of their key, how many sealed values there are."""
    with db.work() as tx:
        counts = {str(column): count_by_key(tx, column) for column in COLUMNS}
        known = all_secret(tx)
    # The store may be far away: no transaction waits for it.
    counts[FILES] = count_files(files, known)
    return {place: count for place, count in counts.items() if count}


def count_files(files: BatchStore, known: Iterable[tuple[int, str]]) -> Mapping[str, int]:
    """Of these files of batches, how many there are by the id of their key."""
    counts: dict[str, int] = {}
    for batch_id, name in known:
        try:
            key_id = key_named_in(files.header(batch_id, name))
        except FileMissing:  # past its time, and removed since
            continue
        counts[key_id] = counts.get(key_id, 0) + 1
    return counts


def reseal_all(db: Database, files: BatchStore, *, now: datetime) -> Iterator[Told]:
    """Seal everything anew that is under another key than the current one."""
    for column in COLUMNS:
        was_held = False
        for done in reseal(db, files.sealer, column):
            was_held = was_held or done.passed_by > 0
            yield str(column), done
        if was_held:
            for done in reseal_held(db, files.sealer, column):
                yield str(column), Done(done.renewed, done.passed_by)
    for done in _reseal_files(db, files, now=now):
        yield FILES, done


def _reseal_files(db: Database, files: BatchStore, *, now: datetime) -> Iterator[Done]:
    with db.work() as tx:
        known = all_secret(tx)
    for batch_id, name in known:
        try:
            if files.header(batch_id, name).startswith(files.sealer.mark):
                continue
            files.reseal(batch_id, name)
            _remove_again(db, batch_id, name, now=now)
        except FileMissing:
            continue
        except SealBroken:
            yield Done(broken=1)
        else:
            yield Done(renewed=1)


def _remove_again(db: Database, batch_id: int, name: str, *, now: datetime) -> None:
    """A file whose time has come while it was sealed was removed, and then put back by us."""
    with db.work() as tx:
        this = batch_files.c.batch_id == batch_id, batch_files.c.name == name
        if tx.execute(sa.select(batch_files.c.name).where(*this)).first() is None:
            print_files.queue(tx, [place_of(batch_id, name)], now=now)
