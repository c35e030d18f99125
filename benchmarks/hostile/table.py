"""The result for a person to read."""

from collections.abc import Mapping
from typing import Any

_ANSWERS = {True: "yes", False: "NO"}
_HEAD = (
    f"  {'':42}{'MB':>6}{'answer':>8}{'cpu ms':>9}{'honest':>9}{'ratio':>7}{'alone ms':>10}{'beside':>9}"
    f"{'ratio':>7}{'peak MB':>9}"
)


def show(result: Mapping[str, Any]) -> None:
    print(f"\nhostile: {result['unit']}. {result['machine']}\n")
    print(_HEAD)
    for case in result["cases"]:
        cpu, latency = case["cpu"], case["latency"]
        sent = f"{case['name']:42}{case['bytes'] / 1e6:>6.1f}{case['status']['hostile']:>8}"
        cost = f"{cpu['hostile']:>9,.1f}{cpu['honest']:>9,.1f}{case['cpu ratio']:>7.2f}"
        waited = f"{latency['alone']:>10.1f}{latency['beside']:>9.1f}{case['latency ratio']:>7.2f}"
        print(f"  {sent}{cost}{waited}{case['megabytes']:>9,}")
    print()
    for claim in result["claims"]:
        print(f"  {_ANSWERS[claim['holds']]:>3}  {claim['claim']}: {claim['measured']}")
