"""The result for a person to read."""

from collections.abc import Mapping
from typing import Any

_ANSWERS = {True: "yes", False: "NO"}


def show(result: Mapping[str, Any]) -> None:
    print(f"\nfulfil: {result['unit']}. {result['machine']}\n")
    for size, seconds in result["answered"]["seconds"].items():
        print(f"  a send to a list of {size:>9}{seconds:>10.3f} s")
    for one in result["materialised"]:
        rates = ", ".join(f"{name} {rate:,}" for name, rate in one["rows a second"].items())
        print(f"  {one['rows']:>9,} items, rows a second: {rates}")
    pooled = result["pooled"]
    print(f"  pooled into {pooled['batches']:,} batches, pieces a second: {pooled['rows a second']:,}")
    for what, unit in (("composed", "pieces"), ("scanned", "scans")):
        rates = ", ".join(f"{name} {rate:,}" for name, rate in result[what][f"{unit} a second"].items())
        print(f"  {what}, {unit} a second: {rates}")
    for group in result["memory"].values():
        for name, peak in group.items():
            print(f"  {name:44}{peak:>8.1f} MB")
    print()
    for claim in result["claims"]:
        print(f"  {_ANSWERS[claim['holds']]:>3}  {claim['claim']}: {claim['measured']}")
