"""Whether this machine's clock and the database's agree, as `quillpost doctor` sees it."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.cli.findings import Finding
from quillpost.database import Tx

A_LITTLE = timedelta(seconds=2)
TOO_MUCH = timedelta(seconds=20)
"""Pumps and workers lease what they do for a minute, each by its own clock."""

ADVICE = "Let every machine keep its clock by NTP."


def check_clock(tx: Tx, *, now: datetime) -> Finding:
    """Machines that disagree about the time would take work from each other that is still being done."""
    apart = tx.execute(sa.text("select clock_timestamp()")).scalar_one() - now
    seconds = abs(apart.total_seconds())
    if abs(apart) <= A_LITTLE:
        return Finding("clock", "ok", "it agrees with the database's")
    what = f"{seconds:,.0f} seconds {'behind' if apart > timedelta(0) else 'ahead of'} the database's"
    return Finding("clock", "broken" if abs(apart) > TOO_MUCH else "warning", what, ADVICE)
