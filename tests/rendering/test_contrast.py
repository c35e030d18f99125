"""How well ink stands out from the picture under it: measured in cells of a picture, under the message only."""

from io import BytesIO

import pytest
from PIL import Image

from quillpost.rendering.images.models import CELL_BYTES, GRID_CELLS, PictureTones
from quillpost.rendering.images.pictures import measure_tones
from quillpost.rendering.images.rules import UnprintableImage
from quillpost.rendering.layout.contrast import HARD_TO_READ_SHARE, INVISIBLE_SHARE, ContrastSamples, measure_contrast
from quillpost.rendering.models import INCH, MIN_READABLE_CONTRAST, Box, contrast_ratio, parse_color
from support.designs import PIECES
from support.images import saved

BLACK_INK, WHITE_INK, BLUE_INK = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), parse_color("blue").ink


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


def test_a_picture_is_measured_upright() -> None:
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
    black, white = Box(10, 10, 150, 150), Box(240, 10, 150, 150)
    assert measure_contrast(BLACK_INK, found, area, black).values[-1] == pytest.approx(1, abs=0.1)
    assert measure_contrast(BLACK_INK, found, area, white).values[0] == pytest.approx(21, abs=0.5)
    assert measure_contrast(WHITE_INK, found, area, white).values[-1] == pytest.approx(1, abs=0.1)
    # A square shows the middle half of the picture, which is cut at both sides: its own left half is still black.
    area = Box(100, 100, 200, 200)
    assert measure_contrast(BLACK_INK, found, area, Box(110, 110, 80, 180)).values[-1] == pytest.approx(1, abs=0.1)
    assert measure_contrast(BLACK_INK, found, area, Box(210, 110, 80, 180)).values[0] == pytest.approx(21, abs=0.5)


@pytest.mark.parametrize(
    ("dark_share", "is_hard_to_read", "is_invisible"),
    [(0.0, False, False), (0.05, False, False), (0.15, True, False), (0.3, True, True), (1.0, True, True)],
)
def test_a_tenth_is_hard_to_read_and_a_quarter_is_lost(
    dark_share: float, is_hard_to_read: bool, is_invisible: bool
) -> None:
    box = Box(200 - 160 * dark_share, 20, 160, 160)
    samples = measure_contrast(BLACK_INK, tones(half()), Box(0, 0, 400, 200), box)
    assert samples.share_below(MIN_READABLE_CONTRAST) == pytest.approx(dark_share, abs=0.04)
    assert (samples.lowest(HARD_TO_READ_SHARE) < MIN_READABLE_CONTRAST) is is_hard_to_read
    assert (samples.lowest(INVISIBLE_SHARE) < MIN_READABLE_CONTRAST) is is_invisible


def test_shares_are_counted_from_the_lowest_contrast() -> None:
    samples = ContrastSamples((1.0, 2.0, 3.0, 4.0))
    assert [samples.lowest(share) for share in (0.0, 0.2, 0.25, 0.5, 1.0)] == [1.0, 1.0, 2.0, 3.0, 4.0]
    assert [samples.share_below(limit) for limit in (1.0, 3.0, 3.5, 9.0)] == [0.0, 0.5, 0.75, 1.0]


def test_stripes_as_wide_as_letters_do_not_average_to_gray() -> None:
    """Blue ink can be read on gray, but not on the dark ones of a card's stripes."""
    side = PIECES["postcard-6x11"].message_side
    assert side.art_area
    assert side.message
    width, height = round(side.art_area.width), round(side.art_area.height)
    picture = Image.new("RGB", (width, height), "white")
    stripe = round(INCH / 5)
    for top in range(0, height, 2 * stripe):
        picture.paste("black", (0, top, width, top + stripe))
    found = PictureTones(width, height, measure_tones(saved(picture, "PNG")))
    samples = measure_contrast(BLUE_INK, found, side.art_area, side.message)
    assert samples.lowest(INVISIBLE_SHARE) < 1.7
    assert contrast_ratio(BLUE_INK, (0.7, 0.7, 0.7)) > MIN_READABLE_CONTRAST
