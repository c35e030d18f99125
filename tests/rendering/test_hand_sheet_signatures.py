"""Signatures as outlines, readings as JSON, and what the pages of a sheet have to do with each other."""

import copy
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from quillpost.rendering.decoder import service
from quillpost.rendering.decoder.service import read_sheet_in_sandbox, read_signature_in_sandbox
from quillpost.rendering.handwriting.outlines import Floats, signed_area
from quillpost.rendering.handwriting.sheet.layout import sheet_pages
from quillpost.rendering.handwriting.sheet.models import (
    EmptyBox,
    PageReading,
    ProblemCode,
    SheetProblem,
    Signature,
    UnreadableSheet,
    WrittenChar,
)
from quillpost.rendering.handwriting.sheet.records import InvalidRecord, page_from_record, page_to_record
from quillpost.rendering.handwriting.sheet.rules import combine_pages, flag_unlike_chars, list_texts
from quillpost.rendering.handwriting.sheet.signature import outline_drawn_signature, trace_outlines
from support.images import saved

LINE = np.array([[0.0, 0.0], [0.1, 1.0]])
A_SIGNATURE = Signature((np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0]]),), 2.0)


def draw_curve(size: tuple[int, int] = (900, 500), width: int = 9) -> tuple[Image.Image, Image.Image]:
    """A signature with a loop: its mask, and a photograph of it on yellowish paper in uneven light."""
    x = np.linspace(0, 1, 400)
    angle = 2 * np.pi * 2.2 * x
    points = np.stack([120 + 620 * x - 90 * np.sin(angle), 250 - 110 * np.cos(angle)], axis=1)
    mask = Image.new("L", size, 0)
    ImageDraw.Draw(mask).line([(float(a), float(b)) for a, b in points], fill=255, width=width, joint="curve")
    light = 150 + 90 * np.linspace(0, 1, size[0])[None, :, None] * np.array([1, 0.96, 0.85])
    paper = Image.fromarray(np.broadcast_to(light, (size[1], size[0], 3)).astype(np.uint8))
    paper.paste((35, 45, 110), mask=mask)
    noise = np.random.default_rng(1).normal(0, 5, (size[1], size[0], 1))
    blurred = np.asarray(paper.filter(ImageFilter.GaussianBlur(0.8)), float)
    return mask, Image.fromarray(np.clip(blurred + noise, 0, 255).astype(np.uint8))


def fill_outlines(signature: Signature, size: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Holes run the other way round."""
    drawn = Image.new("L", size, 0)
    for outline in sorted(signature.outlines, key=lambda outline: -abs(signed_area(outline))):
        points = [(x * size[1], size[1] - y * size[1]) for x, y in outline.tolist()]
        ImageDraw.Draw(drawn).polygon(points, fill=255 if signed_area(outline) > 0 else 0)
    return np.asarray(drawn) > 127


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "PDF"])
def test_a_picture_of_a_signature_becomes_its_outlines(file_format: str) -> None:
    mask, photo = draw_curve()
    data = io.BytesIO()
    photo.save(data, file_format, **({"resolution": 250.0} if file_format == "PDF" else {}))
    signature = read_signature_in_sandbox(data.getvalue())
    box = mask.getbbox()
    assert box is not None
    expected = np.asarray(mask.crop(box)) > 127
    assert signature.width == pytest.approx(expected.shape[1] / expected.shape[0], rel=0.02)
    drawn = fill_outlines(signature, expected.shape[::-1])
    assert (drawn & expected).sum() > 0.87 * (drawn | expected).sum(), "of a line that is nine pixels wide"
    assert any(signed_area(outline) < 0 for outline in signature.outlines), "the eye of the loop"
    assert sum(map(len, signature.outlines)) < 1_500


def test_a_transparent_drawing_is_one_on_white() -> None:
    mask, _ = draw_curve()
    ink = Image.new("RGBA", mask.size, (20, 20, 20, 255))
    ink.putalpha(mask)
    assert read_signature_in_sandbox(saved(ink, "PNG")).width == pytest.approx(3.0, abs=0.4)


def test_a_picture_without_a_signature_is_refused_with_a_sentence() -> None:
    chessboard = np.kron(np.indices((20, 20)).sum(axis=0) % 2, np.ones((20, 20))).astype(np.uint8) * 255
    for image, code in (
        (Image.new("L", (600, 300), 250), ProblemCode.NO_INK),
        (Image.fromarray(chessboard), ProblemCode.TOO_MUCH_INK),
    ):
        with pytest.raises(UnreadableSheet) as refusal:
            read_signature_in_sandbox(saved(image, "PNG"))
        assert refusal.value.code is code
        assert refusal.value.message.endswith(("paper.", "again."))
    with pytest.raises(UnreadableSheet, match=r"This file is empty\.") as refusal:
        read_signature_in_sandbox(b"")
    assert refusal.value.code is ProblemCode.NOT_A_PICTURE


def test_a_signature_drawn_on_a_screen_has_the_width_of_its_pen() -> None:
    signature = outline_drawn_signature([np.array([[10.0, 10.0], [110.0, 10.0]]), np.array([[60.0, 50.0]])], 4.0)
    assert signature is not None
    height = 50 + 4 - (10 - 4)
    assert signature.width == pytest.approx(108 / height, rel=0.01)
    areas = sorted(signed_area(outline) * height**2 for outline in signature.outlines)
    assert areas == pytest.approx([np.pi * 16, 800 + np.pi * 16], rel=0.03)
    assert outline_drawn_signature([], 4.0) is None
    assert outline_drawn_signature([np.empty((0, 2))], 4.0) is None
    assert outline_drawn_signature([np.zeros((20_001, 2))], 4.0) is None


def test_outlines_have_ink_on_their_left_and_holes_the_other_way() -> None:
    values = np.zeros((12, 12))
    values[2:10, 2:10] = 1.0
    values[5:7, 5:7] = 0.0
    values[10, 10] = 1.0  # touches a corner, and is an outline of its own
    areas = sorted(signed_area(outline) for outline in trace_outlines(values, 0.5))
    assert areas == pytest.approx([-(4 - 0.5), 0.5, 64 - 0.5]), "corners are cut"


# Readings


def page_reading(number: int, *problems: SheetProblem) -> PageReading:
    boxes = [box for box in sheet_pages()[number - 1].boxes if box.kind != "signature"]
    chars = tuple(WrittenChar(box.text, box.instance_number, (LINE,), 0.06) for box in boxes[2:])
    empty = tuple(EmptyBox(box.text, box.instance_number) for box in boxes[:2])
    return PageReading(number, chars, A_SIGNATURE if number == 2 else None, empty, problems)


def test_pages_make_a_sheet_and_say_which_is_missing_or_there_twice() -> None:
    blurred = SheetProblem(ProblemCode.BLURRED, "It is blurred.")
    other_page = UnreadableSheet(ProblemCode.NO_SHEET, "No sheet.")
    whole = combine_pages([[page_reading(2)], [other_page, page_reading(1, blurred)]])
    assert [char.char for char in whole.chars[:3]] == ["a", "a", "b"]
    assert whole.signature is A_SIGNATURE
    assert [empty.char for empty in whole.missing] == ["a", "a", "0", "0"]
    assert whole.problems == (SheetProblem(ProblemCode.BLURRED, "It is blurred.", 2),)
    twice = combine_pages([[page_reading(1)], [other_page], [page_reading(1)]])
    assert [(problem.code, problem.picture) for problem in twice.problems] == [
        (ProblemCode.NO_SHEET, 2),
        (ProblemCode.PAGE_TWICE, 3),
        (ProblemCode.PAGE_MISSING, None),
    ]
    assert twice.problems[1].message == "Page 1 is in your upload twice. We used the first picture of it."
    assert combine_pages([]).chars == ()


def test_readings_are_json_and_come_back_as_they_were() -> None:
    reading = page_reading(2, SheetProblem(ProblemCode.GLARE, "Glare."))
    record = json.loads(json.dumps(page_to_record(reading)))
    back = page_from_record(record)
    assert isinstance(back, PageReading)
    assert (back.page, back.missing, back.problems) == (2, reading.missing, reading.problems)
    assert page_to_record(back) == record
    refused = page_from_record(page_to_record(UnreadableSheet(ProblemCode.TOO_SMALL, "Closer.")))
    assert isinstance(refused, UnreadableSheet)
    assert (refused.code, refused.message) == (ProblemCode.TOO_SMALL, "Closer.")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["page"], 3),
        (["chars"], None),
        (["chars", 0, "char"], "zz"),
        (["chars", 0, "instance_number"], 2.5),
        (["chars", 0, "strokes"], [[[0, 0, 0]]]),
        (["chars", 0, "strokes"], [[[0, 1e300]]]),
        (["chars", 0, "strokes"], [[[0, float("nan")]]]),
        (["chars", 0, "strokes"], [["x"]]),
        (["chars", 0, "strokes"], [[]] * 1_001),
        (["chars", 0, "radius"], -1),
        (["chars", 0, "reason"], "x" * 401),
        (["missing"], []),
        (["missing", 0], "aa"),
        (["signature"], {"outlines": 1, "width": 1}),
        (["signature", "width"], float("inf")),
        (["problems", 0], {"code": "other", "message": ""}),
    ],
)
def test_a_reading_that_the_sheet_cannot_have_is_refused(path: list[Any], value: object) -> None:
    record = copy.deepcopy(page_to_record(page_reading(2, SheetProblem(ProblemCode.GLARE, "Glare."))))
    place: Any = record
    for step in path[:-1]:
        place = place[step]
    if path == ["problems", 0]:
        place = record["problems"]
    place[path[-1]] = value
    with pytest.raises(InvalidRecord):
        page_from_record(record)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"[{}]", b"[" * 100_000, b"\xff", b'[{"page": 1}]', b"[]"])
def test_a_decoder_that_was_taken_over_only_makes_a_file_unreadable(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_run_task", lambda *_: ({}, body))
    with pytest.raises(UnreadableSheet, match="couldn't read this file"):
        read_signature_in_sandbox(b"")
    codes = [problem.code for problem in read_sheet_in_sandbox([b""]).problems]
    assert codes[-2:] == [ProblemCode.PAGE_MISSING] * 2
    assert codes[:-2] == ([] if body == b"[]" else [ProblemCode.TAKES_TOO_MUCH])


def test_a_letter_unlike_its_siblings_is_doubtful_and_two_of_a_kind_never_are() -> None:
    def chars(*paths: Floats) -> list[WrittenChar]:
        return [WrittenChar("a", number, (path,), 0.06) for number, path in enumerate(paths, 1)]

    tall, wide = np.array([[0.0, 0.0], [0.0, 0.7], [0.02, 2.0]]), np.array([[0.0, 0.0], [0.9, 0.1], [1.8, 0.0]])
    flagged = flag_unlike_chars(chars(tall, tall * 1.05, wide, tall * 0.97))
    assert [char.instance_number for char in flagged if char.is_doubtful] == [3]
    assert not any(char.is_doubtful for char in flag_unlike_chars(chars(tall, wide)))
    two_ways = chars(tall, wide, tall * 1.05, wide * 1.05)
    assert not any(char.is_doubtful for char in flag_unlike_chars(two_ways)), "people write a letter in two ways"


def test_texts_are_listed_as_people_say_them() -> None:
    assert list_texts(["a"]) == "a"
    assert list_texts(["a", "a", "b", "c"]) == "a, b and c"
    assert list_texts("abcdefghijk") == "a, b, c, d, e, f, g, h and 3 more"
