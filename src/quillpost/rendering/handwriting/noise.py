"""Random numbers made of seeds and places alone: the same on any machine, in any order, in any batch."""

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.outlines import Floats

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Seeds = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_NORMALS = np.array([round(NormalDist().inv_cdf((index + 0.5) / 256), 4) for index in range(256)])


def mix(numbers: Seeds) -> Seeds:
    """SplitMix64: numbers that are near come out far apart."""
    with np.errstate(over="ignore"):
        mixed = numbers * _STEP
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


def random_bytes(seeds: Seeds, count: int) -> Bytes:
    """A row of at least so many bytes for each seed."""
    words = -(-count // 8)
    with np.errstate(over="ignore"):
        numbers = mix(seeds)[:, None] + np.arange(1, words + 1, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    return mix(numbers).astype("<u8").view(np.uint8)


def normals(noise: Bytes) -> Floats:
    """Standard normal numbers, none farther out than three."""
    return _NORMALS[noise]
