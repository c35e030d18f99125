"""What keeps imports going, and what forgets them."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.database.tables.recipients import import_rejects, imports
from quillpost.recipients.imports import queries
from quillpost.recipients.imports.service import IMPORTS_FOLDER
from quillpost.recipients.imports.tasks import IMPORT_ABANDONED, IMPORT_QUEUE, IMPORT_TASK, ImportContext, fail_import

MAX_IMPORTS_PER_RUN = 1_000
MAX_UNRECORDED_AGE = timedelta(days=1)
"""A file may lie so long in the store before its import is noted."""

_SELECT_STAGING_IDS = sa.text(
    r"select cast(substring(tablename from '\d+$') as bigint) from pg_tables"
    r" where schemaname = 'public' and tablename ~ '^import_staging_\d+$'"
)


def resume_imports(context: ImportContext) -> None:
    """Book the job for every import that waits and has none; one whose job was given up has failed."""
    with context.db.system_transaction() as tx:
        unfinished_ids = tx.execute(
            sa.select(imports.c.id)
            .where(imports.c.status.in_(queries.UNFINISHED))
            .order_by(imports.c.id)
            .limit(MAX_IMPORTS_PER_RUN)
        )
        abandoned_ids = []
        for import_id in unfinished_ids.scalars():
            if jobs.is_waiting(tx, IMPORT_TASK, import_id=import_id) or jobs.is_running(
                tx, IMPORT_TASK, import_id=import_id
            ):
                continue
            if jobs.is_unfinished(tx, IMPORT_TASK, import_id=import_id):
                abandoned_ids.append(import_id)
            else:
                jobs.enqueue(tx, IMPORT_TASK, queue=IMPORT_QUEUE, import_id=import_id)
    for import_id in abandoned_ids:
        fail_import(context, import_id, IMPORT_ABANDONED)


def delete_expired_imports(context: ImportContext, *, retention: timedelta, now: datetime) -> None:
    """Remove the files and reports of imports past their time, and whatever nobody speaks of any more."""
    with context.db.system_transaction() as tx:
        is_expired = sa.and_(
            imports.c.created_at < now - retention,
            imports.c.file_key.is_not(None),
            imports.c.status.not_in(queries.UNFINISHED),
        )
        ids = list(tx.execute(sa.select(imports.c.id).where(is_expired).limit(MAX_IMPORTS_PER_RUN)).scalars())
        tx.execute(sa.update(imports).where(imports.c.id.in_(ids)).values(file_key=None, columns=[]))
        tx.execute(sa.delete(import_rejects).where(import_rejects.c.import_id.in_(ids)))
        for import_id in tx.execute(_SELECT_STAGING_IDS).scalars().all():
            if queries.has_ended(tx, import_id):
                queries.drop_staging(tx, import_id)
    _delete_orphaned_files(context, now=now)


def _delete_orphaned_files(context: ImportContext, *, now: datetime) -> None:
    """Files without an import: their time is over, their list is gone, or their call failed."""
    first_retained_folder = f"{IMPORTS_FOLDER}/{now - MAX_UNRECORDED_AGE:%Y-%m-%d}"
    old_keys = [
        key for key in context.store.keys(f"{IMPORTS_FOLDER}/") if _get_dated_folder(key) < first_retained_folder
    ]
    with context.db.system_transaction() as tx:
        recorded_keys = set(tx.execute(sa.select(imports.c.file_key).where(imports.c.file_key.in_(old_keys))).scalars())
    for key in set(old_keys) - recorded_keys:
        context.store.delete(key)


def _get_dated_folder(key: str) -> str:
    return key.rpartition("/")[0]
