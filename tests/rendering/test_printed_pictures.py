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

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
GRAY, PAPER = (128, 128, 128), (255, 255, 255)


def plain(file_format: str, mode: str = "RGB", size: tuple[int, int] = (60, 40), color: object = 0) -> bytes:
    return saved(Image.new(mode, size, color), file_format)  # type: ignore[arg-type]


def noise(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(1).integers(0, 255, shape, dtype=np.uint8)


def middle(data: bytes) -> tuple[int, ...]:
    color = printed(make_printable_picture(data).data).getpixel((108, 72))
    assert isinstance(color, tuple)
    return color


def is_near(color: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return max(abs(a - b) for a, b in zip(color, other, strict=True)) <= 3


def has_quarters(data: bytes) -> bool:
    """Whether each quarter of the sample is where it belongs."""
    shown = printed(make_printable_picture(data).data)
    corners = [shown.getpixel(at) for at in ((20, 20), (190, 20), (20, 120), (190, 120))]
    return bool(np.abs(np.array(corners) - np.array([RED, BLUE, GREEN, RED])).max() < 25)


def test_a_plain_picture_passes_unchanged_and_a_png_s_pixels_go_into_the_file_as_is(subtests: pytest.Subtests) -> None:
    for mode in ("RGB", "L"):
        for file_format, progressive in (("JPEG", False), ("JPEG", True), ("PNG", False)):
            with subtests.test(file_format, mode=mode, progressive=progressive):
                whole = saved(QUARTERS.convert(mode), file_format, progressive=progressive)
                expected = PrintablePicture(whole, f"image/{file_format.lower()}", 60, 40, ())
                assert make_printable_picture(whole) == expected
    assert has_quarters(saved(QUARTERS, "JPEG", quality=95, subsampling=0))
    assert has_quarters(saved(QUARTERS, "PNG"))
    pixels = noise(40, 60, 3)
    whole = saved(Image.fromarray(pixels), "PNG")
    assert read_picture(whole).data in whole
    assert np.array_equal(np.asarray(printed(whole, 60, 40)), pixels)


def gray_rows(depth: int, byte: int) -> bytes:
    return png_file(png_header(64, 40, depth=depth, colour=0), bytes([0, *[byte] * (64 * depth // 8)]) * 40)


def rows_of(depth: int, color: int, sample: bytes, *more: bytes) -> bytes:
    return png_file(png_header(60, 40, depth=depth, colour=color), (b"\0" + sample * 60) * 40, *more)


def clear_palette() -> bytes:
    image = Image.new("P", (60, 40), 3)
    image.putpalette(range(30))
    return saved(image, "PNG", transparency=3)


def test_every_kind_of_png_keeps_its_color_and_shows_the_paper_where_it_is_clear(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[bytes, tuple[int, ...]]] = {
        "L": (plain("PNG", "L", color=128), GRAY),
        "LA": (plain("PNG", "LA", color=(128, 255)), GRAY),
        "RGB": (plain("PNG", "RGB", color=GRAY), GRAY),
        "RGBA": (plain("PNG", "RGBA", color=(*GRAY, 255)), GRAY),
        "I;16": (plain("PNG", "I;16", color=0x8080), GRAY),
        "palette": (saved(Image.new("RGB", (60, 40), (10, 200, 30)).quantize(4), "PNG"), (10, 200, 30)),
        "1 bit": (gray_rows(1, 0xFF), (255,) * 3),
        "2 bits": (gray_rows(2, 0xAA), (170,) * 3),
        "4 bits": (gray_rows(4, 0x99), (153,) * 3),
        "16 bits of RGB": (rows_of(16, 2, b"\x80\x01" * 3), GRAY),
        "16 bits of RGBA": (rows_of(16, 6, b"\x80\x01" * 3 + b"\xff\xff"), GRAY),
        "clear RGBA": (plain("PNG", "RGBA", color=(0, 0, 0, 0)), PAPER),
        "clear LA": (plain("PNG", "LA", color=(0, 0)), PAPER),
        "clear RGB": (rows_of(8, 2, b"\x0a\x14\x1e", png_chunk(b"tRNS", b"\0\x0a\0\x14\0\x1e")), PAPER),
        "clear gray": (rows_of(8, 0, b"\x0a", png_chunk(b"tRNS", b"\0\x0a")), PAPER),
        "clear 16-bit gray": (rows_of(16, 0, b"\x12\x34", png_chunk(b"tRNS", b"\x12\x34")), PAPER),
        "clear 16-bit RGB": (rows_of(16, 2, b"\x12\x34" * 3, png_chunk(b"tRNS", b"\x12\x34" * 3)), PAPER),
        "clear palette": (clear_palette(), PAPER),
    }
    for name, (data, color) in cases.items():
        with subtests.test(name):
            assert middle(data) == color
    assert is_near(middle(plain("PNG", "RGBA", color=(255, 0, 0, 128))), (255, 127, 127))
    linear = with_chunk(plain("PNG", color=(55, 55, 55)), b"gAMA", struct.pack(">I", 100_000))
    assert is_near(middle(linear), (127, 127, 127))
    usual = with_chunk(plain("PNG"), b"gAMA", struct.pack(">I", 45_455))
    assert make_printable_picture(usual).data == usual


def test_an_interlaced_picture_is_put_in_order_and_one_of_many_strips_keeps_every_row() -> None:
    gradient = Image.linear_gradient("L").resize((37, 23))
    shown = printed(make_printable_picture(interlaced(gradient)).data, 37, 23)
    assert np.array_equal(np.asarray(shown.convert("L")), np.asarray(gradient))
    rows = noise(1501, 1000)
    for mode in ("RGB", "RGBA", "L", "LA"):
        png = saved(Image.fromarray(rows).convert(mode), "PNG", compress_level=1)
        with Image.open(io.BytesIO(make_printable_picture(png).data)) as made:
            assert np.array_equal(np.asarray(made.convert("L")), rows), mode


def test_comments_and_further_frames_do_not_come_along_and_the_same_picture_gives_the_same_bytes() -> None:
    notes, odd = PngImagePlugin.PngInfo(), PngImagePlugin.PngInfo()
    notes.add_text("Comment", "from whom it came", zip=True)
    chatty = with_chunk(saved(QUARTERS, "PNG", pnginfo=notes), b"acTL", struct.pack(">II", 2, 0))
    made = make_printable_picture(chatty)
    assert made.data == saved(QUARTERS, "PNG")
    assert made.notes == ("The image is animated: its first picture is printed.",)
    odd.add_text("Raw profile type exif", "\nexif\n 4\nnot hexadecimal")
    assert make_printable_picture(saved(QUARTERS, "PNG", pnginfo=odd)).data == saved(QUARTERS, "PNG")
    for whole in (plain("PNG", "RGBA"), plain("JPEG", "CMYK"), saved(QUARTERS.quantize(8), "PNG")):
        assert make_printable_picture(whole) == make_printable_picture(whole)


def test_cmyk_becomes_rgb_by_its_own_profile_or_the_plain_formula_and_odd_rgb_the_usual_one() -> None:
    made = make_printable_picture(plain("JPEG", "CMYK", color=(255, 0, 0, 0)))
    assert made.notes == ("The image was converted from CMYK to RGB without a color profile.",)
    assert is_near(middle(made.data), (0, 255, 255))
    assert read_picture(made.data).components == 3
    assert is_near(middle(plain("JPEG", "CMYK", color=(0, 0, 0, 0))), PAPER), "no ink"
    # Pillow stores the inverse, as Adobe does; without the mark the stored values count.
    unmarked = without_segments(plain("JPEG", "CMYK", color=(0, 255, 255, 255)), 0xEE)
    assert is_near(middle(unmarked), (0, 255, 255))
    to_gray = cmyk_profile([(255, 128, 128)] * 8 + [(136, 128, 128)] * 8)
    made = make_printable_picture(saved(Image.new("CMYK", (60, 40), (255, 0, 0, 0)), "JPEG", icc_profile=to_gray))
    assert made.notes == ("The image was converted from CMYK to RGB by its own color profile.",)
    red, green, blue = middle(made.data)
    assert red == green == blue
    assert 100 < red < 155
    assert read_picture(made.data).profile is None
    rgb = saved(Image.new("RGB", (60, 40), RED), "JPEG", keep_rgb=True)
    made = make_printable_picture(rgb)
    assert made.data != rgb
    assert is_near(middle(made.data), RED)


TURNS = ["FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_90", "TRANSVERSE", "ROTATE_270"]


def test_a_turned_photograph_is_printed_upright_and_art_of_any_shape_covers_the_area(subtests: pytest.Subtests) -> None:
    for orientation in range(1, 9):
        stored = QUARTERS if orientation == 1 else QUARTERS.transpose(Image.Transpose[TURNS[orientation - 2]])
        exif = Image.Exif()
        exif[0x0112] = orientation
        for file_format, mode in (("JPEG", "RGB"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "P")):
            with subtests.test(file_format, mode=mode, orientation=orientation):
                how = {"quality": 95, "subsampling": 0} if file_format == "JPEG" else {}
                data = saved(stored.convert(mode), file_format, exif=exif, **how)
                assert has_quarters(data)
                made = make_printable_picture(data)
                assert (made.width, made.height) == (60, 40)
    for odd in (b"MM\0*" + bytes([0, 0, 1, 0]), b"MM\0*\0\0\0\7\0", b"MM\0*\0\0\0\10\0\1\1"):
        assert read_picture(saved(QUARTERS, "JPEG", exif=b"Exif\0\0" + odd)).orientation == 1, odd
    assert set(printed(plain("JPEG", size=(20, 200))).get_flattened_data()) == {(0, 0, 0)}


def test_a_profile_that_fits_is_kept_and_used() -> None:
    for file_format, mode in (("JPEG", "RGB"), ("PNG", "RGB"), ("PNG", "P")):
        red = Image.new("RGB", (60, 40), RED).convert(mode)
        made = make_printable_picture(saved(red, file_format, icc_profile=swapping_profile()))
        assert made.notes == ()
        assert read_picture(made.data).profile == swapping_profile()
        assert is_near(middle(made.data), GREEN)
    profile = srgb_profile()
    padded = struct.pack(">I", 150_000) + profile[4:] + bytes(150_000 - len(profile))
    made = make_printable_picture(saved(QUARTERS, "JPEG", icc_profile=padded))
    assert read_picture(made.data).profile == padded, "put together from its segments"


def test_a_profile_that_does_not_fit_is_left_out(subtests: pytest.Subtests) -> None:
    srgb = srgb_profile()
    profiles = {
        "meant for other colors": cmyk_profile([(255, 128, 128)] * 16),
        "damaged": b"no profile at all" * 20,
        "it is damaged": srgb[:-1],
        "larger than 1 MB": struct.pack(">I", 1_500_000) + srgb[4:] + bytes(1_500_000 - len(srgb)),
        "do not know": srgb[:8] + b"\x05" + srgb[9:],
    }
    for error, profile in profiles.items():
        for file_format in ("JPEG", "PNG"):
            with subtests.test(error, file_format=file_format):
                made = make_printable_picture(saved(QUARTERS, file_format, icc_profile=profile))
                (note,) = made.notes
                assert note.startswith("The image's color profile was left out: ")
                assert error in note
                assert read_picture(made.data).profile is None
                assert profile[:200] not in made.data
    made = make_printable_picture(with_chunk(plain("PNG"), b"iCCP", b"icc\0\1" + zlib.compress(srgb)))
    assert made.notes == ("The image's color profile was left out: it is damaged.",)
    with Image.open(io.BytesIO(made.data)) as picture:
        assert picture.size == (60, 40)


def test_bombs_do_no_harm_and_too_many_pixels_are_refused_undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (b"iCCP", b"zTXt"):
        made = make_printable_picture(with_chunk(plain("PNG"), kind, b"icc\0\0" + zlib.compress(bytes(50_000_000), 1)))
        assert made.data == plain("PNG")
        assert bool(made.notes) == (kind == b"iCCP")
    more_rows = png_file(png_header(60, 40), (b"\0" + bytes(180)) * 200_000)
    assert len(make_printable_picture(more_rows).data) < 2_000
    made = make_printable_picture(plain("PNG", "L", (5250, 6750)))
    assert (made.width, made.height) == (5250, 6750), "as fine as the largest sheet needs"
    photograph = bytearray(saved(QUARTERS, "JPEG"))
    size = photograph.index(b"\xff\xc0") + 5
    photograph[size : size + 4] = struct.pack(">HH", 20_000, 20_000)

    def decode(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(Image, "open", decode)
    with pytest.raises(UnprintableImage, match=r"20000 x 20000 pixels; at most 60\.0 million"):
        make_printable_picture(bytes(photograph))
    with pytest.raises(UnprintableImage) as refusal:
        make_printable_picture(PNG_SIGNATURE + png_header(50_000, 50_000))
    assert refusal.value.message == (
        "The image has 50000 x 50000 pixels; at most 60.0 million are accepted."
        " The largest sheet needs 5250 x 6750 at 600 dpi: make it smaller."
    )


def test_another_kind_of_file_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    kinds = {
        "a GIF picture": plain("GIF", "P"), "a BMP picture": plain("BMP"), "a TIFF picture": plain("TIFF"),
        "a WebP picture": plain("WEBP"), "a HEIC photograph": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
        "an AVIF picture": b"\0\0\0\x18ftypavif",
        "an SVG drawing": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
        "an HTML page": b"\n<!DOCTYPE html><title>Not found</title>", "a PDF document": b"%PDF-1.7\n",
        "a JSON answer": b'{"error": "not found"}', "plain text": b"no picture at all",
        "not a file that we know": bytes(range(128, 256)),
    }  # fmt: skip
    for kind, data in kinds.items():
        with subtests.test(kind), pytest.raises(UnprintableImage) as refusal:
            make_printable_picture(data)
        assert refusal.value.message == f"The image is neither a JPEG nor a PNG file: it is {kind}."


def jpeg_of(marker: int, *frame: int) -> bytes:
    return b"\xff\xd8" + jpeg_segment(marker, bytes(frame)) + b"\xff\xda\0\x02"


def test_truncated_or_unprintable_files_are_refused_with_a_reason_and_not_composed(subtests: pytest.Subtests) -> None:
    png, jpeg, scanned = plain("PNG"), plain("JPEG"), saved(QUARTERS, "JPEG", progressive=True)
    second_frame = jpeg_segment(0xC0, bytes((8, 0, 40, 0, 60, 3, 1, 17, 0, 2, 17, 1, 3, 17, 1)))
    scan, checksum = scanned.rindex(b"\xff\xda"), png.index(b"IDAT") + 9
    endless_chunk = struct.pack(">I4s", 2**31 - 1, b"IDAT") + bytes(99)
    cases = {
        "empty": (b"", "not a single byte"),
        "countless pieces": (png[:33] + png_chunk(b"IDAT", b"") * 20_001 + png[33:], "too many pieces"),
        "wrong checksum": (png[:checksum] + bytes([png[checksum] ^ 1]) + png[checksum + 1 :], "checksum"),
        "a row less": (png_file(png_header(60, 40), (b"\0" + bytes(180)) * 39), "pixels are missing"),
        "a clear row less": (png_file(png_header(60, 40, colour=6), (b"\0" + bytes(240)) * 39), "pixels are missing"),
        "no rows": (png_file(png_header(60, 40), b""), "pixels are missing"),
        "no clear rows": (png_file(png_header(60, 40, colour=6), b""), "pixels are missing"),
        "packed by nobody": (with_chunk(png, b"IDAT", b"no stream"), "pixels cannot be inflated"),
        "two PNG headers": (png[:33] + png_header(6000, 4000) + png[33:], "two headers"),
        "two JPEG headers": (jpeg[:2] + second_frame + jpeg[2:], "two headers"),
        "odd depth": (png_file(png_header(60, 40, depth=3), b"\0"), "makes no sense"),
        "odd color": (png_file(png_header(60, 40, colour=5), b"\0"), "makes no sense"),
        "endless chunk": (PNG_SIGNATURE + png_header(60, 40) + endless_chunk, "incomplete"),
        "no pixels": (png_file(png_header(0, 40), b""), "no pixels"),
        "endless strip": (PNG_SIGNATURE + png_header(MAX_SIDE_PIXELS + 1, 1), f"more than {MAX_SIDE_PIXELS} pixels"),
        "large": (b"\xff\xd8\xff" + bytes(40_000_000), "larger than 40 MB"),
        "12 bits": (jpeg_of(0xC0, 12, 0, 40, 0, 60, 1, 1, 17, 0), "12 bits a sample"),
        "lossless": (jpeg_of(0xC3, 8, 0, 40, 0, 60, 1, 1, 17, 0), "rare kind"),
        "arithmetic": (jpeg_of(0xC9, 8, 0, 40, 0, 60, 1, 1, 17, 0), "rare kind"),
        "two channels": (jpeg_of(0xC0, 8, 0, 40, 0, 60, 2, 1, 17, 0, 2, 17, 0), "2 color channels"),
        "flat": (jpeg_of(0xC0, 8, 0, 0, 0, 60, 1, 1, 17, 0), "no pixels"),
        "half a header": (jpeg_of(0xC0, 8, 0, 40), "header is incomplete"),
        "a header without end": (b"\xff\xd8" + jpeg_segment(0xFE, b"") * 2_001, "does not end"),
        "drawn over": (scanned[:-2] + scanned[scan:-2] * 100 + scanned[-2:], "more than a hundred scans"),
    }  # fmt: skip
    for name, (data, reason) in cases.items():
        with subtests.test(name), pytest.raises(UnprintableImage, match=reason):
            make_printable_picture(data)
    for unprepared in (plain("PNG", "RGBA"), plain("JPEG", "CMYK"), plain("GIF", "P")):
        with pytest.raises(UnprintableImage):
            read_picture(unprepared)
    whole = Image.fromarray(noise(64, 64, 3))
    for file_format, modes in (("JPEG", ("RGB", "CMYK", "L")), ("PNG", ("RGB", "L", "P", "RGBA"))):
        for mode in modes:
            data = saved(whole.convert(mode), file_format)
            for kept in (0.1, 0.5, 0.9):
                with (
                    subtests.test(file_format, mode=mode, kept=kept),
                    pytest.raises(UnprintableImage, match=r"damaged|incomplete"),
                ):
                    make_printable_picture(data[: int(len(data) * kept)])


def test_a_large_picture_is_flattened_without_further_copies_of_it() -> None:
    """Four bytes a pixel are what the decoder itself takes; an interpreter of its own is measured."""
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
    assert grown < 6 * 6000 * 4000
