"""A good caller beside one who floods, against the same caller alone, in turns, through a real server."""

import json
import math
import random
import secrets
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import product
from typing import Any, Final

from benchmarks.harness import machine
from benchmarks.overload.service import Service, running
from quillpost.core import tokens

MAX_RATIO: Final = 3
ROUNDS: Final = 3
CALLS: Final = 150
"""Reads of the good caller in a round, alone and beside the flood."""
MOST_SECONDS: Final = 15.0
"""The longest round: where callers wait for seconds, a few reads tell enough."""
PAUSE: Final = 0.02
SETTLE: Final = 2.0
"""Seconds for which a flood is on before anything is measured."""
FEW: Final = 4
"""Connections that keep the service busy without flooding it."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    calls: str
    connections: int
    has_token: bool = True


KINDS: Final = (
    Kind("200 sends at once", "sends", 200),
    Kind("500 reads at once", "reads", 500),
    Kind("500 reads with wrong tokens", "reads", 500, has_token=False),
)
WORKERS: Final = (1, 2)


def run() -> dict[str, Any]:
    found = {}
    for workers, kind in product(WORKERS, KINDS):
        with running(workers) as service:  # each its own: nobody's orders are still worked on
            found[f"{kind.name}, --workers {workers}"] = measure(service, kind)
    return {
        "name": "overload",
        "unit": "milliseconds of a good caller's read",
        "machine": machine(),
        "wanted": MAX_RATIO,
        "floods": found,
        "claims": [
            {
                "claim": f"{name}: p99 within {MAX_RATIO}x",
                "measured": f"{one['p99_ratio']:.2f}x",
                "holds": one["p99_ratio"] <= MAX_RATIO,
            }
            for name, one in found.items()
        ],
        "ratios": {name: {"median": one["median_ratio"], "p99": one["p99_ratio"]} for name, one in found.items()},
    }


def show(result: dict[str, Any]) -> None:
    print(f"\noverload: a good caller's read beside one account's flood (wanted: p99 within {MAX_RATIO}x of alone)")
    print(f"{result['machine']}\n")
    for name, one in result["floods"].items():
        alone, beside = one["alone"], one["beside"]
        print(f"  {name}")
        for figure in ("median", "p99"):
            text = f"{beside[figure]:8.1f} ms, alone {alone[figure]:8.1f} ms: {one[f'{figure}_ratio']:.1f}x"
            print(f"    {figure:6} {text}")
        print(f"    the good caller was answered {_format_answers(beside['answers'])}")
        print(f"    the flood was answered {_format_answers(one['flood'])}; its longest wait {one['longest']:.1f} s")
        if one["throughput"] is not None:
            text = f"{one['served_a_second']:.0f} a second, {one['throughput']:.0%} of what {FEW} callers get"
            print(f"    of the flood {text}")
    print()
    for claim in result["claims"]:
        print(f"  {'yes' if claim['holds'] else 'NO':>3}  {claim['claim']}: {claim['measured']}")


def measure(service: Service, kind: Kind) -> dict[str, Any]:
    token = service.flooding if kind.has_token else tokens.mint_secret("test", secrets.token_bytes(32))
    unflooded = _flood(service, kind, token, FEW)
    time.sleep(2 * SETTLE)
    usual = _served(unflooded.end())
    caller = _GoodCaller(service)
    caller.read(CALLS // 3)
    alone, beside, answers, longest, served = [], [], Counter[str](), 0.0, []
    for _ in range(ROUNDS):
        alone += caller.read(CALLS)
        flood = _flood(service, kind, token, kind.connections)
        time.sleep(SETTLE)
        beside += caller.read(CALLS)
        report = flood.end()
        answers.update(report["answers"])
        longest = max(longest, report["longest"])
        served.append(_served(report))
        time.sleep(SETTLE)
    return {
        "alone": _summed(alone),
        "beside": _summed(beside),
        "median_ratio": round(_median(beside) / _median(alone), 2),
        "p99_ratio": round(_p99(beside) / _p99(alone), 2),
        "flood": dict(answers),
        "longest": longest,
        "served_a_second": statistics.median(served),
        "throughput": statistics.median(served) / usual if kind.has_token else None,
    }


class _GoodCaller:
    """Reads one thing after another, with a moment in between."""

    def __init__(self, service: Service) -> None:
        self._line = HTTPConnection("127.0.0.1", service.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {service.good}"}

    def read(self, times: int) -> list[tuple[float, int]]:
        found: list[tuple[float, int]] = []
        until = time.monotonic() + MOST_SECONDS
        while len(found) < times and time.monotonic() < until:
            found.append(self._once())
        return found

    def _once(self) -> tuple[float, int]:
        time.sleep(PAUSE * random.uniform(0.5, 1.5))
        started = time.perf_counter()
        self._line.request("GET", "/api/v2/orders/list", headers=self._headers)
        answer = self._line.getresponse()
        answer.read()
        return time.perf_counter() - started, answer.status


class _Flood:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def end(self) -> dict[str, Any]:
        output, _ = self._process.communicate()
        answer: dict[str, Any] = json.loads(output)
        return answer


def _flood(service: Service, kind: Kind, token: str, connections: int) -> _Flood:
    command = ["benchmarks.overload.flood", str(service.port), token, kind.calls, str(connections)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return _Flood(subprocess.Popen([sys.executable, "-m", *command], text=True, **pipes))  # type: ignore[call-overload]


def _served(report: dict[str, Any]) -> float:
    return float(sum(n for status, n in report["answers"].items() if status == "200") / report["seconds"])


def _median(reads: list[tuple[float, int]]) -> float:
    return statistics.median(seconds for seconds, _ in reads)


def _p99(reads: list[tuple[float, int]]) -> float:
    ordered = sorted(seconds for seconds, _ in reads)
    return ordered[math.ceil(len(ordered) * 0.99) - 1]


def _summed(reads: list[tuple[float, int]]) -> dict[str, Any]:
    answers = Counter(str(status) for _, status in reads)
    return {"median": _median(reads) * 1000, "p99": _p99(reads) * 1000, "answers": dict(answers)}


def _format_answers(answers: dict[str, int]) -> str:
    return ", ".join(f"{status}: {n:,}" for status, n in sorted(answers.items()))
