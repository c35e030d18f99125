import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from cards import copy, design, image_of, picture
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from quillpost.composition.art.image import LONGEST_SIDE, BadImage, ImageFacts, check_image, prepare_picture
from quillpost.composition.compose import compose_batch, preview

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

QUARTERS = Image.new("RGB", (60, 40), "red")
QUARTERS.paste((0, 0, 255), (30, 0, 60, 20))
QUARTERS.paste((0, 255, 0), (0, 20, 30, 40))


def front_of(data: bytes) -> Image.Image:
    return image_of(preview(design(front=data), copy(), dpi=36)["front"])


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_header(width: int, height: int) -> bytes:
    return png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def rich_picture(file_format: str) -> bytes:
    """A picture with what cameras and programs add to its pixels, which can be damaged, too."""
    exif = Image.Exif()
    exif[0x0112] = 6
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Raw profile type exif", "\nexif\n 6\n457869660000\n")
    notes.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="3"/>')
    extras = {"pnginfo": notes} if file_format == "PNG" else {"exif": exif}
    file = io.BytesIO()
    QUARTERS.convert("P" if file_format == "PNG" else "RGB").save(
        file, file_format, dpi=(300, 300), **({"transparency": 0} if file_format == "PNG" else {}), **extras
    )
    return file.getvalue()


def repaired(png: bytes) -> bytes:
    """The same chunks with sums that are right, so that damage gets past the first gate."""
    chunks, at = [png[:8]], 8
    while at + 12 <= len(png):
        (length,) = struct.unpack_from(">I", png, at)
        chunks.append(png_chunk(png[at + 4 : at + 8], png[at + 8 : at + 8 + length]))
        at += 12 + length
    return b"".join(chunks)


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


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(["JPEG", "PNG"]), st.booleans())
def test_damaged_bytes_are_refused_or_composed(data: st.DataObject, file_format: str, repair: bool) -> None:
    bytes_ = bytearray(rich_picture(file_format))
    for _ in range(data.draw(st.integers(1, 3))):
        bytes_[data.draw(st.integers(0, len(bytes_) - 1))] = data.draw(st.integers(0, 255))
    damaged = repaired(bytes_) if repair and file_format == "PNG" else bytes(bytes_)
    try:
        check_image(damaged)
    except BadImage:
        return
    assert compose_batch({0: design(front=damaged)}, [copy()])


def test_notes_in_a_picture_that_cannot_be_read_make_it_a_bad_one() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Raw profile type exif", "\nexif\n 4\nnot hexadecimal")
    file = io.BytesIO()
    QUARTERS.save(file, "PNG", pnginfo=notes)
    for use in (check_image, prepare_picture):
        with pytest.raises(BadImage, match="damaged"):
            use(file.getvalue())


def test_a_second_header_cannot_smuggle_in_another_size() -> None:
    whole = picture("PNG")
    with pytest.raises(BadImage, match="damaged"):
        check_image(whole[:33] + png_header(6000, 4000) + whole[33:])


def test_a_bomb_is_refused_by_its_header() -> None:
    with pytest.raises(BadImage) as refusal:
        check_image(PNG_SIGNATURE + png_header(50_000, 50_000))
    assert refusal.value.message == (
        "The image has 50000 x 50000 pixels; at most 25.3 million are accepted."
        " The largest piece needs 6750 x 3750 at 600 dpi: make it smaller."
    )


def test_a_picture_as_fine_as_the_largest_piece_needs_is_accepted() -> None:
    assert check_image(picture("PNG", "L", (6750, 3750), 0)) == ImageFacts("PNG", 6750, 3750)


def test_an_endless_strip_is_refused() -> None:
    with pytest.raises(BadImage, match=f"more than {LONGEST_SIDE} pixels"):
        check_image(PNG_SIGNATURE + png_header(LONGEST_SIDE + 1, 1))


def test_a_large_picture_is_flattened_without_further_copies_of_it() -> None:
    """Four bytes a pixel are what the decoder itself takes; an interpreter of its own is measured."""
    pixels = 6000 * 4000
    script = (
        "import resource, sys\n"
        "from quillpost.composition.art.image import prepare_picture\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "small, large = (sys.stdin.buffer.read(int(size)) for size in sys.argv[1:])\n"
        "prepare_picture(small)\n"
        "before = peak()\n"
        "prepare_picture(large)\n"
        "print(peak() - before)\n"
    )
    small, large = (picture("PNG", "RGBA", size, (9, 9, 9, 99)) for size in ((60, 40), (6000, 4000)))
    arguments = [sys.executable, "-c", script, str(len(small)), str(len(large))]
    grown = int(subprocess.run(arguments, input=small + large, capture_output=True, check=True).stdout)
    assert grown < 6 * pixels


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_a_picture_of_many_strips_keeps_every_row(mode: str) -> None:
    rows = np.random.default_rng(1).integers(0, 255, (3001, 1000), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(rows).convert(mode).save(file, "PNG", compress_level=1)
    pixels = zlib.decompress(prepare_picture(file.getvalue()).data)
    expected = Image.fromarray(rows).convert("L" if mode == "L" else "RGB").tobytes()
    assert pixels == expected


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
