"""How well ink stands out from a picture, where the picture lies and the words are."""

from io import BytesIO

import pytest
from PIL import Image

from quillpost.rendering.images.models import CELL_BYTES, GRID_CELLS, PictureTones
from quillpost.rendering.images.pictures import measure_tones
from quillpost.rendering.images.rules import UnprintableImage
from quillpost.rendering.layout.rules import contrast_over
from quillpost.rendering.models import Box, contrast_ratio

BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


def half(kind: str = "PNG", *, size: tuple[int, int] = (400, 200), orientation: int | None = None) -> bytes:
    """Black on the left, white on the right; a camera that was turned says so."""
    image = Image.new("RGB", size, "white")
    image.paste("black", (0, 0, size[0] // 2, size[1]))
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    file = BytesIO()
    image.save(file, kind, exif=exif)
    return file.getvalue()


def tones(data: bytes, size: tuple[int, int] = (400, 200)) -> PictureTones:
    return PictureTones(*size, measure_tones(data))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_is_measured_where_it_is(kind: str) -> None:
    found = tones(half(kind))
    assert len(found.cells) == GRID_CELLS * GRID_CELLS * CELL_BYTES
    assert max(found.color_at(0.1, 0.5)) < 0.1
    assert min(found.color_at(0.9, 0.5)) > 0.9


@pytest.mark.parametrize(
    ("orientation", "dark"),
    [(1, (0, 0.5)), (2, (1, 0.5)), (3, (1, 0.5)), (6, (0.5, 0)), (8, (0.5, 1)), (5, (0.5, 0)), (7, (0.5, 1))],
)
def test_a_turned_picture_is_measured_upright(orientation: int, dark: tuple[float, float]) -> None:
    found = tones(half("JPEG", orientation=orientation))
    across, down = dark
    assert max(found.color_at(across, down)) < 0.1
    assert min(found.color_at(1 - across, 1 - down)) > 0.9


def test_a_damaged_picture_is_refused() -> None:
    with pytest.raises(UnprintableImage):
        measure_tones(half()[:60])


def test_only_what_lies_under_the_words_counts() -> None:
    found, area = tones(half()), Box(0, 0, 400, 200)
    on_black, on_white = Box(10, 10, 150, 150), Box(240, 10, 150, 150)
    assert contrast_over(BLACK, found, area, on_black) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK, found, area, on_white) == pytest.approx(21, abs=0.5)


def test_a_picture_is_cut_at_both_sides_to_cover_its_area() -> None:
    found = tones(half())
    # A square shows the middle half of it: its own left half is still black.
    area = Box(100, 100, 200, 200)
    assert contrast_over(BLACK, found, area, Box(110, 110, 80, 180)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK, found, area, Box(210, 110, 80, 180)) == pytest.approx(21, abs=0.5)


def test_words_are_lost_when_a_quarter_of_them_is() -> None:
    found, area = tones(half()), Box(0, 0, 400, 200)
    assert contrast_over(BLACK, found, area, Box(120, 10, 200, 150)) == pytest.approx(1, abs=0.1)
    assert contrast_over(BLACK, found, area, Box(180, 10, 200, 150)) > 10


def test_contrast_goes_from_none_to_black_on_white() -> None:
    assert contrast_ratio(WHITE, WHITE) == 1
    assert contrast_ratio(BLACK, WHITE) == pytest.approx(21)
