"""Workers that die one after the other on one way, each where it was told to."""

import signal
from collections.abc import Sequence

import sqlalchemy as sa
from crashing_worker import CrashPoint
from office import Office
from processes import Nursery

# As when a worker was missed for long enough; and it is not the jobs' fault that so many died.
LET_GO = sa.text("update procrastinate_jobs set status = 'todo', attempts = 0 where status = 'doing'")


def die_in_turn(office: Office, nursery: Nursery, deaths: Sequence[CrashPoint]) -> list[str]:
    """Each takes over from the one before; the last is not helped on: whoever comes next has to miss it. The
    ids of events that may have been told."""
    in_the_air: list[str] = []
    for number, death in enumerate(deaths):
        if number:
            with office.container.db.system_transaction() as tx:
                tx.execute(LET_GO)
        killed = nursery.start("work", settings=office.settings, crash=death)
        assert killed.wait() == -signal.SIGKILL, f"{death} was never reached:\n{killed.output}"
        in_the_air += office.let_leases_end()
    return in_the_air
