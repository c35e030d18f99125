"""A QR code on a page: drawn as it is on paper, by attributes alone, as the policy allows no style."""

from itertools import groupby

from markupsafe import Markup

from quillpost.composition.marks.qr import QrEncoder

QUIET = 4
"""Modules of white around a symbol, without which cameras do not find it."""


def qr_svg(text: str, *, label: str) -> Markup:
    """The picture of an ASCII text, black on white by day and by night."""
    symbol = QrEncoder().encode(text)
    side = symbol.side + 2 * QUIET
    dark = "".join(_runs(row, QUIET + at) for at, row in enumerate(symbol.rows()))
    return Markup(
        '<svg class="qr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" role="img"'
        ' aria-label="{label}" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h{side}v{side}H0z"/>'
        '<path fill="#000" d="{dark}"/></svg>'
    ).format(side=side, label=label, dark=dark)


def _runs(row: str, y: int) -> str:
    """One stroke for each run of dark modules."""
    drawn, x = [], QUIET
    for is_dark, run in groupby(row, key="1".__eq__):
        length = len(list(run))
        if is_dark:
            drawn.append(f"M{x} {y}h{length}v1h-{length}z")
        x += length
    return "".join(drawn)
