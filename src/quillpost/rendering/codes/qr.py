"""QR codes (ISO/IEC 18004, level M) as small bitmaps, fast for a batch whose URLs are alike.

A symbol is a square of 17 + 4 * version modules. Some of them are the same in every symbol of
a version (finders, timing, alignment, format); the others carry codewords, bit by bit.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest

from quillpost.rendering.geometry import Box

_VERSIONS = range(1, 41)
_LEVEL_M = 0
MASK = 2
_HEADER_BITS = 4

# For versions 1 to 40 at level M: the check codewords of each block, and the number of blocks.
_CHECKS = (
    *(10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26),
    *(26, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28),
)
_BLOCKS = (
    *(1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16),
    *(17, 17, 18, 20, 21, 23, 25, 26, 28, 29, 31, 33, 35, 37, 38, 40, 43, 45, 47, 49),
)

Module = tuple[int, int]
"""Row and column, from the upper left."""


class TooLongForQr(ValueError):
    """No QR code of level M holds so many letters."""


@dataclass(frozen=True)
class Anatomy:
    """One version of the symbol. Codewords are counted in the order of the data, then of the checks."""

    version: int
    side: int
    checks: int
    block_lengths: tuple[int, ...]
    ground: int
    """The bitmap of the symbol whose codewords are all zero; see `row_bits` for its shape."""
    places: tuple[tuple[int, ...], ...]
    """For each codeword, where in the bitmap its eight bits are, the lowest first."""

    @property
    def data_length(self) -> int:
        return sum(self.block_lengths)

    @property
    def count_bits(self) -> int:
        """How many bits say the number of letters."""
        return _count_bits(self.version)


def version_for(letters: int) -> int:
    """The smallest version that holds so many letters."""
    for version in _VERSIONS:
        if 8 * letters + _HEADER_BITS + _count_bits(version) <= 8 * sum(_block_lengths(version)):
            return version
    raise TooLongForQr(f"A QR code cannot hold {letters} letters.")


@cache
def anatomy(version: int) -> Anatomy:
    side = 17 + 4 * version
    fixed = _fixed_modules(version, side)
    free = _reading_order(side, frozenset(fixed))
    masked = [(row, column) for row, column in free if column % 3 == 0]
    dark = [module for module, is_dark in fixed.items() if is_dark] + masked
    order = _interleaved(version)
    places: list[tuple[int, ...]] = [()] * len(order)
    for at, codeword in enumerate(order):
        highest_first = [_place(module, side) for module in free[8 * at : 8 * at + 8]]
        places[codeword] = tuple(reversed(highest_first))
    return Anatomy(
        version=version,
        side=side,
        checks=_CHECKS[version - 1],
        block_lengths=_block_lengths(version),
        ground=sum(1 << _place(module, side) for module in dark),
        places=tuple(places),
    )


def row_bits(side: int) -> int:
    """A bitmap's row, filled up to whole bytes."""
    return (side + 7) // 8 * 8


def _place(module: Module, side: int) -> int:
    """The module's bit in a bitmap whose highest row comes first."""
    row, column = module
    return row_bits(side) * (side - row) - 1 - column


def _count_bits(version: int) -> int:
    return 8 if version < 10 else 16


def _block_lengths(version: int) -> tuple[int, ...]:
    """The data codewords of each block: as equal as can be, the longer blocks last."""
    blocks = _BLOCKS[version - 1]
    data = _free_module_count(version) // 8 - _CHECKS[version - 1] * blocks
    short, longer = divmod(data, blocks)
    return (short,) * (blocks - longer) + (short + 1,) * longer


def _free_module_count(version: int) -> int:
    count = (16 * version + 128) * version + 64
    if version >= 2:
        alignments = version // 7 + 2
        count -= (25 * alignments - 10) * alignments - 55
    return count - 36 if version >= 7 else count


def _interleaved(version: int) -> list[int]:
    """The codewords in their order on the symbol: the first of every block, then the second, ..."""
    data, checks, at = [], [], sum(_block_lengths(version))
    start = 0
    for length in _block_lengths(version):
        data.append(range(start, start + length))
        checks.append(range(at, at + _CHECKS[version - 1]))
        start, at = start + length, at + _CHECKS[version - 1]
    rows = [*zip_longest(*data), *zip_longest(*checks)]
    return [codeword for row in rows for codeword in row if codeword is not None]


def _reading_order(side: int, fixed: frozenset[Module]) -> list[Module]:
    """The free modules as a reader meets them: pairs of columns from the right, up and down by turns."""
    order = []
    rights = [*range(side - 1, 6, -2), 5, 3, 1]  # the sixth column is all timing
    for turn, right in enumerate(rights):
        rows = range(side) if turn % 2 else range(side - 1, -1, -1)
        order += [
            (row, column) for row in rows for column in (right, right - 1) if (row, column) not in fixed
        ]
    return order


def _fixed_modules(version: int, side: int) -> dict[Module, bool]:
    """Every module that carries no data, and whether it is dark."""
    modules: dict[Module, bool] = {}
    for at in range(side):
        modules[6, at] = modules[at, 6] = at % 2 == 0
    for row, column in ((3, 3), (3, side - 4), (side - 4, 3)):
        modules |= _rings(row, column, 4, {0, 1, 3}, side)
    centres = _alignment_centres(version, side)
    corners = {(6, 6), (6, side - 7), (side - 7, 6)}
    for row in centres:
        for column in centres:
            if (row, column) not in corners:
                modules |= _rings(row, column, 2, {0, 2}, side)
    return modules | _format_modules(side) | _version_modules(version, side)


def _rings(row: int, column: int, reach: int, dark: set[int], side: int) -> dict[Module, bool]:
    """Squares round a centre, dark at these distances; what lies outside the symbol is cut off."""
    return {
        (row + down, column + across): max(abs(down), abs(across)) in dark
        for down in range(-reach, reach + 1)
        for across in range(-reach, reach + 1)
        if 0 <= row + down < side and 0 <= column + across < side
    }


def _alignment_centres(version: int, side: int) -> list[int]:
    """From the sixth module to the sixth last, evenly from the far end; the first gap takes the rest."""
    if version == 1:
        return []
    count = version // 7 + 2
    step = (version * 8 + count * 3 + 5) // (count * 4 - 4) * 2
    return [6, *sorted(side - 7 - step * at for at in range(count - 1))]


def _format_modules(side: int) -> dict[Module, bool]:
    """Level and mask with their check bits, twice, and the module that is always dark."""
    told = _LEVEL_M << 3 | MASK
    bits = (told << 10 | _remainder(told << 10, 0x537)) ^ 0x5412
    beside = [*((at, 8) for at in range(6)), (7, 8), (8, 8), (8, 7), *((8, 14 - at) for at in range(9, 15))]
    apart = [*((8, side - 1 - at) for at in range(8)), *((side - 15 + at, 8) for at in range(8, 15))]
    modules = {module: bits >> at & 1 == 1 for at, module in enumerate(beside)}
    modules |= {module: bits >> at & 1 == 1 for at, module in enumerate(apart)}
    return modules | {(side - 8, 8): True}


def _version_modules(version: int, side: int) -> dict[Module, bool]:
    """From version 7 on the symbol says its version, twice."""
    if version < 7:
        return {}
    bits = version << 12 | _remainder(version << 12, 0x1F25)
    modules = {}
    for at in range(18):
        across, along = side - 11 + at % 3, at // 3
        modules[across, along] = modules[along, across] = bits >> at & 1 == 1
    return modules


def _remainder(value: int, divisor: int) -> int:
    """Of a division of polynomials over single bits."""
    while value.bit_length() >= divisor.bit_length():
        value ^= divisor << value.bit_length() - divisor.bit_length()
    return value


_BYTE_MODE = 4
_FIELD = 0x11D
_PADDING = (0xEC, 0x11)


@dataclass(frozen=True, slots=True)
class QrSymbol:
    """A square of modules. `bitmap` holds its rows as whole bytes, the first highest; 1 is dark."""

    side: int
    bitmap: int

    @property
    def row_bits(self) -> int:
        return row_bits(self.side)

    def rows(self) -> list[str]:
        """Each row as a string of 0 and 1."""
        text = f"{self.bitmap:0{self.row_bits * self.side}b}"
        return [text[at : at + self.side] for at in range(0, len(text), self.row_bits)]


class QrEncoder:
    """Encodes URLs, learning as it goes.

    With the mask fixed, a symbol is an affine function of its letters' bits: a letter in its
    place always turns the same modules, whatever stands beside it. So a symbol is the one that
    all URLs with this beginning share, exclusive or what each letter of the ending turns.
    """

    def __init__(self) -> None:
        self._beginnings: dict[tuple[str, int], _Beginning] = {}

    def encode(self, url: str) -> QrSymbol:
        """The symbol of an ASCII text; TooLongForQr if there is none."""
        head, slash, ending = url.rpartition("/")
        key = head + slash, len(ending)
        beginning = self._beginnings.get(key)
        if beginning is None:
            beginning = self._beginnings[key] = _Beginning(*key)
        return QrSymbol(beginning.side, beginning.bitmap_with(ending.encode("ascii")))


class _Beginning:
    """What all texts share that begin alike and are equally long."""

    def __init__(self, head: str, ending_length: int) -> None:
        text = head.encode("ascii")
        symbol = anatomy(version_for(len(text) + ending_length))
        self.side = symbol.side
        self._bitmap = symbol.ground
        for place, codeword in enumerate(_data_codewords(symbol, text + bytes(ending_length))):
            self._bitmap ^= _turned_by(symbol.version, place, codeword)
        self._version = symbol.version
        # Mode and length take half a codeword more than whole ones, so every letter lies in two.
        self._first_codeword = symbol.count_bits // 8 + len(text)
        self._turns: list[dict[int, int]] = [{} for _ in range(ending_length)]

    def bitmap_with(self, ending: bytes) -> int:
        bitmap = self._bitmap
        for place, letter in enumerate(ending):
            turns = self._turns[place]
            if letter not in turns:
                turns[letter] = self._turned_by_letter(place, letter)
            bitmap ^= turns[letter]
        return bitmap

    def _turned_by_letter(self, place: int, letter: int) -> int:
        codeword = self._first_codeword + place
        return _turned_by(self._version, codeword, letter >> 4) ^ _turned_by(
            self._version, codeword + 1, (letter & 15) << 4
        )


def draw_qr(symbol: QrSymbol, box: Box) -> bytes:
    """The symbol as an inline stencil in black: one image has no seams between its modules.

    Hexadecimal digits deflate to less than the plain bytes would beside a page's text, and no
    digits look like the end of an image. A stencil inks its zeros, so the bitmap is inverted.
    """
    bits = symbol.row_bits * symbol.side
    stencil = symbol.bitmap ^ (1 << bits) - 1
    return b"%b%b> EI Q\n" % (_frame(symbol.side, box), stencil.to_bytes(bits // 8, "big").hex().encode())


@lru_cache(maxsize=256)
def _frame(side: int, box: Box) -> bytes:
    """All that comes before the modules; a box's numbers are rounded to a hundredth of a point."""
    numbers = [f"{round(number, 2):g}" for number in (box.width, box.height, box.left, box.bottom)]
    matrix = "{} 0 0 {} {} {} cm".format(*numbers)
    return f"q 0 g {matrix} BI/IM true/W {side}/H {side}/F/AHx ID ".encode()


@lru_cache(maxsize=8192)
def _turned_by(version: int, place: int, codeword: int) -> int:
    """The modules that a codeword of the data turns: its own, and those of the checks it changes."""
    if codeword == 0:
        return 0
    symbol = anatomy(version)
    turned = _spread(codeword, symbol.places[place])
    first_check, behind = symbol.data_length, place
    for length in symbol.block_lengths:
        if behind < length:
            break
        first_check, behind = first_check + symbol.checks, behind - length
    exponents, logarithms = _field_tables()
    factor = logarithms[codeword]
    checks = _check_logarithms(symbol.checks, max(symbol.block_lengths))[length - 1 - behind]
    for check, logarithm in enumerate(checks, start=first_check):
        if logarithm is not None:
            turned |= _spread(exponents[factor + logarithm], symbol.places[check])
    return turned


def _spread(codeword: int, places: tuple[int, ...]) -> int:
    """A bitmap of the codeword's bits, each in its place."""
    bitmap = 0
    for place in places:
        if codeword & 1:
            bitmap |= 1 << place
        codeword >>= 1
    return bitmap


def _data_codewords(symbol: Anatomy, text: bytes) -> list[int]:
    """Mode, length, the text and an end mark, then padding until the symbol is full."""
    stream = (_BYTE_MODE << symbol.count_bits | len(text)) << 8 * len(text) | int.from_bytes(text, "big")
    codewords = list((stream << 4).to_bytes(1 + symbol.count_bits // 8 + len(text), "big"))
    while len(codewords) < symbol.data_length:
        codewords += _PADDING
    return codewords[: symbol.data_length]


@cache
def _check_logarithms(count: int, length: int) -> list[list[int | None]]:
    """For a one in each place of a block, counted from its end: the checks it gives (Reed-Solomon)."""
    exponents, logarithms = _field_tables()
    generator = _generator(count)
    rest = generator
    rows = []
    for _ in range(length):
        rows.append([logarithms[check] if check else None for check in rest])
        first, *others = rest
        rest = [*others, 0]
        if first:
            factor = logarithms[first]
            rest = [
                check ^ (exponents[factor + logarithms[coefficient]] if coefficient else 0)
                for check, coefficient in zip(rest, generator, strict=True)
            ]
    return rows


@cache
def _field_tables() -> tuple[list[int], list[int]]:
    """Powers of two in the field of 256 elements, twice round, and their logarithms."""
    exponents, logarithms = [], [0] * 256
    element = 1
    for power in range(255):
        exponents.append(element)
        logarithms[element] = power
        element = element << 1 ^ (_FIELD if element & 0x80 else 0)
    return exponents * 2, logarithms


def _generator(count: int) -> list[int]:
    """The generator polynomial of so many checks, below its leading one."""
    exponents, logarithms = _field_tables()
    polynomial = [1]
    for power in range(count):
        product = [*polynomial, 0]
        for at, coefficient in enumerate(polynomial, start=1):
            product[at] ^= exponents[logarithms[coefficient] + power]
        polynomial = product
    return polynomial[1:]
