"""Workers that die one after the other on one way, each where it was told to."""

import signal
from collections.abc import Sequence

import sqlalchemy as sa

from support.crash_points import CrashPoint
from support.processes import CommandRunner
from support.sender_office import SenderService

# As when a worker was missed for long enough; and it is not the jobs' fault that so many died.
LEASE_END = sa.text("update procrastinate_jobs set status = 'todo', attempts = 0 where status = 'doing'")


def crash_in_turn(
    sender_service: SenderService, command_runner: CommandRunner, deaths: Sequence[CrashPoint]
) -> list[str]:
    """Each takes over from the one before; the last is not helped on: whoever comes next has to miss it. The
    ids of events that may have been told."""
    in_flight: list[str] = []
    for number, death in enumerate(deaths):
        if number:
            with sender_service.container.db.system_transaction() as tx:
                tx.execute(LEASE_END)
        killed = command_runner.start("work", settings=sender_service.settings, crash=death)
        assert killed.wait() == -signal.SIGKILL, f"{death} was never reached:\n{killed.output}"
        in_flight += sender_service.let_leases_end()
    return in_flight
