"""A piece is called the same wherever somebody meets it."""

import pytest

from quillpost.orders.products import DISPLAY_TYPES, ORDER_TYPES
from quillpost.web.dashboard.compose.forms import PRODUCT_CHOICES
from quillpost.web.dashboard.labels import PRODUCT_NAMES, TYPE_NAMES, product_name
from quillpost.web.dashboard.orders.labels import TYPE_LABELS
from quillpost.web.dashboard.print_room.accounts import PRODUCT_LABELS as PRICED
from quillpost.web.dashboard.templates.forms import IMAGE_TYPES, MESSAGE_TYPES


def test_every_piece_has_one_name_on_all_pages() -> None:
    assert [product_name(*each) for each in DISPLAY_TYPES] == list(PRODUCT_NAMES.values())
    assert {each.layout_name: each.title for each in PRODUCT_CHOICES.values()} == PRODUCT_NAMES
    assert list(PRICED.values()) == list(PRODUCT_NAMES.values())
    assert TYPE_NAMES.keys() == dict(TYPE_LABELS).keys() == set(ORDER_TYPES)
    assert {*IMAGE_TYPES, *MESSAGE_TYPES} <= set(TYPE_NAMES.items())


@pytest.mark.parametrize(("type_", "size", "shown"), [("scroll", None, "scroll"), ("banner", "9x9", "banner 9x9")])
def test_what_only_an_operator_s_prices_know_is_called_as_it_is(type_: str, size: str | None, shown: str) -> None:
    assert product_name(type_, size) == shown
