"""The job of an import: staged in chunks, gone on with after a crash, put on the list all at once."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core import jobs
from quillpost.core.database.tables.notifications import automation_due, automations
from quillpost.core.database.tables.recipients import import_rejects, imports
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.imports.models import RowChunk, RowPlan
from quillpost.recipients.imports.process_pool import MAX_PROCESSES, ImportProcessDied, ImportProcessPool
from quillpost.recipients.imports.queries import SAME_ADDRESS, UNDELIVERABLE_ON_LIST, StagedRowsLost
from quillpost.recipients.imports.tasks import IMPORTS_FOLDER
from quillpost.recipients.service import ALREADY_ON_LIST
from support.factories import Account, Clock
from support.imports import HEAD, JANE, JOHN, Importer, counts, import_context
from support.mailing_lists import ListOwner
from support.tenant_rows import least_row

ROWS = 40


def people(count: int = ROWS) -> str:
    return HEAD + "".join(f"Person {n},{n + 1} Main St,Austin,TX,78701\n" for n in range(count))


@pytest.fixture
def importer(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> Importer:
    monkeypatch.setattr(import_tasks, "MAX_CHUNK_ROWS", 10)
    return Importer(ListOwner(owner), container)


def staging_tables(container: Container) -> list[str]:
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.text("select tablename from pg_tables where tablename like 'import_staging%'"))
        return list(found.scalars())


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
    monkeypatch.setattr(import_queries, "copy_lines", _noting(kept, import_queries.copy_lines))
    done = importer.fill(begun["id"])
    # 30 of 42 rows are staged already: the rest is two chunks, one of them with the row that is rejected.
    assert len([name for name in kept if name.startswith("import_staging")]) == 2
    assert counts(done) == (42, 40, 2, 1)
    assert importer.names(list_id) == [f"Person {n}" for n in range(ROWS)]
    assert staging_tables(importer.container) == []


def _noting(kept: list[str], copy_into: Callable[..., None]) -> Callable[..., None]:
    def noting(tx: Any, table: str, lines: bytes) -> None:
        if lines:
            kept.append(table)
        copy_into(tx, table, lines)

    return noting


def test_after_a_crash_of_the_server_the_file_is_read_again(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id, HEAD + "x,1 Main St,A,TX,1\n" + people().removeprefix(HEAD)).json()
    broken_after(monkeypatch, 2)
    with pytest.raises(ConnectionError):
        importer.fill(begun["id"])
    with importer.container.db.system_transaction() as tx:  # as recovery leaves a table that is not logged
        import_queries.truncate_staging(tx, begun["id"])
    assert counts(importer.fill(begun["id"])) == (41, 40, 1, 0)
    assert importer.names(list_id) == [f"Person {n}" for n in range(ROWS)]


def crashed(importer: Importer, import_id: int) -> None:
    """The database comes back with what it had on disk: nothing of a table that is not logged."""
    with importer.container.db.system_transaction() as tx:
        import_queries.truncate_staging(tx, import_id)


@pytest.mark.parametrize("chunks", [2, 4], ids=["between two chunks", "after the last"])
def test_a_database_that_crashes_meanwhile_loses_nobody(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id, people()).json()
    if chunks * 10 < ROWS:
        broken_after(monkeypatch, chunks, lambda: crashed(importer, begun["id"]))
    else:
        settle = import_tasks._finish_import

        def settle_after_a_crash(*args: Any) -> None:
            crashed(importer, begun["id"])
            settle(*args)

        monkeypatch.setattr(import_tasks, "_finish_import", settle_after_a_crash)
    with pytest.raises(StagedRowsLost):
        importer.fill(begun["id"])
    assert importer.names(list_id) == []
    assert not importer.lists.read(list_id)["processed"]
    monkeypatch.undo()
    assert counts(importer.fill(begun["id"])) == (40, 40, 0, 0)
    assert importer.names(list_id) == [f"Person {n}" for n in range(ROWS)]


def test_a_database_that_forgot_the_last_chunks_has_the_job_try_again(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the disk when a chunk is noted, so a crash may take the note with it."""
    begun = importer.upload(importer.lists.make(), people()).json()

    def truncate_staging() -> None:
        crashed(importer, begun["id"])
        with importer.container.db.system_transaction() as tx:
            tx.execute(sa.update(imports).values(rows_read=10))

    broken_after(monkeypatch, 3, truncate_staging)
    with pytest.raises(import_tasks.ImportTakenOver):
        importer.fill(begun["id"])
    assert counts(importer.fill(begun["id"])) == (40, 40, 0, 0)


def test_an_import_canceled_while_it_runs_stops_and_cleans_up(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id, people()).json()
    broken_after(monkeypatch, 2, lambda: importer.lists.account.post(f"/imports/{begun['id']}/cancel"))
    done = importer.fill(begun["id"])
    assert (done["status"], done["rows_imported"]) == ("cancelled", 0)
    assert (importer.names(list_id), staging_tables(importer.container)) == ([], [])
    assert importer.lists.read(list_id)["processed"]


def test_two_workers_on_one_import_add_nobody_twice(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is there though the first lives: as when a worker was only thought dead."""
    list_id = importer.lists.make()
    begun = importer.upload(list_id, people()).json()
    monkeypatch.setattr(import_tasks, "_lock_import", _everyones_turn)
    broken_after(monkeypatch, 2, lambda: import_tasks.run_import(import_context(importer.container), begun["id"]))
    done = importer.fill(begun["id"])
    assert (done["status"], counts(done)) == ("done", (40, 40, 0, 0))
    assert importer.names(list_id) == [f"Person {n}" for n in range(ROWS)]


class _everyones_turn:  # noqa: N801 (stands in for a function)
    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None: ...


def test_one_at_a_time_works_at_an_import(importer: Importer) -> None:
    begun = importer.upload(importer.lists.make(), people()).json()
    with import_tasks._lock_import(importer.container.db, begun["id"]) as is_ours:
        assert is_ours
        assert importer.fill(begun["id"])["status"] == "waiting"
    assert importer.fill(begun["id"])["status"] == "done"


def test_a_worker_that_is_to_end_breaks_off_and_another_goes_on(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = importer.upload(importer.lists.make(), people()).json()
    with monkeypatch.context() as ending:
        ending.setattr(jobs, "is_stopping", lambda: True)
        with pytest.raises(import_tasks.ImportInterrupted):
            importer.fill(begun["id"])
    assert importer.fill(begun["id"])["status"] == "done"


def test_a_file_that_is_gone_fails_the_import_and_frees_the_list(importer: Importer) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id).json()
    [key] = importer.files
    importer.container.storage.store.delete(key)
    done = importer.fill(begun["id"])
    assert (done["status"], done["error"]) == ("failed", import_tasks.FILE_GONE)
    assert importer.lists.read(list_id)["processed"]
    assert staging_tables(importer.container) == []


def test_the_job_is_booked_with_the_import_and_again_where_it_was_lost(importer: Importer) -> None:
    begun = importer.upload(importer.lists.make()).json()
    container = importer.container
    with container.db.system_transaction() as tx:
        assert jobs.is_waiting(tx, import_tasks.IMPORT_TASK, import_id=begun["id"])
        jobs.delete_jobs(tx, import_tasks.IMPORT_TASK, import_id=begun["id"])
    for _ in range(2):
        import_tasks.resume_imports(import_context(container))
    with container.db.system_transaction() as tx:
        query = sa.text("select count(*) from procrastinate_jobs where task_name = :task and queue_name = :queue")
        assert (
            tx.execute(query, {"task": import_tasks.IMPORT_TASK, "queue": import_tasks.IMPORT_QUEUE}).scalar_one() == 1
        )


def test_an_import_whose_job_was_given_up_has_failed(importer: Importer) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id).json()
    with importer.container.db.system_transaction() as tx:
        tx.execute(
            sa.text("update procrastinate_jobs set status = 'failed' where task_name = :t"),
            {"t": import_tasks.IMPORT_TASK},
        )
    import_tasks.resume_imports(import_context(importer.container))
    assert importer.read(begun["id"])["error"] == import_tasks.IMPORT_ABANDONED
    assert importer.lists.read(list_id)["processed"]


def test_files_and_reports_are_removed_after_their_time(importer: Importer, clock: Clock) -> None:
    done = importer.run(importer.lists.make(), HEAD + JANE + JANE)
    keep = timedelta(days=30)
    clock.advance(days=29)
    import_tasks.delete_expired_imports(import_context(importer.container), retention=keep, now=clock.now())
    assert len(importer.files) == 1
    clock.advance(days=2)
    import_tasks.delete_expired_imports(import_context(importer.container), retention=keep, now=clock.now())
    assert importer.files == []
    shown = importer.read(done["id"])
    assert (shown["rejected_url"], shown["columns"], counts(shown)) == (None, [], (2, 1, 1, 1))
    assert importer.lists.account.get(f"/imports/{done['id']}/rejected.csv").status_code == 400
    with importer.container.db.system_transaction() as tx:
        assert tx.execute(sa.select(import_rejects)).all() == []


def test_what_a_deleted_list_and_a_failed_call_left_is_removed(importer: Importer, clock: Clock) -> None:
    list_id = importer.lists.make()
    importer.run(list_id, HEAD + JANE)
    importer.lists.delete(f"/mailing-lists/{list_id}")
    importer.container.storage.store.put(f"{IMPORTS_FOLDER}/{clock.now():%Y-%m-%d}/stray", b"x")
    keep = timedelta(days=30)
    import_tasks.delete_expired_imports(import_context(importer.container), retention=keep, now=clock.now())
    assert len(importer.files) == 2
    clock.advance(days=2)
    import_tasks.delete_expired_imports(import_context(importer.container), retention=keep, now=clock.now())
    assert importer.files == []


def test_a_file_whose_call_is_not_done_yet_outlasts_midnight(importer: Importer, clock: Clock) -> None:
    last_minute = clock.now().replace(hour=23, minute=59)
    importer.container.storage.store.put(f"{IMPORTS_FOLDER}/{last_minute:%Y-%m-%d}/late", b"x")
    for later, left in ((timedelta(minutes=2), 1), (timedelta(days=1, minutes=2), 0)):
        import_tasks.delete_expired_imports(
            import_context(importer.container), retention=timedelta(days=30), now=last_minute + later
        )
        assert len(importer.files) == left


def test_of_two_at_one_address_the_one_stays_to_whom_mail_can_come(importer: Importer) -> None:
    list_id = importer.lists.make()
    half, whole = "Half,12 Main St,,,78701\n", "Whole,12 Main St,Austin,TX,78701\n"
    done = importer.run(list_id, HEAD + half + whole + JANE + half)
    assert (importer.names(list_id), counts(done)) == (["Whole"], (4, 1, 3, 3))
    rejected = importer.rejected(done["id"])[1:]
    assert [row[:3] for row in rejected] == [
        [line, SAME_ADDRESS % 3, name] for line, name in (("2", "Half"), ("4", "Jane Doe"), ("5", "Half"))
    ]


def test_a_full_address_of_a_person_listed_as_undeliverable_is_refused_with_their_id(importer: Importer) -> None:
    list_id = importer.lists.make()
    importer.run(list_id, HEAD + "Half,12 Main St,,,78701\n" + JOHN)
    [half, _] = importer.lists.on(list_id)
    done = importer.run(list_id, HEAD + JANE + JOHN)
    assert counts(done) == (2, 0, 2, 2)
    reasons = [row[1] for row in importer.rejected(done["id"])[1:]]
    assert reasons == [UNDELIVERABLE_ON_LIST % half["id"], f"address: {ALREADY_ON_LIST}"]
    again = importer.run(list_id, HEAD + "Half,12 Main St,,,78701\n")
    assert importer.rejected(again["id"])[1][1] == f"address: {ALREADY_ON_LIST}"


def test_newcomers_of_a_file_are_due_for_the_automations_of_their_list(importer: Importer, clock: Clock) -> None:
    list_id = importer.lists.make()
    with importer.container.db.system_transaction() as tx:
        known: dict[str, object] = {"account_id": importer.lists.account.id, "sub_account_id": None, "mode": "test"}
        row = least_row(automations, known | {"mailing_list_id": list_id})
        row |= {"enabled": True, "trigger": "list_entry", "mailing_list_id": list_id, "enabled_at": clock.now()}
        tx.execute(sa.insert(automations).values(**row))
    importer.run(list_id, people() + "nobody,,,,\n")
    with importer.container.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(automation_due)).scalar_one() == ROWS


@pytest.fixture
def pool() -> Iterator[ImportProcessPool]:
    with ImportProcessPool(RowPlan([(0, "custom1"), (1, "email")], 2), 7, size=2) as pool:
        yield pool


def chunk(first: int) -> RowChunk:
    rows = [[f"P{n}\t\\", f"p{n}@example.com"] for n in range(first, first + 5)] + [["x", "y"]]
    return RowChunk(first, list(range(6)), rows, {}, 0)


def test_processes_give_back_what_they_were_given_in_its_order(pool: ImportProcessPool) -> None:
    found = list(pool.examine(chunk(n * 6) for n in range(20)))
    assert [one.chunk.first_row for one in found] == [n * 6 for n in range(20)]
    assert all((one.accepted_count, one.rejected_count) == (5, 1) for one in found)
    assert found[1].accepted_data.startswith(b"6\t0\t")
    assert b"\tP6\\t\\\\\t\\N\t" in found[1].accepted_data
    assert found[1].rejected_data == b"7\t11\t5\temail: This is not an e-mail address.\n"


@pytest.mark.parametrize(("processors", "size"), [(1, 1), (3, 3), (64, MAX_PROCESSES)])
def test_processes_are_as_many_as_processors_but_only_a_few(
    monkeypatch: pytest.MonkeyPatch, processors: int, size: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    with ImportProcessPool(RowPlan([(0, "email")], 1), 7) as pool:
        assert pool.size == size <= 4


def test_a_process_that_dies_is_reported(pool: ImportProcessPool) -> None:
    import os  # noqa: PLC0415
    import signal  # noqa: PLC0415

    next(iter(pool.examine([chunk(0)])))
    os.killpg(pool.pid, signal.SIGKILL)
    with pytest.raises(ImportProcessDied):
        list(pool.examine([chunk(0)]))


def test_a_large_file_is_examined_by_processes(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_tasks, "MAX_INLINE_BYTES", 0)
    list_id = importer.lists.make()
    odd = 'Tab\tand "quote" \\,9 Oak St,Austin,TX,78701\n'
    done = importer.run(list_id, people() + odd.replace('"', '""').replace("Tab", '"Tab').replace("\\,", '\\",'))
    assert counts(done) == (41, 41, 0, 0)
    assert importer.names(list_id) == [*(f"Person {n}" for n in range(ROWS)), 'Tab and "quote" \\']
    with importer.container.db.system_transaction() as tx:
        assert tx.execute(sa.select(imports.c.status)).scalar_one() == "done"
