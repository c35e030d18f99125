"""Pictures and workbooks, and the forms that bring them."""

import io
import zipfile
from collections.abc import Sequence
from typing import Any

from httpx2 import Response
from PIL import Image

from support.factories import Account
from support.images import saved

RED, BLUE = (200, 30, 30), (30, 60, 200)


def png(colour: tuple[int, int, int] = RED) -> bytes:
    return saved(Image.new("RGB", (12, 8), colour), "PNG")


def jpeg() -> bytes:
    return saved(Image.new("RGB", (12, 8), RED), "JPEG")


def print_sized() -> bytes:
    """A picture that is changed when it is made printable."""
    return saved(Image.new("CMYK", (12, 8), (0, 200, 200, 40)), "JPEG")


def upload(
    account: Account,
    *,
    image: bytes | None = None,
    filename: str = "front.png",
    method: str = "POST",
    path: str = "/image-templates",
    headers: dict[str, str] | None = None,
    **fields: Any,
) -> Response:
    """The fields and the picture as a form with files; on creation those that are needed are there."""
    needed = {"type": "postcard", "name": "Spring"} if method == "POST" else {}
    return account.call(
        method, path, data=needed | fields,
        files={"image": (filename, png() if image is None else image, "text/html")}, headers=headers or {},
    )  # fmt: skip


def form_of(boundary: str, *parts: tuple[str, bytes]) -> bytes:
    """A form exactly so: each part's disposition, and what it holds."""
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {how}\r\n\r\n".encode() + held + b"\r\n"
        for how, held in parts
    )
    return body + f"--{boundary}--\r\n".encode()


_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/xl/workbook.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>'
)
_RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Target="{}" Type='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{}"/></Relationships>'
)
_BOOK = (
    '<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
    '<sheets><sheet name="People" sheetId="1" r:id="r1"/></sheets></workbook>'
)


def workbook(rows: Sequence[Sequence[str | float]]) -> bytes:
    """One sheet: texts as texts, numbers as numbers."""
    sheet = io.StringIO()
    sheet.write('<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">')
    sheet.write("<sheetData>")
    for number, row in enumerate(rows, 1):
        sheet.write(f'<row r="{number}">')
        for place, cell in enumerate(row):
            at = f"{chr(ord('A') + place)}{number}"
            if isinstance(cell, str):
                sheet.write(f'<c r="{at}" t="inlineStr"><is><t>{cell}</t></is></c>')
            else:
                sheet.write(f'<c r="{at}"><v>{cell}</v></c>')
        sheet.write("</row>")
    sheet.write("</sheetData></worksheet>")
    return packed(
        {
            "[Content_Types].xml": _TYPES, "_rels/.rels": _RELATIONS.format("xl/workbook.xml", "officeDocument"),
            "xl/workbook.xml": _BOOK,
            "xl/_rels/workbook.xml.rels": _RELATIONS.format("worksheets/sheet1.xml", "worksheet"),
            "xl/worksheets/sheet1.xml": sheet.getvalue(),
        },
    )  # fmt: skip


def packed(files: dict[str, str]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return held.getvalue()
