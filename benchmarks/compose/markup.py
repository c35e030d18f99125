"""The job as HTML, for the contenders that print it: words in absolute places, marks as one path each."""

from collections.abc import Iterable, Sequence
from html import escape
from math import degrees

from benchmarks.compose.sheet import INK, PAGE_HEIGHT, PAGE_WIDTH, Piece, Rectangle, Run, Sheet

# Where the baseline stands in a line that is one font size high: what browsers make of each face's metrics.
_HAND_ASCENT = 0.75
_PLAIN_ASCENT = 0.89


def document(sheet: Sheet, pieces: Sequence[Piece]) -> str:
    """Front and back of each piece."""
    photo = f'<div class=page><img src="{sheet.photo.as_uri()}"></div>'
    return _around(sheet, "".join(photo + back(sheet, piece) for piece in pieces))


def back_alone(sheet: Sheet, piece: Piece) -> str:
    return _around(sheet, back(sheet, piece))


def back(sheet: Sheet, piece: Piece) -> str:
    plain = "".join(_span("p", run, _PLAIN_ASCENT) for run in (*sheet.shared, *piece.address))
    words = "".join(_span("w", run, _HAND_ASCENT) for run in piece.words)
    return (
        f"<div class=page>{plain}{words}<svg viewBox='0 0 {PAGE_WIDTH:g} {PAGE_HEIGHT:g}'>"
        f"<path d='{_path([sheet.divider])}' fill='#c7c7c7'/>"
        f"<path d='{_path([sheet.frame])}' fill='none' stroke='#000' stroke-width='.5'/>"
        f"<path d='{_path(piece.dark)}'/></svg></div>"
    )


def _around(sheet: Sheet, body: str) -> str:
    return f"<!doctype html><meta charset=utf-8><style>{_style(sheet)}</style><body>{body}</body>"


def _style(sheet: Sheet) -> str:
    size = f"width:{PAGE_WIDTH:g}pt;height:{PAGE_HEIGHT:g}pt"
    return (
        f"@font-face{{font-family:Hand;src:url({sheet.hand.as_uri()})}}"
        f"@font-face{{font-family:Plain;src:url({sheet.plain.as_uri()})}}"
        f"@page{{size:{PAGE_WIDTH:g}pt {PAGE_HEIGHT:g}pt;margin:0}}body{{margin:0}}"
        f".page{{position:relative;{size};overflow:hidden;break-after:page}}"
        f"img,svg{{position:absolute;left:0;top:0;{size}}}"
        "span{position:absolute;white-space:pre;line-height:1}"
        f".w{{font-family:Hand;color:rgb{INK};transform-origin:0 {_HAND_ASCENT}em}}.p{{font-family:Plain}}"
    )


def _span(kind: str, run: Run, ascent: float) -> str:
    top = PAGE_HEIGHT - run.baseline - ascent * run.size
    turn = f";transform:rotate({-degrees(run.slope):.2f}deg)" if run.slope else ""
    place = f"left:{run.left:.2f}pt;top:{top:.2f}pt;font-size:{run.size:.2f}pt{turn}"
    return f'<span class={kind} style="{place}">{escape(run.text)}</span>'


def _path(rectangles: Iterable[Rectangle]) -> str:
    return "".join(
        f"M{left:g} {PAGE_HEIGHT - bottom - height:.2f}h{width:g}v{height:g}h-{width:g}z"
        for left, bottom, width, height in rectangles
    )
