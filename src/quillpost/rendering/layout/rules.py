"""Postal rules of a layout."""

from collections.abc import Iterator
from itertools import combinations

from quillpost.rendering.layout.models import SAFE_MARGIN, ProductLayout, Side
from quillpost.rendering.models import INCH, Box

# Around a barcode, and between what shows in a window and the window's edges (DMM 202.5).
CLEAR_HORIZONTAL, CLEAR_VERTICAL = INCH / 8, INCH * 0.028


def sheet_play(envelope: Side) -> tuple[float, float]:
    if envelope.insert is None:
        return 0.0, 0.0
    width, height = envelope.insert
    return envelope.trim.width - width, envelope.trim.height - height


def largest_visible_area(window: Box, envelope: Side, sheet: Side) -> Box:
    """All of the sheet that the window can show: no art and no other text belongs there."""
    across, up = sheet_play(envelope)
    window_area = _window_on_sheet(window, envelope, sheet)
    return _clip_to_trim(
        Box(window_area.left - across, window_area.bottom - up, window_area.width + across, window_area.height + up),
        sheet.trim,
    )


def always_visible_area(window: Box, envelope: Side, sheet: Side) -> Box:
    """What the window shows however the sheet lies; no area where that is nothing."""
    across, up = sheet_play(envelope)
    window_area = _window_on_sheet(window, envelope, sheet)
    return Box(
        window_area.left, window_area.bottom, max(window_area.width - across, 0.0), max(window_area.height - up, 0.0)
    )


def find_window_errors(envelope: Side, sheets: Iterator[Side]) -> Iterator[str]:
    """The tap test: addresses and barcode keep clear of window edges however the sheet slides."""
    if envelope.insert is None:
        yield f"{envelope.name}: insert is missing, the size of the folded sheet behind the windows."
        return
    across, up = (round(length / INCH, 3) for length in sheet_play(envelope))
    if across < 0 or up < 0:
        yield f"{envelope.name}: the folded insert is larger than the envelope."
        return
    play_text = f"when the sheet slides by the {across:g} by {up:g} in that its envelope leaves it"
    for sheet in sheets:
        if sheet.trim.width != envelope.insert[0]:
            yield f"{sheet.name}: the insert of the envelope must be as wide as the sheet."
        visible_areas = [
            always_visible_area(window, envelope, sheet).expand(-CLEAR_HORIZONTAL, -CLEAR_VERTICAL)
            for window in envelope.windows
        ]
        address_boxes = [box for box in (sheet.address, sheet.barcode) if box]
        if not any(all(map(visible_area.contains, address_boxes)) for visible_area in visible_areas):
            yield f"{sheet.name}: no window shows the whole address and barcode {play_text}."
        return_address = sheet.return_address
        if return_address and not any(visible_area.contains(return_address) for visible_area in visible_areas):
            yield f"{sheet.name}: no window shows the whole return address {play_text}."


def _window_on_sheet(window: Box, envelope: Side, sheet: Side) -> Box:
    """The window over a sheet in the lower left corner of the envelope."""
    height = envelope.insert[1] if envelope.insert else sheet.trim.height
    return Box(window.left, window.bottom + sheet.trim.height - height, window.width, window.height)


def _clip_to_trim(box: Box, trim: Box) -> Box:
    left, bottom = max(box.left, trim.left), max(box.bottom, trim.bottom)
    return Box(left, bottom, min(box.right, trim.right) - left, min(box.top, trim.top) - bottom)


# Postal machines look for the address here on the side that faces them.
_READ_AREA_SIDE_MARGIN = INCH / 2
_READ_AREA_BOTTOM, _READ_AREA_TOP = INCH * 5 / 8, INCH * 2.75
# So far from the right edge a reader in the barcode zone expects the first bar.
_FIRST_BAR_RANGE = 3.5, 4.25
_BARCODE_WIDTHS = 2.68, 3.23
_BARCODE_HEIGHTS = 0.125, 0.165

# Each box by what its owner calls it, and the smallest width and height, in inches, that are of use.
_BOX_RULES = {
    "message": ("message", 1.5, 1.0),
    "message_above_qr": ("message above the QR code", 1.5, 0.5),
    "divider": ("divider", 0.0, 0.0),
    "return_address": ("return address", 1.0, 0.4),
    "indicia": ("indicia", 0.5, 0.3),
    "address": ("address", 2.0, 0.55),
    "barcode": ("barcode", 0.0, 0.0),
    "qr": ("QR code", 0.6, 0.6),
    "card": ("gift card", 2.5, 1.6),
    "opt_out": ("opt-out line", 1.5, 0.09),
}
_BOX_TITLES = {name: title for name, (title, _, _) in _BOX_RULES.items()}

# A piece without a QR code has the whole message box, one with it the box above.
_ALTERNATIVE_BOXES = ({"message", "qr"}, {"message", "message_above_qr"})


def find_layout_errors(product: ProductLayout) -> list[str]:
    """A sentence for every broken rule, with product, side and box."""
    errors = [f"{product.name}, {side.name}: {error}" for side in product.all_sides for error in _side_errors(side)]
    if product.envelope and product.envelope.windows:
        window_errors = find_window_errors(product.envelope, (side for side in product.all_sides if side.address))
        errors += [f"{product.name}, {error}" for error in window_errors]
    if not any(side.message for side in product.sides):
        errors.append(f"{product.name}: no side carries the message.")
    if not any(side.address for side in product.all_sides):
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
    for name, box in boxes.items():
        title, width, height = _BOX_RULES[name]
        if not box.contains(Box(box.left, box.bottom, width * INCH, height * INCH)):
            yield f"the {title} is too small; it needs at least {width:g} by {height:g} in."
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
    """A return address may have its own zone: the upper window of a double-window envelope."""
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
    clear_zone = barcode.expand(CLEAR_HORIZONTAL, CLEAR_VERTICAL)
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
        if not zone.contains(barcode.expand(CLEAR_HORIZONTAL, CLEAR_VERTICAL)):
            yield "the barcode is outside the barcode zone, the lower right 4 3/4 by 5/8 in."
        if not _FIRST_BAR_RANGE[0] <= round((trim.right - barcode.left) / INCH, 4) <= _FIRST_BAR_RANGE[1]:
            yield "the barcode must begin 3 1/2 to 4 1/4 in from the right edge."
    for name, box in boxes.items():
        if name != "barcode" and zone and zone.overlaps(box):
            yield f"the {_BOX_TITLES[name]} reaches into the barcode zone, the lower right 4 3/4 by 5/8 in."
    if any(zone and zone.overlaps(window) for window in side.windows):
        yield "a window reaches into the barcode zone, the lower right 4 3/4 by 5/8 in."
