"""Colors by name and number, their contrast, and how well ink stands out from a picture under the words."""

from io import BytesIO

import pytest
from PIL import Image

from quillpost.rendering.images.models import CELL_BYTES, GRID_CELLS, PictureTones, resolution_note
from quillpost.rendering.images.pictures import measure_tones
from quillpost.rendering.images.rules import UnprintableImage
from quillpost.rendering.layout.rules import contrast_over
from quillpost.rendering.models import INCH, Box, contrast_ratio, parse_color

BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


def test_every_spelling_has_one_rgba_form_and_what_is_no_color_is_refused(subtests: pytest.Subtests) -> None:
    spellings = {
        "#1a2b3c": "rgba(26,43,60,1)",
        "#FFF": "rgba(255,255,255,1)",
        "rgb(1, 2, 3)": "rgba(1,2,3,1)",
        "rgba(1,2,3,0.5)": "rgba(1,2,3,0.5)",
        " Blue ": "rgba(20,42,130,1)",
    }
    for text, rgba in spellings.items():
        with subtests.test(text):
            assert parse_color(text).rgba_text == parse_color(rgba).rgba_text == rgba
    no_colors = "|mauve|#12|#12345g|rgb(1,2)|rgb(1,2,3,4)|rgb(256,0,0)|rgb(1.5,2,3)|rgb(-1,2,3)|rgba(1,2,3)"
    for text in [*no_colors.split("|"), "rgba(1,2,3,1.5)", "rgba(1,2,3,.)"]:
        with subtests.test(text), pytest.raises(ValueError, match="is not a color that we know"):
            parse_color(text)
    assert parse_color("rgba(0,0,0,0.25)").ink == (0.75, 0.75, 0.75), "mixed with the paper"
    assert parse_color("#000").ink == (0, 0, 0)


def test_contrast_is_reckoned_as_usual() -> None:
    assert contrast_ratio(WHITE, WHITE) == 1
    for color, ratio in {"#000": 21, "#767676": 4.54, "#00f": 8.59}.items():
        ink = parse_color(color).ink
        assert contrast_ratio(ink, WHITE) == contrast_ratio(WHITE, ink) == pytest.approx(ratio, abs=0.01)


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


def test_a_picture_is_measured_where_it_is_and_upright() -> None:
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


def test_only_what_lies_under_the_words_counts() -> None:
    found, area = tones(half()), Box(0, 0, 400, 200)
    assert contrast_over(BLACK, found, area, Box(10, 10, 150, 150)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK, found, area, Box(240, 10, 150, 150)) == pytest.approx(21, abs=0.5)
    # Words are lost when a quarter of them is.
    assert contrast_over(BLACK, found, area, Box(120, 10, 200, 150)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK, found, area, Box(180, 10, 200, 150)) > 10
    # A square shows the middle half of the picture, which is cut at both sides: its own left half is still black.
    area = Box(100, 100, 200, 200)
    assert contrast_over(BLACK, found, area, Box(110, 110, 80, 180)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK, found, area, Box(210, 110, 80, 180)) == pytest.approx(21, abs=0.5)


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
