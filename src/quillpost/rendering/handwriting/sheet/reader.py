"""One page of the sheet, from its picture to strokes."""

from collections.abc import Iterator
from dataclasses import replace

from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.ink import PageInk, find_ink
from quillpost.rendering.handwriting.sheet.layout import BoxKind, SheetPage
from quillpost.rendering.handwriting.sheet.marks import FoundMarks, Gray, find_marks
from quillpost.rendering.handwriting.sheet.models import (
    EmptyBox,
    PageReading,
    ProblemCode,
    SheetProblem,
    UnreadableSheet,
    WrittenChar,
)
from quillpost.rendering.handwriting.sheet.rules import flag_unlike_chars, list_texts
from quillpost.rendering.handwriting.sheet.signature import trace_signature
from quillpost.rendering.handwriting.sheet.straighten import draw_straight, fit_bend, map_page, measure_sharpness
from quillpost.rendering.handwriting.sheet.strokes import estimate_pen_radius, find_box_ink, read_char

_GOOD_PIXELS_PER_POINT = 1.6  # below, thin pens lose the dots of their letters
_MIN_SHARPNESS = 0.9
_FAINT_THRESHOLD = 0.2  # half as dark as ink is


def read_page(gray: Gray) -> PageReading:
    """Raises UnreadableSheet with a sentence for the sender."""
    marks = find_marks(gray)
    page_map, version, number = map_page(gray, marks)
    page = layout.find_page(version, number)
    if page is None:
        raise UnreadableSheet(
            ProblemCode.OTHER_VERSION,
            "This sheet is from another version of our service. Download and print the sheet again.",
        )
    page_map = fit_bend(gray, page_map, page)
    ink = find_ink(draw_straight(gray, page_map, page), page)
    reading = _read_boxes(page, ink)
    problems = [*_find_picture_problems(page, marks, measure_sharpness(gray, page_map)), *reading.problems]
    return replace(reading, problems=tuple(problems))


def _read_boxes(page: SheetPage, ink: PageInk) -> PageReading:
    inks = [find_box_ink(box, crop, ink.threshold) for box, crop in zip(page.boxes, ink.boxes, strict=True)]
    pen_radius = estimate_pen_radius([box_ink for box_ink in inks if box_ink.box.kind is not BoxKind.SIGNATURE])
    signature, chars, missing = None, [], []
    for box_ink in inks:
        box = box_ink.box
        if box.kind is BoxKind.SIGNATURE:
            signature = trace_signature(box_ink.darkness, ink.threshold)
            continue
        char = read_char(box_ink, pen_radius)
        if char is None:
            missing.append(EmptyBox(box.text, box.instance_number))
        else:
            chars.append(char)
    problems = _find_ink_problems(page, ink, chars)
    return PageReading(page.number, tuple(flag_unlike_chars(chars)), signature, tuple(missing), tuple(problems))


def _find_picture_problems(page: SheetPage, marks: FoundMarks, sharpness: float) -> Iterator[SheetProblem]:
    if marks.module < _GOOD_PIXELS_PER_POINT * layout.MARK_MODULE:
        message = (
            f"The picture of page {page.number} is small, so fine details are lost."
            " Move closer, or use your camera's full resolution."
        )
        yield SheetProblem(ProblemCode.FEW_PIXELS, message)
    if sharpness < _MIN_SHARPNESS:
        message = f"The picture of page {page.number} is blurred. Hold still, tap to focus, and take it again."
        yield SheetProblem(ProblemCode.BLURRED, message)


def _find_ink_problems(page: SheetPage, ink: PageInk, chars: list[WrittenChar]) -> Iterator[SheetProblem]:
    if ink.hidden_boxes:
        texts = list_texts(box.text for box in ink.hidden_boxes)
        message = f"A bright reflection hides the boxes for {texts}. Take the picture again without flash."
        yield SheetProblem(ProblemCode.GLARE, message)
    if not chars:
        message = f"We found no writing on page {page.number}. Write with a black or dark blue pen."
        yield SheetProblem(ProblemCode.NO_INK, message)
    elif ink.threshold < _FAINT_THRESHOLD:
        message = f"The writing on page {page.number} is very pale. Use a black or dark blue pen for better letters."
        yield SheetProblem(ProblemCode.FAINT, message)
