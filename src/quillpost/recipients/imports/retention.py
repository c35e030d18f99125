"""What keeps imports going, and what forgets them."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.database.tables.imports import import_rejects, imports
from quillpost.recipients.imports import queries
from quillpost.recipients.imports.service import FOLDER
from quillpost.recipients.imports.tasks import FILL, GIVEN_UP, QUEUE, Means, fail

AT_ONCE = 1_000
UNRECORDED = timedelta(days=1)
"""A file may lie so long in the store before its import is noted."""

_STAGED = sa.text(
    r"select cast(substring(tablename from '\d+$') as bigint) from pg_tables"
    r" where schemaname = 'public' and tablename ~ '^import_staging_\d+$'"
)


def resume(means: Means) -> None:
    """Book the job for every import that waits and has none; one whose job was given up has failed."""
    with means.db.work() as tx:
        waiting = tx.execute(
            sa.select(imports.c.id)
            .where(imports.c.status.in_(queries.UNFINISHED))
            .order_by(imports.c.id)
            .limit(AT_ONCE)
        )
        given_up = []
        for import_id in waiting.scalars():
            if jobs.is_waiting(tx, FILL, import_id=import_id) or jobs.is_running(
                tx, FILL, import_id=import_id
            ):
                continue
            if jobs.is_known(tx, FILL, import_id=import_id):
                given_up.append(import_id)
            else:
                jobs.defer(tx, FILL, queue=QUEUE, import_id=import_id)
    for import_id in given_up:
        fail(means, import_id, GIVEN_UP)


def forget_old(means: Means, *, keep: timedelta, now: datetime) -> None:
    """Remove the files and reports of imports past their time, and whatever nobody speaks of any more."""
    with means.db.work() as tx:
        old = sa.and_(
            imports.c.created_at < now - keep,
            imports.c.file_key.is_not(None),
            imports.c.status.not_in(queries.UNFINISHED),
        )
        ids = list(tx.execute(sa.select(imports.c.id).where(old).limit(AT_ONCE)).scalars())
        tx.execute(sa.update(imports).where(imports.c.id.in_(ids)).values(file_key=None, columns=[]))
        tx.execute(sa.delete(import_rejects).where(import_rejects.c.import_id.in_(ids)))
        for import_id in tx.execute(_STAGED).scalars().all():
            if queries.has_ended(tx, import_id):
                queries.drop_staging(tx, import_id)
    _forget_unspoken(means, now=now)


def _forget_unspoken(means: Means, *, now: datetime) -> None:
    """Files without an import: their time is over, their list is gone, or their call failed."""
    first_kept = f"{FOLDER}/{now - UNRECORDED:%Y-%m-%d}"
    found = [key for key in means.store.keys(f"{FOLDER}/") if _day(key) < first_kept]
    with means.db.work() as tx:
        known = set(tx.execute(sa.select(imports.c.file_key).where(imports.c.file_key.in_(found))).scalars())
    for key in set(found) - known:
        means.store.delete(key)


def _day(key: str) -> str:
    return key.rpartition("/")[0]
