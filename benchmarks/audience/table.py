"""The result for a person to read."""

from collections.abc import Mapping
from typing import Any

_ANSWERS = {True: "yes", False: "NO"}


def show(result: Mapping[str, Any]) -> None:
    print(f"\naudience: {result['unit']}. {result['machine']}\n")
    for kind, both in result["imported"]["rows a second"].items():
        rates = ", ".join(f"{contender} {rate:,}" for contender, rate in both.items())
        shares = (result["imported"][f"share of {of} rate"][kind] for of in ("the library's", "our tables'"))
        of_library, of_tables = (f"{share:.0%}" for share in shares)
        print(f"  addresses {kind:>8}, rows a second on all processors: {rates}")
        print(f"{'':>20} the import is {of_library} of the library alone, {of_tables} of our tables alone")
    for what in ("rows a second, one process", "rows a second, all cores"):
        rates = ", ".join(f"{contender} {rate:,}" for contender, rate in result["standardised"][what].items())
        print(f"  standardised, {what}: {rates}")
    equal = dict(result["standardised"]["equal to the library"])
    print(f"  equal to the library's result: {equal.pop('equal', 0):,} of {equal.pop('rows'):,} rows")
    for why, count in equal.items():
        print(f"  {count:>9,} {why}")
    whole = result["imported"]["at full size"]
    for way in ("import", "export"):
        found = whole[way]
        print(
            f"  {whole['rows']:,} rows, the command's {way}: {found['rows a second']:,} rows a second,"
            f" {found['megabytes']} MB at most"
        )
    for what, found in result["radius"].items():
        if what != "claims":
            print(f"  {what}: {found}")
    print()
    for claim in result["claims"]:
        print(f"  {_ANSWERS[bool(claim['holds'])]:>3}  {claim['claim']}: {claim['measured']}")
