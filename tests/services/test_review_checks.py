"""What the checks at the end of a review find, and what they let pass."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from listing import make_list, make_order
from placing import open_account, order_row, place

from makers import Build, Clock, people, person
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import items, orders
from quillpost.fulfillment import checks, review
from quillpost.fulfillment.checks import ReviewLimits
from quillpost.orders.materialization import materialise
from quillpost.orders.models import Order

LIMITS = ReviewLimits()
EMAIL_ALONE = {"email": "someone@example.com"}


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def reasons(parts: Parts, *order_ids: int, limits: ReviewLimits = LIMITS) -> dict[int, list[str]]:
    with parts.db.work() as tx:
        return checks.review_reasons(tx, parts.studio, order_ids, limits)


def change(parts: Parts, order: Order, **columns: Any) -> None:
    with parts.db.work() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == order.id).values(**columns))


def listed(parts: Parts, who: Caller, whom: Sequence[dict[str, Any]], **values: Any) -> int:
    """An order to a list of these people, who are items already."""
    order_id = make_order(parts, who, make_list(parts, who, whom), **values)
    materialise(parts.db, order_id, now=parts.clock())
    return order_id


def test_a_good_order_has_no_reason_to_wait(parts: Parts, owner: Caller) -> None:
    good = place(parts, owner, people(3))
    assert reasons(parts, good.id, listed(parts, owner, people(2))) == {}


def test_each_order_has_its_own_reasons(parts: Parts, owner: Caller) -> None:
    good, soft = place(parts, owner), place(parts, owner)
    empty = place(parts, owner, message="Hello %COMPANY%!")
    change(parts, soft, lowest_dpi=40)
    found = reasons(parts, good.id, soft.id, empty.id)
    assert found.keys() == {soft.id, empty.id}
    assert "40 dpi" in found[soft.id][0]
    assert "%COMPANY%" in found[empty.id][0]


# Fit


LONG_NAME = "Maximiliana-Konstantina " * 12


def test_words_that_the_longest_of_a_list_do_not_fit_hold_it(parts: Parts, owner: Caller) -> None:
    whom = [person(name="Jo"), person(name="Al", address="9 Oak Ave", custom1=LONG_NAME)]
    message = "Dear %CUSTOM1|friend%! " * 5
    [told] = reasons(parts, held := listed(parts, owner, whom, message=message))[held]
    assert "too long for a 4x6 postcard" in told
    assert "the pieces that do not fit fail" in told


def test_only_people_who_are_mailed_matter_for_the_fit(parts: Parts, owner: Caller) -> None:
    whom = [*people(3), {**EMAIL_ALONE, "custom1": LONG_NAME}]
    assert reasons(parts, listed(parts, owner, whom, message="Dear %CUSTOM1|friend%! " * 5)) == {}


def test_inline_people_were_looked_at_when_they_were_sent(parts: Parts, owner: Caller) -> None:
    inline = place(parts, owner, [person(custom1=LONG_NAME)], message="Dear %CUSTOM1|friend%! " * 5)
    assert reasons(parts, inline.id) == {}


# What it is drawn with


def test_an_order_whose_hand_is_gone_waits_alone(parts: Parts, owner: Caller, clock: Clock) -> None:
    good, inline = place(parts, owner), place(parts, owner)
    of_list = listed(parts, owner, people(2), message="Dear %FIRST_NAME|friend%!")
    for order_id in (inline.id, of_list):
        with parts.db.work() as tx:
            tx.execute(sa.update(orders).where(orders.c.id == order_id).values(style=987))
    found = reasons(parts, good.id, inline.id, of_list)
    assert found.keys() == {inline.id, of_list}
    assert all("handwriting style 987 is no longer installed" in told for [told] in found.values())
    clock.advance(seconds=10)
    review.sweep(parts.press, now=parts.clock())
    with parts.db.work() as tx:
        assert [order_row(tx, order).status for order in (good, inline)] == ["processing", "paused"]


def test_an_order_of_which_something_else_is_gone_waits_alone(
    parts: Parts, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (listed(parts, owner, people(2), message=f"{n} %FIRST_NAME|you%!") for n in (1, 2))
    look_at = parts.studio.misfits

    def lacks_a_piece(design: Any, *what: Any, **how: Any) -> Any:
        if design.message.startswith("1"):
            raise KeyError("postcard-4x6")
        return look_at(design, *what, **how)

    monkeypatch.setattr(parts.studio, "misfits", lacks_a_piece)
    found = reasons(parts, first, second)
    assert found.keys() == {first}
    assert "no longer all installed" in found[first][0]


# Resolution


@pytest.mark.parametrize(
    ("dpi", "is_held"), [(None, False), (299, False), (75, False), (74, True), (0, True)]
)
def test_a_picture_below_the_limit_holds_the_order(
    parts: Parts, owner: Caller, dpi: int | None, is_held: bool
) -> None:
    order = place(parts, owner)
    change(parts, order, lowest_dpi=dpi)
    found = reasons(parts, order.id)
    assert bool(found) is is_held
    assert not is_held or f"at {dpi} dpi, below the 75" in found[order.id][0]


def test_the_limit_of_the_resolution_is_a_setting(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner)
    change(parts, order, lowest_dpi=74)
    assert reasons(parts, order.id, limits=replace(LIMITS, dpi=74)) == {}
    assert reasons(parts, order.id, limits=replace(LIMITS, dpi=300)) != {}


# Ink


@pytest.mark.parametrize(("contrast", "is_held"), [(None, False), (2.9, False), (1.7, False), (1.69, True)])
def test_ink_below_the_limit_holds_the_order(
    parts: Parts, owner: Caller, contrast: float | None, is_held: bool
) -> None:
    order = place(parts, owner)
    change(parts, order, lowest_contrast=contrast)
    found = reasons(parts, order.id)
    assert bool(found) is is_held
    assert not is_held or "nearly invisible" in found[order.id][0]


def test_the_limit_of_the_contrast_is_a_setting(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner)
    change(parts, order, lowest_contrast=1.2)
    assert reasons(parts, order.id, limits=replace(LIMITS, contrast=1.2)) == {}
    assert reasons(parts, order.id, limits=replace(LIMITS, contrast=3.0)) != {}


# Variables


@pytest.mark.parametrize(
    ("filled", "empty", "is_held"), [(3, 0, False), (2, 1, False), (2, 2, False), (1, 2, True), (0, 3, True)]
)
def test_too_many_pieces_without_a_value_hold_the_order(
    parts: Parts, owner: Caller, filled: int, empty: int, is_held: bool
) -> None:
    whom = [
        person(address=f"{n} Elm St", company="Acme" if n <= filled else None)
        for n in range(1, filled + empty + 1)
    ]
    order = place(parts, owner, whom, message="Hello %COMPANY%!")
    found = reasons(parts, order.id)
    assert bool(found) is is_held
    assert (
        not is_held or f"{empty} of {filled + empty} pieces have nothing for %COMPANY%" in found[order.id][0]
    )


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        ("Hi %FIRST_NAME%!", {}),
        ("Hi %LAST_NAME%!", {"name": "Cher"}),
        ("Hi %LAST_NAME%!", {"name": " Cher  "}),
        ("Hi %NAME%!", {"name": None}),
        ("Hi %NAME%!", {"name": "   "}),
        ("You live at %ADDRESS2%", {}),
        ("Your %CUSTOM10%", {"custom9": "there"}),
        ("Born %DOB%", {}),
        ("Since %ANNIVERSARY%", {}),
        ("~EMAIL~", {}),
        ("%EMAIL|nobody% and %EMAIL%", {}),
        ("From %YOUR_COMPANY%", {}),
    ],
)  # fmt: skip
def test_every_variable_without_a_value_is_seen(
    parts: Parts, owner: Caller, message: str, lacks: dict[str, Any]
) -> None:
    order = place(parts, owner, [person(**lacks)], message=message)
    has_gap = "FIRST_NAME" not in message
    assert bool(reasons(parts, order.id)) is has_gap


@pytest.mark.parametrize(
    "message",
    ["Hi %COMPANY|friend%!", "Hi ~COMPANY|friend~", "Born %DOB|some day%", "Hello!", "%ZIP% %STATE%"],
)
def test_a_fallback_fills_the_gap(parts: Parts, owner: Caller, message: str) -> None:
    assert reasons(parts, place(parts, owner, message=message).id) == {}


def test_a_date_is_a_value(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner, [person(dob="1990-05-04")], message="Born %DOB%")
    assert reasons(parts, order.id) == {}


def test_pieces_that_failed_are_not_asked(parts: Parts, owner: Caller) -> None:
    whom = [person(company="Acme"), EMAIL_ALONE]
    assert reasons(parts, place(parts, owner, whom, message="Hello %COMPANY%!").id) == {}


def test_names_of_all_variables_that_lack_a_value_are_told(parts: Parts, owner: Caller) -> None:
    whom = [person(company="Acme"), person(address="2 Elm St", custom1="x"), person(address="3 Elm St")]
    order = place(parts, owner, whom, message="%COMPANY% %CUSTOM1% %CITY%")
    [told] = reasons(parts, order.id)[order.id]
    assert told.startswith("3 of 3 pieces have nothing for %COMPANY% or %CUSTOM1%:")
    assert "%COMPANY|friend%" in told


# Deliverability


@pytest.mark.parametrize(("good", "bad", "is_held"), [(2, 0, False), (1, 1, False), (1, 2, True)])
def test_too_many_who_cannot_be_delivered_to_hold_the_order(
    parts: Parts, owner: Caller, good: int, bad: int, is_held: bool
) -> None:
    whom = people(good) + [{"email": f"{n}@example.com"} for n in range(bad)]
    order = place(parts, owner, whom)
    found = reasons(parts, order.id)
    assert bool(found) is is_held
    assert not is_held or f"{bad} of {good + bad} recipients cannot be delivered to" in found[order.id][0]


def test_half_addresses_of_a_list_and_those_without_a_price_count(parts: Parts, owner: Caller) -> None:
    half = {"address": "7 Oak Ave", "email": "half@example.com"}
    abroad = {"address": "8 Rue Verte", "city": "Laval", "postal_code": "H7A 0A1", "country": "CA"}
    order_id = listed(parts, owner, [person(), half, abroad], mail_class="standard")
    [told] = reasons(parts, order_id)[order_id]
    assert told.startswith("2 of 3 recipients cannot be delivered to, more than 50 %")


def test_doubles_are_delivered_to(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner, [person(), person(), person()])
    assert reasons(parts, order.id) == {}


def test_reserved_names_say_nothing_about_the_rest(parts: Parts, owner: Caller) -> None:
    reserved = [person(name="Test Undeliverable", address=f"{n} Elm St") for n in (1, 2, 3)]
    order = place(parts, owner, [person(), *reserved])
    with parts.db.work() as tx:
        fails = items.c.order_id == order.id, items.c.name == "Test Undeliverable"
        tx.execute(sa.update(items).where(*fails).values(status="Failed", failure=checks.UNDELIVERABLE))
        tx.execute(sa.update(orders).values(n_failed=3, n_processing=1))
    assert reasons(parts, order.id) == {}


def test_an_order_of_which_nothing_is_left_to_print_does_not_wait(
    parts: Parts, owner: Caller, clock: Clock
) -> None:
    order = place(parts, owner, [EMAIL_ALONE])
    assert reasons(parts, order.id) == {}
    clock.advance(seconds=10)
    review.sweep(parts.press, now=parts.clock())
    with parts.db.work() as tx:
        assert order_row(tx, order).status == "fulfilled"


# Return address


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"return_city": None}, "lacks its city:"),
        ({"return_province": " "}, "lacks its state:"),
        ({"return_postal_code": ""}, "lacks its ZIP code:"),
        ({"return_city": None, "return_postal_code": None}, "lacks its city and ZIP code:"),
        ({"return_name": None, "return_address2": None}, None),
        ({"return_address": None}, None),
    ],
)
def test_half_a_return_address_holds_the_order(
    parts: Parts, owner: Caller, columns: dict[str, Any], told: str | None
) -> None:
    order = place(parts, owner)
    change(parts, order, **columns)
    found = reasons(parts, order.id).get(order.id, [])
    assert len(found) == bool(told)
    assert all(told in each for each in found if told)


def test_live_mail_without_a_return_address_is_held(parts: Parts) -> None:
    order = place(parts, open_account(parts, mode="live"))
    change(parts, order, return_address=None)
    assert "no return address" in reasons(parts, order.id)[order.id][0]


# What becomes of it


def test_an_order_that_is_held_says_why_and_keeps_its_money(
    parts: Parts, owner: Caller, clock: Clock
) -> None:
    order = place(parts, owner, message="Hello %COMPANY%!")
    clock.advance(seconds=10)
    review.sweep(parts.press, now=parts.clock())
    with parts.db.work() as tx:
        row = order_row(tx, order)
    assert (row.status, row.order_total, row.n_processing) == ("paused", 109, 1)
    assert (row.warnings, len(row.hold_reasons)) == ([], 1)


def test_the_limits_are_settings(build: Build, clock: Clock) -> None:
    lenient = build(
        review_unfilled_percent=100, review_dpi=0, review_contrast=1, review_undeliverable_percent=100
    )
    assert lenient.press.review == ReviewLimits(
        dpi=0, contrast=1, unfilled_percent=100, undeliverable_percent=100
    )
    order = place(lenient, open_account(lenient), message="Hello %COMPANY%!")
    change(lenient, order, lowest_dpi=1)
    clock.advance(seconds=10)
    review.sweep(lenient.press, now=lenient.clock())
    with lenient.db.work() as tx:
        assert order_row(tx, order).status == "processing"
