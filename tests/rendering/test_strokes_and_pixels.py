"""Letters written again and again with the same ballpoint, colors and their contrast, and pages drawn as pictures."""

import io
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from io import BytesIO
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.centerlines import trace_strokes
from quillpost.rendering.handwriting.fonts import subset_font
from quillpost.rendering.handwriting.junctions import PenPath
from quillpost.rendering.handwriting.outlines import Shape, ink_extents, sample_contour, signed_area
from quillpost.rendering.handwriting.strokes import draw_glyphs, make_takes, strokes_by_glyph, thin_ink, trace_paths
from quillpost.rendering.images.models import CELL_BYTES, GRID_CELLS, PictureTones, resolution_note
from quillpost.rendering.images.pictures import measure_tones
from quillpost.rendering.images.rules import UnprintableImage
from quillpost.rendering.layout.rules import contrast_over
from quillpost.rendering.models import INCH, Box, contrast_ratio, parse_color
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.pdf.png import drop_color_if_gray, encode_png, scratch_memory

COUNT, REACH = 8, 45
DOTTED = 'ij!?:;éüñÄÖ¿¡%"'
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?'\"-()&@%$/éüñçÄÖ¿¡ "
HANDS = {
    "fontpkg_zeyada/files/Zeyada.ttf": LETTERS,
    "fontpkg_shadows_into_light/files/ShadowsIntoLight.ttf": DOTTED + "agkoRQ8& ",
    "fontpkg_indie_flower/files/IndieFlower-Regular.ttf": DOTTED + "aegqBGS5@ ",
}


class Written(NamedTuple):
    shapes: dict[str, Shape]
    names: dict[str, str]
    takes: dict[str, list[Shape]]

    def of(self, letter: str) -> list[Shape]:
        return self.takes[self.names[letter]]

    def meant(self, letter: str) -> Shape:
        return self.shapes[self.names[letter]]


@cache
def write(file: str, letters: str, seed: int) -> Written:
    package, _, path = file.partition("/")
    face = subset_font((resources.files(package) / path).read_bytes(), letters, (), None)
    glyphs = {letter: face.glyphs[face.glyphs_by_char[letter]] for letter in letters if letter in face.glyphs_by_char}
    shapes = {glyph.name: glyph.shape for glyph in glyphs.values()}
    advances = {glyph.name: float(glyph.advance) for glyph in glyphs.values()}
    takes = make_takes(shapes, advances, count=COUNT, amplitude=1.0, joined=False, seed=seed)
    return Written(shapes, {letter: glyph.name for letter, glyph in glyphs.items()}, takes)


def zeyada(letters: str = LETTERS, seed: int = 7) -> Written:
    return write("fontpkg_zeyada/files/Zeyada.ttf", letters, seed)


def alike_takes(shapes: dict[str, Shape], count: int, *, amplitude: float = 1.0) -> dict[str, list[Shape]]:
    advances = dict.fromkeys(shapes, 300.0)
    return make_takes(shapes, advances, count=count, amplitude=amplitude, joined=False, seed=0)


@pytest.fixture(scope="module")
def hand() -> Written:
    return zeyada()


def pixels(shape: Shape, *, scale: float = 0.2) -> npt.NDArray[np.bool_]:
    """The ink from 300 units left of and below the origin, as wide and high as any of these letters."""
    frame = np.array([[-300.0, -300.0], [-300.0, -299.0], [-299.0, -300.0]])
    sheet = draw_glyphs([[frame, *(sample_contour(contour, 5.0) for contour in shape)]], scale)
    page = np.zeros((round(1500 * scale), round(1500 * scale)), bool)
    page[: sheet.ink.shape[0], : sheet.ink.shape[1]] = sheet.ink
    return page


def hole(shape: Shape) -> int:
    """How many pixels of paper the ink encloses."""
    paper = np.pad(~pixels(shape, scale=0.1), 1, constant_values=True)
    outside = np.zeros_like(paper)
    outside[0] = True
    before = 0
    while before != (before := int(outside.sum())):
        for axis in (0, 1):
            for step in (-1, 1):
                outside |= np.roll(outside, step, axis=axis) & paper
    return int((paper & ~outside).sum())


def is_within_reach(shape: Shape, take: Shape) -> bool:
    left, bottom, right, top = ink_extents(shape)
    west, south, east, north = ink_extents(take)
    return min(west - left, south - bottom, right - east, top - north) >= -REACH


@pytest.mark.parametrize("file", HANDS)
def test_every_take_of_every_letter_has_its_ink_and_its_dots_within_reach(file: str) -> None:
    written = write(file, HANDS[file], 7)
    for name, shape in written.shapes.items():
        assert [bool(take) for take in written.takes[name]] == [bool(shape)] * COUNT, name
        assert not shape or all(is_within_reach(shape, take) for take in written.takes[name]), name
    for letter in DOTTED:
        for part in written.meant(letter):
            left, bottom, right, top = ink_extents([part])
            for take in written.of(letter):
                ink = np.concatenate([sample_contour(contour, 5.0) for contour in take])
                beyond = np.maximum(0, np.maximum([left, bottom] - ink, ink - [right, top]))
                assert (beyond.max(axis=1) < REACH).any(), letter
    for letter in "ij!?:;":
        assert min(map(len, written.of(letter))) >= len(written.meant(letter)), letter


def test_of_a_short_hook_only_the_sharpest_turn_is_a_corner() -> None:
    path = np.array([[0.0, 33.0], [8.0, 0.0], [16.0, 33.0]])
    edge = np.array([[x, y] for x in (-25.0, 41.0) for y in range(-25, 60, 5)])
    hook = PenPath(path, is_closed=False, touches_others=(True, False))
    [stroke] = trace_strokes([hook], edge, np.empty((0, 2)), 25.0)
    assert (stroke.corners, np.allclose(stroke.path[stroke.corners[0]], path[1])) == ((5,), True)


def test_a_wild_hand_stays_within_reach_too() -> None:
    shapes = zeyada("jlgQ").shapes
    wild = alike_takes(shapes, COUNT, amplitude=6.0)
    assert all(is_within_reach(shape, take) for name, shape in shapes.items() for take in wild[name])


def test_loops_stay_closed_open_letters_open_and_contours_wind_one_way_with_few_whole_points(hand: Written) -> None:
    for letter in "oOa0D69":
        meant = hole(hand.meant(letter))
        assert all(hole(take) > 0.5 * meant for take in hand.of(letter)), letter
    for letter in "csnuvwCUVW":
        assert all(hole(take) < 10 for take in hand.of(letter)), letter
    every = [take for takes in hand.takes.values() for take in takes if take]
    assert {signed_area(sample_contour(contour, 5.0)) < 0 for take in every for contour in take} == {True}
    assert all((c[:, 2] == np.roll(c[:, 0], -1, axis=0)).all() for take in every for c in take)
    controls = [np.concatenate([contour[:, 1] for contour in take]) for take in every]
    assert np.mean([len(points) for points in controls]) < 65
    assert all((points == np.rint(points)).all() for points in controls)


def test_takes_differ_visibly_stay_close_to_the_letter_that_is_meant_and_are_of_one_pen(hand: Written) -> None:
    for letter in "aenotsrgABM":
        pictures = [pixels(take) for take in hand.of(letter)]
        for one, other in combinations(pictures, 2):
            assert (one ^ other).sum() > 0.12 * one.sum(), letter
    for letter in "abdeghkmnpqwABEHKMRSW2358":
        source = Image.fromarray(pixels(hand.meant(letter)).astype(np.uint8) * 255)
        near = np.asarray(source.resize((60, 60), Image.Resampling.BOX)) > 0
        for take in hand.of(letter):
            ink = Image.fromarray(pixels(take).astype(np.uint8) * 255)
            written = np.asarray(ink.resize((60, 60), Image.Resampling.BOX)) > 128
            assert (written & ~near).sum() <= 0.33 * written.sum(), letter
    # The ink of a letter hardly changes from take to take, nor strays far from the source's.
    for letter in "aenotslk":
        areas = np.array([pixels(take).sum() for take in hand.of(letter)])
        assert areas.std() < 0.08 * areas.mean(), letter
        assert 0.75 < areas.mean() / pixels(hand.meant(letter)).sum() < 1.15, letter


def test_the_seed_gives_the_letters_whatever_their_order() -> None:
    once, again = zeyada("aegw"), zeyada("wgea")
    for name, takes in once.takes.items():
        for one, other in zip(takes, again.takes[name], strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))
    assert (pixels(zeyada("a", seed=1).of("a")[0]) ^ pixels(zeyada("a", seed=2).of("a")[0])).any()


def test_a_joined_hand_keeps_its_entries_and_exits_in_place() -> None:
    around = np.array([[-20, 180], [200, 240], [420, 180], [420, 220], [200, 280], [-20, 220]], float)
    following = np.roll(around, -1, axis=0)
    shapes = {"arch": [np.stack([around, (around + following) / 2, following], axis=1)]}

    def unrest(joined: bool, left: float, right: float) -> float:
        """How far the ink between two places goes up and down from take to take."""
        takes = make_takes(shapes, {"arch": 400.0}, count=COUNT, amplitude=1.0, joined=joined, seed=3)["arch"]
        inks = [np.concatenate([sample_contour(contour, 2.0) for contour in take]) for take in takes]
        heights = [ink[(ink[:, 0] > left) & (ink[:, 0] < right)][:, 1] for ink in inks]
        return float(np.ptp([(height.min() + height.max()) / 2 for height in heights]))

    for edge in (-10.0, 390.0):
        assert unrest(True, edge, edge + 20) < 6
        assert unrest(False, edge, edge + 20) > 12
    assert unrest(True, 180, 220) > 12


def test_progress_is_reported_and_an_outline_without_any_area_is_left_alone() -> None:
    assert alike_takes({}, 8) == {}
    assert alike_takes({"space": []}, 2) == {"space": [[], []]}
    hair = np.array([[[0, 0], [50, 0], [100, 0]], [[100, 0], [50, 0], [0, 0]]], float)
    point = np.zeros((1, 3, 2))
    takes = alike_takes(zeyada("a").shapes | {"hair": [hair], "point": [point]}, 2)
    assert (takes["hair"], takes["point"]) == ([[hair], [hair]], [[point], [point]])
    shapes, progress = zeyada("ab").shapes, list[tuple[int, int]]()
    how = {"amplitude": 1.0, "joined": False, "seed": 0}
    make_takes(shapes, dict.fromkeys(shapes, 300.0), count=1, on_progress=lambda *done: progress.append(done), **how)  # type: ignore[arg-type]
    assert progress == [(1, 2), (2, 2)]


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


def half(kind: str = "PNG", *, orientation: int | None = None) -> bytes:
    """Black on the left, white on the right; a camera that was turned says so."""
    image = Image.new("RGB", (400, 200), "white")
    image.paste("black", (0, 0, 200, 200))
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    file = BytesIO()
    image.save(file, kind, exif=exif)
    return file.getvalue()


def tones(data: bytes) -> PictureTones:
    return PictureTones(400, 200, measure_tones(data))


def test_a_picture_is_measured_upright_and_only_what_lies_under_the_words_counts() -> None:
    for kind in ("PNG", "JPEG"):
        found = tones(half(kind))
        assert len(found.cells) == GRID_CELLS * GRID_CELLS * CELL_BYTES
        assert max(found.color_at(0.1, 0.5)) < 0.1
        assert min(found.color_at(0.9, 0.5)) > 0.9
    dark = {1: (0, 0.5), 2: (1, 0.5), 3: (1, 0.5), 6: (0.5, 0), 8: (0.5, 1), 5: (0.5, 0), 7: (0.5, 1)}
    for orientation, (across, down) in dark.items():
        found = tones(half("JPEG", orientation=orientation))
        assert max(found.color_at(across, down)) < 0.1, orientation
        assert min(found.color_at(1 - across, 1 - down)) > 0.9, orientation
    with pytest.raises(UnprintableImage):
        measure_tones(half()[:60])
    found, area = tones(half()), Box(0, 0, 400, 200)
    assert contrast_over(BLACK_INK, found, area, Box(10, 10, 150, 150)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK_INK, found, area, Box(240, 10, 150, 150)) == pytest.approx(21, abs=0.5)
    # Words are lost when a quarter of them is.
    assert contrast_over(BLACK_INK, found, area, Box(120, 10, 200, 150)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK_INK, found, area, Box(180, 10, 200, 150)) > 10
    # A square shows the middle half of the picture, which is cut at both sides: its own left half is still black.
    area = Box(100, 100, 200, 200)
    assert contrast_over(BLACK_INK, found, area, Box(110, 110, 80, 180)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK_INK, found, area, Box(210, 110, 80, 180)) == pytest.approx(21, abs=0.5)


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
