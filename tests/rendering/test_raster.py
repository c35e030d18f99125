"""Pages as pictures: their size, their part of the page, their colors and their bytes."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.models import Box
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.pdf.png import drop_color_if_gray, encode_png, scratch_memory

TRIM = b"/TrimBox[9 9 297 153]"
RED_LEFT_HALF = b"1 0 0 rg 9 9 144 144 re f"
BLACK_DOT = b"0 g 45 45 36 36 re f"
RED, WHITE = (255, 0, 0), (255, 255, 255)


def drawing(*contents: bytes, boxes: bytes = TRIM) -> bytes:
    """A file of pages 4 by 2 inches with an eighth of an inch of bleed."""
    pdf = PdfFile()
    for content in contents:
        pdf.add_page(b"/MediaBox[0 0 306 162]%b/Resources<<>>" % boxes, [pdf.add_stream(content)])
    return pdf.finish()


def image(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png))


def test_a_picture_has_the_finished_size_at_every_resolution() -> None:
    for dpi in (36, 72, 96, 150, 300):
        picture = image(rasterize_pages(drawing(RED_LEFT_HALF), dpi=dpi)[0])
        assert picture.size == (4 * dpi, 2 * dpi)
        places = ((0, 0), (2 * dpi - 1, dpi), (2 * dpi, dpi))
        assert [picture.getpixel(at) for at in places] == [RED, RED, WHITE]
        assert picture.info["dpi"] == pytest.approx((dpi, dpi), abs=0.02)


def test_only_a_page_with_color_gives_a_picture_in_color() -> None:
    gray, colored = rasterize_pages(drawing(BLACK_DOT, RED_LEFT_HALF), dpi=72)
    assert (image(gray).mode, image(colored).mode) == ("L", "RGB")
    pixels = np.full((50, 40, 3), 200, np.uint8)
    assert drop_color_if_gray(pixels).shape == (50, 40)
    pixels[7, 11, 2] = 201
    assert drop_color_if_gray(pixels).shape == (50, 40, 3)


def test_pages_and_their_parts_can_be_picked_in_any_order() -> None:
    pdf = drawing(RED_LEFT_HALF, BLACK_DOT, b"0 0 1 rg 0 0 306 162 re f")
    blue, red = rasterize_pages(pdf, dpi=72, pages=[2, 0])
    assert (image(blue).getpixel((5, 5)), image(red).getpixel((5, 5))) == ((0, 0, 255), RED)
    # A crop is measured from the corner of the trim, and may reach into the bleed.
    pdf = drawing(BLACK_DOT, BLACK_DOT)
    dot, whole = rasterize_pages(pdf, dpi=144, crops=[Box(36, 36, 36, 36), None])
    assert (image(dot).size, image(whole).size) == ((72, 72), (576, 288))
    assert set(image(dot).tobytes()) == {0}
    (above,) = rasterize_pages(pdf, dpi=144, pages=[0], crops=[Box(36, 72, 36, 36)])
    assert set(image(above).tobytes()) == {255}
    (bleeding,) = rasterize_pages(drawing(RED_LEFT_HALF), dpi=72, crops=[Box(-9, -9, 306, 162)])
    assert image(bleeding).size == (306, 162)
    assert [image(bleeding).getpixel(at) for at in ((4, 80), (12, 80))] == [WHITE, RED]
    with pytest.raises(ValueError, match="shorter"):
        rasterize_pages(pdf, dpi=72, crops=[None])


def test_a_turned_page_is_drawn_as_it_is_shown() -> None:
    (picture,) = rasterize_pages(drawing(RED_LEFT_HALF, boxes=TRIM + b"/Rotate 90"), dpi=72)
    assert image(picture).size == (144, 288)
    assert [image(picture).getpixel((70, y)) for y in (5, 283)] == [RED, WHITE]


def test_a_png_holds_the_very_pixels() -> None:
    for shape in ((1, 1), (1, 1, 3), (37, 53), (37, 53, 3)):
        pixels = np.random.default_rng(5).integers(0, 256, shape, np.uint8)
        assert np.array_equal(np.asarray(image(encode_png(pixels, dpi=96))), pixels)
    for shape in ((64, 80), (64, 80, 3)):
        writing = np.full(shape, 255, np.uint8)
        writing[10:14, 5:40] = 17
        writing[16:48:3, 9] = 90
        assert np.array_equal(np.asarray(image(encode_png(writing, dpi=96))), writing)


def test_memory_is_used_again_and_never_by_two_at_once() -> None:
    with scratch_memory(1000) as one, scratch_memory(1000) as another:
        one[:] = 1
        another[:] = 2
        assert (one == 1).all()
        both = {one.ctypes.data, another.ctypes.data}
    with scratch_memory(500) as again:
        assert again.size == 500
        assert again.ctypes.data in both


def test_threads_may_draw_at_the_same_time() -> None:
    pdf = drawing(RED_LEFT_HALF, BLACK_DOT)
    with ThreadPoolExecutor(8) as threads:
        drawn = [threads.submit(rasterize_pages, pdf, dpi=72) for _ in range(8)]
    assert [one.result() for one in drawn] == [rasterize_pages(pdf, dpi=72)] * 8
