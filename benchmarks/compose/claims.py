"""What we say of ourselves, each with the figure of this run and whether it holds."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.compose import previews

_MEGABYTE = 1_000_000
# Two runs on a shared machine differ by as much.
_FLAT = 1.2


@dataclass(frozen=True, slots=True)
class Claim:
    claim: str
    measured: str
    holds: bool | None


def assess(result: dict[str, Any]) -> list[dict[str, object]]:
    claims = (*_of_batches(result), *_of_growth(result["growth"]), *_of_previews(result["preview"]))
    return [asdict(claim) for claim in claims]


def _of_batches(result: dict[str, Any]) -> Iterator[Claim]:
    yield _at_least(45, "times as fast as reportlab", result["ratios"].get("reportlab"))
    yield _at_least(15, "times as fast as skia-python", result["ratios"].get("skia-python"))
    ours = result["batch"]["ours"]
    size = ours["file bytes a piece"]
    yield Claim("at most 3,000 bytes a piece, photo and fonts included", f"{size:,.0f}", size <= 3_000)
    peak = ours["peak bytes"] / _MEGABYTE
    yield Claim("at most 250 MB at 5,000 pieces", f"{peak:,.0f} MB", peak <= 250)


def _of_growth(rows: list[dict[str, float]]) -> Iterator[Claim]:
    first, last = rows[0], rows[-1]
    for what in ("microseconds a piece", "peak bytes"):
        ratio = last[what] / first[what]
        sizes = f"{last['pieces']:,} against {first['pieces']:,} pieces"
        yield Claim(f"{what} flat (within {_FLAT}): {sizes}", f"{ratio:.2f}", ratio <= _FLAT)


def _of_previews(preview: dict[str, Any]) -> Iterator[Claim]:
    times = preview["milliseconds"]
    ours = times[previews.OURS]
    browser = times.get(previews.LOADED)
    yield _at_least(10, "times as fast as a warm Chromium screenshot", browser and browser / ours)
    ratio = ours / times[previews.BARE]
    yield Claim("a preview takes at most 4 times the bare render of its page", f"{ratio:.1f}", ratio <= 4)


def _at_least(least: float, what: str, ratio: float | None) -> Claim:
    if ratio is None:
        return Claim(f"at least {least} {what}", "absent", None)
    return Claim(f"at least {least} {what}", f"{ratio:.1f}", ratio >= least)
