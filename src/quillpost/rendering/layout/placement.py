"""The rules of where things may go: what a cutter, a reading machine and a reader need."""

from collections.abc import Iterator
from itertools import combinations

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.layout.products import ProductLayout, Side
from quillpost.rendering.layout.windows import find_window_errors

SAFE_MARGIN = INCH * 3 / 16

# Postal machines look for the address here on the side that faces them.
_READ_AREA_SIDE_MARGIN = INCH / 2
_READ_AREA_BOTTOM, _READ_AREA_TOP = INCH * 5 / 8, INCH * 2.75
# So far from the right edge a reader in the barcode zone expects the first bar.
_FIRST_BAR_RANGE = 3.5, 4.25
_BARCODE_QUIET_ACROSS, _BARCODE_QUIET_UP = INCH / 8, INCH * 0.028
_BARCODE_WIDTHS = 2.68, 3.23
_BARCODE_HEIGHTS = 0.125, 0.165

# The smallest boxes, in inches, that are of use.
_MIN_BOX_SIZES = {
    "message": (1.5, 1.0),
    "message_above_qr": (1.5, 0.5),
    "return_address": (1.0, 0.4),
    "indicia": (0.5, 0.3),
    "address": (2.0, 0.55),
    "qr": (0.6, 0.6),
    "card": (2.5, 1.6),
    "opt_out": (1.5, 0.09),
}
_BOX_TITLES = {
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
_ALTERNATIVE_BOXES = ({"message", "qr"}, {"message", "message_above_qr"})


def find_layout_errors(product: ProductLayout) -> list[str]:
    """A sentence for every rule that the piece breaks, each naming piece, side and box."""
    errors = [f"{product.name}, {side.name}: {error}" for side in product.all_sides() for error in _side_errors(side)]
    if product.envelope and product.envelope.windows:
        window_errors = find_window_errors(product.envelope, (side for side in product.all_sides() if side.address))
        errors += [f"{product.name}, {error}" for error in window_errors]
    if not any(side.message for side in product.sides):
        errors.append(f"{product.name}: no side carries the message.")
    if not any(side.address for side in product.all_sides()):
        errors.append(f"{product.name}: no side carries the address.")
    names = {side.name for side in product.sides}
    for preview, name in product.previews.items():
        if name not in names:
            errors.append(f"{product.name}: the preview {preview} shows a side {name}, which it does not have.")
    return errors


def _side_errors(side: Side) -> Iterator[str]:
    boxes = {name: box for name in _BOX_TITLES if (box := getattr(side, name)) is not None}
    yield from _box_size_errors(boxes)
    yield from _trim_errors(side, boxes)
    yield from _fold_errors(side, boxes)
    yield from _overlap_errors(boxes)
    yield from _ink_free_zone_errors(side, boxes)
    yield from _barcode_errors(side, boxes)
    if side.handwritten and side.name != "envelope":
        yield "only an envelope can be handwritten; elsewhere the address is printed."
    if side.is_cover and side.address:
        yield "a front that carries art cannot carry the address."
    if side.faces_post:
        yield from _postal_reading_errors(side, boxes)


def _box_size_errors(boxes: dict[str, Box]) -> Iterator[str]:
    for name, (width, height) in _MIN_BOX_SIZES.items():
        box = boxes.get(name)
        if box and not box.contains(Box(box.left, box.bottom, width * INCH, height * INCH)):
            yield f"the {_BOX_TITLES[name]} is too small; it needs at least {width:g} by {height:g} in."
    qr = boxes.get("qr")
    if qr and qr.width != qr.height:
        yield "the QR code is not square."


def _trim_errors(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    safe = side.trim.expand(-SAFE_MARGIN)
    for name, box in boxes.items():
        if not safe.contains(box):
            yield f"the {_BOX_TITLES[name]} is not 3/16 in inside the trim, and might be cut."
    if side.art_area and not side.bleed_box.contains(side.art_area):
        yield "the art reaches past the bleed."
    if side.panel and not side.trim.contains(side.panel):
        yield "the panel reaches past the trim."
    if any(not side.trim.contains(zone) for zone in side.ink_free):
        yield "an ink-free zone reaches past the trim."


def _fold_errors(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    for name, box in boxes.items() if side.panel else ():
        if side.panel and side.panel.overlaps(box) and not side.panel.contains(box):
            yield f"the {_BOX_TITLES[name]} lies across the fold."


def _overlap_errors(boxes: dict[str, Box]) -> Iterator[str]:
    for (first_name, first), (second_name, second) in combinations(boxes.items(), 2):
        if {first_name, second_name} not in _ALTERNATIVE_BOXES and first.overlaps(second):
            yield f"the {_BOX_TITLES[first_name]} and the {_BOX_TITLES[second_name]} overlap."
    above_qr = boxes.get("message_above_qr")
    if above_qr and "message" in boxes and not boxes["message"].contains(above_qr):
        yield "the message above the QR code reaches past the message."


def _ink_free_zone_errors(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    """A return address may have a zone of its own: the upper window of a double-window envelope."""
    zones = side.ink_free
    for name, box in boxes.items():
        if name in ("address", "barcode"):
            if zones and not (name == "barcode" and side.faces_post) and not any(zone.contains(box) for zone in zones):
                yield f"the {_BOX_TITLES[name]} is not inside an ink-free zone."
        elif name == "return_address" and _has_own_zone(side, box):
            continue
        elif any(zone.overlaps(box) for zone in zones):
            yield f"the {_BOX_TITLES[name]} reaches into an ink-free zone."


def _has_own_zone(side: Side, return_address: Box) -> bool:
    return any(
        zone.contains(return_address) and not (side.address and zone.contains(side.address)) for zone in side.ink_free
    )


def _barcode_errors(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    barcode = boxes.get("barcode")
    if barcode is None:
        return
    if not _BARCODE_WIDTHS[0] <= round(barcode.width / INCH, 4) <= _BARCODE_WIDTHS[1]:
        yield "the barcode must be 2.68 to 3.23 in wide, or its 65 bars cannot be read."
    if not _BARCODE_HEIGHTS[0] <= round(barcode.height / INCH, 4) <= _BARCODE_HEIGHTS[1]:
        yield "the barcode must be 0.125 to 0.165 in high, or its bars cannot be read."
    clear_zone = barcode.expand_sides(_BARCODE_QUIET_ACROSS, _BARCODE_QUIET_UP)
    for name, box in boxes.items():
        if name != "barcode" and clear_zone.overlaps(box) and not barcode.overlaps(box):
            yield f"the {_BOX_TITLES[name]} is too near to the barcode, which needs 1/8 in clear on both sides."
    if side.ink_free and not side.faces_post and not any(zone.contains(clear_zone) for zone in side.ink_free):
        yield "the barcode needs 1/8 in clear on both sides inside its ink-free zone."


def _postal_reading_errors(side: Side, boxes: dict[str, Box]) -> Iterator[str]:
    trim, zone = side.trim, side.barcode_zone
    read_area = Box(
        trim.left + _READ_AREA_SIDE_MARGIN,
        trim.bottom + _READ_AREA_BOTTOM,
        trim.width - 2 * _READ_AREA_SIDE_MARGIN,
        _READ_AREA_TOP - _READ_AREA_BOTTOM,
    )
    if "address" in boxes and not read_area.contains(boxes["address"]):
        yield "the address is outside the postal read area, 5/8 to 2 3/4 in high and 1/2 in from the sides."
    barcode = boxes.get("barcode")
    if barcode and zone:
        if not zone.contains(barcode.expand_sides(_BARCODE_QUIET_ACROSS, _BARCODE_QUIET_UP)):
            yield "the barcode is outside the barcode zone, the lower right 4 3/4 by 5/8 in."
        if not _FIRST_BAR_RANGE[0] <= round((trim.right - barcode.left) / INCH, 4) <= _FIRST_BAR_RANGE[1]:
            yield "the barcode must begin 3 1/2 to 4 1/4 in from the right edge."
    for name, box in boxes.items():
        if name != "barcode" and zone and zone.overlaps(box):
            yield f"the {_BOX_TITLES[name]} reaches into the barcode zone, the lower right 4 3/4 by 5/8 in."
    if any(zone and zone.overlaps(window) for window in side.windows):
        yield "a window reaches into the barcode zone, the lower right 4 3/4 by 5/8 in."
