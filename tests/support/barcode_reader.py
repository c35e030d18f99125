"""Reads the Intelligent Mail barcode from pixels, by the standard alone (USPS-B-3200)."""

import numpy as np
from numpy.typing import NDArray

BARS = 65
_BARS_AN_INCH = (20.0, 24.0)
_BAR_WIDTH = (0.015, 0.025)
_FULL_HEIGHT = (0.125, 0.165)
# In pixels: renderers set the letters of a font at whole ones.
_UNEVENNESS = 1.6

# For each bar: descender's character and bit, ascender's character and bit.
_TABLE = """
    H2E3 B10A0 J12C8 F5G11 I9D1 A1F12 C5B8 E4J11 G3I10 D9H6 F11B4 I5C12 J10A2 H1G7 D6E9 A3I6 G4C7
    B1J9 H10F2 E0D8 G2A4 I11B0 J8D12 C6H7 F1E10 B12G9 H3I0 F8J7 E6C10 D4A5 I4F7 H11B9 G0J6 A6E8
    C1D2 F9I12 E11G1 J5H4 D3B2 A7C0 B3E1 G10D5 I7J4 C11F6 A8H12 E2I1 F10D0 J3A9 G5C4 H8B7 F0E5
    C3A10 G12J2 D11B6 I8H9 F4A11 B5C2 J1E12 I3G6 H0D7 E7H5 A12B11 C9J0 G8F3 D10I2
"""


class Unreadable(Exception):
    """There is no barcode, or not a valid one."""


def read_bars(grey: NDArray[np.uint8], *, dpi: float) -> tuple[str, str]:
    """Tracking and routing from the barcode in a picture that shows nothing else; dark is ink."""
    return decode(_letters(grey, dpi))


def decode(letters: str) -> tuple[str, str]:
    """Tracking and routing from 65 letters of T, D, A and F."""
    characters = _characters(letters)
    codewords, check = [], 0
    for place, character in enumerate(characters):
        if character.bit_count() > 6:
            character ^= 0x1FFF
            check |= 1 << place
        if character not in _CODEWORDS:
            raise Unreadable(f"character {place} is none of the code's")
        codewords.append(_CODEWORDS[character])
    if codewords[0] >= 659:
        codewords[0] -= 659
        check |= 1 << 10
    if codewords[9] % 2:
        raise Unreadable("the last codeword is odd")
    value = codewords[0]
    for codeword in codewords[1:9]:
        value = value * 1365 + codeword
    value = value * 636 + codewords[9] // 2
    if _frame_check(value) != check:
        raise Unreadable("the check bits disagree")
    return _digits(value)


def _letters(grey: NDArray[np.uint8], dpi: float) -> str:
    ink = grey < 128
    rows = np.flatnonzero(ink.any(axis=1))
    if not len(rows):
        raise Unreadable("no ink")
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    height = bottom - top
    _within("height", height / dpi, _FULL_HEIGHT, 1 / dpi)
    middle = ink[top + height * 4 // 9 : top + height * 5 // 9 + 1].mean(axis=0) > 0.5
    runs = _runs(middle)
    if len(runs) != BARS:
        raise Unreadable(f"{len(runs)} bars")
    centres = [(start + end) / 2 for start, end in runs]
    places = np.arange(BARS)
    pitch, first = np.polyfit(places, centres, 1)
    _within("pitch", dpi / pitch, _BARS_AN_INCH, 0)
    if np.abs(centres - (first + pitch * places)).max() > _UNEVENNESS:
        raise Unreadable("the bars are uneven")
    _within("bar", float(np.mean([end - start for start, end in runs])) / dpi, _BAR_WIDTH, 0.5 / dpi)
    return "".join(_letter(ink[top:bottom, start:end]) for start, end in runs)


def _letter(bar: NDArray[np.bool_]) -> str:
    """By what is inked in the middle of the ascender's third and of the descender's."""
    sixth = len(bar) / 6
    ascends, descends = (bar[round(at - 1) : round(at + 1)].mean() > 0.5 for at in (sixth, 5 * sixth))
    return "TDAF"[int(descends) + 2 * int(ascends)]


def _runs(dark: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where each run of dark columns starts and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], dark.astype(np.int8), [0]))))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def _within(what: str, measured: float, limits: tuple[float, float], tolerance: float) -> None:
    if not limits[0] - tolerance <= measured <= limits[1] + tolerance:
        raise Unreadable(f"{what} is {measured:.3f}, not within {limits}")


def _characters(letters: str) -> list[int]:
    characters = [0] * 10
    for letter, bits in zip(letters, _BITS, strict=True):
        for (character, bit), is_set in zip(bits, (letter in "DF", letter in "AF"), strict=True):
            characters[character] |= is_set << bit
    return characters


def _bits(entry: str) -> tuple[tuple[int, int], tuple[int, int]]:
    second = max(place for place, sign in enumerate(entry) if sign.isalpha())
    down, up = entry[:second], entry[second:]
    return (ord(down[0]) - ord("A"), int(down[1:])), (ord(up[0]) - ord("A"), int(up[1:]))


def _codeword_table(ones: int, first: int, size: int) -> dict[int, int]:
    """Characters with so many ones: pairs that mirror each other from the front, the others from the back."""
    table, low, high = {}, first, first + size - 1
    for character in (number for number in range(1 << 13) if number.bit_count() == ones):
        mirror = sum((character >> bit & 1) << (12 - bit) for bit in range(13))
        if mirror == character:
            table[character], high = high, high - 1
        elif mirror > character:
            table[character], table[mirror], low = low, low + 1, low + 2
    return table


def _frame_check(value: int) -> int:
    """The remainder, bit by bit, over 102 bits."""
    state = 0x7FF
    for bit in range(101, -1, -1):
        carry = state >> 10 ^ value >> bit & 1
        state = (state << 1 ^ (0xF35 if carry else 0)) & 0x7FF
    return state


def _digits(value: int) -> tuple[str, str]:
    digits = []
    for base in [10] * 18 + [5, 10]:
        value, digit = divmod(value, base)
        digits.append(str(digit))
    return "".join(reversed(digits)), _routing(value)


def _routing(value: int) -> str:
    start = 1
    if value == 0:
        return ""
    for length in (5, 9, 11):
        if value < start + 10**length:
            return f"{value - start:0{length}d}"
        start += 10**length
    raise Unreadable("the routing is too large")


_BITS = [_bits(entry) for entry in _TABLE.split()]
_CODEWORDS = _codeword_table(5, 0, 1287) | _codeword_table(2, 1287, 78)
