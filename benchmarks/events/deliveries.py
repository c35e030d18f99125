"""Deliveries of the real pump, from rows in the outbox to outcomes written down."""

import subprocess
import sys
from statistics import median
from typing import Any

from benchmarks.events.scenario import ROOT, on_processor, sink, subscribe, write_bodies
from benchmarks.fulfil.office import Office
from quillpost.notifications.webhooks import tasks as webhook_tasks

AT_ONCE = 100
"""Of the bare loop: as many as ours has with five receivers that answer."""

_REMEMBER = "create table remembered as select * from deliveries"
_FILL = "insert into deliveries select * from remembered order by id"
_REST = """
    update webhook_lanes set due_at = null, leased_by = null, leased_until = null, failures = 0,
           troubled_since = null, resting_until = null
"""
_DUE = "update webhook_lanes set due_at = now(), woken = woken + 1"
_ALIVE = "select count(*) from procrastinate_workers where last_heartbeat > now() - interval '5 seconds'"
_WAITS = "select exists (select from deliveries where status = 'pending' and webhook_id = any(%s))"
_TAKEN = "select extract(epoch from max(delivered_at) - %s) from deliveries where webhook_id = any(%s)"
_FOUND = "select count(*) from deliveries where status = 'delivered' and webhook_id = any(%s)"


def compared(office: Office, *, facts: int, endpoints: int, rounds: int) -> dict[str, Any]:
    """Ours and a bare loop's in turns; what share of its rate ours has, and of its processor time: PostgreSQL
    and the receiver want a processor too, so where there are few the rate says as much of the machine."""
    taken: dict[str, list[float]] = {"ours": [], "bare": []}
    spent: dict[str, list[float]] = {"ours": [], "bare": []}
    with sink(office) as address:
        secrets = subscribe(office, [f"{address}/{number}" for number in range(endpoints)])
        hooks = _hooks(office, "%")
        events = _remember(office, facts)
        file = office.home / "bodies.jsonl"
        with office.running("work", "--concurrency", "1") as worker:
            office.wait(lambda: office.one(_ALIVE) > 0, "the worker")
            _deliver(office, hooks, events)  # for nothing: everyone is warm then, and there are bodies
            write_bodies(office, secrets, file)
            for _ in range(rounds):
                before = on_processor(worker)
                taken["ours"].append(_deliver(office, hooks, events))
                spent["ours"].append(on_processor(worker) - before)
                seconds, on_it = _bare(str(file))
                taken["bare"].append(seconds)
                spent["bare"].append(on_it)
    _delete_all(office)
    typical = {name: median(seconds) for name, seconds in taken.items()}
    busy = {name: median(seconds) for name, seconds in spent.items()}
    return {
        "events": events,
        "endpoints": endpoints,
        "rounds": rounds,
        "events a second": {name: round(events / seconds) for name, seconds in typical.items()},
        "share of the bare rate": round(typical["bare"] / typical["ours"], 2),
        "microseconds on the processor": {name: round(seconds / events * 1e6) for name, seconds in busy.items()},
        "share by processor time": round(busy["bare"] / busy["ours"], 2),
    }


def beside_silence(office: Office, *, facts: int, endpoints: int, rounds: int) -> dict[str, Any]:
    """What the healthy half of the endpoints takes while the other half never answers, and while it does."""
    found: dict[str, list[float]] = {"/other/": [], "/hang/": []}
    with sink(office) as address:
        subscribe(office, [f"{address}/{kind}/{n}" for n in range(endpoints // 2) for kind in ("ok", "other")])
        events = _remember(office, facts) // 2
        healthy = _hooks(office, "%/ok/%")
        for number in range(rounds):
            for path in found if number % 2 == 0 else reversed(found):
                office.admin.execute("update webhooks set url = regexp_replace(url, '/(other|hang)/', %s)", (path,))
                with office.running("work", "--concurrency", "1"):
                    office.wait(lambda: office.one(_ALIVE) > 0, "the worker")
                    found[path].append(_deliver(office, healthy, events))
    _delete_all(office)
    typical = {name: median(seconds) for name, seconds in found.items()}
    return {
        "events": events,
        "endpoints": endpoints,
        "rounds": rounds,
        "seconds of the healthy half": {
            "none hangs": round(typical["/other/"], 2),
            "half of them hang": round(typical["/hang/"], 2),
        },
        "ratio": round(typical["/hang/"] / typical["/other/"], 2),
    }


def _hooks(office: Office, like: str) -> list[int]:
    rows = office.admin.execute("select id from webhooks where url like %s order by id", (like,))
    return [number for (number,) in rows]


def _remember(office: Office, facts: int) -> int:
    """What has happened, as deliveries that wait, to be delivered again and again; how many."""
    office.admin.execute("truncate fact_queue")
    office.admin.execute("insert into fact_queue select id from facts order by id limit %s", (facts,))
    now = office.parts.clock()
    with office.parts.db.system_transaction() as tx:
        while webhook_tasks.fan_out_facts(tx, limit=5_000, now=now):
            pass
    office.admin.execute(_REMEMBER)
    return int(office.one("select count(*) from remembered"))


def _deliver(office: Office, hooks: list[int], events: int) -> float:
    """Seconds from the moment at which all are due to the last outcome."""
    office.admin.execute("truncate deliveries")
    office.admin.execute(_REST)
    office.admin.execute(_FILL)
    office.admin.execute("checkpoint")
    started = office.one("select clock_timestamp()")
    office.admin.execute(_DUE)
    office.wait(lambda: not office.one(_WAITS, hooks), "the deliveries")
    if office.one(_FOUND, hooks) != events:
        raise RuntimeError(f"Not all of {events} events were delivered.")
    return float(office.one(_TAKEN, started, hooks))


def _bare(file: str) -> tuple[float, float]:
    """Its seconds, and those of them on the processor."""
    loop = [sys.executable, "-m", "benchmarks.events.bare_loop", file, str(AT_ONCE)]
    output = subprocess.run(loop, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    seconds, spent = map(float, output.split())
    return seconds, spent


def _delete_all(office: Office) -> None:
    office.admin.execute("delete from webhooks")
    office.admin.execute("truncate deliveries")
    office.admin.execute("drop table remembered")
