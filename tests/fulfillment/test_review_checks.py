"""What the checks at the end of a review find: in an order, and in the prices for where it goes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders, prices
from quillpost.core.errors import Message
from quillpost.fulfillment.models import ReviewLimits
from quillpost.fulfillment.review import queries as review_queries
from quillpost.fulfillment.review.service import find_price_gaps
from quillpost.orders.items.service import MailItemsStatement, StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.products import LETTER
from quillpost.orders.rules import ItemStatus
from quillpost.orders.tasks import materialize_order
from quillpost.recipients.rules import NO_PRICE
from support.factories import Build, Clock, people, person
from support.mailing_lists import make_list, make_order
from support.orders import create_order, end_review, fact_rows, item_ids, item_rows, open_account, order_row
from support.production import LIVE_SETTINGS, only_batch, print_rows, sweep_due_orders
from support.rows import execute, run

pytestmark = pytest.mark.usefixtures("clean_database")

LIMITS = ReviewLimits()
EMAIL_ALONE = {"email": "someone@example.com"}
LONG_NAME = "Maximiliana-Konstantina " * 12
LONG_MESSAGE = "Dear %CUSTOM1|friend%! " * 5


def reasons(container: Container, *order_ids: int, limits: ReviewLimits = LIMITS) -> dict[int, list[Message]]:
    return run(container, review_queries.find_review_reasons, container.renderer, order_ids, limits)


def reason(container: Container, order_id: int, limits: ReviewLimits = LIMITS) -> str | None:
    """The one reason why it waits, if it does."""
    found = reasons(container, order_id, limits=limits).get(order_id, [])
    assert len(found) <= 1
    return str(found[0]) if found else None


def change(container: Container, order: Order, **columns: Any) -> None:
    execute(container, sa.update(orders).where(orders.c.id == order.id).values(**columns))


def listed(container: Container, caller: Caller, whom: Sequence[dict[str, Any]], **values: Any) -> int:
    """An order to a list of these people, who are items already."""
    order_id = make_order(container, caller, make_list(container, caller, whom), **values)
    materialize_order(container.db, order_id, now=container.clock())
    return order_id


def test_each_order_has_its_own_reasons_and_a_good_one_none(container: Container, caller: Caller) -> None:
    good, soft = create_order(container, caller, people(3)), create_order(container, caller)
    empty = create_order(container, caller, message="Hello %COMPANY%!")
    change(container, soft, lowest_dpi=40)
    found = reasons(container, good.id, soft.id, empty.id, listed(container, caller, people(2)))
    assert found.keys() == {soft.id, empty.id}
    assert "40 dpi" in found[soft.id][0]
    assert "%COMPANY%" in found[empty.id][0]


def test_words_that_the_longest_of_a_list_do_not_fit_hold_it(container: Container, caller: Caller) -> None:
    whom = [person(name="Jo"), person(name="Al", address="9 Oak Ave", custom1=LONG_NAME)]
    held = str(reason(container, listed(container, caller, whom, message=LONG_MESSAGE)))
    assert "too long for a 4x6 postcard" in held
    assert "the pieces that do not fit fail" in held
    unmailed = [*people(3), {**EMAIL_ALONE, "custom1": LONG_NAME}]
    assert reason(container, listed(container, caller, unmailed, message=LONG_MESSAGE)) is None
    inline = create_order(container, caller, [person(custom1=LONG_NAME)], message=LONG_MESSAGE)
    assert reason(container, inline.id) is None, "it was looked at when it was sent"


# What it is drawn with


def test_an_order_whose_hand_is_gone_waits_alone(container: Container, caller: Caller, clock: Clock) -> None:
    good, inline = create_order(container, caller), create_order(container, caller)
    gone = [inline.id, listed(container, caller, people(2), message="Dear %FIRST_NAME|friend%!")]
    execute(container, sa.update(orders).where(orders.c.id.in_(gone)).values(style=987))
    found = reasons(container, good.id, *gone)
    assert list(found) == gone
    assert all("handwriting style 987 is no longer installed" in reason for [reason] in found.values())
    sweep_due_orders(container, clock)
    assert [order_row(container, order).status for order in (good, inline)] == ["processing", "paused"]


def test_what_misses_a_part_waits_alone(container: Container, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (listed(container, caller, people(2), message=f"{n} %FIRST_NAME|you%!") for n in (1, 2))
    look_at = container.renderer.find_misfits

    def lacks_a_piece(design: Any, *what: Any, **how: Any) -> Any:
        if design.message.startswith("1"):
            raise KeyError("postcard-4x6")
        return look_at(design, *what, **how)

    monkeypatch.setattr(container.renderer, "find_misfits", lacks_a_piece)
    found = reasons(container, first, second)
    assert found.keys() == {first}
    assert "no longer all installed" in found[first][0]


# Columns of the order


def test_pictures_ink_and_return_addresses_below_the_limits_hold_the_order(
    container: Container, caller: Caller, subtests: pytest.Subtests
) -> None:
    strict, lenient = ReviewLimits(min_dpi=300, min_contrast=3.0), ReviewLimits(min_dpi=0, min_contrast=1.2)
    cases: list[tuple[dict[str, Any], ReviewLimits, str | None]] = [
        *(({"lowest_dpi": dpi}, LIMITS, None) for dpi in (None, 299, 75)),
        *(({"lowest_dpi": dpi}, LIMITS, f"at {dpi} dpi, below the 75") for dpi in (74, 0)),
        ({"lowest_dpi": 74}, replace(LIMITS, min_dpi=74), None), ({"lowest_dpi": 74}, strict, "below the 300"),
        *(({"lowest_contrast": contrast}, LIMITS, None) for contrast in (None, 2.9, 1.7)),
        ({"lowest_contrast": 1.69}, LIMITS, "nearly invisible"), ({"lowest_contrast": 1.2}, lenient, None),
        ({"lowest_contrast": 1.2}, strict, "nearly invisible"), ({"return_city": None}, LIMITS, "lacks its city:"),
        ({"return_province": " "}, LIMITS, "lacks its state:"),
        ({"return_postal_code": ""}, LIMITS, "lacks its ZIP code:"),
        ({"return_city": None, "return_postal_code": None}, LIMITS, "lacks its city and ZIP code:"),
        ({"return_name": None, "return_address2": None}, LIMITS, None), ({"return_address": None}, LIMITS, None),
    ]  # fmt: skip
    for columns, limits, expected in cases:
        with subtests.test(columns=columns, limits=limits):
            order = create_order(container, caller)
            change(container, order, **columns)
            found = reason(container, order.id, limits)
            assert found is None if expected is None else expected in str(found)
    live = create_order(container, open_account(container, "live@example.com", mode="live"))
    change(container, live, return_address=None)
    assert "no return address" in str(reason(container, live.id))


# Variables

GAPS: list[tuple[str, dict[str, Any]]] = [
    ("Hi %LAST_NAME%!", {"name": "Cher"}), ("Hi %LAST_NAME%!", {"name": " Cher  "}), ("Hi %NAME%!", {"name": None}),
    ("Hi %NAME%!", {"name": "   "}), ("You live at %ADDRESS2%", {}), ("Your %CUSTOM10%", {"custom9": "there"}),
    ("Born %DOB%", {}), ("Since %ANNIVERSARY%", {}), ("~EMAIL~", {}), ("%EMAIL|nobody% and %EMAIL%", {}),
    ("From %YOUR_COMPANY%", {}),
]  # fmt: skip
FILLED: list[tuple[str, dict[str, Any]]] = [
    ("Hi %FIRST_NAME%!", {}), ("Hi %COMPANY|friend%!", {}), ("Hi ~COMPANY|friend~", {}), ("Hello!", {}),
    ("Born %DOB|some day%", {}), ("%ZIP% %STATE%", {}), ("Born %DOB%", {"dob": "1990-05-04"}),
]  # fmt: skip


def test_every_variable_without_a_value_is_seen_and_a_fallback_fills_the_gap(
    container: Container, caller: Caller, subtests: pytest.Subtests
) -> None:
    for has_gap, cases in ((True, GAPS), (False, FILLED)):
        for message, known in cases:
            with subtests.test(message=message, known=known):
                order = create_order(container, caller, [person(**known)], message=message)
                assert bool(reason(container, order.id)) is has_gap


def test_too_many_pieces_without_a_value_hold_the_order_and_all_are_named(container: Container, caller: Caller) -> None:
    message = "Hello %COMPANY%!"
    for filled, empty, is_held in ((3, 0, False), (2, 1, False), (2, 2, False), (1, 2, True), (0, 3, True)):
        companies = ["Acme"] * filled + [None] * empty
        whom = [person(address=f"{n} Elm St", company=company) for n, company in enumerate(companies)]
        found = reason(container, create_order(container, caller, whom, message=message).id)
        expected = f"{empty} of {filled + empty} pieces have nothing for %COMPANY%"
        assert expected in str(found) if is_held else found is None
    failed = create_order(container, caller, [person(company="Acme"), EMAIL_ALONE], message=message)
    assert reason(container, failed.id) is None
    whom = [person(company="Acme"), person(address="2 Elm St", custom1="x"), person(address="3 Elm St")]
    order = create_order(container, caller, whom, message="%COMPANY% %CUSTOM1% %CITY%")
    found = str(reason(container, order.id))
    assert found.startswith("3 of 3 pieces have nothing for %COMPANY% or %CUSTOM1%:")
    assert "%COMPANY|friend%" in found


# Deliverability


def test_undeliverable_recipients_but_no_reserved_names_hold_the_order(container: Container, caller: Caller) -> None:
    for good, bad, is_held in ((2, 0, False), (1, 1, False), (1, 2, True)):
        whom = people(good) + [{"email": f"{n}@example.com"} for n in range(bad)]
        found = reason(container, create_order(container, caller, whom).id)
        expected = f"{bad} of {good + bad} recipients cannot be delivered to"
        assert expected in str(found) if is_held else found is None
    doubles = create_order(container, caller, [person(), person(), person()])
    assert reason(container, doubles.id) is None, "doubles are delivered to"
    half = {"address": "7 Oak Ave", "email": "half@example.com"}
    abroad = {"address": "8 Rue Verte", "city": "Laval", "postal_code": "H7A 0A1", "country": "CA"}
    held = str(reason(container, listed(container, caller, [person(), half, abroad], mail_class="standard")))
    assert held.startswith("2 of 3 recipients cannot be delivered to, more than 50 %")
    reserved = [person(name="Test Undeliverable", address=f"{n} Elm St") for n in (1, 2, 3)]
    order = create_order(container, caller, [person(), *reserved])
    fails = items.c.order_id == order.id, items.c.name == "Test Undeliverable"
    failed = {"status": "Failed", "failure": review_queries.UNDELIVERABLE_REASON}
    execute(container, sa.update(items).where(*fails).values(**failed))
    change(container, order, n_failed=3, n_processing=1)
    assert reason(container, order.id) is None


# What becomes of it


def test_an_order_that_is_held_says_why_and_keeps_its_money(container: Container, caller: Caller, clock: Clock) -> None:
    order = create_order(container, caller, message="Hello %COMPANY%!")
    nothing_to_print = create_order(container, caller, [EMAIL_ALONE])
    assert reason(container, nothing_to_print.id) is None
    sweep_due_orders(container, clock)
    row = order_row(container, order)
    assert (row.status, row.order_total, row.n_processing) == ("paused", 109, 1)
    assert (row.warnings, len(row.hold_reasons)) == ([], 1)
    assert order_row(container, nothing_to_print).status == "fulfilled"


def test_the_limits_are_settings(build: Build, clock: Clock) -> None:
    lenient = build(review_unfilled_percent=100, review_dpi=0, review_contrast=1, review_undeliverable_percent=100)
    percents = {"max_unfilled_percent": 100, "max_undeliverable_percent": 100}
    assert lenient.production.review_limits == ReviewLimits(min_dpi=0, min_contrast=1, **percents)
    order = create_order(lenient, open_account(lenient), message="Hello %COMPANY%!")
    change(lenient, order, lowest_dpi=1)
    sweep_due_orders(lenient, clock)
    assert order_row(lenient, order).status == "processing"


S = ItemStatus
CANADA = person(name="Cleo", country="CA", province="ON", city="Ottawa", postal_code="K1A 0B1")
NO_PRICE_IN_FORCE = "No price is in force for Postcard-{} by {} class to {}."


@pytest.fixture
def sender(container: Container) -> Caller:
    return open_account(container, mode="live")


def delete_prices(container: Container, *countries: str, mail_class: str = "first") -> None:
    execute(container, sa.delete(prices).where(prices.c.country.in_(countries), prices.c.mail_class == mail_class))


def gaps(container: Container, *several: Order, on: date | None = None) -> dict[int, list[Message]]:
    return run(container, find_price_gaps, [order.id for order in several], on=on or container.clock().date())


def test_each_destination_without_a_price_of_its_class_and_day_is_named(container: Container, sender: Caller) -> None:
    both = create_order(container, sender, [*people(3), CANADA])
    home, other = create_order(container, sender, people(1)), create_order(container, sender, people(1), size="6x9")
    several = both, home, other, create_order(container, sender, product=LETTER, size="")
    assert gaps(container, *several) == {}
    delete_prices(container, "*")
    abroad, at_home = (NO_PRICE_IN_FORCE.format("4x6", "first", country) for country in ("CA", "US"))
    assert gaps(container, *several) == {both.id: [abroad]}
    delete_prices(container, "US")
    found = gaps(container, both, home, other)
    assert found == {both.id: [abroad, at_home], home.id: [at_home], other.id: [at_home.replace("4x6", "6x9")]}
    failed = [StatusChange(item.id, S.FAILED) for item in item_rows(container, both) if item.country == "CA"]
    run(container, change_item_statuses, failed, now=container.clock())
    assert gaps(container, both) == {both.id: [at_home]}, "a piece that is not made needs no price"
    order = create_order(container, sender, mail_class="standard")
    delete_prices(container, "US", mail_class="standard")
    assert gaps(container, order) == {order.id: [NO_PRICE_IN_FORCE.format("4x6", "standard", "US")]}
    tomorrow = container.clock().date() + timedelta(days=1)
    price = {"type": "postcard", "size": "4x6", "mail_class": "standard", "country": "US", "unit_cents": 1}
    execute(container, sa.insert(prices).values(**price, valid_from=tomorrow))
    assert (list(gaps(container, order)), gaps(container, order, on=tomorrow)) == ([order.id], {})


def test_a_live_order_without_a_price_is_paused_with_the_gap_named(build: Build, clock: Clock) -> None:
    """A piece to abroad, where there is a price for it, carries no barcode."""
    container = build(**LIVE_SETTINGS)
    sender = open_account(container, mode="live")
    order = create_order(container, sender)
    priced = create_order(container, sender, [person(), CANADA], size="6x9")
    execute(container, sa.delete(prices).where(prices.c.size == "4x6"))
    sweep_due_orders(container, clock)
    held = order_row(container, order)
    assert (held.status, held.hold_reasons) == ("paused", [NO_PRICE_IN_FORCE.format("4x6", "first", "US")])
    assert fact_rows(container, order)[-1].current == "paused"
    assert (order_row(container, priced).status, only_batch(container).piece) == ("processing", "postcard-6x9")
    home, abroad = print_rows(container, priced)
    assert (len(home.tracking), abroad.tracking) == (20, None)


def test_testing_mode_prints_without_a_price(container: Container, clock: Clock, caller: Caller) -> None:
    order = create_order(container, caller)
    delete_prices(container, "US", "*")
    sweep_due_orders(container, clock)
    assert order_row(container, order).status == "processing"


# Abroad


def test_on_a_list_first_class_goes_abroad_and_standard_mail_not(container: Container, sender: Caller) -> None:
    standard = make_order(container, sender, make_list(container, sender, [person(), CANADA]), mail_class="standard")
    first = make_order(container, sender, make_list(container, sender, [CANADA]))
    for order_id in (standard, first):
        materialize_order(container.db, order_id, now=container.clock())
    found = item_rows(container, standard)
    assert [(item.country, item.status, item.failure, item.price_cents) for item in found] == [
        ("US", "Processing", None, 94),
        ("CA", "Failed", NO_PRICE.replace("{}", "CA"), 0),
    ]
    assert [(item.status, item.price_cents) for item in item_rows(container, first)] == [("Processing", 219)]


MAIL = MailItemsStatement("select unnest(cast(:pieces as bigint[])) as item_id")


def printed_order(container: Container, sender: Caller, *whom: dict[str, Any]) -> tuple[Order, list[int]]:
    order = create_order(container, sender, whom)
    end_review(container, order)
    pieces = item_ids(container, order)
    move(container, S.PRINTED, *pieces)
    return order, pieces


def move(container: Container, status: S, *pieces: int) -> None:
    day = container.clock().date()
    with container.db.system_transaction() as tx:
        changes = [StatusChange(piece, status, delivery_date=day) for piece in pieces]
        change_item_statuses(tx, changes, now=container.clock())


def mail(container: Container, *pieces: int) -> None:
    run(container, MAIL.run, {"pieces": list(pieces)}, now=container.clock())


def test_an_order_to_abroad_is_fulfilled_once_it_is_mailed(container: Container, sender: Caller) -> None:
    order, pieces = printed_order(container, sender, CANADA, CANADA | {"address": "2 Rideau St"})
    assert (order_row(container, order).status, order_row(container, order).n_over) == ("processing", 0)
    for piece, status, over in zip(pieces, ("processing", "fulfilled"), (1, 2), strict=True):
        mail(container, piece)
        row = order_row(container, order)
        assert (row.status, row.n_over, row.n_mailed, row.n_printed) == (status, over, over, 2)
    statuses = [fact.current for fact in fact_rows(container, order) if fact.kind == "order.status"]
    assert statuses[-2:] == ["mailed", "fulfilled"]


def test_tracking_of_a_piece_to_abroad_stops_at_printed(container: Container, sender: Caller) -> None:
    order, [piece] = printed_order(container, sender, CANADA)
    for is_over in (False, True):
        before = order_row(container, order)
        for later in (S.IN_TRANSIT, S.DELIVERED, S.RETURNED_TO_SENDER):
            move(container, later, piece)
            [item] = item_rows(container, order)
            assert (item.status, item.is_over, item.delivery_date) == ("Printed", is_over, None)
            assert order_row(container, order) == before
        mail(container, piece)


def test_an_order_to_both_ends_with_its_last_piece_at_home(container: Container, sender: Caller) -> None:
    order, [home, abroad] = printed_order(container, sender, person(), CANADA)
    assert order_row(container, order).status == "processing"
    mail(container, home, abroad)
    assert order_row(container, order).status == "mailed"
    move(container, S.DELIVERED, home)
    assert order_row(container, order).status == "fulfilled"
