"""The rules of where things may go: what a cutter, a reading machine and a reader need."""

from collections.abc import Iterator
from itertools import combinations

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.layout.products import Piece, Side
from quillpost.rendering.layout.windows import window_faults

SAFE = INCH * 3 / 16

# Postal machines look for the address here on the side that faces them.
_READ_FROM_SIDES = INCH / 2
_READ_BOTTOM, _READ_TOP = INCH * 5 / 8, INCH * 2.75
# So far from the right edge a reader in the barcode zone expects the first bar.
_FIRST_BAR = 3.5, 4.25
_BARCODE_QUIET_ACROSS, _BARCODE_QUIET_UP = INCH / 8, INCH * 0.028
_BARCODE_WIDTHS = 2.68, 3.23
_BARCODE_HEIGHTS = 0.125, 0.165

# The smallest boxes, in inches, that are of use.
_LEAST = {
    "message": (1.5, 1.0),
    "message_above_qr": (1.5, 0.5),
    "return_address": (1.0, 0.4),
    "indicia": (0.5, 0.3),
    "address": (2.0, 0.55),
    "qr": (0.6, 0.6),
    "card": (2.5, 1.6),
    "opt_out": (1.5, 0.09),
}
_TITLES = {
    "message": "message",
    "message_above_qr": "message above the QR code",
    "divider": "divider",
    "return_address": "return address",
    "indicia": "indicia",
    "address": "address",
    "barcode": "barcode",
    "qr": "QR code",
    "card": "gift card",
    "opt_out": "opt-out line",
}

# A piece without a QR code has the whole message box, one with it the box above.
_TAKE_TURNS = ({"message", "qr"}, {"message", "message_above_qr"})


def faults(piece: Piece) -> list[str]:
    """A sentence for every rule that the piece breaks, each naming piece, side and box."""
    found = [
        f"{piece.name}, {side.name}: {fault}" for side in piece.every_side() for fault in _faults_of(side)
    ]
    if piece.envelope and piece.envelope.windows:
        taps = window_faults(piece.envelope, (side for side in piece.every_side() if side.address))
        found += [f"{piece.name}, {fault}" for fault in taps]
    if not any(side.message for side in piece.sides):
        found.append(f"{piece.name}: no side carries the message.")
    if not any(side.address for side in piece.every_side()):
        found.append(f"{piece.name}: no side carries the address.")
    names = {side.name for side in piece.sides}
    for preview, name in piece.previews.items():
        if name not in names:
            found.append(f"{piece.name}: the preview {preview} shows a side {name}, which it does not have.")
    return found


def _faults_of(side: Side) -> Iterator[str]:
    boxes = {name: box for name in _TITLES if (box := getattr(side, name)) is not None}
    yield from _too_small(boxes)
    yield from _off_the_sheet(side, boxes)
    yield from _across_the_fold(side, boxes)
    yield from _in_each_others_way(boxes)
    yield from _in_the_ink_free_zones(side, boxes)
    yield from _barcode_faults(side, boxes)
    if side.handwritten and side.name != "envelope":
        yield "only an envelope can be handwritten; elsewhere the address is printed."
    if side.is_cover and side.address:
        yield "a front that carries art cannot carry the address."
    if side.faces_post:
        yield from _unread_by_the_post(side, boxes)


def _too_small(boxes: dict[str, Box]) -> Iterator[str]:
    for name, (width, height) in _LEAST.items():
        box = boxes.get(name)
        if box and not box.contains(Box(box.left, box.bottom, width * INCH, height * INCH)):
            yield f"the {_TITLES[name]} is too small; it needs at least {width:g} by {height:g} in."
    qr = boxes.get("qr")
    if qr and qr.width != qr.height:
        yield "the QR code is not square."


def _off_the_sheet(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    safe = side.trim.grown(-SAFE)
    for name, box in boxes.items():
        if not safe.contains(box):
            yield f"the {_TITLES[name]} is not 3/16 in inside the trim, and might be cut."
    if side.art_area and not side.bleed_box.contains(side.art_area):
        yield "the art reaches past the bleed."
    if side.panel and not side.trim.contains(side.panel):
        yield "the panel reaches past the trim."
    if any(not side.trim.contains(zone) for zone in side.ink_free):
        yield "an ink-free zone reaches past the trim."


def _across_the_fold(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    for name, box in boxes.items() if side.panel else ():
        if side.panel and side.panel.meets(box) and not side.panel.contains(box):
            yield f"the {_TITLES[name]} lies across the fold."


def _in_each_others_way(boxes: dict[str, Box]) -> Iterator[str]:
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        if {one, other} not in _TAKE_TURNS and a.meets(b):
            yield f"the {_TITLES[one]} and the {_TITLES[other]} overlap."
    above = boxes.get("message_above_qr")
    if above and "message" in boxes and not boxes["message"].contains(above):
        yield "the message above the QR code reaches past the message."


def _in_the_ink_free_zones(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    """A return address may have a zone of its own: the upper window of a double-window envelope."""
    zones = side.ink_free
    for name, box in boxes.items():
        if name in ("address", "barcode"):
            if (
                zones
                and not (name == "barcode" and side.faces_post)
                and not any(zone.contains(box) for zone in zones)
            ):
                yield f"the {_TITLES[name]} is not inside an ink-free zone."
        elif name == "return_address" and _has_own_zone(side, box):
            continue
        elif any(zone.meets(box) for zone in zones):
            yield f"the {_TITLES[name]} reaches into an ink-free zone."


def _has_own_zone(side: Side, return_address: Box) -> bool:
    return any(
        zone.contains(return_address) and not (side.address and zone.contains(side.address))
        for zone in side.ink_free
    )


def _barcode_faults(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    barcode = boxes.get("barcode")
    if barcode is None:
        return
    if not _BARCODE_WIDTHS[0] <= round(barcode.width / INCH, 4) <= _BARCODE_WIDTHS[1]:
        yield "the barcode must be 2.68 to 3.23 in wide, or its 65 bars cannot be read."
    if not _BARCODE_HEIGHTS[0] <= round(barcode.height / INCH, 4) <= _BARCODE_HEIGHTS[1]:
        yield "the barcode must be 0.125 to 0.165 in high, or its bars cannot be read."
    clear = barcode.stretched(_BARCODE_QUIET_ACROSS, _BARCODE_QUIET_UP)
    for name, box in boxes.items():
        if name != "barcode" and clear.meets(box) and not barcode.meets(box):
            yield f"the {_TITLES[name]} is too near to the barcode, which needs 1/8 in clear on both sides."
    if side.ink_free and not side.faces_post and not any(zone.contains(clear) for zone in side.ink_free):
        yield "the barcode needs 1/8 in clear on both sides inside its ink-free zone."


def _unread_by_the_post(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    trim, zone = side.trim, side.barcode_zone
    read_area = Box(
        trim.left + _READ_FROM_SIDES,
        trim.bottom + _READ_BOTTOM,
        trim.width - 2 * _READ_FROM_SIDES,
        _READ_TOP - _READ_BOTTOM,
    )
    if "address" in boxes and not read_area.contains(boxes["address"]):
        yield "the address is outside the postal read area, 5/8 to 2 3/4 in high and 1/2 in from the sides."
    barcode = boxes.get("barcode")
    if barcode and zone:
        if not zone.contains(barcode.stretched(_BARCODE_QUIET_ACROSS, _BARCODE_QUIET_UP)):
            yield "the barcode is outside the barcode zone, the lower right 4 3/4 by 5/8 in."
        if not _FIRST_BAR[0] <= round((trim.right - barcode.left) / INCH, 4) <= _FIRST_BAR[1]:
            yield "the barcode must begin 3 1/2 to 4 1/4 in from the right edge."
    for name, box in boxes.items():
        if name != "barcode" and zone and zone.meets(box):
            yield f"the {_TITLES[name]} reaches into the barcode zone, the lower right 4 3/4 by 5/8 in."
    if any(zone and zone.meets(window) for window in side.windows):
        yield "a window reaches into the barcode zone, the lower right 4 3/4 by 5/8 in."
