"""Black ink alone, the colour of most text, said in a way that suits every press."""

from collections.abc import Sequence
from decimal import Decimal

import pikepdf

from quillpost.composition.art.entries import PdfObject

_GREY_OPERATORS = {"k": pikepdf.Operator("g"), "K": pikepdf.Operator("G")}


def is_black_alone(inks: Sequence[PdfObject]) -> bool:
    """Whether a CMYK colour has no cyan, magenta or yellow in it."""
    return len(inks) == 4 and all(isinstance(ink, int | Decimal) for ink in inks) and not any(inks[:3])


def black_to_grey(stream: pikepdf.Stream) -> None:
    """Rewrite a drawing whose CMYK colours are all black alone."""
    instructions: list[PdfObject] = []
    for instruction in pikepdf.parse_content_stream(stream):
        grey = _GREY_OPERATORS.get(str(instruction.operator))
        if grey is None:
            instructions.append(instruction)
        else:
            black: PdfObject = instruction.operands[3]
            level = 1 - Decimal(black)
            instructions.append(pikepdf.ContentStreamInstruction([level], grey))
    stream.write(pikepdf.unparse_content_stream(instructions))
