"""Runs contenders in turns and reports ratios: absolute times depend on the machine, ratios much less."""

import asyncio
import json
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def client_sending(body: bytes = b"") -> Callable[[], Awaitable[dict[str, Any]]]:
    """What an application receives of a client who sends this, and then waits for the answer."""
    coming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not coming:
            await asyncio.Event().wait()
        return coming.pop()

    return receive


@dataclass(frozen=True)
class Contest:
    """What is compared. Each contender is called once a round and returns nothing."""

    name: str
    unit: str
    ours: Callable[[], object]
    peers: Mapping[str, Callable[[], object]]
    limit: Callable[[], object]
    rounds: int


def run(contest: Contest) -> dict[str, object]:
    """Medians of the rounds, and how many times ours takes of each of the others."""
    contenders = {"ours": contest.ours, **contest.peers, "limit": contest.limit}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        for _ in range(max(3, contest.rounds // 20)):
            call()
    for _ in range(contest.rounds):
        for name, call in contenders.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(found) for name, found in times.items()}
    others = [*contest.peers, "limit"]
    return {
        "name": contest.name,
        "unit": contest.unit,
        "machine": machine(),
        "ours": medians["ours"],
        "peers": {name: medians[name] for name in contest.peers},
        "limit": medians["limit"],
        "ratios": {name: round(medians["ours"] / medians[name], 2) for name in others},
    }


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"


def absent_peers(result: Mapping[str, Any]) -> list[str]:
    """Whom a result, or a part of it, names under `absent`, each with the reason."""
    found: list[str] = []
    for key, value in result.items():
        if key == "absent":
            found += [value] if isinstance(value, str) else [f"{name} ({why})" for name, why in value.items()]
        elif isinstance(value, Mapping):
            found += absent_peers(value)
    return found


def save(result: Mapping[str, object]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n")


def report(result: Mapping[str, object]) -> None:
    save(result)
    print(f"{result['name']} ({result['unit']})")
    ratios = result["ratios"]
    assert isinstance(ratios, dict)
    for name, ratio in ratios.items():
        print(f"  ours takes {ratio:.2f} x {name}")
