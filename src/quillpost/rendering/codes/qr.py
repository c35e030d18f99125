"""QR codes (ISO/IEC 18004, level M) as small bitmaps, fast for a batch whose URLs are alike."""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest

from quillpost.rendering.models import Box

_LEVEL_M_BITS = 0
MASK_PATTERN = 2
_MODE_BITS = 4

# For versions 1 to 40 at level M: the check codewords of each block, and the number of blocks.
_CHECKS_PER_BLOCK = (
    *(10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26),
    *(26, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28),
)
_BLOCK_COUNTS = (
    *(1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16),
    *(17, 17, 18, 20, 21, 23, 25, 26, 28, 29, 31, 33, 35, 37, 38, 40, 43, 45, 47, 49),
)

Module = tuple[int, int]  # row and column, from the upper left


class TooLongForQr(ValueError):
    """No QR code of level M holds so many letters."""


@dataclass(frozen=True)
class QrVersion:
    """One version of the symbol. Codewords are counted in the order of the data, then of the checks."""

    version: int
    side: int
    checks_per_block: int
    block_lengths: tuple[int, ...]
    blank_bitmap: int  # the bitmap of the symbol whose codewords are all zero; see `row_bits` for its shape
    bit_positions: tuple[tuple[int, ...], ...]
    """For each codeword, where in the bitmap its eight bits are, the lowest first."""

    @property
    def data_length(self) -> int:
        return sum(self.block_lengths)

    @property
    def count_bits(self) -> int:
        return _count_bits(self.version)


def find_version(length: int) -> int:
    for version in range(1, 41):
        if 8 * length + _MODE_BITS + _count_bits(version) <= 8 * sum(_block_lengths(version)):
            return version
    raise TooLongForQr(f"A QR code cannot hold {length} letters.")


@cache
def qr_version(version: int) -> QrVersion:
    side = 17 + 4 * version
    fixed_modules = _fixed_modules(version, side)
    free_modules = _reading_order(side, frozenset(fixed_modules))
    masked_modules = [(row, column) for row, column in free_modules if column % 3 == 0]
    dark_modules = [module for module, is_dark in fixed_modules.items() if is_dark] + masked_modules
    order = _codeword_order(version)
    bit_positions: list[tuple[int, ...]] = [()] * len(order)
    for index, codeword in enumerate(order):
        highest_first = [_bitmap_position(module, side) for module in free_modules[8 * index : 8 * index + 8]]
        bit_positions[codeword] = tuple(reversed(highest_first))
    return QrVersion(
        version=version,
        side=side,
        checks_per_block=_CHECKS_PER_BLOCK[version - 1],
        block_lengths=_block_lengths(version),
        blank_bitmap=sum(1 << _bitmap_position(module, side) for module in dark_modules),
        bit_positions=tuple(bit_positions),
    )


def row_bits(side: int) -> int:
    """A bitmap's row, filled up to whole bytes."""
    return (side + 7) // 8 * 8


def _bitmap_position(module: Module, side: int) -> int:
    """The module's bit in a bitmap whose highest row comes first."""
    row, column = module
    return row_bits(side) * (side - row) - 1 - column


def _count_bits(version: int) -> int:
    return 8 if version < 10 else 16


def _block_lengths(version: int) -> tuple[int, ...]:
    """The data codewords of each block: as equal as can be, the longer blocks last."""
    blocks = _BLOCK_COUNTS[version - 1]
    data = _free_module_count(version) // 8 - _CHECKS_PER_BLOCK[version - 1] * blocks
    short_length, longer_count = divmod(data, blocks)
    return (short_length,) * (blocks - longer_count) + (short_length + 1,) * longer_count


def _free_module_count(version: int) -> int:
    count = (16 * version + 128) * version + 64
    if version >= 2:
        alignments = version // 7 + 2
        count -= (25 * alignments - 10) * alignments - 55
    return count - 36 if version >= 7 else count


def _codeword_order(version: int) -> list[int]:
    """The codewords in their order on the symbol: the first of every block, then the second, ..."""
    data, checks, check_start = [], [], sum(_block_lengths(version))
    start = 0
    for length in _block_lengths(version):
        data.append(range(start, start + length))
        checks.append(range(check_start, check_start + _CHECKS_PER_BLOCK[version - 1]))
        start, check_start = start + length, check_start + _CHECKS_PER_BLOCK[version - 1]
    rows = [*zip_longest(*data), *zip_longest(*checks)]
    return [codeword for row in rows for codeword in row if codeword is not None]


def _reading_order(side: int, fixed: frozenset[Module]) -> list[Module]:
    """The free modules as a reader meets them: pairs of columns from the right, up and down by turns."""
    order = []
    rights = [*range(side - 1, 6, -2), 5, 3, 1]  # the sixth column is all timing
    for pass_index, right in enumerate(rights):
        rows = range(side) if pass_index % 2 else range(side - 1, -1, -1)
        order += [(row, column) for row in rows for column in (right, right - 1) if (row, column) not in fixed]
    return order


def _fixed_modules(version: int, side: int) -> dict[Module, bool]:
    """Every module that carries no data, and whether it is dark."""
    modules: dict[Module, bool] = {}
    for index in range(side):
        modules[6, index] = modules[index, 6] = index % 2 == 0
    for row, column in ((3, 3), (3, side - 4), (side - 4, 3)):
        modules |= _ring_modules(row, column, 4, {0, 1, 3}, side)
    centers = _alignment_centers(version, side)
    corners = {(6, 6), (6, side - 7), (side - 7, 6)}
    for row in centers:
        for column in centers:
            if (row, column) not in corners:
                modules |= _ring_modules(row, column, 2, {0, 2}, side)
    return modules | _format_modules(side) | _version_modules(version, side)


def _ring_modules(row: int, column: int, radius: int, dark_distances: set[int], side: int) -> dict[Module, bool]:
    """Squares round a center, dark at these distances; what lies outside the symbol is cut off."""
    return {
        (row + down, column + across): max(abs(down), abs(across)) in dark_distances
        for down in range(-radius, radius + 1)
        for across in range(-radius, radius + 1)
        if 0 <= row + down < side and 0 <= column + across < side
    }


def _alignment_centers(version: int, side: int) -> list[int]:
    """From the sixth module to the sixth last, evenly from the far end; the first gap takes the rest."""
    if version == 1:
        return []
    count = version // 7 + 2
    step = (version * 8 + count * 3 + 5) // (count * 4 - 4) * 2
    return [6, *sorted(side - 7 - step * index for index in range(count - 1))]


def _format_modules(side: int) -> dict[Module, bool]:
    """Level and mask with their check bits, twice, and the module that is always dark."""
    format_bits = _LEVEL_M_BITS << 3 | MASK_PATTERN
    bits = (format_bits << 10 | _polynomial_remainder(format_bits << 10, 0x537)) ^ 0x5412
    near_finder = [*((bit, 8) for bit in range(6)), (7, 8), (8, 8), (8, 7), *((8, 14 - bit) for bit in range(9, 15))]
    at_edges = [*((8, side - 1 - bit) for bit in range(8)), *((side - 15 + bit, 8) for bit in range(8, 15))]
    modules = {module: bits >> bit & 1 == 1 for bit, module in enumerate(near_finder)}
    modules |= {module: bits >> bit & 1 == 1 for bit, module in enumerate(at_edges)}
    return modules | {(side - 8, 8): True}


def _version_modules(version: int, side: int) -> dict[Module, bool]:
    """From version 7 on the symbol says its version, twice."""
    if version < 7:
        return {}
    bits = version << 12 | _polynomial_remainder(version << 12, 0x1F25)
    modules = {}
    for bit in range(18):
        across, along = side - 11 + bit % 3, bit // 3
        modules[across, along] = modules[along, across] = bits >> bit & 1 == 1
    return modules


def _polynomial_remainder(value: int, divisor: int) -> int:
    while value.bit_length() >= divisor.bit_length():
        value ^= divisor << value.bit_length() - divisor.bit_length()
    return value


_BYTE_MODE = 4
_FIELD_POLYNOMIAL = 0x11D
_PADDING_CODEWORDS = (0xEC, 0x11)


@dataclass(frozen=True, slots=True)
class QrSymbol:
    """A square of modules. `bitmap` holds its rows as whole bytes, the first highest; 1 is dark."""

    side: int
    bitmap: int

    @property
    def row_bits(self) -> int:
        return row_bits(self.side)

    def rows(self) -> list[str]:
        text = f"{self.bitmap:0{self.row_bits * self.side}b}"
        return [text[at : at + self.side] for at in range(0, len(text), self.row_bits)]


class QrEncoder:
    """Encodes URLs, fast where they begin alike.

    With a fixed mask a symbol is an affine function of its letters' bits: a letter in its place always turns the same
    modules. So a symbol is the one that all URLs with this beginning share, XOR what each later letter turns.
    """

    def __init__(self) -> None:
        self._prefixes: dict[tuple[str, int], _UrlPrefix] = {}

    def encode(self, url: str) -> QrSymbol:
        """The symbol of an ASCII text; raises TooLongForQr."""
        head, slash, ending = url.rpartition("/")
        key = head + slash, len(ending)
        prefix = self._prefixes.get(key)
        if prefix is None:
            prefix = self._prefixes[key] = _UrlPrefix(*key)
        return QrSymbol(prefix.side, prefix.bitmap_for(ending.encode("ascii")))


class _UrlPrefix:
    """What all texts share that begin alike and are equally long."""

    def __init__(self, head: str, ending_length: int) -> None:
        text = head.encode("ascii")
        version = qr_version(find_version(len(text) + ending_length))
        self.side = version.side
        self._bitmap = version.blank_bitmap
        for index, codeword in enumerate(_data_codewords(version, text + bytes(ending_length))):
            self._bitmap ^= _flipped_modules(version.version, index, codeword)
        self._version = version.version
        # Mode and length take half a codeword more than whole ones, so every letter lies in two.
        self._first_codeword = version.count_bits // 8 + len(text)
        self._flips_by_char: list[dict[int, int]] = [{} for _ in range(ending_length)]

    def bitmap_for(self, ending: bytes) -> int:
        bitmap = self._bitmap
        for index, char in enumerate(ending):
            flips = self._flips_by_char[index]
            if char not in flips:
                flips[char] = self._flipped_by_char(index, char)
            bitmap ^= flips[char]
        return bitmap

    def _flipped_by_char(self, index: int, char: int) -> int:
        codeword = self._first_codeword + index
        return _flipped_modules(self._version, codeword, char >> 4) ^ _flipped_modules(
            self._version, codeword + 1, (char & 15) << 4
        )


def draw_qr(symbol: QrSymbol, box: Box) -> bytes:
    """The symbol as an inline stencil: one image has no seams between modules.

    Hexadecimal digits deflate well beside text and never look like the end of an image. A stencil inks zeros.
    """
    bits = symbol.row_bits * symbol.side
    stencil = symbol.bitmap ^ (1 << bits) - 1
    return b"%b%b> EI Q\n" % (
        _image_prefix(symbol.side, box.width, box.height, box.left, box.bottom),
        stencil.to_bytes(bits // 8, "big").hex().encode(),
    )


@lru_cache(maxsize=256)
def _image_prefix(side: int, *box: float) -> bytes:
    """All that comes before the modules; the box's width, height, left and bottom are rounded to hundredths."""
    matrix = "{} 0 0 {} {} {} cm".format(*[f"{round(number, 2):g}" for number in box])
    return f"q 0 g {matrix} BI/IM true/W {side}/H {side}/F/AHx ID ".encode()


@lru_cache(maxsize=8192)
def _flipped_modules(version: int, index: int, codeword: int) -> int:
    """The modules that a codeword of the data turns: its own, and those of the checks it changes."""
    if codeword == 0:
        return 0
    qr_layout = qr_version(version)
    flipped = _place_bits(codeword, qr_layout.bit_positions[index])
    first_check, block_index = qr_layout.data_length, index
    for length in qr_layout.block_lengths:
        if block_index < length:
            break
        first_check, block_index = first_check + qr_layout.checks_per_block, block_index - length
    exponents, logarithms = _field_tables()
    factor = logarithms[codeword]
    checks = _check_logarithms(qr_layout.checks_per_block, max(qr_layout.block_lengths))[length - 1 - block_index]
    for check, logarithm in enumerate(checks, start=first_check):
        if logarithm is not None:
            flipped |= _place_bits(exponents[factor + logarithm], qr_layout.bit_positions[check])
    return flipped


def _place_bits(codeword: int, positions: tuple[int, ...]) -> int:
    bitmap = 0
    for position in positions:
        if codeword & 1:
            bitmap |= 1 << position
        codeword >>= 1
    return bitmap


def _data_codewords(version: QrVersion, text: bytes) -> list[int]:
    """Mode, length, the text and an end mark, then padding until the symbol is full."""
    stream = (_BYTE_MODE << version.count_bits | len(text)) << 8 * len(text) | int.from_bytes(text, "big")
    codewords = list((stream << 4).to_bytes(1 + version.count_bits // 8 + len(text), "big"))
    while len(codewords) < version.data_length:
        codewords += _PADDING_CODEWORDS
    return codewords[: version.data_length]


@cache
def _check_logarithms(count: int, length: int) -> list[list[int | None]]:
    """For a one in each place of a block, counted from its end: the checks it gives (Reed-Solomon)."""
    exponents, logarithms = _field_tables()
    generator = _generator_polynomial(count)
    remainder = generator
    rows = []
    for _ in range(length):
        rows.append([logarithms[check] if check else None for check in remainder])
        first, *following = remainder
        remainder = [*following, 0]
        if first:
            factor = logarithms[first]
            remainder = [
                check ^ (exponents[factor + logarithms[coefficient]] if coefficient else 0)
                for check, coefficient in zip(remainder, generator, strict=True)
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
        element = element << 1 ^ (_FIELD_POLYNOMIAL if element & 0x80 else 0)
    return exponents * 2, logarithms


def _generator_polynomial(count: int) -> list[int]:
    exponents, logarithms = _field_tables()
    polynomial = [1]
    for power in range(count):
        product = [*polynomial, 0]
        for index, coefficient in enumerate(polynomial, start=1):
            product[index] ^= exponents[logarithms[coefficient] + power]
        polynomial = product
    return polynomial[1:]
