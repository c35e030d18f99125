"""What a side carries beside message and art: addresses, indicia, barcode, divider, opt-out line."""

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from quillpost.rendering import models
from quillpost.rendering.handwriting.hand import BAR_FONT, PLAIN_FONT
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.layout.text import (
    ASCENT,
    TextBlock,
    clean_capitals,
    clean_line,
    draw_block,
    draw_if_short,
    fit_lines,
    too_long_error,
)
from quillpost.rendering.models import Addressee, AddressParts, Box, ReturnAddress
from quillpost.rendering.pdf.fonts import BARCODE_FONT_SIZE
from quillpost.rendering.text.addresses import POSTAL_COUNTRY_NAMES, format_address_lines, normalize_country_code
from quillpost.rendering.text.characters import to_mixed_case
from quillpost.rendering.text.variables import remove_variables

# Sizes and leadings from the best to the least that will do. The last address still has postal
# capitals of 8 points, and more than the 0.028 in that must be clear between its lines.
_ADDRESS_SETTINGS = (*((half / 2, 1.2) for half in range(21, 15, -1)), (8.0, 1.08))
_RETURN_ADDRESS_SETTINGS = tuple((half / 2, 1.2) for half in range(15, 11, -1))
_INDICIA_SETTINGS = tuple((half / 2, 1.2) for half in range(14, 7, -1))
_OPT_OUT_SETTINGS = ((6.0, 1.15), (5.5, 1.15), (5.0, 1.15))

_DOMESTIC_COUNTRY_NAMES = frozenset({"", "US", "USA", "UNITED STATES", "UNITED STATES OF AMERICA"})
_STREET_AND_UNIT = re.compile(
    r"(?P<street>\d.*?) "
    r"(?P<unit>(?:APT|BLDG|DEPT|FL|HNGR|LOT|OFC|PH|PIER|RM|SLIP|SPC|STE|STOP|TRLR|UNIT|#) .+)"
)
_PANEL_MARGIN = 2.0
_BARCODE_WIDTH = models.BAR_PITCH * (models.BAR_COUNT - 1) + models.BAR_WIDTH


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


def printed_return_lines(sender: ReturnAddress, face: CachedFace) -> list[str]:
    return [text for line in handwritten_return_lines(sender) if (text := clean_line(line, face))]


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
    if operators := draw_if_short(lines, box, _ADDRESS_SETTINGS[0], face):
        return operators
    if max(map(face.text_width, lines)) * _ADDRESS_SETTINGS[-1][0] > box.width:
        lines = _split_units(lines)
    block = fit_lines(lines, box, _ADDRESS_SETTINGS, face)
    for address_format in (AddressFormat.SHORT, AddressFormat.SHORTEST):
        block = block or fit_lines(
            printed_address_lines(addressee, face, address_format=address_format), box, _ADDRESS_SETTINGS, face
        )
    if block is None:
        raise too_long_error(lines, box, _ADDRESS_SETTINGS, face, "address")
    return draw_block(block, box, face)


def draw_return_address(sender: ReturnAddress, box: Box, face: CachedFace) -> bytes:
    """Raises DoesNotFit."""
    lines = printed_return_lines(sender, face)
    if not lines:
        return b""
    return draw_block(_fit_or_raise(lines, box, _RETURN_ADDRESS_SETTINGS, face, "return address"), box, face)


def return_address_box(sender: ReturnAddress, box: Box, face: CachedFace) -> Box | None:
    """The part of the box that the return address covers."""
    lines = printed_return_lines(sender, face)
    if not lines:
        return None
    block = _fit_or_raise(lines, box, _RETURN_ADDRESS_SETTINGS, face, "return address")
    return Box(box.left, box.top - block.height, block.measure_width(face), block.height)


def draw_indicia(lines: Sequence[str], box: Box, face: CachedFace) -> bytes:
    """The permit imprint: centered lines in a frame on white."""
    frame = b"q 1 g 0 G .5 w %b B Q\n" % rectangle_path(box)
    texts = [clean_line(line, face) for line in lines if line.strip()]
    if not texts:
        return b""
    inside = box.expand(-4)
    block = _fit_or_raise(texts, inside, _INDICIA_SETTINGS, face, "indicia")
    size, leading = block.size, block.size * block.leading
    baseline = box.bottom + (box.height + block.height) / 2 - size * ASCENT
    rows = []
    for index, line in enumerate(block.lines):
        left = box.left + (box.width - face.text_width(line) * size) / 2
        position = (left, baseline - index * leading, face.encode(line))
        rows.append(b"1 0 0 1 %.2f %.2f Tm%bTj\n" % position)
    return frame + b"BT 0 g %b %.1f Tf\n%bET\n" % (PLAIN_FONT, size, b"".join(rows))


def draw_divider(line: Box) -> bytes:
    return b"q .78 G .5 w %.2f %.2f m %.2f %.2f l S Q\n" % (line.left, line.bottom, line.right, line.top)


def draw_barcode(bars: bytes, box: Box) -> bytes:
    """The postal barcode from its 65 letters of TDAF, as wide and as high as the box."""
    return b"%b%b)Tj ET\n" % (_barcode_prefix(box), bars)


@lru_cache(maxsize=64)
def _barcode_prefix(box: Box) -> bytes:
    """Cached: all barcodes of a batch stand in the same place."""
    scales = (box.width / _BARCODE_WIDTH, box.height / models.BAR_HEIGHT)
    return b"BT 0 g %b %.3f Tf %.4f 0 0 %.4f %.2f %.2f Tm(" % (
        BAR_FONT,
        BARCODE_FONT_SIZE,
        *scales,
        box.left,
        box.bottom,
    )


def draw_opt_out(text: str, box: Box, face: CachedFace) -> bytes:
    """How to get no more mail, gray on white to be readable over any art; if too long, only its last word."""
    line = clean_line(text, face)
    if not line:
        return b""
    block = fit_lines([line], box, _OPT_OUT_SETTINGS, face)
    if block is None:
        line = line.rsplit(" ", 1)[-1]
        block = _fit_or_raise([line], box, _OPT_OUT_SETTINGS, face, "opt-out line")
    height = block.height
    panel = Box(box.left, box.bottom + (box.height - height) / 2, block.measure_width(face), height)
    text_start = (PLAIN_FONT, block.size, panel.left, panel.top - block.size * ASCENT)
    background = b"q 1 g %b f Q" % rectangle_path(panel.expand(_PANEL_MARGIN))
    return background + b" BT .35 g %b %.1f Tf %.2f %.2f Td%bTj ET\n" % (*text_start, face.encode(line))


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


def _fit_or_raise(
    lines: Sequence[str], box: Box, settings: Sequence[tuple[float, float]], face: CachedFace, text_name: str
) -> TextBlock:
    block = fit_lines(lines, box, settings, face)
    if block is None:
        raise too_long_error(lines, box, settings, face, text_name)
    return block
