"""Files that cost far more than their size, and an honest one of each kind to measure them against."""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as attribute

from benchmarks.hostile import pdfs

PDF_FIELD, PICTURE_FIELD = "pdf_only_url", "front_image_url"


@dataclass(frozen=True, slots=True)
class HostileFile:
    """`field` is where it is sent: a field of a send that names an address, or `file` of an import.

    `honest` is a file of about its size that is what it seems.
    """

    name: str
    field: str
    content_type: str
    data: bytes = attribute(repr=False)
    honest: bytes = attribute(repr=False)


def nested_forms(depth: int = 12, times: int = 10) -> bytes:
    """Each form draws the next ten times: a line of a drawing, 10^12 times over."""
    draw = b"/F Do " * times
    first = 5
    others = [pdfs.form(draw, f"<</XObject<</F {first + n + 1} 0 R>>>>") for n in range(depth - 1)]
    others.append(pdfs.form(b"0 0 m 9 9 l S " * times))
    return pdfs.one_page(draw, f"<</XObject<</F {first} 0 R>>>>", others)


def nested_patterns(depth: int = 8, times: int = 30) -> bytes:
    """Every tile of a pattern is filled, again and again, with the next."""
    draw = b"/Pattern cs /P scn " + b"0 0 99 99 re f " * times
    tile = "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 99 99]/XStep 99/YStep 99/Resources"
    others = [pdfs.stream(draw, f"{tile}<</Pattern<</P {6 + n} 0 R>>>>") for n in range(depth - 1)]
    others.append(pdfs.stream(b"0 0 m 9 9 l S " * times, tile + "<<>>"))
    return pdfs.one_page(draw, "<</Pattern<</P 5 0 R>>>>", others)


def endless_tiles() -> bytes:
    """One pattern whose tiles lie closer together than any eye can see."""
    tile = "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 600 600]/XStep .001/YStep .001"
    content = b"/Pattern cs /P scn 0 0 612 792 re f"
    return pdfs.one_page(content, "<</Pattern<</P 5 0 R>>>>", [pdfs.stream(b"0 0 9 9 re f", tile + "/Resources<<>>")])


def drawn_letters(depth: int = 4, times: int = 200) -> bytes:
    """A font each of whose letters writes a long word in the next font."""
    word = b"(" + b"a" * times + b") Tj"
    font = (
        "<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[1 0 0 1 0 0]/FirstChar 97/LastChar 97"
        "/Widths[9]/Encoding<</Differences[97/a]>>/CharProcs<</a {letter} 0 R>>/Resources{resources}>>"
    )
    others: list[bytes] = []
    for n in range(depth):
        letter, following = 6 + 2 * n, 7 + 2 * n
        is_last = n == depth - 1
        resources = "<<>>" if is_last else f"<</Font<</F {following} 0 R>>>>"
        others.append(font.format(letter=letter, resources=resources).encode())
        others.append(pdfs.stream(b"9 0 d0 0 0 5 5 re f" if is_last else b"9 0 d0 BT /F 9 Tf " + word + b" ET"))
    return pdfs.one_page(b"BT /F 9 Tf 50 50 Td " + word + b" ET", "<</Font<</F 5 0 R>>>>", others)


def soft_masks(depth: int = 6, times: int = 20) -> bytes:
    """Everything is painted through a mask that is itself painted through a mask."""
    draw = b"/G gs " + b"0 0 m 99 99 l S " * times
    others: list[bytes] = []
    for n in range(depth):
        state = f"<</Type/ExtGState/SMask<</S/Luminosity/G {6 + 2 * n} 0 R>>>>"
        resources = "<<>>" if n == depth - 1 else f"<</ExtGState<</G {7 + 2 * n} 0 R>>>>"
        group = "/Group<</S/Transparency/CS/DeviceGray>>"
        others += [state.encode(), pdfs.form(b"0 0 9 9 re f" if n == depth - 1 else draw, resources, group)]
    return pdfs.one_page(draw, "<</ExtGState<</G 5 0 R>>>>", others)


def many_shadings(count: int = 20_000) -> bytes:
    """The whole page shaded, thousands of times."""
    shading = b"<</ShadingType 2/ColorSpace/DeviceRGB/Coords[0 0 612 792]/Extend[true true]/Function 6 0 R>>"
    function = b"<</FunctionType 2/Domain[0 1]/C0[1 0 0]/C1[0 0 1]/N 1.7>>"
    return pdfs.one_page(b"/S sh " * count, "<</Shading<</S 5 0 R>>>>", [shading, function])


def inflating_content(size: int = 400_000_000) -> bytes:
    """A drawing of some hundred kilobytes in the file, and hundreds of megabytes when it is unpacked."""
    return pdfs.one_page(b"0 0 m 9 9 l S\n" * 70_000, times=size // 980_000)


def wide_bitmap(side: int = 60_000) -> bytes:
    """A PNG of one bit a pixel: seven megabytes of nothing, and 3.6 billion pixels."""
    row = bytes(1 + side // 8)
    return _png(side, side, depth=1, packed=pdfs.deflate(row * 100, side // 100))


def swollen_pixels(side: int = 700) -> bytes:
    """A PNG whose header is modest and whose pixels unpack to many hundred times what it says."""
    return _png(side, side, depth=8, packed=pdfs.deflate(bytes(10_000_000), 40))


def packed_sheet(megabytes: int = 300) -> bytes:
    """A workbook whose sheet is nothing but one character, a thousand times smaller in the file."""
    sheet = io.BytesIO()
    with zipfile.ZipFile(sheet, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as inside:
            for _ in range(megabytes):
                inside.write(b"<" * 1_000_000)
    return sheet.getvalue()


def honest_pdf(size: int) -> bytes:
    """A page of lines, about as large in the file."""
    return pdfs.one_page(b"0 0 m 9 9 l S %" + os.urandom(max(1, size - 700)).hex().encode()[: size - 700])


def honest_picture(size: int) -> bytes:
    """A picture that is as many pixels as its file has bytes."""
    side = max(8, int(size**0.5))
    rows = b"".join(b"\0" + os.urandom(side) for _ in range(side))
    return _png(side, side, depth=8, packed=zlib.compress(rows, 0))


def honest_workbook(size: int) -> bytes:
    """A sheet of people, about as large in the file."""
    row = '<row><c t="inlineStr"><is><t>{}</t></is></c><c t="inlineStr"><is><t>12 Main St</t></is></c></row>'
    people = "".join(row.format(os.urandom(40).hex()) for _ in range(max(1, size // 60)))
    sheet = io.BytesIO()
    with zipfile.ZipFile(sheet, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, inside in _WORKBOOK.items():
            archive.writestr(name, inside)
        archive.writestr("xl/worksheets/sheet1.xml", _SHEET.format(people))
    return sheet.getvalue()


_SCHEMAS = "http://schemas.openxmlformats.org"
_MAIN = f"{_SCHEMAS}/spreadsheetml/2006/main"
_RELATED = f"{_SCHEMAS}/officeDocument/2006/relationships"
_RELATION = (
    f'<Relationships xmlns="{_SCHEMAS}/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{_RELATED}/{{}}" Target="{{}}"/></Relationships>'
)
_SHEET = f'<worksheet xmlns="{_MAIN}"><sheetData>{{}}</sheetData></worksheet>'
_WORKBOOK = {
    "_rels/.rels": _RELATION.format("officeDocument", "xl/workbook.xml"),
    "xl/_rels/workbook.xml.rels": _RELATION.format("worksheet", "worksheets/sheet1.xml"),
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATED}"><sheets>'
    '<sheet name="People" sheetId="1" r:id="r1"/></sheets></workbook>',
}


def hostile_files() -> list[HostileFile]:
    """The half dozen that are measured."""
    return [
        _pdf("12 nested forms", nested_forms()),
        _pdf("nested patterns", nested_patterns()),
        _pdf("20,000 shadings", many_shadings()),
        _pdf("a drawing that inflates", inflating_content()),
        _picture("a bitmap of 60,000 x 60,000", wide_bitmap()),
        _picture("pixels that inflate", swollen_pixels()),
        _table("a workbook that inflates", packed_sheet()),
    ]


def _pdf(name: str, data: bytes) -> HostileFile:
    return _beside(name, PDF_FIELD, "application/pdf", data, honest_pdf)


def _picture(name: str, data: bytes) -> HostileFile:
    return _beside(name, PICTURE_FIELD, "image/png", data, honest_picture)


def _table(name: str, data: bytes) -> HostileFile:
    return _beside(name, "file", "application/octet-stream", data, honest_workbook)


def _beside(name: str, where: str, content_type: str, data: bytes, honest: Callable[[int], bytes]) -> HostileFile:
    return HostileFile(name, where, content_type, data, honest(len(data)))


def _png(width: int, height: int, *, depth: int, packed: bytes) -> bytes:
    """A grey picture of these deflated rows."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
