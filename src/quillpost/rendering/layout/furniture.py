"""What a side carries beside message and art: addresses, indicia, barcode, divider, opt-out line."""

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from quillpost.rendering.geometry import BAR_HEIGHT, BAR_PITCH, BAR_WIDTH, BARS, Box
from quillpost.rendering.handwriting.hand import BAR_FONT, PLAIN_FONT
from quillpost.rendering.handwriting.plain import Lettering
from quillpost.rendering.layout.paragraphs import DoesNotFit
from quillpost.rendering.layout.plain_text import (
    ASCENT,
    Block,
    capitals,
    fit,
    show,
    show_if_short,
    tidy,
    too_long,
)
from quillpost.rendering.models import Addressee, Parts, ReturnAddress
from quillpost.rendering.pdf.barcode_font import BARS_SIZE
from quillpost.rendering.text.addresses import address_lines as lines_of
from quillpost.rendering.text.addresses import country_code_of
from quillpost.rendering.text.casing import calm
from quillpost.rendering.text.countries import COUNTRY_NAMES
from quillpost.rendering.text.variables import without_variables

# Sizes and leadings from the best to the least that will do. The last address still has postal
# capitals of 8 points, and more than the 0.028 in that must be clear between its lines.
_ADDRESS = (*((half / 2, 1.2) for half in range(21, 15, -1)), (8.0, 1.08))
_RETURN = tuple((half / 2, 1.2) for half in range(15, 11, -1))
_INDICIA = tuple((half / 2, 1.2) for half in range(14, 7, -1))
_OPT_OUT = ((6.0, 1.15), (5.5, 1.15), (5.0, 1.15))

_DOMESTIC = frozenset({"", "US", "USA", "UNITED STATES", "UNITED STATES OF AMERICA"})
_UNIT = re.compile(
    r"(?P<street>\d.*?) "
    r"(?P<unit>(?:APT|BLDG|DEPT|FL|HNGR|LOT|OFC|PH|PIER|RM|SLIP|SPC|STE|STOP|TRLR|UNIT|#) .+)"
)
_PANEL_MARGIN = 2.0
_BARS_WIDTH = BAR_PITCH * (BARS - 1) + BAR_WIDTH


class Room(Enum):
    """How much there is for an address: with less, units join their streets; with least, a place abroad is
    on one line."""

    PLENTY = 0
    LESS = 1
    LEAST = 2


def address_lines(addressee: Addressee, face: Lettering, *, room: Room = Room.PLENTY) -> list[str]:
    """The address block in capitals, as postal machines read it best."""
    lines = _lines(addressee, addressee.block, room)
    return [shown for line in lines if (shown := capitals(line, face))]


def written_lines(addressee: Addressee) -> list[str]:
    """The address block as a person writes it: what the post wants in capitals a hand does not shout."""
    given = addressee.address, addressee.address2, addressee.city
    return _lines(addressee, addressee.block if addressee.standard is None else calm(addressee.block, given))


def _lines(addressee: Addressee, block: Parts, room: Room = Room.PLENTY) -> list[str]:
    """A second line of the address is one here too, unless room is short.

    Of a standardised address at home it is what stands beside the street, in whose care or in which building:
    that goes above the delivery line, which is next to the city (Pub. 28, 211). Abroad, order and lines are
    the country's own, and its name is the last line.
    """
    above, below, *place = block
    country = _abroad(addressee.country)
    if addressee.standard is not None and country is None:
        above, below = below, above
    streets = [street for street in (above, below) if street]
    if room is not Room.PLENTY:
        streets = [" ".join(streets)]
    lines = (
        _first_line(addressee),
        addressee.company,
        *(
            _place_at_home(streets, place)
            if country is None
            else _place_abroad(addressee, streets, place, room)
        ),
        country,
    )
    return [shown for line in lines if line and (shown := without_variables(line).strip())]


def _place_at_home(streets: list[str], place: Sequence[str | None]) -> list[str]:
    return [*streets, " ".join([part for part in place if part])]


def _place_abroad(
    addressee: Addressee, streets: list[str], place: Sequence[str | None], room: Room
) -> list[str]:
    city, province, postal_code = place
    if room is Room.LEAST:
        return [*streets, ", ".join(lines_of(addressee.country, [], city, province, postal_code))]
    return lines_of(addressee.country, streets, city, province, postal_code)


def return_lines(sender: ReturnAddress, face: Lettering) -> list[str]:
    return [shown for line in written_return_lines(sender) if (shown := tidy(line, face))]


def written_return_lines(sender: ReturnAddress) -> list[str]:
    """The return address as a person writes it."""
    region = " ".join(filter(None, (sender.province, sender.postal_code)))
    last_line = ", ".join(filter(None, (sender.city, region)))
    lines = (sender.name, sender.address, sender.address2, last_line)
    return [line for line in lines if line and not line.isspace()]


def draw_address(addressee: Addressee, box: Box, face: Lettering) -> bytes:
    """The address block, or DoesNotFit."""
    lines = address_lines(addressee, face)
    if not lines:
        return b""
    if shown := show_if_short(lines, box, _ADDRESS[0], face):
        return shown
    if max(map(face.measure, lines)) * _ADDRESS[-1][0] > box.width:
        lines = _units_apart(lines)
    block = fit(lines, box, _ADDRESS, face)
    for room in (Room.LESS, Room.LEAST):
        block = block or fit(address_lines(addressee, face, room=room), box, _ADDRESS, face)
    if block is None:
        raise too_long(lines, box, _ADDRESS, face, "address")
    return show(block, box, face)


def draw_return_address(sender: ReturnAddress, box: Box, face: Lettering) -> bytes:
    """The return address, or DoesNotFit."""
    lines = return_lines(sender, face)
    return show(_fitted(lines, box, _RETURN, face, "return address"), box, face) if lines else b""


def return_panel(sender: ReturnAddress, box: Box, face: Lettering) -> Box | None:
    """The part of the box that the return address takes up, or None without one."""
    lines = return_lines(sender, face)
    if not lines:
        return None
    block = _fitted(lines, box, _RETURN, face, "return address")
    return Box(box.left, box.top - block.height, block.width(face), block.height)


def draw_indicia(lines: Sequence[str], box: Box, face: Lettering) -> bytes:
    """The permit imprint: a frame on white with its lines centred."""
    frame = b"q 1 g 0 G .5 w %b B Q\n" % rectangle(box)
    shown = [tidy(line, face) for line in lines if line.strip()]
    if not shown:
        return b""
    inside = box.grown(-4)
    block = _fitted(shown, inside, _INDICIA, face, "indicia")
    size, leading = block.size, block.size * block.leading
    baseline = box.bottom + (box.height + block.height) / 2 - size * ASCENT
    rows = []
    for place, line in enumerate(block.lines):
        left = box.left + (box.width - face.measure(line) * size) / 2
        at = (left, baseline - place * leading, face.encode(line))
        rows.append(b"1 0 0 1 %.2f %.2f Tm%bTj\n" % at)
    return frame + b"BT 0 g %b %.1f Tf\n%bET\n" % (PLAIN_FONT, size, b"".join(rows))


def takes_indicia(lines: Sequence[str], box: Box, face: Lettering) -> bool:
    """Whether that permit imprint has room in the box."""
    try:
        draw_indicia(lines, box, face)
    except DoesNotFit:
        return False
    return True


def draw_divider(line: Box) -> bytes:
    return b"q .78 G .5 w %.2f %.2f m %.2f %.2f l S Q\n" % (line.left, line.bottom, line.right, line.top)


def draw_bars(letters: bytes, box: Box) -> bytes:
    """The postal barcode from its 65 letters of T, D, A and F, as wide and as high as the box."""
    return b"%b%b)Tj ET\n" % (_bars_begin(box), letters)


@lru_cache(maxsize=64)
def _bars_begin(box: Box) -> bytes:
    """Remembered, as all barcodes of a batch stand in the same place."""
    return b"BT 0 g %b %.3f Tf %.4f 0 0 %.4f %.2f %.2f Tm(" % (
        BAR_FONT,
        BARS_SIZE,
        box.width / _BARS_WIDTH,
        box.height / BAR_HEIGHT,
        box.left,
        box.bottom,
    )


def draw_opt_out(text: str, box: Box, face: Lettering) -> bytes:
    """How to get no more mail, small and grey, on white so that it can be read over any art.

    Where the whole line is too long, its last word says enough.
    """
    line = tidy(text, face)
    if not line:
        return b""
    block = fit([line], box, _OPT_OUT, face)
    if block is None:
        line = line.rsplit(" ", 1)[-1]
        block = _fitted([line], box, _OPT_OUT, face, "opt-out line")
    height = block.height
    paper = Box(box.left, box.bottom + (box.height - height) / 2, block.width(face), height)
    return b"q 1 g %b f Q BT .35 g %b %.1f Tf %.2f %.2f Td%bTj ET\n" % (
        rectangle(paper.grown(_PANEL_MARGIN)),
        PLAIN_FONT,
        block.size,
        paper.left,
        paper.top - block.size * ASCENT,
        face.encode(line),
    )


def takes_opt_out(text: str, box: Box, face: Lettering) -> bool:
    """Whether that line, or the last word of it, has room in the box."""
    try:
        draw_opt_out(text, box, face)
    except DoesNotFit:
        return False
    return True


def rectangle(box: Box) -> bytes:
    return b"%.2f %.2f %.2f %.2f re" % (box.left, box.bottom, box.width, box.height)


def _units_apart(lines: Sequence[str]) -> list[str]:
    """Where a street and its unit are too wide for a line, the unit has its own above it (Pub. 28, 213)."""
    parted = [_UNIT.fullmatch(line) for line in lines]
    return [
        part
        for line, found in zip(lines, parted, strict=True)
        for part in ((found["unit"], found["street"]) if found else (line,))
    ]


def _first_line(addressee: Addressee) -> str | None:
    if not addressee.or_current_resident:
        return addressee.name
    return f"{addressee.name} or current resident" if addressee.name else "Current resident"


def _abroad(country: str | None) -> str | None:
    """The country by its name, where the post needs to be told."""
    if country is None or (letters := " ".join(country.upper().split())) in _DOMESTIC:
        return None
    code = country_code_of(country)
    return None if code == "US" else COUNTRY_NAMES.get(code, letters)


def _fitted(
    lines: Sequence[str], box: Box, settings: Sequence[tuple[float, float]], face: Lettering, what: str
) -> Block:
    block = fit(lines, box, settings, face)
    if block is None:
        raise too_long(lines, box, settings, face, what)
    return block
