"""Pictures that come in: which pass as they are, which are rewritten and how, which are refused and why."""

import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from quillpost.rendering.images.models import PrintablePicture, read_picture
from quillpost.rendering.images.pictures import make_printable_picture
from quillpost.rendering.images.rules import MAX_SIDE_PIXELS, UnprintableImage
from support.images import (
    PNG_SIGNATURE,
    QUARTERS,
    cmyk_profile,
    interlaced,
    jpeg_segment,
    png_chunk,
    png_file,
    png_header,
    printed,
    saved,
    srgb_profile,
    swapping_profile,
    with_chunk,
    without_segments,
)

RED = (255, 0, 0)
GREEN = (0, 255, 0)


def plain(file_format: str, mode: str = "RGB", size: tuple[int, int] = (60, 40), colour: object = 0) -> bytes:
    return saved(Image.new(mode, size, colour), file_format)  # type: ignore[arg-type]


def middle(data: bytes) -> tuple[int, ...]:
    colour = printed(make_printable_picture(data).data).getpixel((108, 72))
    assert isinstance(colour, tuple)
    return colour


def is_near(colour: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return max(abs(a - b) for a, b in zip(colour, other, strict=True)) <= 3


# What passes as it is


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(("file_format", "progressive"), [("JPEG", False), ("JPEG", True), ("PNG", False)])
def test_a_plain_picture_passes_unchanged(file_format: str, progressive: bool, mode: str) -> None:
    whole = saved(QUARTERS.convert(mode), file_format, progressive=progressive)
    assert make_printable_picture(whole) == PrintablePicture(whole, f"image/{file_format.lower()}", 60, 40, ())


def test_the_pixels_of_a_plain_png_go_into_the_file_as_they_are() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    whole = saved(Image.fromarray(noise), "PNG")
    assert read_picture(whole).data in whole
    assert np.array_equal(np.asarray(printed(whole, 60, 40)), noise)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_quarters_stay_where_they_are(file_format: str) -> None:
    shown = printed(make_printable_picture(saved(QUARTERS, file_format, quality=95, subsampling=0)).data)
    corners = [shown.getpixel(at) for at in ((20, 20), (190, 20), (20, 120), (190, 120))]
    assert np.abs(np.array(corners) - np.array([RED, (0, 0, 255), GREEN, RED])).max() < 25


# What is rewritten


@pytest.mark.parametrize(
    ("mode", "colour"),
    [("L", 128), ("LA", (128, 255)), ("RGBA", (128, 128, 128, 255)), ("I;16", 0x8080), ("RGB", (128,) * 3)],
)
def test_every_kind_of_png_keeps_its_colour(mode: str, colour: object) -> None:
    assert middle(plain("PNG", mode, colour=colour)) == (128, 128, 128)


def test_a_palette_keeps_its_colours() -> None:
    assert middle(saved(Image.new("RGB", (60, 40), (10, 200, 30)).quantize(4), "PNG")) == (10, 200, 30)


@pytest.mark.parametrize(("depth", "byte", "grey"), [(1, 0xFF, 255), (2, 0xAA, 170), (4, 0x99, 153)])
def test_few_bits_a_sample_become_eight(depth: int, byte: int, grey: int) -> None:
    row = bytes([0, *[byte] * (64 * depth // 8)])
    assert middle(png_file(png_header(64, 40, depth=depth, colour=0), row * 40)) == (grey,) * 3


@pytest.mark.parametrize(("colour", "sample"), [(2, b"\x80\x01" * 3), (6, b"\x80\x01" * 3 + b"\xff\xff")])
def test_sixteen_bits_a_sample_become_eight(colour: int, sample: bytes) -> None:
    rows = (b"\0" + sample * 60) * 40
    assert middle(png_file(png_header(60, 40, depth=16, colour=colour), rows)) == (128, 128, 128)


def test_an_interlaced_picture_is_put_in_order() -> None:
    gradient = Image.linear_gradient("L").resize((37, 23))
    shown = printed(make_printable_picture(interlaced(gradient)).data, 37, 23)
    assert np.array_equal(np.asarray(shown.convert("L")), np.asarray(gradient))


@pytest.mark.parametrize(("mode", "clear"), [("RGBA", (0, 0, 0, 0)), ("LA", (0, 0))])
def test_transparent_parts_show_the_paper(mode: str, clear: object) -> None:
    assert middle(plain("PNG", mode, colour=clear)) == (255, 255, 255)


def test_half_transparent_parts_mix_with_the_paper() -> None:
    assert is_near(middle(plain("PNG", "RGBA", colour=(255, 0, 0, 128))), (255, 127, 127))


@pytest.mark.parametrize(
    ("depth", "colour", "sample", "key"),
    [
        (8, 2, b"\x0a\x14\x1e", b"\0\x0a\0\x14\0\x1e"),
        (8, 0, b"\x0a", b"\0\x0a"),
        (16, 0, b"\x12\x34", b"\x12\x34"),
        (16, 2, b"\x12\x34" * 3, b"\x12\x34" * 3),
    ],
)
def test_the_one_clear_colour_shows_the_paper(depth: int, colour: int, sample: bytes, key: bytes) -> None:
    rows = (b"\0" + sample * 60) * 40
    header = png_header(60, 40, depth=depth, colour=colour)
    assert middle(png_file(header, rows, png_chunk(b"tRNS", key))) == (255, 255, 255)


def test_a_clear_palette_entry_shows_the_paper() -> None:
    image = Image.new("P", (60, 40), 3)
    image.putpalette(range(30))
    assert middle(saved(image, "PNG", transparency=3)) == (255, 255, 255)


def test_linear_light_is_brought_to_the_screens_gamma() -> None:
    linear = with_chunk(plain("PNG", colour=(55, 55, 55)), b"gAMA", struct.pack(">I", 100_000))
    assert is_near(middle(linear), (127, 127, 127))


def test_a_screens_own_gamma_changes_nothing() -> None:
    usual = with_chunk(plain("PNG"), b"gAMA", struct.pack(">I", 45_455))
    assert make_printable_picture(usual).data == usual


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA"])
def test_a_picture_of_many_strips_keeps_every_row(mode: str) -> None:
    rows = np.random.default_rng(1).integers(0, 255, (1501, 1000), dtype=np.uint8)
    png = saved(Image.fromarray(rows).convert(mode), "PNG", compress_level=1)
    with Image.open(io.BytesIO(make_printable_picture(png).data)) as made:
        assert np.array_equal(np.asarray(made.convert("L")), rows)


def test_comments_and_further_frames_do_not_come_along() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", "from whom it came", zip=True)
    chatty = with_chunk(saved(QUARTERS, "PNG", pnginfo=notes), b"acTL", struct.pack(">II", 2, 0))
    made = make_printable_picture(chatty)
    assert made.data == saved(QUARTERS, "PNG")
    assert made.notes == ("The image is animated: its first picture is printed.",)


def test_pixels_in_countless_pieces_are_refused() -> None:
    crumbs = png_chunk(b"IDAT", b"") * 20_001
    whole = plain("PNG")
    with pytest.raises(UnprintableImage, match="too many pieces"):
        make_printable_picture(whole[:33] + crumbs + whole[33:])


def test_the_same_picture_gives_the_same_bytes() -> None:
    for whole in (plain("PNG", "RGBA"), plain("JPEG", "CMYK"), saved(QUARTERS.quantize(8), "PNG")):
        assert make_printable_picture(whole) == make_printable_picture(whole)


# CMYK


def test_cmyk_becomes_rgb_by_the_plain_formula() -> None:
    made = make_printable_picture(plain("JPEG", "CMYK", colour=(255, 0, 0, 0)))
    assert made.notes == ("The image was converted from CMYK to RGB without a color profile.",)
    assert is_near(middle(made.data), (0, 255, 255))
    assert read_picture(made.data).components == 3


def test_no_ink_is_paper() -> None:
    assert is_near(middle(plain("JPEG", "CMYK", colour=(0, 0, 0, 0))), (255, 255, 255))


def test_cmyk_that_no_adobe_program_wrote_is_not_inverted() -> None:
    # Pillow stores the inverse, as Adobe does; without the mark the stored values count.
    unmarked = without_segments(plain("JPEG", "CMYK", colour=(0, 255, 255, 255)), 0xEE)
    assert is_near(middle(unmarked), (0, 255, 255))


def test_cmyk_is_converted_by_its_own_profile() -> None:
    grey = cmyk_profile([(255, 128, 128)] * 8 + [(136, 128, 128)] * 8)
    made = make_printable_picture(saved(Image.new("CMYK", (60, 40), (255, 0, 0, 0)), "JPEG", icc_profile=grey))
    assert made.notes == ("The image was converted from CMYK to RGB by its own color profile.",)
    red, green, blue = middle(made.data)
    assert red == green == blue
    assert 100 < red < 155
    assert read_picture(made.data).profile is None


def test_a_jpeg_stored_as_rgb_is_rewritten_in_the_usual_way() -> None:
    rgb = saved(Image.new("RGB", (60, 40), RED), "JPEG", keep_rgb=True)
    made = make_printable_picture(rgb)
    assert made.data != rgb
    assert is_near(middle(made.data), RED)


# Which way up


TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("file_format", "mode"), [("JPEG", "RGB"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "P")])
def test_a_turned_photograph_is_printed_upright(file_format: str, mode: str, orientation: int) -> None:
    stored = QUARTERS.transpose(TURNS[orientation]) if orientation in TURNS else QUARTERS
    exif = Image.Exif()
    exif[0x0112] = orientation
    how = {"quality": 95, "subsampling": 0} if file_format == "JPEG" else {}
    made = make_printable_picture(saved(stored.convert(mode), file_format, exif=exif, **how))
    shown = printed(made.data)
    corners = [shown.getpixel(at) for at in ((20, 20), (190, 20), (20, 120), (190, 120))]
    assert np.abs(np.array(corners) - np.array([RED, (0, 0, 255), GREEN, RED])).max() < 25
    assert (made.width, made.height) == (60, 40)


def test_art_of_another_shape_covers_the_whole_area() -> None:
    assert set(printed(plain("JPEG", size=(20, 200))).get_flattened_data()) == {(0, 0, 0)}


# Colour profiles


@pytest.mark.parametrize(("file_format", "mode"), [("JPEG", "RGB"), ("PNG", "RGB"), ("PNG", "P")])
def test_a_profile_that_fits_is_kept_and_used(file_format: str, mode: str) -> None:
    red = Image.new("RGB", (60, 40), RED).convert(mode)
    made = make_printable_picture(saved(red, file_format, icc_profile=swapping_profile()))
    assert made.notes == ()
    assert read_picture(made.data).profile == swapping_profile()
    assert is_near(middle(made.data), GREEN)


def test_a_profile_that_is_packed_in_an_unknown_way_is_left_out() -> None:
    packed = b"icc\0\1" + zlib.compress(srgb_profile())
    made = make_printable_picture(with_chunk(plain("PNG"), b"iCCP", packed))
    assert made.notes == ("The image's color profile was left out: it is damaged.",)
    with Image.open(io.BytesIO(made.data)) as picture:
        assert picture.size == (60, 40)


def test_a_long_profile_is_put_together_from_its_segments() -> None:
    profile = srgb_profile()
    padded = struct.pack(">I", 150_000) + profile[4:] + bytes(150_000 - len(profile))
    made = make_printable_picture(saved(QUARTERS, "JPEG", icc_profile=padded))
    assert read_picture(made.data).profile == padded


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
@pytest.mark.parametrize(
    ("profile", "error"),
    [
        (cmyk_profile([(255, 128, 128)] * 16), "meant for other colors"),
        (b"no profile at all" * 20, "damaged"),
        (srgb_profile()[:-1], "damaged"),
        (
            struct.pack(">I", 1_500_000) + srgb_profile()[4:] + bytes(1_500_000 - len(srgb_profile())),
            "larger than 1 MB",
        ),
        (srgb_profile()[:8] + b"\x05" + srgb_profile()[9:], "do not know"),
    ],
    ids=["cmyk", "nonsense", "cut", "large", "newer"],
)
def test_a_profile_that_does_not_fit_is_left_out(file_format: str, profile: bytes, error: str) -> None:
    made = make_printable_picture(saved(QUARTERS, file_format, icc_profile=profile))
    (note,) = made.notes
    assert note.startswith("The image's color profile was left out: ")
    assert error in note
    assert read_picture(made.data).profile is None
    assert profile[:200] not in made.data


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt"])
def test_a_bomb_in_a_side_chunk_is_not_set_off(kind: bytes) -> None:
    bomb = b"icc\0\0" + zlib.compress(bytes(50_000_000), 1)
    made = make_printable_picture(with_chunk(plain("PNG"), kind, bomb))
    assert made.data == plain("PNG")
    assert bool(made.notes) == (kind == b"iCCP")


# What is refused


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (plain("GIF", "P"), "a GIF picture"),
        (plain("BMP"), "a BMP picture"),
        (plain("TIFF"), "a TIFF picture"),
        (plain("WEBP"), "a WebP picture"),
        (HEIC, "a HEIC photograph"),
        (b"\0\0\0\x18ftypavif", "an AVIF picture"),
        (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "an SVG drawing"),
        (b"\n<!DOCTYPE html><title>Not found</title>", "an HTML page"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b'{"error": "not found"}', "a JSON answer"),
        (b"no picture at all", "plain text"),
        (bytes(range(128, 256)), "not a file that we know"),
    ],
)
def test_another_kind_of_file_is_refused_by_its_name(data: bytes, kind: str) -> None:
    with pytest.raises(UnprintableImage) as refusal:
        make_printable_picture(data)
    assert refusal.value.message == f"The image is neither a JPEG nor a PNG file: it is {kind}."


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(UnprintableImage, match="not a single byte"):
        make_printable_picture(b"")


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "L", "P", "RGBA"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_truncated_picture_is_refused(mode: str, kept: float) -> None:
    file_format = "PNG" if mode in ("P", "RGBA") else "JPEG"
    noise = np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    for form in {file_format, "PNG"} if mode != "CMYK" else {file_format}:
        whole = saved(Image.fromarray(noise).convert(mode), form)
        with pytest.raises(UnprintableImage, match=r"damaged|incomplete"):
            make_printable_picture(whole[: int(len(whole) * kept)])


def test_a_wrong_checksum_is_refused() -> None:
    whole = bytearray(plain("PNG"))
    whole[whole.index(b"IDAT") + 9] ^= 1
    with pytest.raises(UnprintableImage, match="checksum"):
        make_printable_picture(bytes(whole))


@pytest.mark.parametrize("colour", [2, 6])
@pytest.mark.parametrize("rows", [39, 0])
def test_fewer_rows_than_promised_are_refused(colour: int, rows: int) -> None:
    row = b"\0" + bytes(60 * (3 if colour == 2 else 4))
    with pytest.raises(UnprintableImage, match="pixels are missing"):
        make_printable_picture(png_file(png_header(60, 40, colour=colour), row * rows))


def test_pixels_that_inflate_to_far_more_than_promised_do_no_harm() -> None:
    bomb = png_file(png_header(60, 40), (b"\0" + bytes(180)) * 200_000)
    made = make_printable_picture(bomb)
    assert len(made.data) < 2_000


def test_a_photograph_of_too_many_pixels_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    photograph = bytearray(saved(QUARTERS, "JPEG"))
    size = photograph.index(b"\xff\xc0") + 5
    photograph[size : size + 4] = struct.pack(">HH", 20_000, 20_000)
    monkeypatch.setattr(Image, "open", decode)
    with pytest.raises(UnprintableImage, match=r"20000 x 20000 pixels; at most 60\.0 million"):
        make_printable_picture(bytes(photograph))


def test_a_second_header_cannot_smuggle_in_another_size() -> None:
    whole = plain("PNG")
    with pytest.raises(UnprintableImage, match="two headers"):
        make_printable_picture(whole[:33] + png_header(6000, 4000) + whole[33:])
    photograph = plain("JPEG")
    frame = jpeg_segment(0xC0, bytes((8, 0, 40, 0, 60, 3, 1, 17, 0, 2, 17, 1, 3, 17, 1)))
    with pytest.raises(UnprintableImage, match="two headers"):
        make_printable_picture(photograph[:2] + frame + photograph[2:])


@pytest.mark.parametrize("header", [png_header(60, 40, depth=3), png_header(60, 40, colour=5)])
def test_a_header_that_makes_no_sense_is_refused(header: bytes) -> None:
    with pytest.raises(UnprintableImage, match="makes no sense"):
        make_printable_picture(png_file(header, b"\0"))


def test_a_chunk_longer_than_the_file_is_refused() -> None:
    with pytest.raises(UnprintableImage, match="incomplete"):
        make_printable_picture(PNG_SIGNATURE + png_header(60, 40) + struct.pack(">I4s", 2**31 - 1, b"IDAT") + bytes(99))


def test_a_bomb_is_refused_by_its_header() -> None:
    with pytest.raises(UnprintableImage) as refusal:
        make_printable_picture(PNG_SIGNATURE + png_header(50_000, 50_000))
    assert refusal.value.message == (
        "The image has 50000 x 50000 pixels; at most 60.0 million are accepted."
        " The largest sheet needs 5250 x 6750 at 600 dpi: make it smaller."
    )


def test_a_picture_without_pixels_is_refused() -> None:
    with pytest.raises(UnprintableImage, match="no pixels"):
        make_printable_picture(png_file(png_header(0, 40), b""))


def test_a_picture_as_fine_as_the_largest_sheet_needs_is_accepted() -> None:
    made = make_printable_picture(plain("PNG", "L", (5250, 6750)))
    assert (made.width, made.height) == (5250, 6750)


def test_an_endless_strip_is_refused() -> None:
    with pytest.raises(UnprintableImage, match=f"more than {MAX_SIDE_PIXELS} pixels"):
        make_printable_picture(PNG_SIGNATURE + png_header(MAX_SIDE_PIXELS + 1, 1))


def test_a_file_over_40_megabytes_is_refused() -> None:
    with pytest.raises(UnprintableImage, match="larger than 40 MB"):
        make_printable_picture(b"\xff\xd8\xff" + bytes(40_000_000))


@pytest.mark.parametrize(
    ("marker", "frame", "reason"),
    [
        (0xC0, bytes((12, 0, 40, 0, 60, 1, 1, 17, 0)), "12 bits a sample"),
        (0xC3, bytes((8, 0, 40, 0, 60, 1, 1, 17, 0)), "rare kind"),
        (0xC9, bytes((8, 0, 40, 0, 60, 1, 1, 17, 0)), "rare kind"),
        (0xC0, bytes((8, 0, 40, 0, 60, 2, 1, 17, 0, 2, 17, 0)), "2 color channels"),
        (0xC0, bytes((8, 0, 0, 0, 60, 1, 1, 17, 0)), "no pixels"),
        (0xC0, bytes((8, 0, 40)), "header is incomplete"),
    ],
)
def test_a_rare_kind_of_jpeg_is_refused_with_the_reason(marker: int, frame: bytes, reason: str) -> None:
    with pytest.raises(UnprintableImage, match=reason):
        make_printable_picture(b"\xff\xd8" + jpeg_segment(marker, frame) + b"\xff\xda\0\x02")


def test_a_jpeg_header_that_does_not_end_is_refused() -> None:
    with pytest.raises(UnprintableImage, match="does not end"):
        make_printable_picture(b"\xff\xd8" + jpeg_segment(0xFE, b"") * 2_001)


def test_a_jpeg_drawn_over_and_over_is_refused() -> None:
    whole = saved(QUARTERS, "JPEG", progressive=True)
    scan = whole.rindex(b"\xff\xda")
    with pytest.raises(UnprintableImage, match="more than a hundred scans"):
        make_printable_picture(whole[:-2] + whole[scan:-2] * 100 + whole[-2:])


def test_notes_that_cannot_be_read_do_not_spoil_a_picture() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Raw profile type exif", "\nexif\n 4\nnot hexadecimal")
    assert make_printable_picture(saved(QUARTERS, "PNG", pnginfo=notes)).data == saved(QUARTERS, "PNG")


def test_what_is_not_printable_is_never_composed() -> None:
    for unprepared in (plain("PNG", "RGBA"), plain("JPEG", "CMYK"), plain("GIF", "P")):
        with pytest.raises(UnprintableImage):
            read_picture(unprepared)


def test_a_large_picture_is_flattened_without_further_copies_of_it() -> None:
    """Four bytes a pixel are what the decoder itself takes; an interpreter of its own is measured."""
    pixels = 6000 * 4000
    script = (
        "import resource, sys\n"
        "from quillpost.rendering.images.pictures import make_printable_picture\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "small, large = (sys.stdin.buffer.read(int(size)) for size in sys.argv[1:])\n"
        "make_printable_picture(small)\n"
        "before = peak()\n"
        "make_printable_picture(large)\n"
        "print(peak() - before)\n"
    )
    small, large = (plain("PNG", "RGBA", size, (9, 9, 9, 99)) for size in ((60, 40), (6000, 4000)))
    arguments = [sys.executable, "-c", script, str(len(small)), str(len(large))]
    grown = int(subprocess.run(arguments, input=small + large, capture_output=True, check=True).stdout)
    assert grown < 6 * pixels
