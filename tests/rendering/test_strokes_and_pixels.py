"""Letters traced along the middle of their ink, colors and their contrast, and pages drawn as pictures."""

import io
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.centerlines import trace_strokes
from quillpost.rendering.handwriting.fonts import subset_font
from quillpost.rendering.handwriting.junctions import PenPath
from quillpost.rendering.handwriting.outlines import Floats, distances_to_outline, sample_contour
from quillpost.rendering.handwriting.strokes import draw_glyphs, strokes_by_glyph, thin_ink, trace_paths
from quillpost.rendering.images.models import resolution_note
from quillpost.rendering.models import INCH, Box, contrast_ratio, parse_color
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.pdf.png import drop_color_if_gray, encode_png, scratch_memory

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def zeyada(letters: str) -> dict[str, list[Floats]]:
    """Each letter's outlines as polygons."""
    file = resources.files("fontpkg_zeyada") / "files/Zeyada.ttf"
    face = subset_font(file.read_bytes(), letters, (), None)
    glyphs = {letter: face.glyphs[face.glyphs_by_char[letter]] for letter in letters}
    return {letter: [sample_contour(contour, 5.0) for contour in glyph.shape] for letter, glyph in glyphs.items()}


def test_strokes_run_along_the_middle_of_the_ink_and_reach_all_of_it() -> None:
    polygons = zeyada(LETTERS)
    strokes, pen = strokes_by_glyph(polygons)
    assert strokes.keys() == polygons.keys()
    for letter, traced in strokes.items():
        edge = np.concatenate(polygons[letter])
        path = np.concatenate([stroke.path for stroke in traced])
        from_edge, from_path = distances_to_outline(edge, path), distances_to_outline(path, edge)
        assert np.quantile(from_edge, 0.1) > 0.4 * pen, letter
        assert from_path.max() < 4 * pen, letter
    assert len(strokes["i"]) == len(strokes["j"]) == 2, "a dot is a stroke of its own"


def test_of_a_short_hook_only_the_sharpest_turn_is_a_corner() -> None:
    path = np.array([[0.0, 33.0], [8.0, 0.0], [16.0, 33.0]])
    edge = np.array([[x, y] for x in (-25.0, 41.0) for y in range(-25, 60, 5)])
    hook = PenPath(path, is_closed=False, touches_others=(True, False))
    [stroke] = trace_strokes([hook], edge, np.empty((0, 2)), 25.0)
    assert (stroke.corners, np.allclose(stroke.path[stroke.corners[0]], path[1])) == ((5,), True)


def bar(left: float, bottom: float, right: float, top: float) -> npt.NDArray[np.float64]:
    corners = np.array([[left, bottom], [right, bottom], [right, top], [left, top]], float)
    along = np.linspace(0, 1, 80, endpoint=False)[:, None]
    sides = zip(corners, np.roll(corners, -1, axis=0), strict=True)
    return np.concatenate([start + along * (end - start) for start, end in sides])


def test_ink_thins_to_trails_crossing_bars_are_two_strokes_and_a_branch_ends_on_the_stroke_that_it_touches() -> None:
    assert draw_glyphs([[bar(0, 0, 20, 10), bar(10, 0, 30, 10)]], 1.0).ink.sum() == 300
    sheet = draw_glyphs([[bar(0, 0, 60, 60), bar(15, 15, 45, 45)[::-1]]], 1.0)
    [trail] = trace_paths(thin_ink(sheet.ink), sheet.width, sheet.ink.size)
    assert trail.is_closed
    assert trail.pixels[0] == trail.pixels[-1]
    for size in range(1, 9):
        assert len(thin_ink(draw_glyphs([[bar(0, 0, size, size)]], 1.0).ink)) >= 1
    strokes, pen = strokes_by_glyph({"plus": [bar(0, 180, 400, 220), bar(180, 0, 220, 400)]})
    assert len(strokes["plus"]) == 2
    assert pen == pytest.approx(20, abs=3)
    for stroke in strokes["plus"]:
        across, along = sorted(np.ptp(stroke.path, axis=0))
        assert along > 340
        assert across < 8
    strokes, _ = strokes_by_glyph({"tee": [bar(0, 180, 400, 220), bar(180, 0, 220, 200)]})
    anchors = [anchor for stroke in strokes["tee"] for anchor in (stroke.start, stroke.stop) if anchor]
    assert (len(strokes["tee"]), len(anchors)) == (2, 1)


BLACK_INK, WHITE_INK = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


def test_every_spelling_has_one_rgba_form_no_color_is_refused_and_contrast_is_usual(subtests: pytest.Subtests) -> None:
    spellings = {
        "#1a2b3c": "rgba(26,43,60,1)", "#FFF": "rgba(255,255,255,1)", "rgb(1, 2, 3)": "rgba(1,2,3,1)",
        "rgba(1,2,3,0.5)": "rgba(1,2,3,0.5)", " Blue ": "rgba(20,42,130,1)",
    }  # fmt: skip
    for text, rgba in spellings.items():
        with subtests.test(text):
            assert parse_color(text).rgba_text == parse_color(rgba).rgba_text == rgba
    no_colors = "|mauve|#12|#12345g|rgb(1,2)|rgb(1,2,3,4)|rgb(256,0,0)|rgb(1.5,2,3)|rgb(-1,2,3)|rgba(1,2,3)"
    for text in [*no_colors.split("|"), "rgba(1,2,3,1.5)", "rgba(1,2,3,.)"]:
        with subtests.test(text), pytest.raises(ValueError, match="is not a color that we know"):
            parse_color(text)
    assert parse_color("rgba(0,0,0,0.25)").ink == (0.75, 0.75, 0.75), "mixed with the paper"
    assert parse_color("#000").ink == (0, 0, 0)
    assert contrast_ratio(WHITE_INK, WHITE_INK) == 1
    for color, ratio in {"#000": 21, "#767676": 4.54, "#00f": 8.59}.items():
        ink = parse_color(color).ink
        assert contrast_ratio(ink, WHITE_INK) == contrast_ratio(WHITE_INK, ink) == pytest.approx(ratio, abs=0.01)


def test_a_soft_picture_is_reported_with_the_resolution_it_needs() -> None:
    card = Box(-9, -9, 6.25 * INCH, 4.25 * INCH)
    assert resolution_note(640, 480, card, product_name="a 4x6 postcard") == (
        "is 640 x 480 pixels: on a 4x6 postcard that prints at 102 dpi and will look soft;"
        " 1875 x 1275 pixels give 300 dpi."
    )
    for sharp in ((1875, 1275), (1876, 5000), (4000, 1275)):
        assert resolution_note(*sharp, card) is None
    for a_pixel_less in ((1874, 1275), (1875, 1274), (1275, 1875)):
        assert resolution_note(*a_pixel_less, card) is not None
    for width, height in ((6.25, 4.25), (9.25, 6.25), (11.25, 6.25), (8.5, 11), (4.5, 5.75)):
        area = Box(0, 0, width * INCH, height * INCH)
        across, up = str(resolution_note(1, 1, area)).split("; ")[1].split(" pixels")[0].split(" x ")
        assert resolution_note(int(across), int(up), area) is None


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


def test_a_picture_has_the_finished_size_at_every_resolution_and_color_only_where_the_page_has() -> None:
    for dpi in (36, 72, 96, 150, 300):
        picture = image(rasterize_pages(drawing(RED_LEFT_HALF), dpi=dpi)[0])
        assert picture.size == (4 * dpi, 2 * dpi)
        places = ((0, 0), (2 * dpi - 1, dpi), (2 * dpi, dpi))
        assert [picture.getpixel(at) for at in places] == [RED, RED, WHITE]
        assert picture.info["dpi"] == pytest.approx((dpi, dpi), abs=0.02)
    gray, colored = rasterize_pages(drawing(BLACK_DOT, RED_LEFT_HALF), dpi=72)
    assert (image(gray).mode, image(colored).mode) == ("L", "RGB")
    pixels = np.full((50, 40, 3), 200, np.uint8)
    assert drop_color_if_gray(pixels).shape == (50, 40)
    pixels[7, 11, 2] = 201
    assert drop_color_if_gray(pixels).shape == (50, 40, 3)


def test_pages_and_their_parts_can_be_picked_in_any_order_and_turned_ones_are_as_they_are_shown() -> None:
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


def test_threads_may_draw_at_once_and_memory_is_never_used_by_two() -> None:
    with scratch_memory(1000) as one, scratch_memory(1000) as another:
        one[:] = 1
        another[:] = 2
        assert (one == 1).all()
        both = {one.ctypes.data, another.ctypes.data}
    with scratch_memory(500) as again:
        assert again.size == 500
        assert again.ctypes.data in both
    pdf = drawing(RED_LEFT_HALF, BLACK_DOT)
    with ThreadPoolExecutor(8) as threads:
        drawn = [threads.submit(rasterize_pages, pdf, dpi=72) for _ in range(8)]
    assert [one.result() for one in drawn] == [rasterize_pages(pdf, dpi=72)] * 8
