import io
from collections.abc import Sequence
from random import Random
from string import ascii_letters, digits
from typing import Any

import numpy as np
import pikepdf
import pypdfium2 as pdfium
import pytest
import segno
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from segno import consts

from quillpost.rendering.codes.qr import QrEncoder, QrSymbol, TooLongForQr, draw_qr, find_version, qr_version
from quillpost.rendering.models import Box

BASE = "https://mail.example.com/q/"
LETTERS = ascii_letters + digits
ALL_VERSIONS = range(1, 41)
DRAWN_VERSIONS = (*range(1, 12), 14, 21, 32, 40)

codes = st.text(LETTERS + "-_~%?=&.", min_size=1, max_size=40)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_version_has_the_published_blocks(version: int) -> None:
    table: Any = consts.ECC
    published = table[version][consts.ERROR_LEVEL_M]
    blocks = [(block.num_data, block.num_total) for block in published for _ in range(block.num_blocks)]
    symbol = qr_version(version)
    assert [(length, length + symbol.checks_per_block) for length in symbol.block_lengths] == blocks


@pytest.mark.parametrize("version", DRAWN_VERSIONS)
def test_a_full_symbol_is_the_one_that_segno_draws(version: int) -> None:
    text = _random_text(Random(version), _capacity(version))
    assert find_version(len(text)) == version
    assert QrEncoder().encode(text).rows() == _segno_rows(text)


@settings(max_examples=25, deadline=None)
@given(codes, st.integers(0, 2**32))
def test_two_texts_differ_in_the_modules_in_which_segno_draws_them_differently(code: str, seed: int) -> None:
    """What pads a symbol is no part of its text, and segno pads with one zero more: it cancels out."""
    other = _random_text(Random(seed), len(code))
    encoder = QrEncoder()
    ours = _bits(encoder.encode(BASE + code).rows()) ^ _bits(encoder.encode(BASE + other).rows())
    theirs = _bits(_segno_rows(BASE + code)) ^ _bits(_segno_rows(BASE + other))
    assert ours == theirs


def test_symbols_with_padding_are_those_that_zxing_draws_with_the_same_mask() -> None:
    random, encoder, alike = Random(5), QrEncoder(), 0
    for _ in range(800):
        url = BASE + _random_text(random, 8)
        theirs = _zxing_rows(url)
        if theirs[8][:6] == encoder.encode(url).rows()[8][:6]:  # its level and mask
            assert encoder.encode(url).rows() == theirs
            alike += 1
    assert alike


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=120))
def test_any_ascii_text_is_read_back(text: str) -> None:
    assert _read(QrEncoder().encode(text)) == text


def test_what_an_encoder_has_learned_changes_nothing() -> None:
    random, learned = Random(9), QrEncoder()
    urls = [BASE + _random_text(random, random.choice((6, 8))) for _ in range(300)]
    urls += ["HI", "no slash", "https://elsewhere.example/x", BASE]
    assert [learned.encode(url) for url in urls] == [QrEncoder().encode(url) for url in urls]
    assert [_read(learned.encode(url)) for url in urls[-30:]] == urls[-30:]


def test_the_version_grows_with_the_text_until_there_is_none() -> None:
    assert [find_version(length) for length in (1, 14, 15, 26, 27, 2331)] == [1, 1, 2, 2, 3, 40]
    with pytest.raises(TooLongForQr, match="2332 letters"):
        QrEncoder().encode("x" * 2332)


def test_letters_outside_ascii_are_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        QrEncoder().encode("https://q.example/é")


@pytest.mark.parametrize("length", [1, 8, 30, 90, 200])
def test_a_drawn_symbol_can_be_scanned_from_its_page(length: int) -> None:
    """Also by way of pikepdf, which must find where the inline image ends."""
    url = BASE + _random_text(Random(length), length)
    box = Box(20, 30.004, 80, 80)
    drawing = draw_qr(QrEncoder().encode(url), box)
    with pikepdf.new() as document:
        page = document.add_blank_page(page_size=(120, 140))
        page.Contents = document.make_stream(drawing)
        instructions = pikepdf.parse_content_stream(page)
        page.Contents = document.make_stream(pikepdf.unparse_content_stream(instructions))
        picture = _rendered(document)
    assert [str(instruction.operator) for instruction in instructions] == [*("q", "g", "cm", "INLINE IMAGE", "Q")]
    assert [found.text for found in zxingcpp.read_barcodes(picture)] == [url]
    ink = np.argwhere(picture < 128)
    scale = 4
    assert ink.min(0).tolist() == pytest.approx([30 * scale, 20 * scale], abs=1)
    assert ink.max(0).tolist() == pytest.approx([110 * scale, 100 * scale], abs=1)


def _capacity(version: int) -> int:
    symbol = qr_version(version)
    return (8 * symbol.data_length - 4 - symbol.count_bits) // 8


def _random_text(random: Random, length: int) -> str:
    return "".join(random.choices(LETTERS, k=length))


def _segno_rows(text: str) -> list[str]:
    code = segno.make(text, error="m", mode="byte", mask=2, micro=False, boost_error=False)
    return ["".join("1" if module else "0" for module in row) for row in code.matrix]


def _zxing_rows(text: str) -> list[str]:
    code = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode, ec_level="M")
    picture = np.array(code.to_image(scale=1, add_quiet_zones=False))
    return ["".join("1" if module < 128 else "0" for module in row) for row in picture]


def _bits(rows: Sequence[str]) -> int:
    return int("".join(rows), 2)


def _read(symbol: QrSymbol) -> str:
    modules = np.array([[module == "0" for module in row] for row in symbol.rows()])
    picture = np.kron(np.pad(modules, 4, constant_values=True), np.ones((4, 4))).astype(np.uint8) * 255
    (found,) = zxingcpp.read_barcodes(picture)
    return str(found.text)


def _rendered(document: pikepdf.Pdf) -> NDArray[np.uint8]:
    """The first page in grey, four pixels a point."""
    file = io.BytesIO()
    document.save(file)
    with pdfium.PdfDocument(file.getvalue()) as opened:
        return np.array(opened[0].render(scale=4, grayscale=True).to_numpy())
