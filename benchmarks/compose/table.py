"""The result for a person to read."""

from typing import Any

_MEGABYTE = 1_000_000
_ANSWERS = {True: "yes", False: "NO", None: "-"}


def show(result: dict[str, Any]) -> None:
    print(f"\ncompose: a 6x4 in postcard, photo front, handwritten back. {result['machine']}\n")
    _show_batches(result)
    _show_growth(result["growth"])
    _show_previews(result["preview"])
    for claim in result["claims"]:
        print(f"  {_ANSWERS[claim['holds']]:>3}  {claim['claim']}: {claim['measured']}")


def _show_batches(result: dict[str, Any]) -> None:
    print(f"  {'':14}{'pieces/s':>10}{'ours is':>11}{'bytes/piece':>13}{'whole file':>12}{'peak MB':>9}")
    for name, row in result["batch"].items():
        ratio = f"{result['ratios'][name]:,.2f} x" if name in result["ratios"] else ""
        print(
            f"  {name:14}{row['pieces a second']:>10,.0f}{ratio:>11}{row['bytes a piece']:>13,.0f}"
            f"{row['file bytes a piece']:>12,.0f}{row['peak bytes'] / _MEGABYTE:>9,.0f}"
        )
    for name, reason in result["absent"].items():
        print(f"  {name:14}absent: {reason}")
    print()


def _show_growth(rows: list[dict[str, float]]) -> None:
    print(f"  {'ours, pieces':>14}{'us/piece':>10}{'bytes/piece':>13}{'peak MB':>9}")
    for row in rows:
        print(
            f"  {row['pieces']:>14,}{row['microseconds a piece']:>10,.0f}{row['file bytes a piece']:>13,.0f}"
            f"{row['peak bytes'] / _MEGABYTE:>9,.0f}"
        )
    print()


def _show_previews(preview: dict[str, Any]) -> None:
    print("  one back at 150 dpi, warm")
    print(f"  {'ms':>9}{'of CPU':>9}")
    for name, passed in preview["milliseconds"].items():
        print(f"  {passed:>9,.1f}{preview['processor milliseconds'][name]:>9,.1f}  {name}")
    for name, reason in preview["absent"].items():
        print(f"  {name} absent: {reason}")
    print()
