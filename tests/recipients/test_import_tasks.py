"""The job of an import: staged in chunks, gone on with after a crash, put on the list all at once."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core import jobs
from quillpost.core.database.tables.notifications import automation_due, automations
from quillpost.core.database.tables.recipients import import_rejects, imports
from quillpost.recipients.addresses import cities
from quillpost.recipients.imports import process_pool
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.imports.models import RowChunk, RowPlan
from quillpost.recipients.imports.process_pool import MAX_PROCESSES, ImportProcessDied, ImportProcessPool
from quillpost.recipients.imports.queries import SAME_ADDRESS, UNDELIVERABLE_ON_LIST, StagedRowsLost
from quillpost.recipients.imports.tasks import IMPORTS_FOLDER
from quillpost.recipients.service import ALREADY_ON_LIST
from support.factories import Account, Clock
from support.mailing_lists import HEAD, JANE, JOHN, Importer, ListOwner, counts, import_context
from support.rows import execute, run
from support.tenant_rows import least_row

ROWS = 40
EVERYBODY = [f"Person {n}" for n in range(ROWS)]


def people(count: int = ROWS) -> str:
    return HEAD + "".join(f"Person {n},{n + 1} Main St,Austin,TX,78701\n" for n in range(count))


@pytest.fixture
def importer(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> Importer:
    monkeypatch.setattr(import_tasks, "MAX_CHUNK_ROWS", 10)
    return Importer(ListOwner(owner), container)


def has_staging(container: Container, import_id: int) -> bool:
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.text("select to_regclass(:name)"), {"name": f"import_staging_{import_id}"})
        return found.scalar_one() is not None


def broken_after(monkeypatch: pytest.MonkeyPatch, chunks: int, then: Callable[[], Any] | None = None) -> None:
    """The job dies once so many chunks are staged."""
    keep_chunk, kept = import_queries.store_chunk, iter(range(10_000))

    def keep(*args: Any, **options: Any) -> bool:
        if next(kept) == chunks:
            monkeypatch.setattr(import_queries, "store_chunk", keep_chunk)
            if then is None:
                raise ConnectionError
            then()
        return keep_chunk(*args, **options)

    monkeypatch.setattr(import_queries, "store_chunk", keep)


def test_whoever_goes_on_begins_where_the_last_chunk_was(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id, people() + JANE + "x,1 Main St,A,TX,1\n").json()
    broken_after(monkeypatch, 3)
    with pytest.raises(ConnectionError):
        importer.fill(begun["id"])
    half = importer.read(begun["id"])
    assert (half["status"], half["rows_read"]) == ("running", 30)
    assert 0 < half["progress"] < 1
    assert importer.names(list_id) == []
    kept: list[str] = []
    copy_lines = import_queries.copy_lines

    def noting(tx: Any, table: str, lines: bytes) -> None:
        if lines:
            kept.append(table)
        copy_lines(tx, table, lines)

    monkeypatch.setattr(import_queries, "copy_lines", noting)
    done = importer.fill(begun["id"])
    # 30 of 42 rows are staged already: the rest is two chunks, one of them with the row that is rejected.
    assert len([name for name in kept if name.startswith("import_staging")]) == 2
    assert counts(done) == (42, 40, 2, 1)
    assert importer.names(list_id) == EVERYBODY
    assert not has_staging(importer.container, begun["id"])


def truncate_staging(importer: Importer, import_id: int) -> None:
    """The database comes back with what it had on disk: nothing of a table that is not logged."""
    run(importer.container, import_queries.truncate_staging, import_id)


def test_after_a_crash_a_file_is_read_anew_and_so_are_chunks(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id, HEAD + "x,1 Main St,A,TX,1\n" + people().removeprefix(HEAD)).json()
    broken_after(monkeypatch, 2)
    with pytest.raises(ConnectionError):
        importer.fill(begun["id"])
    truncate_staging(importer, begun["id"])
    assert counts(importer.fill(begun["id"])) == (41, 40, 1, 0)
    assert importer.names(list_id) == EVERYBODY
    # Nobody waits for the disk when a chunk is noted, so a crash may take the note with it.
    begun = importer.upload(importer.lists.make(), people()).json()

    def forget() -> None:
        truncate_staging(importer, begun["id"])
        execute(importer.container, sa.update(imports).where(imports.c.id == begun["id"]).values(rows_read=10))

    broken_after(monkeypatch, 3, forget)
    with pytest.raises(import_tasks.ImportTakenOver):
        importer.fill(begun["id"])
    assert counts(importer.fill(begun["id"])) == (40, 40, 0, 0)


def test_a_database_that_crashes_meanwhile_loses_nobody(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two chunks, or after the last."""
    finish, begun = import_tasks._finish_import, list[int]()

    def crash() -> None:
        truncate_staging(importer, begun[-1])

    def finish_after_a_crash(*args: Any) -> None:
        crash()
        finish(*args)

    for is_last in (False, True):
        list_id = importer.lists.make()
        begun.append(importer.upload(list_id, people()).json()["id"])
        with monkeypatch.context() as patch:
            if is_last:
                patch.setattr(import_tasks, "_finish_import", finish_after_a_crash)
            else:
                broken_after(patch, 2, crash)
            with pytest.raises(StagedRowsLost):
                importer.fill(begun[-1])
        assert (importer.names(list_id), importer.lists.read(list_id)["processed"]) == ([], False)
        assert counts(importer.fill(begun[-1])) == (40, 40, 0, 0)
        assert importer.names(list_id) == EVERYBODY


def test_a_canceled_import_stops_and_two_workers_add_nobody_twice(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id, people()).json()
    broken_after(monkeypatch, 2, lambda: importer.lists.account.post(f"/imports/{begun['id']}/cancel"))
    done = importer.fill(begun["id"])
    assert (done["status"], done["rows_imported"]) == ("cancelled", 0)
    assert (importer.names(list_id), has_staging(importer.container, begun["id"])) == ([], False)
    assert importer.lists.read(list_id)["processed"]
    # The second is there though the first lives: as when a worker was only thought dead.
    list_id = importer.lists.make()
    begun = importer.upload(list_id, people()).json()
    monkeypatch.setattr(import_tasks, "_lock_import", lambda *_: nullcontext(True))
    broken_after(monkeypatch, 2, lambda: import_tasks.run_import(import_context(importer.container), begun["id"]))
    done = importer.fill(begun["id"])
    assert (done["status"], counts(done), importer.names(list_id)) == ("done", (40, 40, 0, 0), EVERYBODY)


def test_one_worker_works_at_an_import_and_may_break_off(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = importer.upload(importer.lists.make(), people()).json()
    with import_tasks._lock_import(importer.container.db, begun["id"]) as is_ours:
        assert is_ours
        assert importer.fill(begun["id"])["status"] == "waiting"
    with monkeypatch.context() as ending:
        ending.setattr(jobs, "is_stopping", lambda: True)
        with pytest.raises(import_tasks.ImportInterrupted):
            importer.fill(begun["id"])
    assert importer.fill(begun["id"])["status"] == "done"


def test_a_file_or_a_job_that_is_gone_fails_the_import_and_frees_the_list(importer: Importer) -> None:
    list_id = importer.lists.make()
    before = set(importer.files)
    begun = importer.upload(list_id).json()
    [key] = set(importer.files) - before
    importer.container.storage.store.delete(key)
    done = importer.fill(begun["id"])
    assert (done["status"], done["error"]) == ("failed", import_tasks.FILE_GONE)
    assert importer.lists.read(list_id)["processed"]
    assert not has_staging(importer.container, begun["id"])

    begun = importer.upload(list_id).json()
    with importer.container.db.system_transaction() as tx:
        given_up = (
            "update procrastinate_jobs set status = 'failed' where task_name = :t and (args->>'import_id')::int = :i"
        )
        tx.execute(sa.text(given_up), {"t": import_tasks.IMPORT_TASK, "i": begun["id"]})
    import_tasks.resume_imports(import_context(importer.container))
    assert importer.read(begun["id"])["error"] == import_tasks.IMPORT_ABANDONED
    assert importer.lists.read(list_id)["processed"]


def test_the_job_is_booked_with_the_import_and_again_where_it_was_lost(importer: Importer) -> None:
    begun = importer.upload(importer.lists.make()).json()
    container, task, queue = importer.container, import_tasks.IMPORT_TASK, import_tasks.IMPORT_QUEUE
    with container.db.system_transaction() as tx:
        assert jobs.is_waiting(tx, task, import_id=begun["id"])
        jobs.delete_jobs(tx, task, import_id=begun["id"])
    for _ in range(2):
        import_tasks.resume_imports(import_context(container))
    booked = """select count(*) from procrastinate_jobs
                 where task_name = :task and queue_name = :queue and (args->>'import_id')::int = :id"""
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.text(booked), {"task": task, "queue": queue, "id": begun["id"]}).scalar_one() == 1


@pytest.fixture
def delete_expired(importer: Importer, clock: Clock) -> Callable[..., int]:
    """Later; how many of the test's files are left."""
    before = set(importer.files)

    def run(**later: float) -> int:
        clock.advance(**later)
        context = import_context(importer.container)
        import_tasks.delete_expired_imports(context, retention=timedelta(days=30), now=clock.now())
        return len(set(importer.files) - before)

    return run


def test_files_and_reports_are_removed_after_their_time(importer: Importer, delete_expired: Callable[..., int]) -> None:
    done = importer.run(importer.lists.make(), HEAD + JANE + JANE)
    assert [delete_expired(days=29), delete_expired(days=2)] == [1, 0]
    shown = importer.read(done["id"])
    assert (shown["rejected_url"], shown["columns"], counts(shown)) == (None, [], (2, 1, 1, 1))
    assert importer.lists.account.get(f"/imports/{done['id']}/rejected.csv").status_code == 400
    assert execute(importer.container, sa.select(import_rejects).where(import_rejects.c.import_id == done["id"])) == []


def test_what_a_deleted_list_and_a_failed_call_left_is_removed_but_not_at_midnight(
    importer: Importer, clock: Clock, delete_expired: Callable[..., int]
) -> None:
    list_id = importer.lists.make()
    importer.run(list_id, HEAD + JANE)
    importer.lists.delete(f"/mailing-lists/{list_id}")
    store = importer.container.storage.store
    store.put(f"{IMPORTS_FOLDER}/{clock.now():%Y-%m-%d}/stray", b"x")
    assert [delete_expired(), delete_expired(days=2)] == [2, 0]
    clock.advance(hours=23 - clock.now().hour, minutes=59 - clock.now().minute)
    store.put(f"{IMPORTS_FOLDER}/{clock.now():%Y-%m-%d}/whose-call-is-not-done-yet", b"x")
    assert [delete_expired(minutes=2), delete_expired(days=1)] == [1, 0]


def test_of_two_at_one_address_the_deliverable_one_stays_and_a_listed_one_is_named(importer: Importer) -> None:
    list_id = importer.lists.make()
    half, whole = "Half,12 Main St,,,78701\n", "Whole,12 Main St,Austin,TX,78701\n"
    done = importer.run(list_id, HEAD + half + whole + JANE + half)
    assert (importer.names(list_id), counts(done)) == (["Whole"], (4, 1, 3, 3))
    rejected = importer.rejected(done["id"])[1:]
    names = (("2", "Half"), ("4", "Jane Doe"), ("5", "Half"))
    assert [row[:3] for row in rejected] == [[line, SAME_ADDRESS % 3, name] for line, name in names]
    list_id = importer.lists.make()
    importer.run(list_id, HEAD + half + JOHN)
    [listed, _] = importer.lists.on(list_id)
    done = importer.run(list_id, HEAD + JANE + JOHN)
    assert counts(done) == (2, 0, 2, 2)
    reasons = [row[1] for row in importer.rejected(done["id"])[1:]]
    assert reasons == [UNDELIVERABLE_ON_LIST % listed["id"], f"address: {ALREADY_ON_LIST}"]
    again = importer.run(list_id, HEAD + half)
    assert importer.rejected(again["id"])[1][1] == f"address: {ALREADY_ON_LIST}"


def test_newcomers_of_a_file_are_due_for_the_automations_of_their_list(importer: Importer, clock: Clock) -> None:
    list_id = importer.lists.make()
    with importer.container.db.system_transaction() as tx:
        known: dict[str, object] = {"account_id": importer.lists.account.id, "sub_account_id": None, "mode": "test"}
        row = least_row(automations, known | {"mailing_list_id": list_id})
        row |= {"enabled": True, "trigger": "list_entry", "mailing_list_id": list_id, "enabled_at": clock.now()}
        automation = tx.execute(sa.insert(automations).values(**row).returning(automations.c.id)).scalar_one()
    importer.run(list_id, people() + "nobody,,,,\n")
    with importer.container.db.system_transaction() as tx:
        due = sa.select(sa.func.count()).where(automation_due.c.automation_id == automation)
        assert tx.execute(due).scalar_one() == ROWS


PLAN = RowPlan([(0, "custom1"), (1, "email")], 2)


def chunk(first: int) -> RowChunk:
    rows = [[f"P{n}\t\\", f"p{n}@example.com"] for n in range(first, first + 5)] + [["x", "y"]]
    return RowChunk(first, list(range(6)), rows, {}, 0)


def test_processes_give_back_what_they_were_given_in_its_order_and_one_that_dies_is_reported() -> None:
    with ImportProcessPool(PLAN, 7, size=2) as pool:
        found = list(pool.examine(chunk(n * 6) for n in range(20)))
        assert [one.chunk.first_row for one in found] == [n * 6 for n in range(20)]
        assert all((one.accepted_count, one.rejected_count) == (5, 1) for one in found)
        assert found[1].accepted_data.startswith(b"6\t0\t")
        assert b"\tP6\\t\\\\\t\\N\t" in found[1].accepted_data
        assert found[1].rejected_data == b"7\t11\t5\temail: This is not an e-mail address.\n"
        os.killpg(pool.pid, signal.SIGKILL)
        with pytest.raises(ImportProcessDied):
            list(pool.examine([chunk(0)]))


def test_no_process_reads_a_part_of_the_address_tables_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded before they are forked they share."""
    monkeypatch.setattr(cities, "_ZIP_TABLE", cities._ZipTable())
    process_pool.warm_up()
    monkeypatch.setattr(cities, "_pack_codes", lambda digit: pytest.fail(f"read again: {digit}"))
    for zip5 in ("01970", "10001", "20001", "30301", "43004", "50301", "60601", "78701", "80202", "90210"):
        assert cities.find_state_and_city(zip5), zip5


def test_processes_are_as_many_as_processors_but_only_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = ["sleep", "600"]  # they examine nothing here
    monkeypatch.setattr(process_pool, "_start_processes", lambda _: subprocess.Popen(idle, start_new_session=True))
    for processors, size in ((1, 1), (3, 3), (64, MAX_PROCESSES)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, count=processors: set(range(count)))
        with ImportProcessPool(PLAN, 7) as pool:
            assert pool.size == size <= 4


def test_a_large_file_is_examined_by_processes(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_tasks, "MAX_INLINE_BYTES", 0)
    pools: list[ImportProcessPool] = []

    def open_pool(plan: RowPlan, import_id: int) -> ImportProcessPool:
        pools.append(ImportProcessPool(plan, import_id))
        return pools[-1]

    monkeypatch.setattr(import_tasks, "ImportProcessPool", open_pool)
    list_id = importer.lists.make()
    done = importer.run(list_id, people() + '"Tab\tand ""quote"" \\",9 Oak St,Austin,TX,78701\n')
    assert (done["status"], counts(done), len(pools)) == ("done", (41, 41, 0, 0), 1)
    assert importer.names(list_id) == [*EVERYBODY, 'Tab and "quote" \\']
