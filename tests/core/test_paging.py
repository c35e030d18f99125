"""Where a page stands in the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.paging import Page, PageRequest


def page(total: int, page_request: PageRequest) -> Page[int]:
    """The page of the numbers from 1 to the total."""
    return Page(
        list(range(1, total + 1))[page_request.offset : page_request.offset + page_request.per_page],
        total,
        page_request,
    )


@given(total=st.integers(0, 300), number=st.integers(1, 40), per_page=st.integers(1, 100))
def test_a_page_knows_its_first_and_last_row(total: int, number: int, per_page: int) -> None:
    found = page(total, PageRequest(number, per_page))
    assert found.first_row == (found.rows[0] if found.rows else None)
    assert found.last_row == (found.rows[-1] if found.rows else None)


@given(total=st.integers(0, 300), per_page=st.integers(1, 100))
def test_the_pages_up_to_the_last_hold_every_row_once(total: int, per_page: int) -> None:
    last = page(total, PageRequest(1, per_page)).last_page
    rows = [row for n in range(1, last + 1) for row in page(total, PageRequest(n, per_page)).rows]
    assert rows == list(range(1, total + 1))
    assert page(total, PageRequest(last + 1, per_page)).rows == []


@pytest.mark.parametrize(("total", "last"), [(0, 1), (1, 1), (25, 1), (26, 2), (50, 2), (51, 3)])
def test_an_empty_list_has_one_page(total: int, last: int) -> None:
    assert page(total, PageRequest()).last_page == last


@given(total=st.integers(0, 300), number=st.integers(1, 400), per_page=st.integers(1, 100))
def test_a_page_is_reached_from_the_nearer_end(total: int, number: int, per_page: int) -> None:
    page_request = PageRequest(number, per_page)
    window = page_request.window(total)
    seen = list(range(1, total + 1))[:: -1 if window.is_from_end else 1]
    taken = seen[window.offset : window.offset + window.limit]
    assert (taken[::-1] if window.is_from_end else taken) == page(total, page_request).rows
    assert window.offset <= max(0, total - window.limit) / 2
