"""A worker is killed in the middle of an import; another takes over, and everyone is on the list once."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports import tasks as import_tasks
from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.list_rows import make_list
from support.processes import CommandRunner, until
from support.repeated_crashes import crash_in_turn
from support.sender_office import SenderService, open_sender_service

ROWS = 9_000
AT_ONCE = {"QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4", "QUILLPOST_JOB_STALL_SECONDS": "2"}
IMPORTING = "quillpost.recipients.imports"

ALL_DONE = """
    select 1 from imports where status = 'done' and not exists (
        select from procrastinate_jobs where task_name = 'imports.run' and status in ('todo', 'doing'))
"""

STEPS = [
    # One chunk is staged and noted; the next is staged and not committed; all but put on the list; put there
    # and not committed; committed, and nobody told.
    CrashPoint(f"{IMPORTING}.queries:store_chunk", "before", call=2),
    CrashPoint(f"{IMPORTING}.queries:store_chunk", "after", call=2),
    CrashPoint(f"{IMPORTING}.tasks:add_staged_recipients", "after"),
    CrashPoint(f"{IMPORTING}.tasks:_finish_import", "after"),
]


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver, **AT_ONCE) as sender_service:
        yield sender_service


def test_everyone_of_a_file_is_on_the_list_once(sender_service: SenderService, command_runner: CommandRunner) -> None:
    """Though one after the other dies, at every step."""
    assert_everyone_is_listed_once(sender_service, command_runner, STEPS)


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_everyone_is_listed_once_whatever_the_step(
    step: CrashPoint, sender_service: SenderService, command_runner: CommandRunner
) -> None:
    assert_everyone_is_listed_once(sender_service, command_runner, [step])


def assert_everyone_is_listed_once(
    sender_service: SenderService, command_runner: CommandRunner, deaths: Sequence[CrashPoint]
) -> None:
    caller = Caller(sender_service.sender.id, "test")
    list_id = make_list(sender_service.container, caller, [])
    rows = "".join(f"Person {n},{n + 1} Main Street,Austin,TX,78701\n" for n in range(ROWS))
    file = io.BytesIO(f"Name,Street,City,State,Zip\n{rows}Jane,1 Main St.,Austin,TX,78701\n".encode())
    looked = import_service.inspect_file(file, name="people.csv", mapping=None, has_header=None)
    assert looked.size > import_tasks.MAX_INLINE_BYTES, "processes of its own examine it"
    key = import_service.store_file(
        sender_service.container.storage.store, looked, now=sender_service.container.clock()
    )
    with sender_service.container.db.transaction(build_tenant(caller)) as tx:
        import_service.create_import(tx, list_id, looked, key, clock=sender_service.container.clock)

    crash_in_turn(sender_service, command_runner, deaths)
    healthy = command_runner.start("work", settings=sender_service.settings)
    until(lambda: sender_service.rows(ALL_DONE), what="the import done, and its job")
    assert healthy.stop() == 0, healthy.output

    assert sender_service.rows("select name from recipients order by id") == [(f"Person {n}",) for n in range(ROWS)]
    assert sender_service.rows("select total_recipients, processed, type from mailing_lists") == [(ROWS, True, "csv")]
    counted = "select rows_read, rows_imported, rows_rejected, duplicates from imports"
    assert sender_service.rows(counted) == [(ROWS + 1, ROWS, 1, 1)]
    assert sender_service.rows("select place, line from import_rejects") == [(ROWS, ROWS + 2)]
    assert sender_service.rows("select 1 from pg_tables where tablename like 'import_staging%'") == []
