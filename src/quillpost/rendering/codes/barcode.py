"""The Intelligent Mail barcode (USPS-B-3200): 31 digits as 65 bars of four shapes.

T is a tracker, A has an ascender, D a descender, F is the full bar.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from quillpost.rendering.models import BAR_COUNT

# Routings of 0, 5, 9 and 11 digits share one number line: each length starts where the last ends.
_ROUTING_OFFSETS = {0: 0, 5: 1, 9: 1 + 10**5, 11: 1 + 10**5 + 10**9}

# For each bar, left to right: the character (A-J) and bit of its descender, then of its ascender.
_BAR_TABLE = """
    H2/E3 B10/A0 J12/C8 F5/G11 I9/D1 A1/F12 C5/B8 E4/J11 G3/I10 D9/H6
    F11/B4 I5/C12 J10/A2 H1/G7 D6/E9 A3/I6 G4/C7 B1/J9 H10/F2 E0/D8
    G2/A4 I11/B0 J8/D12 C6/H7 F1/E10 B12/G9 H3/I0 F8/J7 E6/C10 D4/A5
    I4/F7 H11/B9 G0/J6 A6/E8 C1/D2 F9/I12 E11/G1 J5/H4 D3/B2 A7/C0
    B3/E1 G10/D5 I7/J4 C11/F6 A8/H12 E2/I1 F10/D0 J3/A9 G5/C4 H8/B7
    F0/E5 C3/A10 G12/J2 D11/B6 I8/H9 F4/A11 B5/C2 J1/E12 I3/G6 H0/D7
    E7/H5 A12/B11 C9/J0 G8/F3 D10/I2
"""

_CHARACTERS_PER_CODE = 10
_CHARACTER_BITS = 13
_ALL_BITS = (1 << _CHARACTER_BITS) - 1
_MAX_ONE_BY_ONE = 4  # up to so many are encoded one by one, which is quicker than a round of numpy's calls


class BarcodeError(Exception):
    """The digits make no barcode; `code` is the postal service's return code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"no barcode: return code {code:02d}")
        self.code = code


def encode_barcode(tracking: str, routing: str) -> str:
    """65 letters of TDAF for 20 tracking digits and 0, 5, 9 or 11 routing digits; outer spaces do not count."""
    value = _to_number(tracking, routing)
    checksum = _crc11(value)
    bits = 0
    for index, codeword in enumerate(_codewords(value, checksum)):
        inverted = _ALL_BITS if checksum >> index & 1 else 0
        bits |= (_CHARACTERS[codeword] ^ inverted) << (_CHARACTER_BITS * index)
    return "".join(["TDAF"[bits >> down & 1 | (bits >> up & 1) << 1] for down, up in _BAR_POSITIONS])


def encode_barcodes(digit_pairs: Sequence[tuple[str, str]]) -> list[bytes]:
    """`encode_barcode` for a whole batch; one wrong pair raises its error."""
    if len(digit_pairs) <= _MAX_ONE_BY_ONE:
        return [encode_barcode(tracking, routing).encode() for tracking, routing in digit_pairs]
    values = b"".join([_to_number(tracking, routing).to_bytes(16, "big") for tracking, routing in digit_pairs])
    columns = np.frombuffer(values, np.uint8).reshape(-1, 16).T[3:].astype(np.int64)  # the first three are empty
    checksums: NDArray[np.int64] = _CRC_SIX_BIT_TABLE[0x7FF ^ columns[0] << 5]
    for column in columns[1:]:
        checksums = _CRC_EIGHT_BIT_TABLE[checksums ^ column << 3]
    codewords = _codewords_of_batch(np.frombuffer(values, ">u4").reshape(-1, 4), checksums)
    inverted = (checksums[:, None] >> np.arange(_CHARACTERS_PER_CODE) & 1) * _ALL_BITS
    characters = _CHARACTER_TABLE[codewords] ^ inverted
    bits = np.unpackbits(characters.astype(">u2").view(np.uint8), axis=1)
    descends, ascends = bits[:, _DESCENDER_COLUMNS], bits[:, _ASCENDER_COLUMNS]
    bars = np.frombuffer(b"TDAF", np.uint8)[descends | ascends << 1].tobytes()
    return [bars[at : at + BAR_COUNT] for at in range(0, len(bars), BAR_COUNT)]


def encode_barcode_lines(lines: Iterable[str]) -> Iterator[str]:
    """For each line `TRACKING [ROUTING]` its 65 letters, or `error NN`."""
    for line in lines:
        tracking, _, routing = line.strip().replace("\t", " ").partition(" ")
        try:
            yield encode_barcode(tracking, routing)
        except BarcodeError as error:
            yield f"error {error.code:02d}"


def _to_number(tracking: str, routing: str) -> int:
    """All digits as one number of 102 bits."""
    tracking, routing = tracking.strip(), routing.strip()
    if len(tracking) != 20:
        raise BarcodeError(9)
    if not (tracking.isascii() and tracking.isdigit()):
        raise BarcodeError(10)
    if tracking[1] > "4":
        raise BarcodeError(11)
    if len(routing) not in _ROUTING_OFFSETS:
        raise BarcodeError(12)
    if routing and not (routing.isascii() and routing.isdigit()):
        raise BarcodeError(13)
    head = int(routing or "0") + _ROUTING_OFFSETS[len(routing)]
    return ((head * 10 + int(tracking[0])) * 5 + int(tracking[1])) * 10**18 + int(tracking[2:])


def _codewords(value: int, checksum: int) -> list[int]:
    """Codewords A to J. J keeps its lowest bit free; A carries the eleventh check bit."""
    value, last = divmod(value, 636)
    codewords = [last * 2]
    for _ in range(8):
        value, codeword = divmod(value, 1365)
        codewords.append(codeword)
    codewords.append(value + (659 if checksum >> 10 else 0))
    codewords.reverse()
    return codewords


def _codewords_of_batch(values: NDArray[np.uint32], checksums: NDArray[np.int64]) -> NDArray[np.int64]:
    """`_codewords` by long division, a value being four digits of 32 bits each."""
    digits = [values[:, index].astype(np.int64) for index in range(4)]
    codewords = np.empty((len(values), _CHARACTERS_PER_CODE), np.int64)
    for index in range(_CHARACTERS_PER_CODE - 1, 0, -1):
        divisor = 636 if index == _CHARACTERS_PER_CODE - 1 else 1365
        remainder = np.zeros(len(values), np.int64)
        for digit_index, digit in enumerate(digits):
            total = remainder << 32 | digit
            digits[digit_index] = total // divisor
            remainder = total - digits[digit_index] * divisor
        codewords[:, index] = remainder
    codewords[:, -1] *= 2
    codewords[:, 0] = digits[-1] + (checksums >> 10) * 659
    return codewords


def _crc11(value: int) -> int:
    """The frame check over the 102 bits: the first byte has 6 of them, the others 8."""
    first, *following = value.to_bytes(13, "big")
    state = _CRC_SIX_BITS[0x7FF ^ first << 5]
    for byte in following:
        state = _CRC_EIGHT_BITS[state ^ byte << 3]
    return state


def _step_crc(state: int, steps: int) -> int:
    for _ in range(steps):
        state = state << 1 ^ (0xF35 if state & 0x400 else 0)
    return state & 0x7FF


def _n_of_13(ones: int, size: int) -> list[int]:
    """Every 13-bit character with so many ones: mirror pairs from the front, palindromes last."""
    characters = [0] * size
    front, back = 0, size - 1
    for character in range(_ALL_BITS + 1):
        mirrored = int(f"{character:013b}"[::-1], 2)
        if character.bit_count() != ones or mirrored < character:
            continue
        if mirrored == character:
            characters[back] = character
            back -= 1
        else:
            characters[front : front + 2] = character, mirrored
            front += 2
    return characters


def _bit_position(spelling: str) -> int:
    """`B10` as a place in the 130 bits of all characters, A's lowest bit first."""
    return "ABCDEFGHIJ".index(spelling[0]) * _CHARACTER_BITS + int(spelling[1:])


def _bit_column(position: int) -> int:
    """Where a position's bit is when the characters are unpacked, 16 bits each, highest first."""
    character, bit = divmod(position, _CHARACTER_BITS)
    return character * 16 + 15 - bit


_CHARACTERS = (*_n_of_13(5, 1287), *_n_of_13(2, 78))
_CRC_SIX_BITS = tuple(_step_crc(state, 6) for state in range(0x800))
_CRC_EIGHT_BITS = tuple(_step_crc(state, 8) for state in range(0x800))
_BAR_POSITIONS = tuple(
    (_bit_position(descender), _bit_position(ascender))
    for descender, _, ascender in (bar.partition("/") for bar in _BAR_TABLE.split())
)
_CHARACTER_TABLE: NDArray[np.int64] = np.array(_CHARACTERS, np.int64)
_CRC_SIX_BIT_TABLE: NDArray[np.int64] = np.array(_CRC_SIX_BITS, np.int64)
_CRC_EIGHT_BIT_TABLE: NDArray[np.int64] = np.array(_CRC_EIGHT_BITS, np.int64)
_DESCENDER_COLUMNS = np.array([_bit_column(descender) for descender, _ in _BAR_POSITIONS])
_ASCENDER_COLUMNS = np.array([_bit_column(ascender) for _, ascender in _BAR_POSITIONS])
