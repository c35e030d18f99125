"""What shows through the windows of a closed envelope, as previews draw it."""

from quillpost.rendering.layout.giftcards import rounded_rectangle_path
from quillpost.rendering.layout.models import Side
from quillpost.rendering.layout.rules import sheet_play
from quillpost.rendering.layout.text import rectangle_path
from quillpost.rendering.models import INCH

_CORNER = INCH / 8
_FILM_COLOR = b".93 .955 .975"
_EDGE_COLOR = b".62 .66 .7"


def draw_windows(envelope: Side, sheet: Side, sheet_content: bytes) -> bytes:
    """The film and the edge of each window, and what it shows of the sheet behind it."""
    outlines = [rounded_rectangle_path(window, _CORNER) for window in envelope.windows]
    films = b"".join(b"q %b rg %b f Q\n" % (_FILM_COLOR, outline) for outline in outlines)
    edges = b"".join(b"q %b RG .75 w %b S Q\n" % (_EDGE_COLOR, outline) for outline in outlines)
    return films + show_in_windows(envelope, sheet, sheet_content) + edges


def show_in_windows(envelope: Side, sheet: Side, sheet_content: bytes) -> bytes:
    """The sheet's content where the folded sheet lies in its envelope, clipped to each window."""
    across, up = sheet_place(envelope, sheet)
    return b"".join(
        b"q %b W n 1 0 0 1 %.3f %.3f cm %b W n\n%b Q\n"
        % (rounded_rectangle_path(window, _CORNER), across, up, rectangle_path(sheet.trim), sheet_content)
        for window in envelope.windows
    )


def sheet_place(envelope: Side, sheet: Side) -> tuple[float, float]:
    """The sheet's lower left corner in its envelope: its top panel lies in front, in the middle of where it slides."""
    across, up = sheet_play(envelope)
    folded_height = envelope.insert[1] if envelope.insert else sheet.trim.height
    return across / 2, up / 2 - (sheet.trim.height - folded_height)
