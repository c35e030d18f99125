"""Runs the whole comparison in one go on one core and gathers what the processes report."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compose import growth
from benchmarks.harness import machine

_ROOT = Path(__file__).resolve().parents[2]
_PEERS_PYTHON = _ROOT / ".tools" / "bench" / "bin" / "python"
_PACKAGE = "benchmarks.compose"

ROUNDS = 3
OURS, LIMIT = "ours", "limit"

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender's module, how many pieces take it seconds, and whose packages it needs."""

    module: str
    pieces: int
    in_peers_environment: bool = True


ENTRIES: Mapping[str, Entry] = {
    OURS: Entry("quillpost", 5_000, in_peers_environment=False),
    "skia-python": Entry("skia", 600),
    "reportlab": Entry("reportlab", 300),
    "fpdf2": Entry("fpdf2", 200),
    "Chromium": Entry("chromium", 80, in_peers_environment=False),
    "WeasyPrint": Entry("weasyprint", 20),
    LIMIT: Entry("limit", 5_000, in_peers_environment=False),
}
_LAID_OUT = max(entry.pieces for entry in ENTRIES.values() if entry.module not in ("quillpost", "limit"))


def run() -> dict[str, Any]:
    """Everything that there is to say, ready to be written down."""
    _stay_on_one_core()
    with tempfile.TemporaryDirectory(prefix="quillpost-bench-") as name:
        folder = Path(name)
        _say("laying out the job")
        _python(sys.executable, "groundwork", folder, _LAID_OUT)
        batch, absent = _batches(folder)
        grown = []
        for size in growth.SIZES:
            _say(f"growth: {size:,} pieces")
            grown.append(_answer(sys.executable, "growth", folder, size))
        _say("previews")
        previews = _answer(sys.executable, "previews", folder)
    speed = {contender: figures["pieces a second"] for contender, figures in batch.items()}
    peers = [contender for contender in speed if contender not in (OURS, LIMIT)]
    return {
        "name": "compose",
        "unit": "pieces a second of one core",
        "machine": machine(),
        "ours": speed[OURS],
        "peers": {peer: speed[peer] for peer in peers},
        "limit": speed[LIMIT],
        "ratios": {other: round(speed[OURS] / speed[other], 2) for other in (*peers, LIMIT)},
        "absent": absent,
        "batch": batch,
        "growth": grown,
        "preview": previews,
    }


def _batches(folder: Path) -> tuple[dict[str, Figures], dict[str, str]]:
    """Each contender's medians, and why others are absent."""
    found: dict[str, list[Figures]] = {}
    absent: dict[str, str] = {}
    for place in range(ROUNDS):
        for name, entry in ENTRIES.items():
            if name in absent:
                continue
            _say(f"round {place + 1} of {ROUNDS}: {name}, {entry.pieces:,} pieces")
            python = str(_PEERS_PYTHON) if _uses_peers(entry) else sys.executable
            answer = _answer(python, "heat", f"{_PACKAGE}.peers.{entry.module}", folder, entry.pieces)
            if "absent" in answer:
                absent[name] = answer["absent"]
            else:
                found.setdefault(name, []).append(answer)
    return {name: _medians(rounds) for name, rounds in found.items()}, absent


def _uses_peers(entry: Entry) -> bool:
    return entry.in_peers_environment and _PEERS_PYTHON.exists()


def _medians(rounds: list[Figures]) -> Figures:
    return {name: round(statistics.median(figures[name] for figures in rounds), 1) for name in rounds[0]}


def _answer(python: str, module: str, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_python(python, module, *arguments))
    return answer


def _python(python: str, module: str, *arguments: object) -> str:
    """What the program printed; when it fails its complaint is worth more than a table without it."""
    command = [python, "-m", f"{_PACKAGE}.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr.strip()}\n{' '.join(command)} failed.")
    return done.stdout


def _stay_on_one_core() -> None:
    """Here and in all processes that start from here."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _say(what: str) -> None:
    print(f"  {what} ...", file=sys.stderr, flush=True)
