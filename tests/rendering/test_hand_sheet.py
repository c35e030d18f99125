"""The sheet for a sender's own handwriting: written with one of our typefaces, photographed badly, and read back."""

import io
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import resources
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw, ImageFilter

from quillpost.rendering.decoder.service import read_sheet_in_sandbox
from quillpost.rendering.handwriting.fonts import subset_font
from quillpost.rendering.handwriting.outlines import Floats, sample_contour
from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.layout import BoxKind, SheetBox, decode_page, encode_page, sheet_pages
from quillpost.rendering.handwriting.sheet.models import EmptyBox, ProblemCode, UnreadableSheet, WrittenChar
from quillpost.rendering.handwriting.sheet.pages import add_sheet_pages
from quillpost.rendering.handwriting.sheet.reader import read_page
from quillpost.rendering.handwriting.strokes import strokes_by_glyph
from quillpost.rendering.pdf.files import PdfFile
from support.handwriting_sheets import SHEET_DPI, WRITTEN_SIZE, Key, key_of_box, page_image, photograph
from support.images import saved

ZEYADA, DELIUS = "fontpkg_zeyada/files/Zeyada.ttf", "fontpkg_delius/files/Delius-Regular.ttf"
SIGNATURE = "Zoe Bell"
CLOSE, ALWAYS_CLOSE = 0.03, 0.12  # x-heights: on average over a page, and in each of its boxes


class Typeface(NamedTuple):
    polygons: dict[str, list[Floats]]
    center_lines: dict[str, list[Floats]]
    advances: dict[str, float]
    x_height: float


class FilledSheet(NamedTuple):
    """The PDF, and the true center lines by box in x-heights of the sheet."""

    pdf: bytes
    truth: dict[Key, list[Floats]]


@cache
def typeface(file: str, chars: frozenset[str]) -> Typeface:
    package, _, path = file.partition("/")
    font = subset_font((resources.files(package) / path).read_bytes(), chars, (), None)
    glyphs = {char: font.glyphs[font.glyphs_by_char[char]] for char in sorted(chars)}
    polygons = {char: [sample_contour(contour, 8.0) for contour in glyph.shape] for char, glyph in glyphs.items()}
    center_lines = {
        char: [stroke.path for stroke in strokes] for char, strokes in strokes_by_glyph(polygons)[0].items()
    }
    x_height = max(float(polygon[:, 1].max()) for polygon in polygons["x"])
    return Typeface(polygons, center_lines, {char: glyph.advance for char, glyph in glyphs.items()}, x_height)


def fill_sheet(file: str, seed: int, *, skip: Iterable[Key] = (), slips: dict[Key, str] | None = None) -> FilledSheet:
    """Every box a little differently; those in `slips` with something else than they should hold."""
    slips = slips or {}
    texts = {
        key_of_box(box): slips.get(key_of_box(box), SIGNATURE if box.kind is BoxKind.SIGNATURE else box.text)
        for page in sheet_pages()
        for box in page.boxes
        if key_of_box(box) not in skip
    }
    face = typeface(file, frozenset("x".join(texts.values())) - {" "})
    chance, writing, truth = np.random.default_rng(seed), {}, {}
    for page in sheet_pages():
        content = [b"q .1 .15 .45 rg"]
        for box in page.boxes:
            leaning = [
                [chance.uniform(0.93, 1.07), chance.uniform(-0.06, 0.1)],
                [chance.uniform(-0.03, 0.03), chance.uniform(0.93, 1.07)],
            ]
            if key_of_box(box) in texts:
                drawing, truth[key_of_box(box)] = write(face, texts[key_of_box(box)], box, np.array(leaning))
                content.append(drawing)
        writing[page.number] = b"\n".join([*content, b"Q"])
    pdf = PdfFile()
    add_sheet_pages(pdf, writing)
    return FilledSheet(pdf.finish(), truth)


def write(face: Typeface, text: str, box: SheetBox, leaning: Floats) -> tuple[bytes, list[Floats]]:
    scale = WRITTEN_SIZE * layout.X_HEIGHT / face.x_height * (2 if box.kind is BoxKind.SIGNATURE else 1)
    polygons, lines, x = [], [], 0.0
    for char in text:
        if char != " ":
            place = np.array([x, 0.0])
            polygons += [(polygon + place) @ leaning.T * scale for polygon in face.polygons[char]]
            lines += [(line + place) @ leaning.T * scale for line in face.center_lines[char]]
        x += face.advances.get(char, 300.0)
    low, high = (limit(np.concatenate(polygons), axis=0) for limit in (np.min, np.max))
    left = max((box.box.width - (high[0] - low[0])) / 2, 4.0) if len(text) < 4 else 5.0
    origin = np.array([box.box.left + left - low[0], box.baseline])
    paths = [b" ".join([b"%.2f %.2f %b" % (*point, b"l" if i else b"m") for i, point in enumerate(polygon + origin)])
             for polygon in polygons]  # fmt: skip
    return b"\n".join([*paths, b"f"]), [(line - [low[0], 0]) / layout.X_HEIGHT for line in lines]


def gray(image: Image.Image) -> npt.NDArray[np.uint8]:
    return np.asarray(image.convert("L"))


def dense(paths: Iterable[Floats]) -> Floats:
    parts = []
    for path in paths:
        distances = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
        at = np.linspace(0, distances[-1], max(2, round(distances[-1] / 0.02)))
        parts.append(np.stack([np.interp(at, distances, path[:, axis]) for axis in (0, 1)], axis=1))
    return np.concatenate(parts)


def nearest(points: Floats, others: Floats) -> Floats:
    return np.concatenate([np.hypot(*(part[:, None] - others).transpose(2, 0, 1)).min(axis=1) for part in
                           np.array_split(points, len(points) // 500 + 1)])  # fmt: skip


def assert_read_back(chars: Iterable[WrittenChar], truth: dict[Key, list[Floats]]) -> None:
    """The strokes lie on the center lines, and no center line is without its strokes."""
    misses = {}
    for char in chars:
        found, true = dense(char.strokes), dense(truth[char.char, char.instance_number])
        misses[char.char, char.instance_number] = float(max(nearest(found, true).mean(), nearest(true, found).mean()))
        assert 0.02 < char.radius < 0.2
        assert 0 < found[:, 0].min() < 0.25, "the ink begins at zero, and ends of strokes are round"
    assert {place: miss for place, miss in misses.items() if miss > ALWAYS_CLOSE} == {}
    assert np.mean(list(misses.values())) < CLOSE


# What is on the sheet


def test_the_sheet_asks_for_every_character_often_enough_and_nothing_overlaps() -> None:
    counts = Counter(box.text for page in sheet_pages() for box in page.boxes)
    assert {counts[char] for char in "abcdefghijklmnopqrstuvwxyz"} == {4}
    assert {counts[char] for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} == {2}
    assert {counts[char] for char in "0123456789"} == {3}
    assert all(counts[text] for text in [*".,!?'\"-&:;()$%@/#+", "th", "oo", "tt", "ll", "ff", "of", "ing", "er", "ou"])
    for page in sheet_pages():
        for one, other in combinations(page.boxes, 2):
            assert not one.box.overlaps(other.box)
        assert all(box.box.left > 0 and box.box.right < layout.PAGE_WIDTH and box.box.bottom > 60 for box in page.boxes)
        assert not any(
            box.box.left < x < box.box.right and box.box.bottom < y < box.box.top
            for box in page.boxes
            for x, y in page.ticks
        )


def test_a_page_says_which_it_is_and_no_damaged_code_is_taken_for_another() -> None:
    codes = {(version, page): encode_page(version, page) for version in range(8) for page in range(4)}
    assert {decode_page(code) for code in codes.values()} == set(codes)
    bits = codes[1, 2]
    for flips in (*combinations(range(len(bits)), 1), *combinations(range(len(bits)), 2)):
        assert decode_page(tuple(bit ^ (place in flips) for place, bit in enumerate(bits))) is None
    assert decode_page((0,) * len(bits)) is decode_page((1,) * len(bits)) is decode_page(bits[:-1]) is None


# Reading it


def test_a_photograph_and_a_scan_are_read_in_a_limited_process() -> None:
    skip = {key_of_box(box) for page in sheet_pages() for box in page.boxes[1::2] if len(box.text) < 4}
    sheet = fill_sheet(ZEYADA, 1, skip=skip)
    photo = photograph(page_image(sheet.pdf, 1), 3, (1400, 1850), tilt=20, turn=4, curl=12)
    scan, pages = io.BytesIO(), [Image.new("RGB", (850, 1100), "white"), page_image(sheet.pdf, 2).rotate(180)]
    pages[0].save(scan, "PDF", save_all=True, append_images=pages[1:], resolution=SHEET_DPI)
    reading = read_sheet_in_sandbox([saved(photo, "JPEG", quality=60), scan.getvalue()])
    assert reading.problems == ()
    assert set(reading.missing) == {EmptyBox(*place) for place in skip}
    assert {(char.char, char.instance_number) for char in reading.chars} == sheet.truth.keys() - {("signature", 1)}
    assert {char.char for char in reading.chars if char.is_doubtful} <= {"J"}, "which hangs deep in this typeface"
    assert_read_back([char for char in reading.chars if char.char != "J"], sheet.truth)
    assert reading.signature is not None
    assert 2 < reading.signature.width < 5


def test_letters_in_the_wrong_box_or_over_its_edge_are_doubtful() -> None:
    slips = {("a", 3): "g", ("e", 2): "mmmm", ("o", 1): "f"}
    boxes = [box for box in sheet_pages()[0].boxes if box.text in "abemog"]
    skip = {key_of_box(box) for page in sheet_pages() for box in page.boxes if box not in boxes}
    sheet = fill_sheet(DELIUS, 2, skip=skip, slips=slips)
    photo = photograph(page_image(sheet.pdf, 1), 5, (1600, 2100), tilt=25, turn=-9, quarters=1)
    reading = read_page(gray(photo))
    assert (reading.page, reading.problems, reading.signature) == (1, (), None)
    doubtful = {(char.char, char.instance_number): char.reason for char in reading.chars if char.is_doubtful}
    assert doubtful == {
        ("a", 3): "It looks different from the others.",
        ("e", 2): "It reaches beyond its box.",
        ("o", 1): "It looks different from the others.",
    }
    assert_read_back([char for char in reading.chars if (char.char, char.instance_number) not in slips], sheet.truth)


# What cannot be read


@cache
def empty_page(number: int = 1) -> Image.Image:
    pdf = PdfFile()
    add_sheet_pages(pdf, {})
    return page_image(pdf.finish(), number, 100)


def problem_with(image: Image.Image) -> tuple[ProblemCode, str]:
    with pytest.raises(UnreadableSheet) as refusal:
        read_page(gray(image))
    return refusal.value.code, refusal.value.message


@pytest.mark.parametrize(
    ("corner", "edge", "quarters"),
    [("upper left", 1, 0), ("upper right", 2, 1), ("lower right", 3, 2), ("lower left", 0, 3)],
)
def test_the_corner_mark_that_is_missing_is_named(corner: str, edge: int, quarters: int) -> None:
    """Turned a little, the page has one corner leftmost, one topmost, and so on."""
    leaning = empty_page().rotate(-12, fillcolor=(120, 100, 90), expand=True, resample=Image.Resampling.BILINEAR)
    edges = [0, 0, leaning.width, leaning.height]
    edges[edge] += 130 if edge in (0, 1) else -130
    left, top, right, bottom = edges
    code, message = problem_with(leaning.crop((left, top, right, bottom)).rotate(90 * quarters, expand=True))
    assert code is ProblemCode.MARKS_MISSING
    assert message == f"The {corner} corner mark is not in the picture. Take it again with all four marks visible."


def test_other_pictures_are_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    page = empty_page()
    glare = page.copy()
    ImageDraw.Draw(glare).ellipse((page.width - 130, -60, page.width + 60, 130), fill="white")
    assert problem_with(glare)[1].startswith("The upper right corner mark can't be seen. Check for glare")
    upper_half = page.crop((0, 0, page.width, page.height // 2))
    assert problem_with(upper_half)[1].startswith("We found only two of the four corner marks.")
    covered = page.copy()
    ImageDraw.Draw(covered).rectangle((250, page.height - 80, 600, page.height), fill="white")
    assert problem_with(covered)[0] is ProblemCode.PAGE_UNKNOWN
    assert problem_with(page.resize((480, 621)))[0] is ProblemCode.TOO_SMALL
    noise = np.random.default_rng(1).integers(0, 255, (400, 300), np.uint8)
    for other in (Image.fromarray(noise), Image.new("L", (1, 1)), Image.new("L", (40, 3000), 255)):
        assert problem_with(other)[0] is ProblemCode.NO_SHEET
    monkeypatch.setattr(layout, "SHEET_VERSION", layout.SHEET_VERSION + 1)
    pdf = PdfFile()
    add_sheet_pages(pdf, {})
    monkeypatch.undo()
    assert problem_with(page_image(pdf.finish(), 1, 100))[0] is ProblemCode.OTHER_VERSION


def test_an_empty_page_is_missing_all_and_glare_and_blur_are_reported() -> None:
    page = empty_page().copy()
    row = sheet_pages()[0].boxes[24:30]
    left, bottom, right, top = row[0].box.left, row[0].box.bottom, row[-1].box.right, row[0].box.top
    edges = (left, layout.PAGE_HEIGHT - top, right, layout.PAGE_HEIGHT - bottom)
    ImageDraw.Draw(page).rectangle([edge * 100 / 72 for edge in edges], fill="white")
    reading = read_page(gray(page.filter(ImageFilter.GaussianBlur(2.0))))
    assert (reading.chars, len(reading.missing)) == ((), len(sheet_pages()[0].boxes))
    assert [problem.message for problem in reading.problems] == [
        "The picture of page 1 is small, so fine details are lost. Move closer, or use your camera's full resolution.",
        "The picture of page 1 is blurred. Hold still, tap to focus, and take it again.",
        "A bright reflection hides the boxes for g and h. Take the picture again without flash.",
        "We found no writing on page 1. Write with a black or dark blue pen.",
    ]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "Upload a JPEG or PNG picture, or a PDF. This file is empty."),
        (b"GIF89a" + bytes(50), "Upload a JPEG or PNG picture, or a PDF. This file is a GIF picture."),
        (b"\0\0\0\x18ftypheic" + bytes(50), "Upload a JPEG or PNG picture, or a PDF. This file is a HEIC photograph."),
        (saved(Image.new("L", (90, 60)), "JPEG")[:-40], "The JPEG file is damaged or incomplete."),
        (b"\x89PNG\r\n\x1a\n" + bytes(90), "The PNG file is damaged: its header is incomplete."),
        (b"%PDF-1.7 nothing", "This PDF is damaged or needs a password. Save it again, and upload that."),
    ],
    ids=["empty", "GIF", "HEIC", "JPEG cut short", "PNG without a header", "PDF without pages"],
)
def test_bytes_that_are_no_picture_are_a_problem_and_no_exception(data: bytes, sentence: str) -> None:
    reading = read_sheet_in_sandbox([data])
    assert (reading.chars, reading.signature, reading.missing) == ((), None, ())
    assert [(problem.picture, problem.message) for problem in reading.problems] == [
        (1, sentence),
        (None, "Page 1 is missing. Add a picture of it."),
        (None, "Page 2 is missing. Add a picture of it."),
    ]
