"""The result for a person to read."""

from collections.abc import Mapping
from typing import Any

_ANSWERS = {True: "yes", False: "NO"}


def show(result: Mapping[str, Any]) -> None:
    print(f"\nsend: {result['unit']}. {result['machine']}\n")
    _show_spent("one recipient, front and hand warm", result["one"]["spent"])
    rows = ", ".join(f"{table} {count}" for table, count in result["one"]["rows"].items())
    print(f"  rows of a call: {rows}\n")
    _show_spent("5,000 recipients in the call", result["many"]["spent"])
    for claim in result["claims"]:
        print(f"  {_ANSWERS[claim['holds']]:>3}  {claim['claim']}: {claim['measured']}")


def _show_spent(title: str, spent: Mapping[str, Mapping[str, float]]) -> None:
    print(f"  {title:36}{'ms':>10}{'python':>10}{'postgres':>10}")
    for name, parts in spent.items():
        print(f"  {name:36}{sum(parts.values()):>10,.1f}{parts['python']:>10,.1f}{parts['postgres']:>10,.1f}")
    print()
