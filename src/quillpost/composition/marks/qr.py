"""QR codes as small bitmaps, fast for a batch whose URLs differ in a few letters."""

from dataclasses import dataclass
from functools import cache, lru_cache

from quillpost.composition.geometry import Box
from quillpost.composition.marks.qr_symbol import Anatomy, anatomy, row_bits, version_for

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
