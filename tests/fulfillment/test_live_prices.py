"""Live mail without a price in force for its destination waits; what goes abroad ends when it is printed."""

from datetime import date, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import prices
from quillpost.core.errors import Message
from quillpost.fulfillment.review.service import find_price_gaps
from quillpost.orders.items.service import MailItemsStatement, StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.products import LETTER
from quillpost.orders.rules import ItemStatus
from quillpost.orders.tasks import materialize_order
from quillpost.recipients.rules import NO_PRICE
from support.factories import Build, Clock, people, person
from support.list_rows import make_list, make_order
from support.orders import create_order, end_review, fact_rows, item_ids, item_rows, open_account, order_row
from support.production import LIVE_SETTINGS, only_batch, print_rows, sweep_due_orders
from support.rows import execute

pytestmark = pytest.mark.usefixtures("clean_database")

S = ItemStatus
CANADA = person(name="Cleo", country="CA", province="ON", city="Ottawa", postal_code="K1A 0B1")
NO_PRICE_IN_FORCE = "No price is in force for Postcard-{} by {} class to {}."


@pytest.fixture
def sender(container: Container) -> Caller:
    return open_account(container, mode="live")


def delete_prices(container: Container, *countries: str, mail_class: str = "first") -> None:
    execute(container, sa.delete(prices).where(prices.c.country.in_(countries), prices.c.mail_class == mail_class))


def gaps(container: Container, *several: Order, on: date | None = None) -> dict[int, list[Message]]:
    with container.db.system_transaction() as tx:
        return find_price_gaps(tx, [order.id for order in several], on=on or container.clock().date())


def test_each_destination_without_a_price_is_named_once(container: Container, sender: Caller) -> None:
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
    with container.db.system_transaction() as tx:
        change_item_statuses(tx, failed, now=container.clock())
    assert gaps(container, both) == {both.id: [at_home]}, "a piece that is not made needs no price"


def test_a_price_of_another_class_or_of_a_later_day_is_none(container: Container, sender: Caller) -> None:
    order = create_order(container, sender, mail_class="standard")
    delete_prices(container, "US", mail_class="standard")
    assert gaps(container, order) == {order.id: [NO_PRICE_IN_FORCE.format("4x6", "standard", "US")]}
    tomorrow = container.clock().date() + timedelta(days=1)
    price = {"type": "postcard", "size": "4x6", "mail_class": "standard", "country": "US", "unit_cents": 1}
    execute(container, sa.insert(prices).values(**price, valid_from=tomorrow))
    assert list(gaps(container, order)) == [order.id]
    assert gaps(container, order, on=tomorrow) == {}


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


def test_on_a_list_first_class_goes_abroad_at_the_price_for_there_and_standard_mail_to_nobody(
    container: Container, sender: Caller
) -> None:
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
    with container.db.system_transaction() as tx:
        MAIL.run(tx, {"pieces": list(pieces)}, now=container.clock())


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
