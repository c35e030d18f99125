"""The Intelligent Mail barcode (USPS-B-3200): 31 digits as 65 bars of four shapes.

T is a tracker, A has an ascender, D a descender, F is the full bar.
"""

from collections.abc import Iterable, Iterator

TRACKING_LENGTH = 9
TRACKING_NOT_NUMERIC = 10
SECOND_DIGIT = 11
ROUTING_LENGTH = 12
ROUTING_NOT_NUMERIC = 13

_DIGITS = frozenset("0123456789")

# Routings of 0, 5, 9 and 11 digits share one number line: each length starts where the last ends.
_ROUTING_START = {0: 0, 5: 1, 9: 1 + 10**5, 11: 1 + 10**5 + 10**9}

# For each bar, left to right: the character (A-J) and bit of its descender, then of its ascender.
_BARS = """
    H2/E3 B10/A0 J12/C8 F5/G11 I9/D1 A1/F12 C5/B8 E4/J11 G3/I10 D9/H6
    F11/B4 I5/C12 J10/A2 H1/G7 D6/E9 A3/I6 G4/C7 B1/J9 H10/F2 E0/D8
    G2/A4 I11/B0 J8/D12 C6/H7 F1/E10 B12/G9 H3/I0 F8/J7 E6/C10 D4/A5
    I4/F7 H11/B9 G0/J6 A6/E8 C1/D2 F9/I12 E11/G1 J5/H4 D3/B2 A7/C0
    B3/E1 G10/D5 I7/J4 C11/F6 A8/H12 E2/I1 F10/D0 J3/A9 G5/C4 H8/B7
    F0/E5 C3/A10 G12/J2 D11/B6 I8/H9 F4/A11 B5/C2 J1/E12 I3/G6 H0/D7
    E7/H5 A12/B11 C9/J0 G8/F3 D10/I2
"""

_CHARACTER_BITS = 13
_ALL_BITS = (1 << _CHARACTER_BITS) - 1


class BarcodeError(Exception):
    """The digits make no barcode; `code` is the postal service's return code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"no barcode: return code {code:02d}")
        self.code = code


def encode(tracking: str, routing: str) -> str:
    """The 65 letters of TDAF for 20 tracking digits and 0, 5, 9 or 11 routing digits.

    Spaces around the digits do not count, as in the postal service's own encoder.
    """
    tracking, routing = tracking.strip(), routing.strip()
    _check(tracking, routing)
    value = int(routing or "0") + _ROUTING_START[len(routing)]
    value = (value * 10 + int(tracking[0])) * 5 + int(tracking[1])
    value = value * 10**18 + int(tracking[2:])
    check = _crc11(value)
    bits = 0
    for place, codeword in enumerate(_codewords(value, check)):
        inverted = _ALL_BITS if check >> place & 1 else 0
        bits |= (_CHARACTERS[codeword] ^ inverted) << (_CHARACTER_BITS * place)
    return "".join(["TDAF"[bits >> down & 1 | (bits >> up & 1) << 1] for down, up in _BAR_POSITIONS])


def encode_lines(lines: Iterable[str]) -> Iterator[str]:
    """For each line `TRACKING [ROUTING]` its 65 letters, or `error NN`."""
    for line in lines:
        tracking, _, routing = line.strip().replace("\t", " ").partition(" ")
        try:
            yield encode(tracking, routing)
        except BarcodeError as error:
            yield f"error {error.code:02d}"


def _check(tracking: str, routing: str) -> None:
    if len(tracking) != 20:
        raise BarcodeError(TRACKING_LENGTH)
    if not _DIGITS.issuperset(tracking):
        raise BarcodeError(TRACKING_NOT_NUMERIC)
    if tracking[1] > "4":
        raise BarcodeError(SECOND_DIGIT)
    if len(routing) not in _ROUTING_START:
        raise BarcodeError(ROUTING_LENGTH)
    if not _DIGITS.issuperset(routing):
        raise BarcodeError(ROUTING_NOT_NUMERIC)


def _codewords(value: int, check: int) -> list[int]:
    """Codewords A to J. J keeps its lowest bit free; A carries the eleventh check bit."""
    value, last = divmod(value, 636)
    words = [last * 2]
    for _ in range(8):
        value, word = divmod(value, 1365)
        words.append(word)
    words.append(value + (659 if check >> 10 else 0))
    words.reverse()
    return words


def _crc11(value: int) -> int:
    """The frame check over the 102 bits: the first byte has 6 of them, the others 8."""
    first, *others = value.to_bytes(13, "big")
    state = _SIX_BITS[0x7FF ^ first << 5]
    for byte in others:
        state = _EIGHT_BITS[state ^ byte << 3]
    return state


def _crc_steps(state: int, steps: int) -> int:
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


def _position(spelling: str) -> int:
    """`B10` as a place in the 130 bits of all characters, A's lowest bit first."""
    return "ABCDEFGHIJ".index(spelling[0]) * _CHARACTER_BITS + int(spelling[1:])


_CHARACTERS = (*_n_of_13(5, 1287), *_n_of_13(2, 78))
_SIX_BITS = tuple(_crc_steps(state, 6) for state in range(0x800))
_EIGHT_BITS = tuple(_crc_steps(state, 8) for state in range(0x800))
_BAR_POSITIONS = tuple(
    (_position(descender), _position(ascender))
    for descender, _, ascender in (bar.partition("/") for bar in _BARS.split())
)
