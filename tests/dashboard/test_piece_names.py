"""A piece is called the same wherever somebody meets it."""

import pytest

from quillpost.orders.products import DISPLAY_TYPES, TYPES
from quillpost.web.dashboard.compose.forms import CHOICES
from quillpost.web.dashboard.labels import PIECE_NAMES, TYPE_NAMES, piece_name
from quillpost.web.dashboard.orders.labels import TYPE_WORDS
from quillpost.web.dashboard.print_room.prices import PIECES as PRICED
from quillpost.web.dashboard.templates.forms import IMAGE_TYPES, MESSAGE_TYPES


def test_every_piece_has_one_name_on_all_pages() -> None:
    assert [piece_name(*each) for each in DISPLAY_TYPES] == list(PIECE_NAMES.values())
    assert {each.drawn_as: each.title for each in CHOICES.values()} == PIECE_NAMES
    assert list(PRICED.values()) == list(PIECE_NAMES.values())
    assert TYPE_NAMES.keys() == dict(TYPE_WORDS).keys() == set(TYPES)
    assert {*IMAGE_TYPES, *MESSAGE_TYPES} <= set(TYPE_NAMES.items())


@pytest.mark.parametrize(
    ("type_", "size", "shown"), [("scroll", None, "scroll"), ("banner", "9x9", "banner 9x9")]
)
def test_what_only_an_operator_s_prices_know_is_called_as_it_is(
    type_: str, size: str | None, shown: str
) -> None:
    assert piece_name(type_, size) == shown
