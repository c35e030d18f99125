"""Long lists as a file for a spreadsheet, made while it is sent."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from fastapi import Response
from fastapi.responses import StreamingResponse

AT_ONCE: Final = 2_000
"""Lines of the file that are read in one transaction, and sent in one piece."""


def csv_file(lines: Iterator[str], name: str) -> Response:
    return StreamingResponse(
        _in_pieces(lines),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )


def _in_pieces(lines: Iterator[str]) -> Iterator[str]:
    """Many lines together: each piece costs a step between threads."""
    while piece := "".join(islice(lines, AT_ONCE)):
        yield piece
