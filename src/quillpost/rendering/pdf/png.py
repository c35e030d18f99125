"""PNG files, written fast.

Fresh memory has to be handed out by the system page by page, which took an eighth of a preview's time.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

_KEPT = 4
_LARGEST_KEPT = 8_000_000

_free: list[npt.NDArray[np.uint8]] = []


@contextmanager
def scratch(size: int) -> Iterator[npt.NDArray[np.uint8]]:
    """So many bytes, with anything in them, that are the caller's until the end of the block."""
    try:
        memory = _free.pop()  # in one step, so two threads never get the same
    except IndexError:
        memory = np.empty(0, np.uint8)
    if memory.size < size:
        memory = np.empty(size, np.uint8)
    try:
        yield memory[:size]
    finally:
        if len(_free) < _KEPT and memory.size <= _LARGEST_KEPT:
            _free.append(memory)


Pixels = npt.NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _RGB = 0, 2
_UNFILTERED, _UP = 0, 2
_LEVEL = 1
_SAMPLED = 16
_METRE = 1 / 0.0254


def encode_png(pixels: Pixels, *, dpi: float) -> bytes:
    """Rows of grey values, or rows of red, green and blue, as a PNG that knows its resolution."""
    height, width = pixels.shape[:2]
    kind = _GREY if pixels.ndim == 2 else _RGB
    density = round(dpi * _METRE)
    return png_file(
        [
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
            (b"pHYs", struct.pack(">IIB", density, density, 1)),
            (b"IDAT", _deflated(pixels)),
            (b"IEND", b""),
        ]
    )


def png_file(chunks: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A file of these chunks, each with its kind."""
    parts = [_SIGNATURE]
    for kind, body in chunks:
        crc = zlib.crc32(body, zlib.crc32(kind))
        parts += [struct.pack(">I4s", len(body), kind), body, struct.pack(">I", crc)]
    return b"".join(parts)


def grey_where_it_is(pixels: Pixels) -> Pixels:
    """The picture without its colours if it has none: a third of the bytes."""
    # A few rows tell most coloured pictures; only one that seems grey is looked at in full.
    return pixels[:, :, 0] if _is_grey(pixels[::_SAMPLED]) and _is_grey(pixels) else pixels


def _is_grey(pixels: Pixels) -> bool:
    red, green, blue = pixels[:, :, 0], pixels[:, :, 1], pixels[:, :, 2]
    return np.array_equal(red, green) and np.array_equal(green, blue)


def _deflated(pixels: Pixels) -> bytes:
    rows = pixels.reshape(len(pixels), -1)
    height, width = rows.shape
    with scratch(height * (width + 1)) as memory:
        filtered = memory.reshape(height, width + 1)
        if _is_drawn_on_paper(pixels):
            filtered[:, 0] = _UNFILTERED
            filtered[:, 1:] = rows
        else:
            filtered[:, 0] = _UP
            filtered[0, 1:] = rows[0]
            np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
        deflated: bytes = isal_zlib.compress(filtered, _LEVEL)
    return deflated


def _is_drawn_on_paper(pixels: Pixels) -> bool:
    """Whether most of it is as what is left of it. Writing deflates best as it is; photographs do not."""
    some = pixels[::_SAMPLED]
    same = np.count_nonzero(some[:, 1:] == some[:, :-1])
    return bool(2 * same > some.size)
