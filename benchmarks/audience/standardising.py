"""The standardiser: addresses a second by our tables and by the library on the same rows, and how many agree.

The library is usaddress-scourgify, which standardises by usaddress, a trained model.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from typing import Any

from scourgify import normalize_address_record
from scourgify.exceptions import AddressNormalizationError

from benchmarks.audience.addresses import Row, sample
from quillpost.recipients.addresses.cities import build_city_key
from quillpost.recipients.addresses.rules import HOME_COUNTRY, standardize
from quillpost.recipients.addresses.text import STREET_SUFFIXES, UNITS

Parts = dict[str, str | None]
Answer = tuple[str, str, str, str]
"""Delivery line with what stands beside it, city, state, ZIP code."""

UNNAMED = "something else"
MOST_UNNAMED = 0.001
"""Of a sample, how much may differ for no reason that has a name."""
DIFFERENCES = {
    "the library raises": "It reads no boxes, routes or units without a number, and is at times unsure.",
    "a highway is written out": "Publication 28, appendix F: COUNTY ROAD 5; the library shortens it.",
    "a type before the name is written out": "AVENUE A is the name of the street; the library writes AVE A.",
    "a house number in digits": "ONE is 1; the library leaves it.",
    "a unit misread by the library": "It leaves commas, or puts UNIT before a designator.",
    "a suffix that the library lacks": "COMMONS, CROSSROADS and TRAILER.",
    "a city written out": "SAINT LOUIS, as section 223 has it; the library leaves ST LOUIS.",
    "Puerto Rico": "CALLE 5 is a street and no unit; an urbanization is a line of its own.",
    "a word that the library takes for a name": "A suffix or a unit that it leaves as it was given.",
    UNNAMED: "Nothing that has a name: none, or a few in ten thousand.",
}


def compared(rows: int, *, seed: int = 7) -> Counter[str]:
    """How many rows of the sample both standardise to the same, and what the others differ in."""
    return Counter(_difference(row) for row in sample(rows, seed))


def agreement(found: Mapping[str, int]) -> dict[str, object]:
    """The claim that our tables and the library come to the same."""
    rows, equal, unnamed = found["rows"], found.get("equal", 0), found.get(UNNAMED, 0)
    return {
        "claim": f"of {rows:,} addresses in parts all come out as the library's do, or differ for a reason"
        f" with a name, but for {MOST_UNNAMED:.1%}",
        "holds": unnamed <= rows * MOST_UNNAMED,
        "measured": f"{equal:,} equal, {rows - equal - unnamed:,} for such reasons, {unnamed:,} others",
    }


def by_tables(container: Parts) -> Answer:
    standard = standardize(container, HOME_COUNTRY).standard
    assert standard is not None
    line, beside, city, state, code = (text or "" for text in standard)
    return f"{line} {beside}".strip(), city, state, code


def by_library(container: Parts) -> Answer | None:
    """None where it raises."""
    named = ("address_line_1", "address_line_2", "city", "state", "postal_code")
    try:
        found = normalize_address_record(dict(zip(named, container.values(), strict=True)))
    except AddressNormalizationError:
        return None
    line = " ".join(found[name] for name in named[:2] if found[name])
    return line, found["city"], found["state"], found["postal_code"]


def _difference(row: Row) -> str:
    parts = row.parts()
    ours, theirs = by_tables(parts), by_library(parts)
    if theirs is None:
        return "the library raises"
    if ours == theirs:
        return "equal"
    if ours[0] == theirs[0] and build_city_key(ours[1]) == build_city_key(theirs[1]):
        return "a city written out"
    return _difference_of_lines(row, ours[0], theirs[0])


def _difference_of_lines(row: Row, ours: str, theirs: str) -> str:
    by_kind = {
        "highway": "a highway is written out",
        "type first": "a type before the name is written out",
        "spelled number": "a house number in digits",
        "lone unit": "a unit misread by the library",
        "Puerto Rico": "Puerto Rico",
    }
    if row.kind in by_kind:
        return by_kind[row.kind]
    mine, its = ours.split(), theirs.replace(",", "").split()
    if mine == its or ("UNIT" in its and "UNIT" not in mine and mine == [word for word in its if word != "UNIT"]):
        return "a unit misread by the library"
    if set(mine) - set(its) <= {"CMNS", "XRDS", "TRLR"}:
        return "a suffix that the library lacks"
    if _shortened(mine) == _shortened([word for word in its if word != "UNIT"]):
        return "a word that the library takes for a name"
    return UNNAMED


def _shortened(words: list[str]) -> list[str]:
    return [STREET_SUFFIXES.get(word) or UNITS.get(word, word) for word in words]


def own_rate(container: Sequence[Parts], work: Callable[[Parts], object] = by_tables) -> float:
    """Rows a second in this process."""
    started = time.perf_counter()
    for one in container:
        work(one)
    return len(container) / (time.perf_counter() - started)


def rate_on_all_cores(rows: int, *, seed: int = 7, work: str = "tables") -> float:
    """Rows a second of as many processes as there are cores, each with rows of its own."""
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as pool:
        return sum(pool.map(_one_of_many, [(rows // cores, seed + core, work) for core in range(cores)]))


def _one_of_many(task: tuple[int, int, str]) -> float:
    rows, seed, work = task
    parts = [row.parts() for row in sample(rows, seed)]
    return own_rate(parts, by_tables if work == "tables" else by_library)


def contest(*, rows: int = 10_000, rounds: int = 5, equal_of: int = 50_000) -> dict[str, Any]:
    """Both in turns on the same rows, on one core and on all; then on how many rows they agree."""
    parts = [row.parts() for row in sample(rows)]
    for work in (by_tables, by_library):
        own_rate(parts[:200], work)
    found: dict[str, list[float]] = {"tables": [], "library": []}
    for number in range(rounds):
        share = parts[number::rounds]
        for name, work in (("tables", by_tables), ("library", by_library)):
            found[name].append(own_rate(share, work))
    typical = {name: median(rates) for name, rates in found.items()}
    on_all = {name: rate_on_all_cores(rows, work=name) for name in typical}
    differences = compared(equal_of)
    return {
        "rows a second, one process": {name: round(rate) for name, rate in typical.items()},
        "rows a second, all cores": {name: round(rate) for name, rate in on_all.items()},
        "times the library's rate": round(typical["tables"] / typical["library"], 1),
        "equal to the library": {"rows": equal_of, **dict(differences.most_common())},
    }


if __name__ == "__main__":
    for what, number in contest().items():
        print(f"{what}: {number}")
