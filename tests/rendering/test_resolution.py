"""Whether a picture has pixels enough for the size at which it prints."""

import pytest

from quillpost.rendering.images.models import resolution_note
from quillpost.rendering.models import INCH, Box

CARD = Box(-9, -9, 6.25 * INCH, 4.25 * INCH)


def test_a_soft_picture_is_reported_with_the_resolution_it_needs() -> None:
    assert resolution_note(640, 480, CARD, product_name="a 4x6 postcard") == (
        "is 640 x 480 pixels: on a 4x6 postcard that prints at 102 dpi and will look soft;"
        " 1875 x 1275 pixels give 300 dpi."
    )


@pytest.mark.parametrize("size", [(1875, 1275), (1876, 5000), (4000, 1275)])
def test_a_sharp_picture_needs_no_word(size: tuple[int, int]) -> None:
    assert resolution_note(*size, CARD) is None


@pytest.mark.parametrize("size", [(1874, 1275), (1875, 1274), (1275, 1875)])
def test_a_pixel_less_is_too_few(size: tuple[int, int]) -> None:
    assert resolution_note(*size, CARD) is not None


def test_the_sharp_size_is_sharp() -> None:
    for width, height in ((6.25, 4.25), (9.25, 6.25), (11.25, 6.25), (8.5, 11), (4.5, 5.75)):
        area = Box(0, 0, width * INCH, height * INCH)
        note = resolution_note(1, 1, area)
        assert note is not None
        across, up = note.split("; ")[1].split(" pixels")[0].split(" x ")
        assert resolution_note(int(across), int(up), area) is None
