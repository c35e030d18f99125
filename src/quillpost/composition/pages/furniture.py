"""What a postcard's back carries beside the message: addresses, indicia, barcode, divider."""

from collections.abc import Sequence
from math import ceil

from quillpost.composition.content import Addressee, ReturnAddress
from quillpost.composition.hands.hand import PLAIN_FONT, plain_face, plain_text
from quillpost.composition.marks import barcode
from quillpost.composition.pages.layout import DoesNotFit, set_plain, wrap_lines
from quillpost.composition.pages.pieces import BAR_PITCH, BAR_WIDTH, Box

ADDRESS_SIZES = (10.5, 10.0, 9.5, 9.0, 8.5, 8.0)
RETURN_SIZES = (7.5, 7.0, 6.5, 6.0)
INDICIA_SIZES = (7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0)
_LEADING = 1.2
_ASCENT = 0.75

_DOMESTIC = frozenset({"", "US", "USA", "UNITED STATES", "UNITED STATES OF AMERICA"})

# A bar in units of the pitch across and of the tracker's half height up: bottom, then height.
_BAR_SPANS = {"T": (b"-1", b"2"), "A": (b"-1", b"4"), "D": (b"-3", b"4"), "F": (b"-3", b"6")}
_BARS = tuple(
    {
        letter: b"%d %b %.2f %b re " % (place, bottom, BAR_WIDTH / BAR_PITCH, height)
        for letter, (bottom, height) in _BAR_SPANS.items()
    }
    for place in range(65)
)


def address_lines(addressee: Addressee) -> list[str]:
    """The address block in capitals, as postal machines read it best."""
    country = " ".join((addressee.country or "").upper().split())
    last_line = (addressee.city, addressee.province, addressee.postal_code)
    lines = (
        _first_line(addressee),
        addressee.company,
        addressee.address,
        addressee.address2,
        " ".join(filter(None, last_line)),
        "" if country in _DOMESTIC else country,
    )
    return [plain_text(line.upper()) for line in lines if line and line.strip()]


def _first_line(addressee: Addressee) -> str | None:
    if not addressee.or_current_resident:
        return addressee.name
    return f"{addressee.name} or current resident" if addressee.name else "Current resident"


def return_lines(sender: ReturnAddress) -> list[str]:
    region = " ".join(filter(None, (sender.province, sender.postal_code)))
    last_line = ", ".join(filter(None, (sender.city, region)))
    lines = (sender.name, sender.address, sender.address2, last_line)
    return [plain_text(line) for line in lines if line and line.strip()]


def draw_address(addressee: Addressee, box: Box) -> bytes:
    return _block(address_lines(addressee), box, ADDRESS_SIZES, "address")


def draw_return_address(sender: ReturnAddress, box: Box) -> bytes:
    return _block(return_lines(sender), box, RETURN_SIZES, "return address")


def return_panel(sender: ReturnAddress, box: Box) -> Box | None:
    """The part of the box that the return address takes up, or None without one."""
    lines = return_lines(sender)
    if not lines:
        return None
    size, shown = _fitted(lines, box, RETURN_SIZES, "return address")
    width = max(map(plain_face().measure, shown)) * size
    height = len(shown) * size * _LEADING
    return Box(box.left, box.top - height, width, height)


def draw_indicia(lines: Sequence[str], box: Box) -> bytes:
    """The permit imprint: a frame on white with its lines centred."""
    frame = b"q 1 g 0 G .5 w %b B Q\n" % rectangle(box)
    inside = box.grown(-4)
    face = plain_face()
    size, shown = _fitted([plain_text(line) for line in lines], inside, INDICIA_SIZES, "indicia")
    baseline = box.bottom + (box.height + size * _LEADING * len(shown)) / 2 - size * 0.9
    rows = []
    for place, line in enumerate(shown):
        left = box.left + (box.width - face.measure(line) * size) / 2
        at = (left, baseline - place * size * _LEADING, face.encode(line))
        rows.append(b"1 0 0 1 %.2f %.2f Tm%bTj\n" % at)
    return frame + b"BT 0 g %b %.1f Tf\n%bET\n" % (PLAIN_FONT, size, b"".join(rows))


def draw_divider(line: Box) -> bytes:
    return b"q .78 G .5 w %.2f %.2f m %.2f %.2f l S Q\n" % (
        line.left,
        line.bottom,
        line.right,
        line.top,
    )


def draw_barcode(tracking: str, routing: str, box: Box) -> bytes:
    """65 bars as filled rectangles; a full bar is as high as the box, a tracker a third of it."""
    letters = barcode.encode(tracking, routing)
    bars = b"".join([bar[letter] for bar, letter in zip(_BARS, letters, strict=True)])
    return b"q 0 g %.4f 0 0 %.4f %.2f %.2f cm %bf Q\n" % (
        BAR_PITCH,
        box.height / 6,
        box.left,
        box.bottom + box.height / 2,
        bars,
    )


def rectangle(box: Box) -> bytes:
    return b"%.2f %.2f %.2f %.2f re" % (box.left, box.bottom, box.width, box.height)


def _fitted(lines: Sequence[str], box: Box, sizes: Sequence[float], what: str) -> tuple[float, list[str]]:
    fitted = set_plain(plain_face(), lines, box, sizes, _LEADING)
    if fitted is None:
        least = len(wrap_lines(plain_face(), lines, box.width / sizes[-1]))
        overflow = ceil(least - box.height / (_LEADING * sizes[-1]))
        raise DoesNotFit(overflow, f"The {what} is too long for the piece; shorten its lines.")
    return fitted


def _block(lines: Sequence[str], box: Box, sizes: Sequence[float], what: str) -> bytes:
    """Lines from the top of the box with one left margin, as large as the sizes allow."""
    if not lines:
        return b""
    face = plain_face()
    size, shown = _fitted(lines, box, sizes, what)
    return b"BT 0 g %b %.1f Tf %.2f TL %.2f %.2f Td\n%bET\n" % (
        PLAIN_FONT,
        size,
        size * _LEADING,
        box.left,
        box.top - size * _ASCENT,
        b"".join([face.encode(line) + b"Tj T*\n" for line in shown]),
    )
