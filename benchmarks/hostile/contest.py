"""Hostile calls against honest ones of their size, in turns; and what either does to another caller."""

import statistics
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from benchmarks.fulfil.office import Office, open_office
from benchmarks.harness import machine
from benchmarks.hostile.bodies import Case, Sent, hostile_bodies
from benchmarks.hostile.file_cases import file_cases
from benchmarks.hostile.neighbor import LIGHT, Caller, median_latency, sending
from benchmarks.hostile.usage import Tree, parent_of
from quillpost.accounts import service as account_service
from quillpost.accounts.queries import insert_token

MOST = 3.0
ROUNDS = 2
SHORTEST = 0.25
"""Seconds of processor time that are measured at least: a call that takes less is made again."""
FLOOR = 0.02
"""Seconds of processor time below which nothing is told apart."""


def run() -> dict[str, Any]:
    with open_office() as office:
        office.more_settings["QUILLPOST_ALLOW_PRIVATE_URLS"] = "true"  # files are served by this machine
        with office.serving() as process:
            hook, list_id = _hook(office)
            with file_cases() as files:
                rows = measured(office, process, chain(hostile_bodies(hook, list_id), files))
    return {
        "name": "hostile",
        "unit": f"processor time of the server and its PostgreSQL, and another account's median latency at GET {LIGHT}",
        "machine": machine(),
        "cases": rows,
        "claims": [
            _claim("costs at most", max(row["cpu ratio"] for row in rows), "of an honest call of its size"),
            _claim(
                "leaves another caller's median latency within",
                max(row["latency ratio"] for row in rows),
                "of what it is alone",
            ),
        ],
    }


def measured(office: Office, process: int, cases: Iterable[Case]) -> list[dict[str, Any]]:
    tree = Tree(process, parent_of(int(office.one("select pg_backend_pid()"))))
    with _callers(office) as (heavy, light):
        heavy.send(Sent("/api/v2/mailing-lists", "application/json", b'{"description": "Warm"}'))
        median_latency(light)
        return [_measured(Tree(process), tree, heavy, light, case) for case in cases]


def _measured(server: Tree, tree: Tree, heavy: Caller, light: Caller, case: Case) -> dict[str, Any]:
    spent: dict[str, list[float]] = {"hostile": [], "honest": []}
    alone, beside = [], []
    status = {name: heavy.send(sent) for name, sent in (("hostile", case.hostile), ("honest", case.honest))}
    server.reset_peaks()
    for _ in range(ROUNDS):
        spent["hostile"].append(_cpu(tree, heavy, case.hostile))
    peak = server.megabytes()
    for _ in range(ROUNDS):
        spent["honest"].append(_cpu(tree, heavy, case.honest))
        alone.append(median_latency(light))
        with sending(heavy, case.hostile):
            beside.append(median_latency(light))
    cpu = {name: statistics.median(found) for name, found in spent.items()}
    return {
        "name": case.name,
        "bytes": len(case.hostile.body),
        "status": status,
        "cpu": {name: round(seconds * 1000, 1) for name, seconds in cpu.items()},
        "cpu ratio": round(max(cpu["hostile"], FLOOR) / max(cpu["honest"], FLOOR), 2),
        "latency": {
            "alone": round(statistics.median(alone) * 1000, 2),
            "beside": round(statistics.median(beside) * 1000, 2),
        },
        "latency ratio": round(statistics.median(beside) / statistics.median(alone), 2),
        "megabytes": round(peak),
    }


def _cpu(tree: Tree, caller: Caller, sent: Sent) -> float:
    """Seconds that one call takes."""
    begun, calls = tree.seconds(), 0
    while calls == 0 or (tree.seconds() - begun < SHORTEST and calls < 20):
        caller.send(sent)
        calls += 1
    return (tree.seconds() - begun) / calls


@contextmanager
def _callers(office: Office) -> Iterator[tuple[Caller, Caller]]:
    heavy, light = Caller(office.url, office.token), Caller(office.url, _other_account(office))
    try:
        yield heavy, light
    finally:
        heavy.close()
        light.close()


def _other_account(office: Office) -> str:
    with office.parts.db.system_transaction() as tx:
        now = office.parts.clock()
        other = account_service.create_account(tx, email="other@example.com", name="Other", now=now)
        return insert_token(tx, other, mode="test", name="bench", now=now)[1]


def _hook(office: Office) -> tuple[str, int]:
    """A list, and the address at which others put people on it."""
    made = office.call("POST", "/api/v2/mailing-lists", {"description": "Visitors"})
    return f"/hooks/lists/{made['api_key']}", int(made["id"])


def _claim(what: str, ratio: float, of: str) -> dict[str, object]:
    claim = f"any of them {what} {MOST:g} x {of}"
    return {"claim": claim, "measured": f"{ratio:.2f}", "holds": ratio <= MOST}
