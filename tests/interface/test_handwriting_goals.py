"""What the hands that are shipped promise: the same word never looks the same."""

import pytest
from handwriting.pages import Pages, build_pages
from handwriting.sameness import measure_sameness

GOAL = 0.25
"""With letters that were copies of one shape this was 0.09."""


@pytest.fixture(scope="module")
def pages() -> Pages:
    return build_pages()


@pytest.mark.parametrize("style", [1, 3, 9, 23])
def test_a_word_written_eight_times_differs_from_itself(pages: Pages, style: int) -> None:
    assert measure_sameness(pages, style, "natural").mean > GOAL
