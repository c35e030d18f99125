import contextlib
import io
import struct
import zlib

import numpy as np
import pytest
from cards import copy, design, image_of, picture
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from quillpost.composition.compose import preview
from quillpost.composition.image import BadImage, ImageFacts, check_image, prepare_picture

QUARTERS = Image.new("RGB", (60, 40), "red")
QUARTERS.paste((0, 0, 255), (30, 0, 60, 20))
QUARTERS.paste((0, 255, 0), (0, 20, 30, 40))


def front_of(data: bytes) -> Image.Image:
    return image_of(preview(design(front=data), copy(), dpi=36)["front"])


def png_header(width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + chunk


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_a_sound_picture_has_its_facts(file_format: str) -> None:
    assert check_image(picture(file_format)) == ImageFacts(file_format, 60, 40)


@pytest.mark.parametrize("file_format", ["GIF", "BMP", "TIFF", "WEBP"])
def test_other_formats_are_refused(file_format: str) -> None:
    with pytest.raises(BadImage, match="neither a JPEG nor a PNG"):
        check_image(picture(file_format))


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_truncated_picture_is_refused(file_format: str, kept: float) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, file_format)
    whole = file.getvalue()
    with pytest.raises(BadImage):
        check_image(whole[: int(len(whole) * kept)])


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(["JPEG", "PNG"]))
def test_damaged_bytes_are_refused_or_decoded_but_never_crash(data: st.DataObject, file_format: str) -> None:
    damaged = bytearray(picture(file_format))
    for _ in range(3):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadImage):
        assert prepare_picture(bytes(damaged)).data


def test_a_bomb_is_refused_by_its_header() -> None:
    with pytest.raises(BadImage, match="60 million"):
        check_image(png_header(50_000, 50_000))


def test_a_file_over_40_megabytes_is_refused() -> None:
    with pytest.raises(BadImage, match="larger than 40 MB"):
        check_image(b"\xff\xd8\xff" + bytes(40_000_000))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_photograph_is_printed_upright(orientation: int) -> None:
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = QUARTERS.transpose(turns[orientation]) if orientation in turns else QUARTERS
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    stored.save(file, "JPEG", exif=exif, quality=95, subsampling=0)
    shown = front_of(file.getvalue())
    corners = [shown.getpixel(at) for at in ((20, 20), (190, 20), (20, 120), (190, 120))]
    expected = [(255, 0, 0), (0, 0, 255), (0, 255, 0), (255, 0, 0)]
    assert np.abs(np.array(corners) - np.array(expected)).max() < 25


@pytest.mark.parametrize(
    ("mode", "colour"),
    [("L", 128), ("LA", (128, 255)), ("RGBA", (128, 128, 128, 255)), ("P", 0), ("I;16", 0x8080)],
)
def test_every_kind_of_png_keeps_its_colour(mode: str, colour: object) -> None:
    file = io.BytesIO()
    if mode == "P":
        Image.new("L", (60, 40), 128).convert("P").save(file, "PNG")
    else:
        Image.new(mode, (60, 40), colour).save(file, "PNG")  # type: ignore[arg-type]
    assert front_of(file.getvalue()).getpixel((100, 70)) == (128, 128, 128)


def test_transparent_parts_show_the_paper() -> None:
    clear = picture("PNG", "RGBA", colour=(0, 0, 0, 0))
    assert front_of(clear).getpixel((100, 70)) == (255, 255, 255)


def test_cmyk_photographs_are_not_printed_inverted() -> None:
    no_ink = picture("JPEG", "CMYK", colour=(0, 0, 0, 0))
    shown = front_of(no_ink).getpixel((100, 70))
    assert isinstance(shown, tuple)
    assert min(shown) > 240


def test_art_of_another_shape_covers_the_whole_card() -> None:
    tall = picture(size=(20, 200))
    assert set(front_of(tall).get_flattened_data()) == {(0, 0, 0)}
