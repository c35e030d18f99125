"""What the windows of an envelope show of the sheet inside it, wherever the sheet lies.

A sheet is smaller than its envelope and slides: tapped to one side or the other, a window shows another part
of it. The address is at the top of the sheet, on the panel that faces the windows. All boxes of a sheet are
in its own coordinates, as if it were not folded.
"""

from collections.abc import Iterator

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.layout.products import Side

# Between what shows in a window and the window's edges (DMM 202.5, for the Intelligent Mail barcode).
CLEAR_HORIZONTAL, CLEAR_VERTICAL = INCH / 8, INCH * 0.028


def sheet_play(envelope: Side) -> tuple[float, float]:
    """How far the folded sheet can slide across and up."""
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
    """What the window shows of the sheet however it lies; without an area where that is nothing."""
    across, up = sheet_play(envelope)
    window_area = _window_on_sheet(window, envelope, sheet)
    return Box(
        window_area.left, window_area.bottom, max(window_area.width - across, 0.0), max(window_area.height - up, 0.0)
    )


def find_window_errors(envelope: Side, sheets: Iterator[Side]) -> Iterator[str]:
    """The tap test: addresses and barcode keep clear of their window's edges through all the play."""
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
            always_visible_area(window, envelope, sheet).expand_sides(-CLEAR_HORIZONTAL, -CLEAR_VERTICAL)
            for window in envelope.windows
        ]
        address_boxes = [box for box in (sheet.address, sheet.barcode) if box]
        if not any(all(map(visible_area.contains, address_boxes)) for visible_area in visible_areas):
            yield f"{sheet.name}: no window shows the whole address and barcode {play_text}."
        return_address = sheet.return_address
        if return_address and not any(visible_area.contains(return_address) for visible_area in visible_areas):
            yield f"{sheet.name}: no window shows the whole return address {play_text}."


def _window_on_sheet(window: Box, envelope: Side, sheet: Side) -> Box:
    """The window's place over a sheet that lies in the lower left corner of the envelope."""
    height = envelope.insert[1] if envelope.insert else sheet.trim.height
    return Box(window.left, window.bottom + sheet.trim.height - height, window.width, window.height)


def _clip_to_trim(box: Box, trim: Box) -> Box:
    left, bottom = max(box.left, trim.left), max(box.bottom, trim.bottom)
    return Box(left, bottom, min(box.right, trim.right) - left, min(box.top, trim.top) - bottom)
