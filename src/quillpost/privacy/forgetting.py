"""The task that forgets what is kept for longer than is set, some rows at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from quillpost.database import Database
from quillpost.privacy.retention import RULES, Days, Rule, Step, overdue

log = structlog.get_logger(__name__)

AT_ONCE = 2_000
"""Rows of one transaction: nobody waits long for it."""
MOST_STEPS = 500
"""Of one rule in one run; what is left waits for the next."""
MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Kept:
    """How long something is kept, and how much of it is overdue by now, at most `MOST_COUNTED`."""

    rule: Rule
    days: int | None
    overdue: int


def forget_old(db: Database, days: Days, *, now: datetime, rules: Sequence[Rule] = RULES) -> None:
    """A job: every rule that has a time, until nothing is left of it or its steps are used up."""
    for rule in rules:
        kept = days.get(rule.setting)
        if kept is None or rule.forget is None:
            continue
        step, gone = Step(before=now - timedelta(days=kept), most=AT_ONCE, now=now), 0
        for _ in range(MOST_STEPS):
            with db.work() as tx:
                some = rule.forget(tx, step)
            gone += some
            if some < AT_ONCE:
                break
        if gone:
            log.info("privacy.forgotten", table=rule.table, rows=gone)


def show_kept(db: Database, days: Days, *, now: datetime) -> list[Kept]:
    """Each rule as it is set."""
    shown = []
    for rule in RULES:
        kept = days.get(rule.setting)
        late = 0
        if kept is not None:
            with db.work() as tx:
                late = overdue(tx, rule, before=now - timedelta(days=kept), most=MOST_COUNTED)
        shown.append(Kept(rule, kept, late))
    return shown
