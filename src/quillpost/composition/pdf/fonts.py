"""Faces in a PDF: embedded TrueType behind two-byte codes that can be read back as text."""

from functools import lru_cache

from quillpost.composition.hands.faces import Face, Glyph
from quillpost.composition.pdf.writer import PdfFile, deflate

_MAPPINGS_A_BLOCK = 100

_CMAP_HEAD = (
    b"/CIDInit/ProcSet findresource begin 12 dict begin begincmap"
    b"/CMapName/Quillpost def/CMapType 2 def"
    b" 1 begincodespacerange<0000><FFFF>endcodespacerange\n"
)
_CMAP_TAIL = b"endcmap CMapName currentdict/CMap defineresource pop end end"


def embed_face(pdf: PdfFile, face: Face) -> int:
    """The number of a font object; a text's codes are the face's glyph numbers."""
    name = b"QUILLP+" + face.name.encode()
    program, to_unicode = _streams_of(face)
    compressed = b"/Filter/FlateDecode"
    file = pdf.add_stream(program, b"/Length1 %d%b" % (len(face.program), compressed), is_compressed=True)
    unicode_map = pdf.add_stream(to_unicode, compressed, is_compressed=True)
    descriptor = pdf.add(
        b"<</Type/FontDescriptor/FontName/%b/Flags 4/FontBBox[%b]/ItalicAngle 0"
        b"/Ascent %d/Descent %d/CapHeight %d/StemV 60/FontFile2 %d 0 R>>" % (name, *_metrics(face), file)
    )
    descendant = pdf.add(
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/%b"
        b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
        b"/FontDescriptor %d 0 R/DW 0/W[%b]/CIDToGIDMap/Identity>>" % (name, descriptor, _width_array(face))
    )
    return pdf.add(
        b"<</Type/Font/Subtype/Type0/BaseFont/%b/Encoding/Identity-H"
        b"/DescendantFonts[%d 0 R]/ToUnicode %d 0 R>>" % (name, descendant, unicode_map)
    )


def _metrics(face: Face) -> tuple[bytes, int, int, int]:
    glyphs = face.glyphs.values()
    left, bottom = min(g.left for g in glyphs), min(g.bottom for g in glyphs)
    right, top = max(g.right for g in glyphs), max(g.top for g in glyphs)
    return b"%d %d %d %d" % (left, bottom, right, top), top, bottom, face.cap_height


def _width_array(face: Face) -> bytes:
    by_number = {glyph.number: glyph.width for glyph in face.glyphs.values()}
    return b"".join(b"%d[%d]" % pair for pair in sorted(by_number.items()))


@lru_cache(maxsize=16)
def _compressed(program: bytes) -> bytes:
    return deflate(program)


def _streams_of(face: Face) -> tuple[bytes, bytes]:
    return _compressed(face.program), _compressed(_unicode_map(face.glyphs))


def _unicode_map(glyphs: dict[str, Glyph]) -> bytes:
    """Glyph number to letter; of several letters with one shape the first code point is meant."""
    letters: dict[int, str] = {}
    for letter in sorted(glyphs):
        letters.setdefault(glyphs[letter].number, letter)
    rows = [
        b"<%04X><%b>" % (number, letter.encode("utf-16-be").hex().encode())
        for number, letter in sorted(letters.items())
    ]
    blocks = [rows[at : at + _MAPPINGS_A_BLOCK] for at in range(0, len(rows), _MAPPINGS_A_BLOCK)]
    body = b"".join(b"%d beginbfchar\n%b\nendbfchar\n" % (len(block), b"\n".join(block)) for block in blocks)
    return _CMAP_HEAD + body + _CMAP_TAIL
