"""Each stage of an order to a million people against what nobody could do without."""

import time
from statistics import median
from typing import Any

from benchmarks.fulfil import composing, materialising, scanning
from benchmarks.fulfil.lists import load_list
from benchmarks.fulfil.office import Office, open_office
from benchmarks.harness import machine

FEW, SOME, MANY = 1_000, 200_000, 1_000_000
SCANS = 100_000
ROUNDS, CALLS = 3, 3
MOST_MEGABYTES = 400
LEAST_SHARE = 0.5
LEAST_OF_TWO = 1.6

_WAITING = "select max(id) from orders where status = 'reviewing' and recipient_count = %s"


def run() -> dict[str, Any]:
    with open_office() as office:
        few = load_list(office, FEW)
        some = load_list(office, SOME, first=FEW)
        many = load_list(office, MANY, first=FEW + SOME)
        with office.serving():
            answered = _answered(office, few, many)
            rounds = materialising.compared(office, some, SOME, rounds=ROUNDS)
            whole = materialising.compared(office, many, MANY, rounds=1)
        order_id = int(office.one(_WAITING, MANY))
        pooled = composing.pool(office, order_id, MANY)
        composed = composing.compared(office, rounds=2)
        mailed = composing.mail(office)
        scanned = scanning.compared(office, order_id, SCANS, rounds=2)
        scanning.by_command(office, order_id, SCANS)
        memory = {"ours": office.watch.ours, "PostgreSQL": office.watch.postgres}
    result = {
        "name": "fulfil",
        "unit": "shares of a bare rate; seconds; megabytes at the peak of a process",
        "machine": machine(),
        "ours": whole["rows a second"]["ours"],
        "peers": {},
        "limit": whole["rows a second"]["bare"],
        "ratios": {
            f"{SOME:,} items against bare statements": rounds["share of the bare rate"],
            f"{MANY:,} items against bare statements": whole["share of the bare rate"],
            "two workers that compose against one": composed["two against one"],
            f"{SCANS:,} scans against bare statements": scanned["share of the bare rate"],
        },
        "answered": answered,
        "materialised": [rounds, whole],
        "pooled": pooled,
        "composed": composed,
        "mailed batches": mailed,
        "scanned": scanned,
        "memory": memory,
    }
    result["claims"] = _claims(result)
    return result


def _answered(office: Office, few: int, many: int) -> dict[str, Any]:
    """How long a call takes, and how many items there are when it answers: nobody works meanwhile."""
    taken: dict[str, list[float]] = {f"{FEW:,}": [], f"{MANY:,}": []}
    made: list[int] = []
    for number in range(CALLS):
        for size, list_id in zip(taken, (few, many), strict=True):
            started = time.perf_counter()
            order_id = materialising.send(office, list_id, f"call {number}")
            taken[size].append(time.perf_counter() - started)
            made.append(int(office.one("select count(*) from items where order_id = %s", order_id)))
            office.call("POST", f"/api/v2/orders/{order_id}/cancel")
    # Nobody needs to find out later that there is nothing to do for them.
    office.admin.execute("update orders set audience_pending = false where status = 'cancelled'")
    office.admin.execute("delete from procrastinate_jobs")
    seconds = {size: round(median(calls), 3) for size, calls in taken.items()}
    return {"seconds": seconds, "items when it answers": max(made)}


def _claims(result: dict[str, Any]) -> list[dict[str, object]]:
    shares = [one["share of the bare rate"] for one in result["materialised"]]
    fattest = max(result["memory"]["ours"].values())
    backend = result["memory"]["PostgreSQL"]["PostgreSQL backend, with shared buffers"]
    waiting = result["answered"]["items when it answers"]
    return [
        _claim("a send answers before any of its items is there", waiting == 0, f"{waiting} items"),
        *(
            _claim(
                f"{one['rows']:,} items are made at {LEAST_SHARE:.0%} of the bare rate or more",
                share >= LEAST_SHARE,
                f"{share:.0%}",
            )
            for one, share in zip(result["materialised"], shares, strict=True)
        ),
        _claim(
            f"two workers compose at {LEAST_OF_TWO} x the rate of one or more",
            result["composed"]["two against one"] >= LEAST_OF_TWO,
            f"{result['composed']['two against one']:.2f} x",
        ),
        _claim(
            f"{SCANS:,} scans are taken in at {LEAST_SHARE:.0%} of the bare rate or more",
            result["scanned"]["share of the bare rate"] >= LEAST_SHARE,
            f"{result['scanned']['share of the bare rate']:.0%}",
        ),
        _claim(f"no process of ours ever has {MOST_MEGABYTES} MB", fattest < MOST_MEGABYTES, f"{fattest:.0f} MB"),
        _claim(f"no backend of PostgreSQL ever has {MOST_MEGABYTES} MB", backend < MOST_MEGABYTES, f"{backend:.0f} MB"),
    ]


def _claim(what: str, holds: bool, measured: str) -> dict[str, object]:
    return {"claim": what, "measured": measured, "holds": holds}
