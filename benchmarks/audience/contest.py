"""Files, addresses and neighbours, each against what nobody could do without."""

from typing import Any

from benchmarks.audience import importing, radius, standardising
from benchmarks.harness import machine

LEAST_IMPORTED = 0.7
SEVERAL = 3.0


def run() -> dict[str, Any]:
    standardised = standardising.contest()
    imported = importing.measure()
    found = radius.measure()
    shares, of_tables = imported["share of the library's rate"], imported["share of our tables' rate"]
    result: dict[str, Any] = {
        "name": "audience",
        "unit": "shares of a rate; times as fast; times as long",
        "machine": machine(),
        "ours": imported["rows a second"]["one line"]["import"],
        "peers": {},
        "limit": imported["rows a second"]["one line"]["library"],
        "ratios": {
            "an import of addresses on one line against the library alone": shares["one line"],
            "an import of addresses in parts against the library alone": shares["split"],
            "the same on one line against our tables alone": of_tables["one line"],
            "the same in parts against our tables alone": of_tables["split"],
            "our tables against the library": standardised["times the library's rate"],
        },
        "standardised": standardised,
        "imported": imported,
        "radius": found,
    }
    result["claims"] = [*_claims(result), *found.get("claims", [])]
    return result


def _claims(result: dict[str, Any]) -> list[dict[str, object]]:
    one_line, _, of_tables, _, against_library = result["ratios"].values()
    memory = result["imported"]["memory"]
    return [
        _claim(
            f"addresses on one line are imported at {LEAST_IMPORTED:.0%} of the library's rate or more",
            one_line >= LEAST_IMPORTED,
            f"{one_line:.0%}; of our own tables' rate {of_tables:.0%}",
        ),
        _claim(
            "addresses in parts are standardised several times as fast as by the library",
            against_library >= SEVERAL,
            f"{against_library:.1f} times",
        ),
        _claim(
            f"{memory['rows']:,} rows are imported in less than {memory['limit']} MB",
            memory["megabytes"] < memory["limit"],
            f"{memory['megabytes']} MB",
        ),
    ]


def _claim(claim: str, holds: bool, measured: str) -> dict[str, object]:
    return {"claim": claim, "holds": holds, "measured": measured}
