"""How much a page draws: everything as often as it is drawn."""

import pytest
from benchmarks.hostile import files, pdfs

from quillpost.rendering.images.pdfs import make_printable_pages
from quillpost.rendering.images.rules import UnprintablePdf

TOO_MUCH = "draws too much"


def is_taken(pdf: bytes) -> bool:
    try:
        make_printable_pages(pdf)
    except UnprintablePdf as refused:
        if TOO_MUCH in refused.message:
            return False
        raise
    return True


@pytest.mark.parametrize(("depth", "taken"), [(1, True), (4, True), (6, False), (12, False)])
def test_forms_within_forms_are_multiplied(depth: int, taken: bool) -> None:
    assert is_taken(files.nested_forms(depth=depth)) is taken


@pytest.mark.parametrize(("depth", "taken"), [(2, True), (8, False)])
def test_so_are_patterns(depth: int, taken: bool) -> None:
    assert is_taken(files.nested_patterns(depth=depth)) is taken


@pytest.mark.parametrize(("depth", "taken"), [(1, True), (3, False)])
def test_so_are_letters_that_are_drawings(depth: int, taken: bool) -> None:
    assert is_taken(files.drawn_letters(depth=depth)) is taken


@pytest.mark.parametrize(("depth", "taken"), [(2, True), (6, False)])
def test_so_are_masks(depth: int, taken: bool) -> None:
    assert is_taken(files.soft_masks(depth=depth)) is taken


def test_a_mask_counts_while_it_is_in_force() -> None:
    state = b"<</Type/ExtGState/SMask<</S/Luminosity/G 6 0 R>>>>"
    group = pdfs.form(b"0 0 m 9 9 l S " * 1_000, entries="/Group<</S/Transparency/CS/DeviceGray>>")
    lines = b"0 0 m 9 9 l S " * 2_000

    def page(content: bytes) -> bytes:
        return pdfs.one_page(content, "<</ExtGState<</G 5 0 R>>>>", [state, group])

    assert is_taken(page(b"q /G gs 0 0 9 9 re f Q " + lines))
    assert not is_taken(page(b"/G gs " + lines))


def test_shadings_count_for_what_they_cost() -> None:
    assert is_taken(files.many_shadings(5_000))
    assert not is_taken(files.many_shadings(20_000))


def test_an_honest_drawing_of_many_lines_is_taken() -> None:
    assert is_taken(pdfs.one_page(b"10 10 m 99 99 l S\n" * 100_000))
