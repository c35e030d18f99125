"""Plain type in a box, as large as fits: addresses, the indicia, and centered lines."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib.resources import files
from math import ceil
from typing import NamedTuple

from quillpost.rendering.handwriting.text import PLAIN_FONT, CachedFace
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import Addressee, AddressParts, Box, ReturnAddress
from quillpost.rendering.text.addresses import (
    POSTAL_COUNTRY_NAMES,
    format_address_lines,
    normalize_country_code,
    to_mixed_case,
)
from quillpost.rendering.text.variables import remove_variables

# In font sizes: how far capitals rise from the baseline, and letters hang below it.
ASCENT = 0.75
_LINE_HEIGHT = ASCENT + 0.2

_DRAWINGS_TOML = files(__package__).joinpath("drawings.toml").read_text("utf-8")
DRAWINGS = {name: operators.encode() for name, operators in tomllib.loads(_DRAWINGS_TOML).items()}


class TextBlock(NamedTuple):
    """Lines at the size at which they fit; `leading` is in font sizes."""

    size: float
    leading: float
    lines: Sequence[str]
    height: float

    def measure_width(self, face: CachedFace) -> float:
        return max(map(face.text_width, self.lines)) * self.size


def clean_line(text: str, face: CachedFace) -> str:
    """The text in one line of legible letters, with a fast path for most text."""
    text = text.strip()
    if text.isascii() and text.isprintable() and "  " not in text:
        return text
    return face.make_legible(" ".join(text.split()))


def clean_capitals(text: str, face: CachedFace) -> str:
    """The same in capitals; one that the face lacks is transliterated."""
    upper_text = clean_line(text, face).upper()
    return upper_text if upper_text.isascii() else clean_line(upper_text, face)


def fit_lines(
    lines: Sequence[str], box: Box, settings: Sequence[tuple[float, float]], face: CachedFace, text_name: str
) -> TextBlock:
    """The lines at the first setting (size and leading) that fits; broken only if too wide at every setting.

    Raises DoesNotFit.
    """
    widest = max(map(face.text_width, lines))
    for size, leading in settings:
        height = (_LINE_HEIGHT + (len(lines) - 1) * leading) * size
        if widest * size <= box.width and height <= box.height:
            return TextBlock(size, leading, lines, height)
    for size, leading in settings:
        wrapped = [part for line in lines for part in _wrap(face, line, box.width / size)]
        height = (_LINE_HEIGHT + (len(wrapped) - 1) * leading) * size
        if height <= box.height:
            return TextBlock(size, leading, wrapped, height)
    overflow = max(1, ceil((height - box.height) / (leading * size)))
    raise DoesNotFit(overflow, f"The {text_name} is too long for the piece; shorten its lines.")


def draw_block(block: TextBlock, box: Box, face: CachedFace) -> bytes:
    operators = [_text_prefix(block.size, block.leading, box.left, box.bottom + box.height)]
    for line in block.lines:
        operators.append(face.encode(line))
        operators.append(b"'\n")
    operators.append(b"ET\n")
    return b"".join(operators)


@lru_cache(maxsize=256)
def _text_prefix(size: float, leading: float, left: float, top: float) -> bytes:
    """Cached: the blocks of a batch stand in few places and sizes."""
    return b"BT 0 g %b %.1f Tf %.2f TL %.2f %.2f Td\n" % (
        PLAIN_FONT,
        size,
        size * leading,
        left,
        # The operator that shows a line first moves down to it.
        top - size * ASCENT + size * leading,
    )


def _wrap(face: CachedFace, text: str, width: float) -> Iterator[str]:
    """Lines no wider than that; a wider word is broken."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if face.text_width(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        *filled, line = _chop_word(face, word, width)
        yield from filled
    if line:
        yield line


def _chop_word(face: CachedFace, word: str, width: float) -> list[str]:
    parts, start, width_so_far = [], 0, 0.0
    for index, char in enumerate(word):
        advance = face.text_width(char)
        if width_so_far + advance > width and index > start:
            parts.append(word[start:index])
            start, width_so_far = index, 0.0
        width_so_far += advance
    return [*parts, word[start:]]


_CENTERED_DESCENT = 0.22


@dataclass(frozen=True, slots=True)
class TextStyle:
    """Leading and spacing are in font sizes. A further line begins only where text would be smaller than `least`."""

    size: float
    least: float
    lines: int = 1
    leading: float = 1.25
    spacing: float = 0.0


class CenteredText(NamedTuple):
    lines: Sequence[str]
    size: float
    style: TextStyle

    @property
    def height(self) -> float:
        return _centered_height(len(self.lines), self.style) * self.size

    def draw(self, center: float, top: float, color: bytes, face: CachedFace) -> bytes:
        size, spacing = self.size, self.style.spacing
        operators = [b"BT %b rg %b %.4f Tf %.4f Tc\n" % (color, PLAIN_FONT, size, spacing * size)]
        for index, line in enumerate(self.lines):
            line_width = face.text_width(line) + spacing * (len(line) - 1)
            baseline = top - (ASCENT + index * self.style.leading) * size
            position = (center - line_width * size / 2, baseline, face.encode(line))
            operators.append(b"1 0 0 1 %.2f %.2f Tm%bTj\n" % position)
        return b"".join([*operators, b"0 Tc ET\n"])


def fit_centered(text: str, width: float, height: float, style: TextStyle, face: CachedFace) -> CenteredText:
    """A nonempty text in the fewest lines, no wider and no higher than that."""
    words = text.split(" ")
    best = CenteredText((), 0.0, style)
    for count in range(1, min(style.lines, len(words)) + 1):
        lines, widest = _balance_lines(words, count, style.spacing, face)
        max_size = height / _centered_height(len(lines), style)
        size = min(style.size, max_size, width / widest if widest else max_size)
        if size > best.size:
            best = CenteredText(lines, size, style)
        if size >= style.least:
            break
    return best


def _centered_height(count: int, style: TextStyle) -> float:
    return ASCENT + _CENTERED_DESCENT + (count - 1) * style.leading


def _balance_lines(words: Sequence[str], count: int, spacing: float, face: CachedFace) -> tuple[list[str], float]:
    """At most so many lines of which the widest is as narrow as possible, and its width."""
    widths = [face.text_width(word) + spacing * len(word) for word in words]
    gap = face.text_width(" ") + spacing
    width = max(max(widths), (sum(widths) + gap * (len(words) - count)) / count)
    while True:
        stops, next_width = _fill_lines(widths, gap, width)
        if len(stops) <= count:
            starts = [0, *stops[:-1]]
            return [" ".join(words[start:stop]) for start, stop in zip(starts, stops, strict=True)], width
        width = next_width


def _fill_lines(widths: Sequence[float], gap: float, width: float) -> tuple[list[int], float]:
    """Where lines of that width end, and the least width that would end any of them later."""
    stops: list[int] = []
    line_width, next_width = widths[0], float("inf")
    for index, word_width in enumerate(widths[1:], start=1):
        longer_width = line_width + gap + word_width
        if longer_width <= width:
            line_width = longer_width
            continue
        stops.append(index)
        next_width = min(next_width, longer_width)
        line_width = word_width
    return [*stops, len(widths)], next_width


# Sizes and leadings from the best to the least that will do. The last address still has postal
# capitals of 8 points, and more than the 0.028 in that must be clear between its lines.
_ADDRESS_SETTINGS = (*((half / 2, 1.2) for half in range(21, 15, -1)), (8.0, 1.08))
_RETURN_ADDRESS_SETTINGS = tuple((half / 2, 1.2) for half in range(15, 11, -1))
_INDICIA_SETTINGS = tuple((half / 2, 1.2) for half in range(14, 7, -1))

_DOMESTIC_COUNTRY_NAMES = frozenset({"", "US", "USA", "UNITED STATES", "UNITED STATES OF AMERICA"})
_STREET_AND_UNIT = re.compile(
    r"(?P<street>\d.*?) "
    r"(?P<unit>(?:APT|BLDG|DEPT|FL|HNGR|LOT|OFC|PH|PIER|RM|SLIP|SPC|STE|STOP|TRLR|UNIT|#) .+)"
)


class AddressFormat(Enum):
    """Less room joins units to streets; least room puts a foreign city on one line."""

    FULL = 0
    SHORT = 1
    SHORTEST = 2


def printed_address_lines(
    addressee: Addressee, face: CachedFace, *, address_format: AddressFormat = AddressFormat.FULL
) -> list[str]:
    """The address block in capitals, for postal machines."""
    lines = _block_lines(addressee, addressee.address_block, address_format)
    return [text for line in lines if (text := clean_capitals(line, face))]


def handwritten_address_lines(addressee: Addressee) -> list[str]:
    """The address block as a person writes it, not in capitals."""
    typed = addressee.address, addressee.address2, addressee.city
    return _block_lines(
        addressee,
        addressee.address_block if addressee.standard is None else to_mixed_case(addressee.address_block, typed),
    )


def _block_lines(
    addressee: Addressee, block: AddressParts, address_format: AddressFormat = AddressFormat.FULL
) -> list[str]:
    """A second address line stays a line unless room is short.

    Of a standardized US address it is what stands beside the street (care of, building): it goes above the delivery
    line, which is next to the city (Pub. 28, 211). Abroad the order is the country's, and its name is the last line.
    """
    first, second, *city_parts = block
    country = _foreign_country_name(addressee.country)
    if addressee.standard is not None and country is None:
        first, second = second, first
    streets = [street for street in (first, second) if street]
    if address_format is not AddressFormat.FULL:
        streets = [" ".join(streets)]
    name = addressee.name
    if addressee.or_current_resident:
        name = f"{name} or current resident" if name else "Current resident"
    lines = (
        name,
        addressee.company,
        *(
            [*streets, " ".join([part for part in city_parts if part])]
            if country is None
            else _foreign_lines(addressee, streets, city_parts, address_format)
        ),
        country,
    )
    return [text for line in lines if line and (text := remove_variables(line).strip())]


def _foreign_lines(
    addressee: Addressee, streets: list[str], city_parts: Sequence[str | None], address_format: AddressFormat
) -> list[str]:
    city, province, postal_code = city_parts
    if address_format is AddressFormat.SHORTEST:
        return [*streets, ", ".join(format_address_lines(addressee.country, [], city, province, postal_code))]
    return format_address_lines(addressee.country, streets, city, province, postal_code)


def handwritten_return_lines(sender: ReturnAddress) -> list[str]:
    region = " ".join(filter(None, (sender.province, sender.postal_code)))
    last_line = ", ".join(filter(None, (sender.city, region)))
    lines = (sender.name, sender.address, sender.address2, last_line)
    return [line for line in lines if line and not line.isspace()]


def draw_address(addressee: Addressee, box: Box, face: CachedFace) -> bytes:
    """Raises DoesNotFit."""
    lines = printed_address_lines(addressee, face)
    if not lines:
        return b""
    size, leading = _ADDRESS_SETTINGS[0]
    height = (_LINE_HEIGHT + (len(lines) - 1) * leading) * size
    if height <= box.height and max(map(face.max_width, lines)) <= box.width / size:
        return draw_block(TextBlock(size, leading, lines, height), box, face)  # as nearly all addresses
    if max(map(face.text_width, lines)) * _ADDRESS_SETTINGS[-1][0] > box.width:
        lines = _split_units(lines)
    try:
        block = fit_lines(lines, box, _ADDRESS_SETTINGS, face, "address")
    except DoesNotFit as too_long:
        block = _fit_shortened_address(addressee, box, face, too_long)
    return draw_block(block, box, face)


def _fit_shortened_address(addressee: Addressee, box: Box, face: CachedFace, too_long: DoesNotFit) -> TextBlock:
    for address_format in (AddressFormat.SHORT, AddressFormat.SHORTEST):
        lines = printed_address_lines(addressee, face, address_format=address_format)
        with suppress(DoesNotFit):
            return fit_lines(lines, box, _ADDRESS_SETTINGS, face, "address")
    raise too_long


def fit_return_address(sender: ReturnAddress, box: Box, face: CachedFace) -> TextBlock | None:
    """Raises DoesNotFit."""
    lines = [text for line in handwritten_return_lines(sender) if (text := clean_line(line, face))]
    return fit_lines(lines, box, _RETURN_ADDRESS_SETTINGS, face, "return address") if lines else None


def draw_indicia(lines: Sequence[str], box: Box, face: CachedFace) -> bytes:
    """The permit imprint: centered lines in a frame on white."""
    frame = b"q 1 g 0 G .5 w %b B Q\n" % rectangle_path(box)
    texts = [clean_line(line, face) for line in lines if line.strip()]
    if not texts:
        return b""
    inside = box.expand(-4)
    block = fit_lines(texts, inside, _INDICIA_SETTINGS, face, "indicia")
    size, leading = block.size, block.size * block.leading
    baseline = box.bottom + (box.height + block.height) / 2 - size * ASCENT
    rows = []
    for index, line in enumerate(block.lines):
        left = box.left + (box.width - face.text_width(line) * size) / 2
        position = (left, baseline - index * leading, face.encode(line))
        rows.append(b"1 0 0 1 %.2f %.2f Tm%bTj\n" % position)
    return frame + b"BT 0 g %b %.1f Tf\n%bET\n" % (PLAIN_FONT, size, b"".join(rows))


def rectangle_path(box: Box) -> bytes:
    return b"%.2f %.2f %.2f %.2f re" % (box.left, box.bottom, box.width, box.height)


def _split_units(lines: Sequence[str]) -> list[str]:
    """A unit that does not fit beside its street gets a line above it (Pub. 28, 213)."""
    matches = [_STREET_AND_UNIT.fullmatch(line) for line in lines]
    return [
        part
        for line, match in zip(lines, matches, strict=True)
        for part in ((match["unit"], match["street"]) if match else (line,))
    ]


def _foreign_country_name(country: str | None) -> str | None:
    if country is None or (name := " ".join(country.upper().split())) in _DOMESTIC_COUNTRY_NAMES:
        return None
    code = normalize_country_code(country)
    return None if code == "US" else POSTAL_COUNTRY_NAMES.get(code, name)
