"""Accented letters put together of a hand's own letters and the strokes of the accents."""

import unicodedata
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from quillpost.rendering.handwriting.letterforms import Letterform, LineKind, PenLine
from quillpost.rendering.handwriting.outlines import Floats

_DOTTED_LETTERS = "ij"
_CLEARANCE = 0.2  # between the letter's ink and the middle of the accent's lowest stroke
_STEP = 0.16  # from one accent to another that stands over it
_MIN_BOTTOM = 1.18  # where accents of small letters stand, so that a word's are about even
_NARROW, _WIDE = 0.55, 1.3  # of which widths of letters the accents are not made to fit
_USUAL_WIDTH = 0.75
_FOOT_SHARE = 0.12  # of a letter's height: what is so low is its foot, and what is so near the top is its head
_HIGH_MARKS_OF_CARON = frozenset("dtlL")
_DOT = 0.03

# Strokes as points, x from the middle of the letter, y from the lowest point of the accent; a single point is a dot.
_Strokes = tuple[tuple[tuple[float, float], ...], ...]

_ABOVE: Mapping[str, _Strokes] = {
    "\u0300": (((-0.2, 0.34), (-0.02, 0.18), (0.12, 0.0)),),  # grave
    "\u0301": (((0.22, 0.36), (0.04, 0.2), (-0.1, 0.0)),),  # acute
    "\u0302": (((-0.28, 0.0), (-0.12, 0.2), (0.0, 0.3), (0.12, 0.18), (0.26, 0.0)),),  # circumflex
    "\u0303": (((-0.32, 0.04), (-0.2, 0.2), (-0.02, 0.14), (0.14, 0.06), (0.32, 0.22)),),  # tilde
    "\u0304": (((-0.28, 0.06), (0.0, 0.08), (0.28, 0.08)),),  # macron
    "\u0306": (((-0.26, 0.26), (-0.16, 0.06), (0.02, 0.0), (0.18, 0.08), (0.26, 0.28)),),  # breve
    "\u0307": (((0.0, 0.08),),),  # dot above
    "\u0308": (((-0.22, 0.08),), ((0.24, 0.1),)),  # diaeresis
    "\u0309": (((-0.1, 0.36), (0.06, 0.42), (0.14, 0.28), (0.02, 0.14), (0.0, 0.0)),),  # hook above
    "\u030a": (((0.04, 0.36), (-0.14, 0.28), (-0.14, 0.08), (0.04, 0.0), (0.18, 0.14), (0.14, 0.32), (0.0, 0.36)),),
    "\u030b": (((0.04, 0.34), (-0.06, 0.18), (-0.18, 0.0)), ((0.34, 0.36), (0.22, 0.18), (0.1, 0.0))),  # double acute
    "\u030c": (((-0.26, 0.28), (-0.1, 0.08), (0.0, 0.0), (0.12, 0.12), (0.28, 0.3)),),  # caron
    "\u0313": (((0.06, 0.3), (0.08, 0.16), (-0.04, 0.0)),),  # comma above
    "\u0342": (((-0.32, 0.04), (-0.2, 0.2), (-0.02, 0.14), (0.14, 0.06), (0.32, 0.22)),),  # Greek circumflex
}

# The same, y from the base line, x from the middle of the letter's foot.
_BELOW: Mapping[str, _Strokes] = {
    "\u0323": (((0.0, -0.34),),),  # dot below
    "\u0324": (((-0.18, -0.34),), ((0.18, -0.34),)),
    "\u0326": (((0.08, -0.26), (0.08, -0.4), (-0.06, -0.6)),),  # comma below
    "\u0327": (((0.04, 0.0), (-0.02, -0.16), (0.16, -0.26), (0.14, -0.44), (-0.14, -0.44)),),  # cedilla
    "\u0328": (((0.02, 0.02), (-0.14, -0.16), (-0.12, -0.36), (0.04, -0.44), (0.2, -0.36)),),  # ogonek
    "\u0331": (((-0.28, -0.3), (0.0, -0.29), (0.28, -0.3)),),  # macron below
}
_OGONEK, _CARON, _CEDILLA, _HORN = "\u0328", "\u030c", "\u0327", "\u031b"
_COMMA_BELOW = "\u0326"
_CEDILLAS_LIKE_COMMAS = frozenset("GKLNR")

# From the right end of the letter's head.
_HORN_STROKES: _Strokes = (((-0.06, 0.0), (0.1, 0.06), (0.2, 0.2), (0.16, 0.36)),)
# From the top of a tall stem.
_CARON_BESIDE: _Strokes = (((0.24, 0.04), (0.25, -0.14), (0.15, -0.34)),)


def compose_accented(
    char: str, forms: Mapping[str, tuple[Letterform, ...]], *, slant: float = 0.0
) -> tuple[Letterform, ...] | None:
    """As many forms as its letter has; none if a part of it is unknown."""
    base, *marks = list(unicodedata.normalize("NFD", char))
    if not marks or base not in forms or not all(map(_is_known, marks)):
        return None
    return tuple(_add_marks(base, form, marks, slant) for form in forms[base])


def _is_known(mark: str) -> bool:
    return mark in _ABOVE or mark in _BELOW or mark == _HORN


def _add_marks(base: str, form: Letterform, marks: list[str], slant: float) -> Letterform:
    has_mark_above = any(mark in _ABOVE for mark in marks)
    if base in _DOTTED_LETTERS and has_mark_above:
        form = _without_dots(form)
    shape = _Shape(form, slant)
    lines = list(form.lines)
    bottom = max(shape.top + _CLEARANCE, _MIN_BOTTOM)
    for mark in marks:
        if mark == _HORN:
            lines += _place(_HORN_STROKES, shape.head_right, shape.top - 0.1, slant, LineKind.BODY)
        elif mark == _CARON and base in _HIGH_MARKS_OF_CARON:
            lines += _place(_CARON_BESIDE, shape.top_right, shape.top, slant, LineKind.BAR)
        elif mark in _ABOVE:
            strokes = _fit(_ABOVE[mark], shape.width)
            lines += _place(strokes, shape.head, bottom, slant, LineKind.BAR)
            bottom += max(y for stroke in strokes for _, y in stroke) + _STEP
        elif mark == _CEDILLA and base.upper() in _CEDILLAS_LIKE_COMMAS:
            if base == "g":  # its tail is in the way
                strokes = (((0.08, 0.32), (-0.06, 0.16), (-0.04, 0.0)),)
                lines += _place(strokes, shape.head, bottom, slant, LineKind.BAR)
            else:
                lines += _place(_BELOW[_COMMA_BELOW], shape.foot, 0.0, slant, LineKind.BODY)
        else:
            where = shape.foot_right if mark == _OGONEK else shape.foot
            lines += _place(_BELOW[mark], where, min(shape.foot_height, 0.0), slant, LineKind.BODY)
    return replace(form, lines=tuple(lines))


class _Shape:
    """Where a letter's head and foot are, with the lean taken out."""

    def __init__(self, form: Letterform, slant: float) -> None:
        points = _dense([line.knots for line in form.lines])
        points = points - np.stack([slant * points[:, 1], np.zeros(len(points))], axis=1)
        x, y = points.T
        self.top = float(y.max())
        body = points[(y > -0.1) & (y < max(1.1, self.top))]
        body = body if len(body) else points
        left, right = np.percentile(body[:, 0], [4, 94])
        self.width = float(right - left)
        # Round and flat letters have their accents over the middle; tall ones over what is tall in them.
        near_top = x[y > self.top - _FOOT_SHARE * max(self.top, 1.0)]
        middle = (left + right) / 2
        self.head = float(middle if np.ptp(near_top) > 0.3 * self.width or self.top < 1.4 else near_top.mean())
        self.head_right = float(points[y > 0.6 * self.top, 0].max())
        self.top_right = float(near_top.max())
        feet = body[body[:, 1] < 0.2]
        feet = feet if len(feet) else body
        self.foot = float((feet[:, 0].min() + feet[:, 0].max()) / 2)
        self.foot_right = float(np.percentile(feet[:, 0], 85))
        below = y[np.abs(x - self.foot) < 0.3]
        self.foot_height = float(below.min()) if len(below) else 0.0


def _dense(lines: list[Floats]) -> Floats:
    """Knots and the middles between them."""
    parts = [part for knots in lines for part in (knots, (knots[1:] + knots[:-1]) / 2)]
    return np.concatenate(parts)


def _fit(strokes: _Strokes, width: float) -> _Strokes:
    """Narrower over an i, wider over an m."""
    share = float(np.clip(width / _USUAL_WIDTH, _NARROW, _WIDE)) if len(strokes[0]) > 1 else 1.0
    return tuple(tuple((x * share, y) for x, y in stroke) for stroke in strokes)


def _place(strokes: _Strokes, x: float, y: float, slant: float, kind: LineKind) -> list[PenLine]:
    lines = []
    for stroke in strokes:
        points = np.array(stroke) + np.array([x, y])
        is_dot = len(points) == 1
        if is_dot:
            points = points + np.array([[-_DOT / 2, 0], [_DOT / 2, 0]])
        points[:, 0] += slant * points[:, 1]
        lines.append(PenLine(points, LineKind.DOT if is_dot else kind))
    return lines


def _without_dots(form: Letterform) -> Letterform:
    """All but the dot; entry and exit are counted anew."""
    kept = [number for number, line in enumerate(form.lines) if line.kind is not LineKind.DOT]
    places = {old: new for new, old in enumerate(kept)}
    return Letterform(
        tuple(form.lines[number] for number in kept),
        form.advance,
        None if form.entry is None else places[form.entry],
        None if form.exit is None else places[form.exit],
    )
