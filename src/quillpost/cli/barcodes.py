"""`quillpost barcode`: the letters of Intelligent Mail barcodes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from quillpost.core.errors import NotReady
from quillpost.rendering.codes.barcode import encode_barcode_lines

STANDARD_INPUT = Path("-")


def barcode(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files with such lines; standard input without any, or for -."),
    ] = None,
) -> None:
    """Encode lines of `TRACKING [ROUTING]` as Intelligent Mail barcodes.

    TRACKING has 20 digits, ROUTING 5, 9 or 11. Each line gives one line: the 65 letters of T, D, A and F,
    or `error NN` with the postal service's return code: 09 length of the tracking, 10 not all digits,
    11 its second digit is above 4, 12 length of the routing, 13 not all digits.
    """
    sys.stdout.writelines(f"{letters}\n" for letters in encode_barcode_lines(_read_lines(files or [STANDARD_INPUT])))


def _read_lines(files: list[Path]) -> Iterator[str]:
    for file in files:
        if file == STANDARD_INPUT:
            yield from sys.stdin
            continue
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                yield from lines
        except OSError as error:
            raise NotReady(f"{file} cannot be read: {error.strerror}.") from None
