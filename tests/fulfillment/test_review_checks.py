"""What the checks at the end of a review find, and what they let pass."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Message
from quillpost.fulfillment.models import ReviewLimits
from quillpost.fulfillment.review import queries as review_queries
from quillpost.fulfillment.review import service as review_service
from quillpost.orders.models import Order
from quillpost.orders.tasks import materialize_order
from support.factories import Build, Clock, people, person
from support.list_rows import make_list, make_order
from support.orders import create_order, open_account, order_row

LIMITS = ReviewLimits()
EMAIL_ALONE = {"email": "someone@example.com"}


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def reasons(container: Container, *order_ids: int, limits: ReviewLimits = LIMITS) -> dict[int, list[Message]]:
    with container.db.system_transaction() as tx:
        return review_queries.find_review_reasons(tx, container.renderer, order_ids, limits)


def change(container: Container, order: Order, **columns: Any) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == order.id).values(**columns))


def listed(container: Container, caller: Caller, whom: Sequence[dict[str, Any]], **values: Any) -> int:
    """An order to a list of these people, who are items already."""
    order_id = make_order(container, caller, make_list(container, caller, whom), **values)
    materialize_order(container.db, order_id, now=container.clock())
    return order_id


def test_a_good_order_has_no_reason_to_wait(container: Container, owner: Caller) -> None:
    good = create_order(container, owner, people(3))
    assert reasons(container, good.id, listed(container, owner, people(2))) == {}


def test_each_order_has_its_own_reasons(container: Container, owner: Caller) -> None:
    good, soft = create_order(container, owner), create_order(container, owner)
    empty = create_order(container, owner, message="Hello %COMPANY%!")
    change(container, soft, lowest_dpi=40)
    found = reasons(container, good.id, soft.id, empty.id)
    assert found.keys() == {soft.id, empty.id}
    assert "40 dpi" in found[soft.id][0]
    assert "%COMPANY%" in found[empty.id][0]


# Fit


LONG_NAME = "Maximiliana-Konstantina " * 12


def test_words_that_the_longest_of_a_list_do_not_fit_hold_it(container: Container, owner: Caller) -> None:
    whom = [person(name="Jo"), person(name="Al", address="9 Oak Ave", custom1=LONG_NAME)]
    message = "Dear %CUSTOM1|friend%! " * 5
    [reason] = reasons(container, held := listed(container, owner, whom, message=message))[held]
    assert "too long for a 4x6 postcard" in reason
    assert "the pieces that do not fit fail" in reason


def test_only_mailed_people_matter_for_the_fit(container: Container, owner: Caller) -> None:
    whom = [*people(3), {**EMAIL_ALONE, "custom1": LONG_NAME}]
    assert reasons(container, listed(container, owner, whom, message="Dear %CUSTOM1|friend%! " * 5)) == {}


def test_inline_people_were_looked_at_when_they_were_sent(container: Container, owner: Caller) -> None:
    inline = create_order(container, owner, [person(custom1=LONG_NAME)], message="Dear %CUSTOM1|friend%! " * 5)
    assert reasons(container, inline.id) == {}


# What it is drawn with


def test_an_order_whose_hand_is_gone_waits_alone(container: Container, owner: Caller, clock: Clock) -> None:
    good, inline = create_order(container, owner), create_order(container, owner)
    of_list = listed(container, owner, people(2), message="Dear %FIRST_NAME|friend%!")
    for order_id in (inline.id, of_list):
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(orders).where(orders.c.id == order_id).values(style=987))
    found = reasons(container, good.id, inline.id, of_list)
    assert found.keys() == {inline.id, of_list}
    assert all("handwriting style 987 is no longer installed" in reason for [reason] in found.values())
    clock.advance(seconds=10)
    review_service.sweep_due_orders(container.production, now=container.clock())
    with container.db.system_transaction() as tx:
        assert [order_row(tx, order).status for order in (good, inline)] == ["processing", "paused"]


def test_an_order_of_which_something_else_is_gone_waits_alone(
    container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (listed(container, owner, people(2), message=f"{n} %FIRST_NAME|you%!") for n in (1, 2))
    look_at = container.renderer.find_misfits

    def lacks_a_piece(design: Any, *what: Any, **how: Any) -> Any:
        if design.message.startswith("1"):
            raise KeyError("postcard-4x6")
        return look_at(design, *what, **how)

    monkeypatch.setattr(container.renderer, "find_misfits", lacks_a_piece)
    found = reasons(container, first, second)
    assert found.keys() == {first}
    assert "no longer all installed" in found[first][0]


# Resolution


@pytest.mark.parametrize(("dpi", "is_held"), [(None, False), (299, False), (75, False), (74, True), (0, True)])
def test_a_picture_below_the_limit_holds_the_order(
    container: Container, owner: Caller, dpi: int | None, is_held: bool
) -> None:
    order = create_order(container, owner)
    change(container, order, lowest_dpi=dpi)
    found = reasons(container, order.id)
    assert bool(found) is is_held
    assert not is_held or f"at {dpi} dpi, below the 75" in found[order.id][0]


def test_the_limit_of_the_resolution_is_a_setting(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    change(container, order, lowest_dpi=74)
    assert reasons(container, order.id, limits=replace(LIMITS, min_dpi=74)) == {}
    assert reasons(container, order.id, limits=replace(LIMITS, min_dpi=300)) != {}


# Ink


@pytest.mark.parametrize(("contrast", "is_held"), [(None, False), (2.9, False), (1.7, False), (1.69, True)])
def test_ink_below_the_limit_holds_the_order(
    container: Container, owner: Caller, contrast: float | None, is_held: bool
) -> None:
    order = create_order(container, owner)
    change(container, order, lowest_contrast=contrast)
    found = reasons(container, order.id)
    assert bool(found) is is_held
    assert not is_held or "nearly invisible" in found[order.id][0]


def test_the_limit_of_the_contrast_is_a_setting(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    change(container, order, lowest_contrast=1.2)
    assert reasons(container, order.id, limits=replace(LIMITS, min_contrast=1.2)) == {}
    assert reasons(container, order.id, limits=replace(LIMITS, min_contrast=3.0)) != {}


# Variables


@pytest.mark.parametrize(
    ("filled", "empty", "is_held"), [(3, 0, False), (2, 1, False), (2, 2, False), (1, 2, True), (0, 3, True)]
)
def test_too_many_pieces_without_a_value_hold_the_order(
    container: Container, owner: Caller, filled: int, empty: int, is_held: bool
) -> None:
    whom = [
        person(address=f"{n} Elm St", company="Acme" if n <= filled else None) for n in range(1, filled + empty + 1)
    ]
    order = create_order(container, owner, whom, message="Hello %COMPANY%!")
    found = reasons(container, order.id)
    assert bool(found) is is_held
    assert not is_held or f"{empty} of {filled + empty} pieces have nothing for %COMPANY%" in found[order.id][0]


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
    container: Container, owner: Caller, message: str, lacks: dict[str, Any]
) -> None:
    order = create_order(container, owner, [person(**lacks)], message=message)
    has_gap = "FIRST_NAME" not in message
    assert bool(reasons(container, order.id)) is has_gap


@pytest.mark.parametrize(
    "message", ["Hi %COMPANY|friend%!", "Hi ~COMPANY|friend~", "Born %DOB|some day%", "Hello!", "%ZIP% %STATE%"]
)
def test_a_fallback_fills_the_gap(container: Container, owner: Caller, message: str) -> None:
    assert reasons(container, create_order(container, owner, message=message).id) == {}


def test_a_date_is_a_value(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, [person(dob="1990-05-04")], message="Born %DOB%")
    assert reasons(container, order.id) == {}


def test_failed_pieces_are_not_checked(container: Container, owner: Caller) -> None:
    whom = [person(company="Acme"), EMAIL_ALONE]
    assert reasons(container, create_order(container, owner, whom, message="Hello %COMPANY%!").id) == {}


def test_all_variables_without_a_value_are_named(container: Container, owner: Caller) -> None:
    whom = [person(company="Acme"), person(address="2 Elm St", custom1="x"), person(address="3 Elm St")]
    order = create_order(container, owner, whom, message="%COMPANY% %CUSTOM1% %CITY%")
    [reason] = reasons(container, order.id)[order.id]
    assert reason.startswith("3 of 3 pieces have nothing for %COMPANY% or %CUSTOM1%:")
    assert "%COMPANY|friend%" in reason


# Deliverability


@pytest.mark.parametrize(("good", "bad", "is_held"), [(2, 0, False), (1, 1, False), (1, 2, True)])
def test_too_many_undeliverable_recipients_hold_the_order(
    container: Container, owner: Caller, good: int, bad: int, is_held: bool
) -> None:
    whom = people(good) + [{"email": f"{n}@example.com"} for n in range(bad)]
    order = create_order(container, owner, whom)
    found = reasons(container, order.id)
    assert bool(found) is is_held
    assert not is_held or f"{bad} of {good + bad} recipients cannot be delivered to" in found[order.id][0]


def test_half_addresses_of_a_list_and_those_without_a_price_count(container: Container, owner: Caller) -> None:
    half = {"address": "7 Oak Ave", "email": "half@example.com"}
    abroad = {"address": "8 Rue Verte", "city": "Laval", "postal_code": "H7A 0A1", "country": "CA"}
    order_id = listed(container, owner, [person(), half, abroad], mail_class="standard")
    [reason] = reasons(container, order_id)[order_id]
    assert reason.startswith("2 of 3 recipients cannot be delivered to, more than 50 %")


def test_doubles_are_delivered_to(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, [person(), person(), person()])
    assert reasons(container, order.id) == {}


def test_reserved_names_say_nothing_about_the_rest(container: Container, owner: Caller) -> None:
    reserved = [person(name="Test Undeliverable", address=f"{n} Elm St") for n in (1, 2, 3)]
    order = create_order(container, owner, [person(), *reserved])
    with container.db.system_transaction() as tx:
        fails = items.c.order_id == order.id, items.c.name == "Test Undeliverable"
        tx.execute(sa.update(items).where(*fails).values(status="Failed", failure=review_queries.UNDELIVERABLE_REASON))
        tx.execute(sa.update(orders).values(n_failed=3, n_processing=1))
    assert reasons(container, order.id) == {}


def test_an_order_of_which_nothing_is_left_to_print_does_not_wait(
    container: Container, owner: Caller, clock: Clock
) -> None:
    order = create_order(container, owner, [EMAIL_ALONE])
    assert reasons(container, order.id) == {}
    clock.advance(seconds=10)
    review_service.sweep_due_orders(container.production, now=container.clock())
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).status == "fulfilled"


# Return address


@pytest.mark.parametrize(
    ("columns", "reason"),
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
    container: Container, owner: Caller, columns: dict[str, Any], reason: str | None
) -> None:
    order = create_order(container, owner)
    change(container, order, **columns)
    found = reasons(container, order.id).get(order.id, [])
    assert len(found) == bool(reason)
    assert all(reason in each for each in found if reason)


def test_live_mail_without_a_return_address_is_held(container: Container) -> None:
    order = create_order(container, open_account(container, mode="live"))
    change(container, order, return_address=None)
    assert "no return address" in reasons(container, order.id)[order.id][0]


# What becomes of it


def test_an_order_that_is_held_says_why_and_keeps_its_money(container: Container, owner: Caller, clock: Clock) -> None:
    order = create_order(container, owner, message="Hello %COMPANY%!")
    clock.advance(seconds=10)
    review_service.sweep_due_orders(container.production, now=container.clock())
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
    assert (row.status, row.order_total, row.n_processing) == ("paused", 109, 1)
    assert (row.warnings, len(row.hold_reasons)) == ([], 1)


def test_the_limits_are_settings(build: Build, clock: Clock) -> None:
    lenient = build(review_unfilled_percent=100, review_dpi=0, review_contrast=1, review_undeliverable_percent=100)
    assert lenient.production.review_limits == ReviewLimits(
        min_dpi=0, min_contrast=1, max_unfilled_percent=100, max_undeliverable_percent=100
    )
    order = create_order(lenient, open_account(lenient), message="Hello %COMPANY%!")
    change(lenient, order, lowest_dpi=1)
    clock.advance(seconds=10)
    review_service.sweep_due_orders(lenient.production, now=lenient.clock())
    with lenient.db.system_transaction() as tx:
        assert order_row(tx, order).status == "processing"
