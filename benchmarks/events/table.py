"""The result for a person to read."""

from collections.abc import Mapping
from typing import Any

_ANSWERS = {True: "yes", False: "NO"}


def show(result: Mapping[str, Any]) -> None:
    print(f"\nevents: {result['unit']}. {result['machine']}\n")
    for what, unit in (("delivered", "events"), ("fanned out", "facts")):
        rates = ", ".join(f"{name} {rate:,}" for name, rate in result[what][f"{unit} a second"].items())
        print(f"  {result[what][unit]:>9,} {unit} {what}, a second: {rates}")
    for name, spent in result["delivered"]["microseconds on the processor"].items():
        print(f"  {name:>9}: {spent} microseconds on the processor for a delivery, without PostgreSQL's")
    silent = result["beside silence"]
    for name, seconds in silent["seconds of the healthy half"].items():
        print(f"  {silent['events']:>9,} events to the healthy half, {name}: {seconds:.2f} s")
    for name, spent in result["redirected"]["microseconds"].items():
        print(f"  {name:>20}: {spent:.0f} microseconds a scan")
    for group in result["memory"].values():
        for name, peak in group.items():
            print(f"  {name:44}{peak:>8.1f} MB")
    print()
    for claim in result["claims"]:
        print(f"  {_ANSWERS[claim['holds']]:>3}  {claim['claim']}: {claim['measured']}")
