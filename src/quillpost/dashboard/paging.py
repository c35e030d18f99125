"""Which page of a list an address asks for."""

from quillpost.api.bodies import whole_number
from quillpost.api.needs import DEFAULT_SIZE, LAST_PAGE
from quillpost.kit.paging import PageRequest


def asked_page(page: str, *, per_page: int = DEFAULT_SIZE) -> PageRequest:
    """The page of this number. Whoever asks for something odd gets the first."""
    return PageRequest(min(whole_number(page.strip()) or 1, LAST_PAGE), per_page)
