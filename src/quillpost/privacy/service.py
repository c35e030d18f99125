"""Erases recipients of items, images of orders and print files of batches, and rotates keys.

Rotation encrypts every encrypted column and file again under the current key. Rows are read without a lock, and written
only where the old bytes are unchanged. What is done is recognized by its key id, so that an interrupted run can start
again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from quillpost.accounts.service import response_encryption_context
from quillpost.accounts.users.second_factor import totp_context
from quillpost.core.database import Database, Tx
from quillpost.core.database.encrypted_columns import EncryptedColumn, RotationCount, count_by_key, reencrypt
from quillpost.core.database.tables.accounts import erasures, people
from quillpost.core.database.tables.base import CUSTOM_COLUMNS, PERSON_COLUMNS, idempotency_keys, items, mailing_lists
from quillpost.core.database.tables.fulfillment import batch_files, prints
from quillpost.core.database.tables.notifications import notices, webhooks
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import DecryptionFailed, read_key_id
from quillpost.core.outbox import encryption_context
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.batches.files import BatchFileStorage, batch_file_key, list_all_secret_files
from quillpost.fulfillment.batches.rules import SECRET_FILES_NOTE, batch_reference
from quillpost.fulfillment.print_room.queries import STATEMENT_FILE
from quillpost.notifications.webhooks.service import secret_context
from quillpost.orders.audience.service import ADDRESSES_DOUBTFUL
from quillpost.orders.giftcards.issuance import card_context, claim_context, stock_context
from quillpost.orders.giftcards.tasks import ITEM_FAILED
from quillpost.orders.queries import LOCK_ORDERS_OF_ITEMS
from quillpost.privacy.erasure.queries import subject_encryption_context
from quillpost.recipients.lists.service import get_key_context

SELECT_ORDER_FILES = sa.text("""
    select distinct f from orders o cross join lateral (
        values (o.front_file_id), (o.background_file_id), (o.pages_file_id), (o.logo_file_id)) p (f)
     where o.id = any(:orders) and f is not null
    union
    select f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.order_id = any(:orders) and f is not null
""")
SELECT_ITEM_FILES = sa.text("""
    select distinct f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.id = any(:items) and f is not null
""")
CLEAR_ORDER_FILES = sa.text("""
    update orders set front_file_id = null, background_file_id = null, pages_file_id = null,
                      logo_file_id = null, pictures_gone_at = :now
     where id = any(:orders)
""")
CLEAR_ITEM_FILES = sa.text("""
    update items set front_file_id = null, background_file_id = null
     where order_id = any(:orders) and (front_file_id is not null or background_file_id is not null)
""")
# A file of a template, or of another order, is shared.
DELETE_UNUSED_FILES = sa.text("""
    with gone as (
        delete from files f
         where f.id = any(:files)
           and not exists (select from items where front_file_id = f.id)
           and not exists (select from items where background_file_id = f.id)
           and not exists (select from orders where front_file_id = f.id)
           and not exists (select from orders where background_file_id = f.id)
           and not exists (select from orders where pages_file_id = f.id)
           and not exists (select from orders where logo_file_id = f.id)
           and not exists (select from image_templates where image_file_id = f.id)
           and not exists (select from sub_accounts s
                            where s.account_id = f.account_id
                              and strpos(s.branding::text || s.backgrounds::text, f.id::text) > 0)
        returning key)
    insert into erasing_files (key, since) select key, :now from gone on conflict do nothing
""")


def delete_unused_files(tx: Tx, file_ids: Sequence[Any], *, now: datetime) -> int:
    """Delete those of the files that are not used any more; how many."""
    return tx.execute(DELETE_UNUSED_FILES, {"files": list(file_ids), "now": now}).rowcount if file_ids else 0


def delete_images(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> int:
    """Delete images and PDFs of the orders, which can no longer be replayed."""
    params = {"orders": list(order_ids), "now": now}
    file_ids = list(tx.execute(SELECT_ORDER_FILES, params).scalars())
    tx.execute(CLEAR_ORDER_FILES, params)
    tx.execute(CLEAR_ITEM_FILES, params)
    return delete_unused_files(tx, file_ids, now=now)


# Deleted by their owners, and needed until nothing that is written in them can still be printed.
DELETE_REMOVED_HANDWRITING = tuple(
    sa.text(f"""
        delete from {table} removed
         where removed.deleted_at is not null
           and not exists (select from orders o
                            where {reference} = removed.id and o.status not in ('fulfilled', 'cancelled', 'error'))
    """)
    for table, reference in (("own_hands", "o.style >= 1000 and o.style"), ("signatures", "o.signature_id"))
)


def delete_removed_handwriting(db: Database) -> None:
    """A job."""
    with db.system_transaction() as tx:
        for statement in DELETE_REMOVED_HANDWRITING:
            tx.execute(statement)


PRINT_JOBS_FOLDER = "print-jobs"  # of our own printers, with a folder for each mode
STATUS_FILES = frozenset({"ticket.json", "acknowledged.json", "printed.json", "mailed.json", "leaving.json"})
"""What stays of a print job."""

# The mailing statement names no person; the postal service may ask for it.
DELETE_BATCH_FILES = sa.text("""
    with mailed as (
        select b.id, b.mode from batches b where b.id = any(:batches) and b.status = 'mailed'),
    gone as (
        delete from batch_files f using mailed m where f.batch_id = m.id and f.name <> :statement
        returning f.batch_id, f.name, m.mode)
    select batch_id, mode, array_agg(name) as names from gone group by batch_id, mode
""")
DELETE_SECRET_FILES = sa.text("""
    delete from batch_files f using batches b
     where b.id = f.batch_id and b.id = any(:batches) and b.status = 'mailed' and f.is_secret
    returning f.batch_id, f.name, b.mode
""")
SELECT_ITEM_BATCHES = sa.text("select distinct batch_id from prints where item_id = any(:items)")
QUEUE_FILES = sa.text("""
    insert into erasing_files (key, since) select key, :now from unnest(cast(:keys as text[])) key
    on conflict do nothing
""")


def delete_print_files(tx: Tx, batch_ids: Sequence[int], *, now: datetime) -> int:
    """How many files are deleted; batches that are not mailed keep theirs."""
    if not batch_ids:
        return 0
    rows = tx.execute(DELETE_BATCH_FILES, {"batches": list(batch_ids), "statement": STATEMENT_FILE}).all()
    keys = [batch_file_key(row.batch_id, name) for row in rows for name in row.names]
    folders = [f"{PRINT_JOBS_FOLDER}/{row.mode}/{batch_reference(row.batch_id)}/" for row in rows]
    queue_file_deletion(tx, [*keys, *folders], now=now)
    return len(keys)


def delete_secret_print_files(tx: Tx, batch_ids: Sequence[int], *, now: datetime) -> int:
    """Only those with gift card claims."""
    rows = tx.execute(DELETE_SECRET_FILES, {"batches": list(batch_ids)}).all()
    keys = [batch_file_key(row.batch_id, row.name) for row in rows]
    job_keys = {
        f"{PRINT_JOBS_FOLDER}/{row.mode}/{batch_reference(row.batch_id)}/{name}"
        for row in rows
        for name in (SECRET_FILES_NOTE, row.name)
    }
    queue_file_deletion(tx, [*keys, *sorted(job_keys)], now=now)
    return len(keys)


def queue_file_deletion(tx: Tx, keys: Sequence[str], *, now: datetime) -> None:
    """Delete these files after this transaction commits."""
    if keys:
        tx.execute(QUEUE_FILES, {"keys": list(keys), "now": now})


PERSONAL_COLUMNS = (
    *PERSON_COLUMNS, "absentee_address", "email", "phone", "dob", "anniversary", *CUSTOM_COLUMNS, "address_key",
    "surname",
    "moved_key", "deliverability", "standard", "reasons", "front_file_id", "background_file_id",
)  # fmt: skip
"""The country stays: it decides how far an item is tracked."""


_ADDRESS_KEY = sa.func.coalesce(items.c.moved_key, items.c.address_key)
_CAN_STILL_OPT_OUT = sa.and_(
    items.c.mode == "live", sa.exists().where(prints.c.item_id == items.c.id), sa.not_(sa.func.bars_email(_ADDRESS_KEY))
)
"""The item may still be used to opt out: a digest of the address is kept."""

_ITEM_FACTS = "array(select id from facts where item_id = any(:items))"

RELATED_STATEMENTS = {
    # Pending deliveries are built again when they are sent.
    "deliveries": f"""
        update deliveries set body = null, response_body = null, error = null
         where fact_id = any({_ITEM_FACTS})
           and (body is not null or response_body is not null or error is not null)
    """,
    "facts": """
        update facts set place = null, reason = null
         where item_id = any(:items) and (place is not null or reason is not null)
    """,
    "visits": "update visits set agent = '' where item_id = any(:items) and agent <> ''",
    "visit_inbox": "update visit_inbox set agent = '' where item_id = any(:items) and agent <> ''",
    "carrier_scans": """
        update carrier_scans set raw = '{}', place = null where item_id = any(:items) and raw <> '{}'
    """,
    # Notifications name who scanned an item.
    "notices": """
        update notices n
           set subject = 'Scans of order ' || o.id,
               words = case n.status when 'pending' then 'Pieces of order ' || o.id || ' were scanned.'
                                     else '' end
          from (select distinct order_id as id from items where id = any(:items) and scans > 0) o
         where n.kind = 'scans' and split_part(n.key, ':', 2) = o.id::text and n.words not in (
               '', 'Pieces of order ' || o.id || ' were scanned.')
    """,
    # Warnings about a doubtful address quote it.
    "orders": f"""
        update orders o
           set warnings = (
               select jsonb_agg(case w ->> 'code' when '{ADDRESSES_DOUBTFUL}'
                                then jsonb_build_object('code', w -> 'code', 'params', jsonb_build_object(),
                                                        'text', (w -> 'params' ->> 'count_text') || ' doubtful.')
                                else w end order by place)
                 from jsonb_array_elements(o.warnings) with ordinality as warning (w, place))
         where o.id in (select order_id from items where id = any(:items))
           and jsonb_path_exists(o.warnings, '$[*] ? (@.code == "{ADDRESSES_DOUBTFUL}").params.count_text')
    """,
    # The reason may name the recipient. A valid card stays claimable.
    "giftcards": f"""
        with turn as materialized (
            select item_id from giftcards where item_id = any(:items) and void_reason <> '{ITEM_FAILED}'
             order by item_id for no key update)
        update giftcards g set void_reason = null from turn where g.item_id = turn.item_id
    """,
    "automation_due": "delete from automation_due where item_id = any(:items)",
    "received_events": """
        delete from received_events
         where event_id in (select unnest(array[event_id::text, md5(event_id::text)::uuid::text])
                              from facts where item_id = any(:items))
    """,
}  # by table, what erases these items' recipients elsewhere

_STATEMENTS = {table: sa.text(statement) for table, statement in RELATED_STATEMENTS.items()}


def erase_items(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> dict[str, int]:
    """Rows by table. Run again, it finds what was written since."""
    params: dict[str, Any] = {"items": list(item_ids), "now": now}
    file_ids = list(tx.execute(SELECT_ITEM_FILES, params).scalars())
    counts = {table: tx.execute(statement, params).rowcount for table, statement in _STATEMENTS.items()}
    update = (
        sa.update(items)
        .where(items.c.id.in_(item_ids), items.c.person_gone_at.is_(None))
        .values(
            **dict.fromkeys(PERSONAL_COLUMNS),
            person_gone_at=now,
            door_digest=sa.case((_CAN_STILL_OPT_OUT, sa.func.bar_digest(items.c.account_id, "address", _ADDRESS_KEY))),
        )
    )
    counts["items"] = tx.execute(update).rowcount
    counts["files"] = delete_print_files(tx, list(tx.execute(SELECT_ITEM_BATCHES, params).scalars()), now=now)
    # An image that only these items used may show their recipient.
    counts["files"] += delete_unused_files(tx, file_ids, now=now)
    return counts


def erase_ended_items(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> None:
    """The same for items that are not locked yet."""
    tx.execute(LOCK_ORDERS_OF_ITEMS, {"items": list(item_ids)})
    erase_items(tx, item_ids, now=now)


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
            for count in reencrypt(db, batch_store.encryptor, column, wait=True):
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
            queue_file_deletion(tx, [batch_file_key(batch_id, name)], now=now)
