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
    one_line, split, of_tables, split_of_tables, against_library = result["ratios"].values()
    whole = result["imported"]["at full size"]
    return [
        _claim(
            f"a file is imported at {LEAST_IMPORTED:.0%} or more of the rate at which the library alone, on"
            " all processors, standardises its addresses",
            min(one_line, split) >= LEAST_IMPORTED,
            f"on one line {one_line:.0%}, in parts {split:.0%}; of our own tables' rate, which nobody claims,"
            f" {of_tables:.0%} and {split_of_tables:.0%}",
        ),
        _claim(
            "addresses in parts are standardised several times as fast as by the library",
            against_library >= SEVERAL,
            f"{against_library:.1f} times",
        ),
        standardising.agreement(result["standardised"]["equal to the library"]),
        _claim(
            f"{whole['rows']:,} rows are imported, and exported, in less than {whole['limit']} MB",
            all(whole[way]["megabytes"] < whole["limit"] for way in ("import", "export")),
            ", ".join(f"{way} {whole[way]['megabytes']} MB" for way in ("import", "export")),
        ),
    ]


def _claim(claim: str, holds: bool, measured: str) -> dict[str, object]:
    return {"claim": claim, "holds": holds, "measured": measured}
