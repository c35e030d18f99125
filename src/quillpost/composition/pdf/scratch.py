"""Memory for pictures that are drawn and encoded one after the other.

Fresh memory has to be handed out by the system page by page, which took an eighth of a preview's time.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

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
