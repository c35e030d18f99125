"""Typefaces as the page needs them: glyph ids, widths, ink extents and an embeddable program."""

import io
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

# What a PDF does not use, and what would have to be kept in step with a new weight.
_UNUSED_TABLES = ["GSUB", "GPOS", "GDEF", "BASE", "STAT", "MVAR", "HVAR", "DSIG", "FFTM", "gasp"]


@dataclass(frozen=True, slots=True)
class Glyph:
    """One letter in thousandths of the font size; `left` to `top` are the extents of its ink."""

    number: int
    width: int
    left: int = 0
    bottom: int = 0
    right: int = 0
    top: int = 0


@dataclass(frozen=True)
class Face:
    """One typeface. `glyphs` holds the letters that it can draw, and the space."""

    name: str
    program: bytes
    glyphs: dict[str, Glyph] = field(repr=False)

    @cached_property
    def widths(self) -> dict[str, int]:
        return {letter: glyph.width for letter, glyph in self.glyphs.items()}

    @cached_property
    def codes(self) -> dict[int, str]:
        """For `str.translate`: each letter as the hexadecimal digits of its glyph number."""
        return {ord(letter): f"{glyph.number:04X}" for letter, glyph in self.glyphs.items()}

    @cached_property
    def cap_height(self) -> int:
        return self.glyphs["H"].top

    def encode(self, text: str) -> bytes:
        """The text as a PDF string; every letter must be one of `glyphs`."""
        return b"<" + text.translate(self.codes).encode() + b">"

    def measure(self, text: str) -> float:
        """The width in font sizes."""
        return sum(map(self.widths.__getitem__, text)) / 1000


def load_face(package: str, file_name: str, *, weight: int | None = None) -> Face:
    """The face from a font package; `weight` picks one of a variable font's weights."""
    file = resources.files(package) / "files" / file_name
    # Without recalculated timestamps, so that the same font gives the same bytes.
    font = TTFont(io.BytesIO(file.read_bytes()), recalcTimestamp=False)
    _drop_unused(font)
    if weight is not None:
        font = instancer.instantiateVariableFont(font, {"wght": weight}, inplace=True)
    program = io.BytesIO()
    font.save(program)
    name = package.removeprefix("fontpkg_").title().replace("_", "")
    return Face(name, program.getvalue(), _glyphs_of(font))


def _drop_unused(font: TTFont) -> None:
    """Keep the letters and forget layout and hints; it also makes instancing much faster."""
    options = subset.Options()
    options.layout_features = []
    options.hinting = False
    options.notdef_outline = True
    options.drop_tables += _UNUSED_TABLES
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=list(font.getBestCmap()))
    subsetter.subset(font)


def _glyphs_of(font: TTFont) -> dict[str, Glyph]:
    """Letters with ink; a letter that the font maps to an empty glyph is not covered."""
    outlines = font["glyf"]
    scale = 1000 / font["head"].unitsPerEm
    glyphs: dict[str, Glyph] = {}
    for code_point, name in font.getBestCmap().items():
        outline = outlines[name]
        number, width = font.getGlyphID(name), round(font["hmtx"][name][0] * scale)
        if outline.numberOfContours:
            edges = (outline.xMin, outline.yMin, outline.xMax, outline.yMax)
            glyphs[chr(code_point)] = Glyph(number, width, *(round(e * scale) for e in edges))
        elif code_point == ord(" "):
            glyphs[" "] = Glyph(number, width)
    return glyphs
