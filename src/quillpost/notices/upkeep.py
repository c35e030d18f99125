"""What becomes of notices that nobody needs any more."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.database import Database
from quillpost.database.event_tables import notices
from quillpost.notices import outbox, rules, scan_digest


def forget_old(db: Database, *, kept_days: int = rules.FORGOTTEN_AFTER.days, now: datetime) -> None:
    """A job: give up what waited for too long, and forget what was settled so many days ago. A job
    that comes again finds nothing left to do."""
    with db.work() as tx:
        outbox.give_up(tx, now=now)
        scan_digest.forget_told(tx)
        settled = notices.c.status != "pending"
        tx.execute(sa.delete(notices).where(settled, notices.c.created_at < now - timedelta(days=kept_days)))
