"""Signatures as files and as SVG: compact, checked on reading, and never too large."""

import re
import zlib

import numpy as np
import pytest

from quillpost.rendering.handwriting.outlines import signed_area
from quillpost.rendering.handwriting.sheet.models import MAX_SIGNATURE_POINTS, InvalidSignature, Signature
from quillpost.rendering.handwriting.sheet.records import (
    InvalidRecord,
    Record,
    signature_from_record,
    signature_to_record,
)
from quillpost.rendering.handwriting.sheet.signature import outline_drawn_signature
from quillpost.rendering.handwriting.sheet.signature_paths import signature_svg
from support import signatures


def test_a_file_with_a_signature_is_compact_and_comes_back_as_it_was() -> None:
    for signature in (signatures.flowing_signature(), signatures.flat_signature()):
        data = signature.to_bytes()
        back = Signature.from_bytes(data)
        assert back.to_bytes() == data
        assert back.width == pytest.approx(signature.width, abs=1e-5)
        for outline, again in zip(signature.outlines, back.outlines, strict=True):
            assert np.abs(outline - again).max() <= 0.0003
        assert len(data) < 8_000
        assert len(zlib.compress(data)) < 4_000


def test_a_signature_with_too_many_points_is_drawn_with_fewer() -> None:
    busy = signatures.busy_signature()
    assert 2_000 < sum(map(len, busy.outlines)) <= MAX_SIGNATURE_POINTS
    assert len(busy.to_bytes()) < 60_000
    Signature.from_bytes(busy.to_bytes())
    area = sum(map(signed_area, busy.outlines))
    assert area == pytest.approx(sum(map(signed_area, Signature.from_bytes(busy.to_bytes()).outlines)), rel=0.02)
    line = np.array([[0.0, 0.0], [300.0, 0.0]])
    assert outline_drawn_signature([line], 1.0) is None, "a line is no signature"


def test_a_decoder_gives_no_signature_that_could_not_be_kept() -> None:
    record = signature_to_record(signatures.flat_signature())
    assert signature_from_record(record).to_bytes() == signatures.flat_signature().to_bytes()
    changes: list[Record] = [{"outlines": []}, {"outlines": [[[0, 0], [1, 1]]]}, {"width": 0.5}, {"width": 0}]
    for change in changes:
        with pytest.raises(InvalidRecord):
            signature_from_record(record | change)


def test_a_page_shows_a_signature_as_svg_in_the_color_of_its_text() -> None:
    signature = signatures.flowing_signature()
    svg = signature_svg(signature)
    assert svg.startswith(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {round(2000 * signature.width)} 2000"')
    assert 'fill="currentColor"' in svg
    paths = [[*map(int, re.findall(r"\d+", path))] for path in svg.partition(' d="M')[2].split("M")]
    assert [len(path) for path in paths] == [2 * len(outline) for outline in signature.outlines]
    first = np.array(paths[0]).reshape(-1, 2) * (1, -1) + (0, 2000)
    assert np.abs(first / 2000 - signature.outlines[0]).max() < 0.0003


def test_a_file_that_is_no_signature_is_refused(subtests: pytest.Subtests) -> None:
    good = signatures.flat_signature().to_bytes()
    square = b"0,0,2000,0,0,2000,-2000,0"

    def file(outlines: bytes, width: bytes = b"1", version: bytes = b"1") -> bytes:
        return b'{"version":%b,"width":%b,"outlines":%b}' % (version, width, outlines)

    assert Signature.from_bytes(file(b"[[%b]]" % square)).width == 1
    refused = {
        "empty": b"", "cut short": good[:-9], "a list": b"[1]", "deep": b"[" * 50_000, "binary": b"\xff\xfe",
        "no outlines": file(b"[]"), "not a list": file(b"3"), "outline of a text": file(b'["ab"]'),
        "another version": file(b"[[%b]]" % square, version=b"2"), "two points": file(b"[[0,0,9,9]]"),
        "half a point": file(b"[[0,0,9,9,5,0,7]]"), "a fraction": file(b"[[0,0,2e3,0,0,2000]]"),
        "a truth": file(b"[[0,0,true,0,0,2000]]"), "outside": file(b"[[0,0,2000,0,0,9000]]"),
        "left of it": file(b"[[-900,0,2000,0,0,2000]]"), "endless": file(b"[[0,0,1%b,0,0,9]]" % (b"0" * 5000)),
        "huge": file(b"[[0,0,%d,0,0,9]]" % 10**30), "without width": file(b"[[%b]]" % square, b"0"),
        "no width": file(b"[[%b]]" % square, b"NaN"), "text for width": file(b"[[%b]]" % square, b'"x"'),
        "flat": file(b"[[%b]]" % square, b"1e9"),
        "too many outlines": file(b"[%b]" % b",".join([b"[%b]" % square] * 501)),
        "too many points": file(b"[[%b]]" % b",".join([b"0,0"] * 4_001)), "too many bytes": good + b" " * 60_000,
        "a null": b"null", "no version": b'{"outlines":[]}',
    }  # fmt: skip
    for name, data in refused.items():
        with subtests.test(name), pytest.raises(InvalidSignature):
            Signature.from_bytes(data)
    with pytest.raises(InvalidSignature, match="points"):
        Signature((np.zeros((4_001, 2)),), 1.0).to_bytes()
