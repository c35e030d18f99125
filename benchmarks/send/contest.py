"""Sends against their floors, in turns, by processor time."""

import gc
import json
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness import machine
from benchmarks.send import bare, floor
from benchmarks.send.bodies import Bodies
from benchmarks.send.footprint import footprint
from benchmarks.send.meter import Meter, Spent
from benchmarks.send.service import Service

OURS = "our send"
BARE = "the same rows, bare"
MANY = 5_000
MOST = 3.0

_ROUNDS_OF_ONE, _CALLS_A_ROUND, _WARM_UP = 40, 10, 30
_ROUNDS_OF_MANY = 7

Call = Callable[[], object]


def run() -> dict[str, Any]:
    service = Service()
    try:
        meter, bodies = Meter(service.conninfo), Bodies(service)
        one, many = _to_one(service, meter, bodies), _to_many(service, meter, bodies)
    finally:
        service.close()
    return {
        "name": "send",
        "unit": "milliseconds of processor time a call: this process (all threads) and PostgreSQL",
        "machine": machine(),
        "one": one,
        "many": many,
        "claims": [
            _claim("a send to one costs at most", one["ratio"], "of a bare call that commits the same rows"),
            _claim(f"a send to {MANY:,} costs at most", many["ratio"], "of its four floors together"),
        ],
    }


def _to_one(service: Service, meter: Meter, bodies: Bodies) -> dict[str, Any]:
    def send() -> bytes:
        return service.post("/send/postcard", bodies.to(1))

    twin = bare.Twin(service.conninfo, json.loads(send())["id"])
    bare.open_bare_endpoint(service, twin)
    contenders: dict[str, Call] = {OURS: send, BARE: lambda: service.post(bare.PATH, bodies.to(1))}
    rows = {name: footprint(service, call) for name, call in contenders.items()}
    if rows[OURS] != rows[BARE]:
        raise RuntimeError(f"The bare call does not write what a send writes: {rows}")
    for call in contenders.values():
        for _ in range(_WARM_UP):
            call()
    spent = interleaved_medians(meter, contenders, rounds=_ROUNDS_OF_ONE, calls=_CALLS_A_ROUND)
    return {
        "rows": rows[OURS],
        "spent": spent,
        "ratio": round(milliseconds(spent[OURS]) / milliseconds(spent[BARE]), 2),
    }


def _to_many(service: Service, meter: Meter, bodies: Bodies) -> dict[str, Any]:
    body = bodies.to(MANY)
    order_id = json.loads(service.post("/send/postcard", body))["id"]
    waiting = [bodies.to(MANY) for _ in range(_ROUNDS_OF_MANY)]
    floors: dict[str, Call] = {
        "decoding": floor.decoding(body),
        "layout": floor.layout(service, body),
        "addresses": floor.standardisation(body),
        "COPY": floor.copying(service, order_id),
    }
    for call in floors.values():
        call()
    ours: dict[str, Call] = {OURS: lambda: service.post("/send/postcard", waiting.pop())}
    spent = interleaved_medians(meter, ours | floors, rounds=_ROUNDS_OF_MANY, calls=1)
    together = sum(milliseconds(spent[name]) for name in floors)
    return {
        "spent": spent,
        "floors together": round(together, 1),
        "ratio": round(milliseconds(spent[OURS]) / together, 2),
    }


def interleaved_medians(meter: Meter, contenders: Mapping[str, Call], *, rounds: int, calls: int) -> dict[str, Any]:
    """Medians of the rounds. What a call leaves the server to finish falls on itself: it is one of many."""
    found: dict[str, list[Spent]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            gc.collect()
            start = meter.begin()
            for _ in range(calls):
                call()
            found[name].append(meter.since(start))
    return {name: _median(spent, calls) for name, spent in found.items()}


def _median(spent: list[Spent], calls: int) -> dict[str, float]:
    middle = sorted(spent, key=lambda one: one.total)[len(spent) // 2]
    return {"python": round(middle.python / calls * 1000, 3), "postgres": round(middle.postgres / calls * 1000, 3)}


def milliseconds(spent: Mapping[str, float]) -> float:
    return spent["python"] + spent["postgres"]


def _claim(what: str, ratio: float, of: str) -> dict[str, object]:
    return {"claim": f"{what} {MOST:g} x {of}", "measured": f"{ratio:.2f}", "holds": ratio <= MOST}
