"""A signature as a path to fill, for print and for pages."""

from collections.abc import Iterator

import numpy as np

from quillpost.rendering.handwriting.sheet.models import SIGNATURE_UNITS, Signature

_MARGIN = SIGNATURE_UNITS // 50
_MATRIX = b"[%.4f 0 0 %.4f 0 0]" % (1 / SIGNATURE_UNITS, 1 / SIGNATURE_UNITS)


def signature_form(signature: Signature) -> tuple[bytes, bytes]:
    """The content of a form XObject, 1 high, and its entries. It has no color: that of the page is its ink."""
    paths = (
        b"".join(b"%d %d %b" % (x, y, b"l\n" if index else b"m\n") for index, (x, y) in enumerate(outline)) + b"h\n"
        for outline in _scaled_outlines(signature)
    )
    width = round(signature.width * SIGNATURE_UNITS)
    box = (-_MARGIN, -_MARGIN, width + _MARGIN, SIGNATURE_UNITS + _MARGIN)
    entries = b"/Type/XObject/Subtype/Form/BBox[%d %d %d %d]/Matrix%b/Resources<<>>" % (*box, _MATRIX)
    return b"".join([*paths, b"f\n"]), entries


def signature_svg(signature: Signature) -> str:
    """In the color of the text around it."""
    paths = (
        "M" + "L".join(f"{x} {SIGNATURE_UNITS - y}" for x, y in outline) + "Z"
        for outline in _scaled_outlines(signature)
    )
    width = round(signature.width * SIGNATURE_UNITS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIGNATURE_UNITS}" fill="currentColor">'
        f'<path d="{"".join(paths)}"/></svg>'
    )


def _scaled_outlines(signature: Signature) -> Iterator[list[list[int]]]:
    for outline in signature.outlines:
        points: list[list[int]] = np.rint(outline * SIGNATURE_UNITS).astype(np.int64).tolist()
        yield points
