"""Files onto lists: as a share of the standardiser's own rate on the same rows, and in how much memory.

QUILLPOST_BENCH_ROWS says how many rows are imported; memory is measured on five times as many.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import IO, Any

import psycopg
import sqlalchemy as sa
from scourgify import normalize_address_record
from scourgify.exceptions import AddressNormalizationError

from benchmarks.audience.addresses import PARTS, Row, rows
from benchmarks.audience.standardising import by_library
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant, create_account
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.addresses.rules import HOME_COUNTRY, standardize
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.lists import service as list_service

ROWS = int(os.environ.get("QUILLPOST_BENCH_ROWS", "200000"))
ROUNDS = 3
KINDS = ("one line", "split")
HEADS = {"one line": "Name,Address\n", "split": "Name,Address,Unit,City,State,Zip\n"}
OWNER = "owner@example.com"
_LOOK = 0.25
_LIMIT = 300
_MANY_PROCESSORS = "import os; os.sched_getaffinity = lambda _: set(range(64)); "
"""The crew is then as large as it gets: what it takes in memory does not depend on this machine."""


@dataclass(frozen=True)
class ImportRuntime:
    container: Container
    caller: Caller
    home: Path
    conninfo: str


def measure() -> dict[str, Any]:
    """Rows a second of both kinds of file, with and without a database behind; and the memory."""
    with _opened() as runtime:
        rates: dict[str, dict[str, list[float]]] = {
            kind: {"library": [], "our tables": [], "import": []} for kind in KINDS
        }
        for number in range(ROUNDS):
            for kind in KINDS:
                share = ROWS // ROUNDS
                rates[kind]["library"].append(standardised_a_second(kind, share // 20, seed=number, by="library"))
                rates[kind]["our tables"].append(standardised_a_second(kind, share, seed=number))
                rates[kind]["import"].append(imported_a_second(runtime, kind, share, seed=number))
        whole = at_full_size(runtime, ROWS * 5)
    typical = {
        kind: {contender: round(median(found)) for contender, found in both.items()} for kind, both in rates.items()
    }
    return {
        "rows": ROWS,
        "rows a second": typical,
        "share of the library's rate": {kind: _share(both, "library") for kind, both in rates.items()},
        "share of our tables' rate": {kind: _share(both, "our tables") for kind, both in rates.items()},
        "at full size": whole,
    }


def _share(rates: dict[str, list[float]], of: str) -> float:
    """Of each round on its own: what else the machine does comes and goes."""
    return round(median(a / b for a, b in zip(rates["import"], rates[of], strict=True)), 3)


def standardised_a_second(kind: str, count: int, *, seed: int, by: str = "tables") -> float:
    """On all processors, rows in memory and nothing done with the answers."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as pool:
        tasks = [(kind, by, count // cores, seed * 100 + core) for core in range(cores)]
        return sum(pool.map(_one_of_many, tasks))


def _one_of_many(task: tuple[str, str, int, int]) -> float:
    kind, by, count, seed = task
    made = list(rows(count, seed))
    given: list[dict[str, str | None]] = [row.parts() if kind == "split" else {"address": row.line()} for row in made]
    work = {"tables": _by_tables, "library": _by_library}[by]
    work(given[0])  # reads the tables, or the model
    started = time.perf_counter()
    for one in given:
        work(one)
    return count / (time.perf_counter() - started)


def _by_tables(given: dict[str, str | None]) -> None:
    if len(given) > 1:
        standardize(given, HOME_COUNTRY)
    elif (apart := split_address_line(str(given["address"]))) is not None:
        standardize(_BLANK | apart, HOME_COUNTRY)


def _by_library(given: dict[str, str | None]) -> None:
    with suppress(AddressNormalizationError):
        if len(given) > 1:
            by_library(given)
        else:
            normalize_address_record(str(given["address"]))


_BLANK: dict[str, str | None] = dict.fromkeys(PARTS)


def imported_a_second(runtime: ImportRuntime, kind: str, count: int, *, seed: int) -> float:
    """From the upload in the file store to a list whose `processed` is true."""
    parts, caller = runtime.container, runtime.caller
    values = {"description": kind, "type": "manual", "is_suppression_list": False}
    with parts.db.transaction(build_tenant(caller)) as tx:
        into = list_service.create_list(tx, caller, parts.encryptor, values, now=parts.clock())
    with tempfile.TemporaryFile() as file:
        write_file(file, kind, rows(count, seed))
        looked = import_service.inspect_file(file, name="people.csv", mapping=None, has_header=True)
        key = import_service.store_file(parts.storage.store, looked, now=parts.clock())
        started = time.perf_counter()
        with parts.db.transaction(build_tenant(caller)) as tx:
            made = import_service.create_import(tx, into.id, looked, key, clock=parts.clock, enqueue=False)
        import_tasks.run_import(import_tasks.ImportContext(parts.db, parts.storage.store, parts.clock), made.id)
    return count / (time.perf_counter() - started)


def write_file(file: IO[bytes], kind: str, people: Iterator[Row]) -> None:
    file.write(HEADS[kind].encode())
    for number, row in enumerate(people):
        cells: Sequence[str | None] = (
            (row.line(),)
            if kind == "one line"
            else (row.address, row.address2, row.city, row.province, row.postal_code)
        )
        line = ",".join(f'"{cell or ""}"' for cell in (f"Person {number}", *cells))
        file.write(f"{line}\n".encode())
    file.flush()


def at_full_size(runtime: ImportRuntime, count: int) -> dict[str, Any]:
    """The commands that import a file of rows already split, and export the list: their rate and memory."""
    path = runtime.home / "people.csv"
    with path.open("wb") as file:
        write_file(file, "split", rows(count, 99))
    imported = watched(runtime, count, "import", str(path), "--account", OWNER, "--name", "Memory")
    with runtime.container.db.system_transaction() as tx:
        lists = sa.text("select id from mailing_lists where description = 'Memory'")
        list_id = tx.execute(lists).scalar_one()
    exported = watched(runtime, count, "export", str(list_id), str(path))
    with path.open("wb") as file:
        write_file(file, "split", rows(count // 5, 99))
    words = ("import", str(path), "--account", OWNER, "--name", "Many processors")
    by_many = watched(runtime, count // 5, *words, first=_MANY_PROCESSORS)
    return {
        "rows": count,
        "limit": _LIMIT,
        "import": imported,
        "export": exported,
        "import of a fifth on many processors": by_many,
    }


def watched(runtime: ImportRuntime, count: int, *words: str, first: str = "") -> dict[str, float]:
    """What a command of lists needs, with all processes that it starts; not what the database does."""
    started = time.perf_counter()
    command = subprocess.Popen(
        [sys.executable, "-c", f"{first}from quillpost.__main__ import main; main()", "lists", *words],
        env=os.environ | {"QUILLPOST_HOME": str(runtime.home / "home"), "QUILLPOST_DATABASE_URL": runtime.conninfo},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak, over = 0, Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(_LOOK):
            peak = max(peak, sum(map(_pss, _family(command.pid))))

    watching = Thread(target=watch)
    watching.start()
    ended = command.wait()
    seconds = time.perf_counter() - started
    over.set()
    watching.join()
    assert ended == 0, words
    return {"megabytes": round(peak / 1024, 1), "rows a second": round(count / seconds)}


def _family(pid: int) -> list[int]:
    """The process and all that come of it."""
    found = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _family(int(child))
    return found


def _pss(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


@contextmanager
def _opened() -> Iterator[ImportRuntime]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-bench-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home)
    server.start()
    try:
        with psycopg.connect(server.conninfo("postgres"), autocommit=True) as admin:
            admin.execute("create database bench")
        conninfo = server.conninfo("bench")
        upgrade_database(conninfo)
        container = bootstrap.build_container(Settings.model_validate({"home": home / "home"}), conninfo)
        with container.db.system_transaction() as tx:
            account = create_account(tx, email=OWNER, name="Owner", now=container.clock())
        try:
            yield ImportRuntime(container, Caller(account, "test"), home, conninfo)
        finally:
            container.db.close()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    for what, found in measure().items():
        print(f"{what}: {found}")
