"""Workbooks as spreadsheets save them, made for tests."""

import io
import zipfile
from collections.abc import Sequence

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
