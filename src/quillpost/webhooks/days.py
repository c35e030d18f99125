"""How long deliveries are kept: by the day, each in a table of its own."""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.database import Database, Tx
from quillpost.webhooks.planning import by_index

log = structlog.get_logger(__name__)

KEPT_DAYS = 30
DAYS_AHEAD = 7
"""So many are open: a week without a worker is no trouble."""

OPEN = sa.text("select open_delivery_days(:first, :last)")
DROP = sa.text("select drop_delivery_days(:before)")
FORGET = sa.text("select forget_deliveries(:before)")
FORGET_GONE = sa.text("select forget_gone_deliveries(:most)")
FORGOTTEN_AT_ONCE = 10_000


def keep(db: Database, *, kept_days: int = KEPT_DAYS, now: datetime) -> None:
    """A job: open the days to come, drop those that are too old, and forget what waited for as long or is
    of subscriptions that are no more.

    Each is a transaction of its own: an old day that a backup reads is dropped by the next run, and must not
    keep new days from being opened meanwhile.
    """
    today = now.astimezone(UTC).date()
    with db.work() as tx:
        is_open = tx.execute(OPEN, {"first": today, "last": today + timedelta(days=DAYS_AHEAD)}).scalar_one()
    with db.work() as tx:
        is_dropped = tx.execute(DROP, {"before": today - timedelta(days=kept_days)}).scalar_one()
    with db.work() as tx:
        tx.execute(FORGET, {"before": now - timedelta(days=kept_days)})
    forget_gone(db)
    if not (is_open and is_dropped):
        log.warning("webhooks.days_in_use", opened=is_open, dropped=is_dropped)


def forget_gone(db: Database) -> None:
    """Delete what deleted subscriptions were told: in small steps, as that may be millions."""
    while True:
        with db.work() as tx:
            if not forget_some(tx):
                return


def forget_some(tx: Tx) -> int:
    by_index(tx)
    return int(tx.execute(FORGET_GONE, {"most": FORGOTTEN_AT_ONCE}).scalar_one())
