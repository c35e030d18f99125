"""Live mail without a price in force for its destination waits; what goes abroad ends when it is printed."""

from datetime import date, timedelta

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, prices
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
from support.production import LIVE_SETTINGS, batch_rows, print_rows, sweep_due_orders

S = ItemStatus
CANADA = person(name="Cleo", country="CA", province="ON", city="Ottawa", postal_code="K1A 0B1")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container, mode="live")


def delete_prices(container: Container, *countries: str, mail_class: str = "first") -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(prices).where(prices.c.country.in_(countries), prices.c.mail_class == mail_class))


def gaps(container: Container, *several: Order, on: date | None = None) -> dict[int, list[Message]]:
    with container.db.system_transaction() as tx:
        return find_price_gaps(tx, [order.id for order in several], on=on or container.clock().date())


def test_where_every_destination_has_a_price_there_is_no_gap(container: Container, owner: Caller) -> None:
    letter = create_order(container, owner, product=LETTER, size="")
    assert gaps(container, create_order(container, owner, [*people(2), CANADA]), letter) == {}


def test_each_destination_without_a_price_is_named_once(container: Container, owner: Caller) -> None:
    both = create_order(container, owner, [*people(3), CANADA])
    home, other = create_order(container, owner, people(1)), create_order(container, owner, people(1), size="6x9")
    delete_prices(container, "*")
    assert gaps(container, both, home, other) == {
        both.id: ["No price is in force for Postcard-4x6 by first class to CA."]
    }
    delete_prices(container, "US")
    assert gaps(container, both, home, other) == {
        both.id: [
            "No price is in force for Postcard-4x6 by first class to CA.",
            "No price is in force for Postcard-4x6 by first class to US.",
        ],
        home.id: ["No price is in force for Postcard-4x6 by first class to US."],
        other.id: ["No price is in force for Postcard-6x9 by first class to US."],
    }


def test_a_price_of_another_class_or_of_a_later_day_is_none(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, mail_class="standard")
    delete_prices(container, "US", mail_class="standard")
    assert gaps(container, order) == {order.id: ["No price is in force for Postcard-4x6 by standard class to US."]}
    today = container.clock().date()
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.insert(prices).values(
                type="postcard", size="4x6", mail_class="standard", country="US", unit_cents=1,
                valid_from=today + timedelta(days=1),
            )
        )  # fmt: skip
    assert list(gaps(container, order)) == [order.id]
    assert gaps(container, order, on=today + timedelta(days=1)) == {}


def test_a_piece_that_is_not_made_needs_no_price(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, [person(), CANADA])
    delete_prices(container, "*")
    with container.db.system_transaction() as tx:
        abroad = tx.execute(sa.select(items.c.id).where(items.c.country == "CA")).scalar_one()
        change_item_statuses(tx, [StatusChange(abroad, S.FAILED)], now=container.clock())
    assert gaps(container, order) == {}


def test_a_live_order_without_a_price_is_paused_with_the_gap_named(build: Build, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS)
    owner = open_account(container, mode="live")
    order, priced = create_order(container, owner), create_order(container, owner, size="6x9")
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(prices).where(prices.c.size == "4x6"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        held, made = order_row(tx, order), order_row(tx, priced)
        assert (held.status, held.hold_reasons) == (
            "paused",
            ["No price is in force for Postcard-4x6 by first class to US."],
        )
        assert fact_rows(tx, order)[-1].current == "paused"
        assert made.status == "processing"
        assert [batch.piece for batch in batch_rows(tx)] == ["postcard-6x9"]


def test_testing_mode_prints_without_a_price(container: Container, clock: Clock) -> None:
    order = create_order(container, open_account(container))
    delete_prices(container, "US", "*")
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).status == "processing"


# Abroad


def test_on_a_list_standard_mail_goes_to_nobody_abroad(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, [person(), CANADA]), mail_class="standard")
    materialize_order(container.db, order_id, now=container.clock())
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.select(items).where(items.c.order_id == order_id).order_by(items.c.id)).all()
    assert [(item.country, item.status, item.failure, item.price_cents) for item in found] == [
        ("US", "Processing", None, 94),
        ("CA", "Failed", NO_PRICE.replace("{}", "CA"), 0),
    ]


def test_on_a_list_first_class_goes_abroad_at_the_price_for_there(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, [CANADA]))
    materialize_order(container.db, order_id, now=container.clock())
    with container.db.system_transaction() as tx:
        item = tx.execute(sa.select(items).where(items.c.order_id == order_id)).one()
    assert (item.status, item.price_cents) == ("Processing", 219)


def test_a_piece_to_abroad_carries_no_barcode(build: Build, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS)
    order = create_order(container, open_account(container, mode="live"), [person(), CANADA])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        home, abroad = print_rows(tx, order)
    assert (len(home.tracking), abroad.tracking) == (20, None)


MAIL = MailItemsStatement("select unnest(cast(:pieces as bigint[])) as item_id")


def test_an_order_to_abroad_is_fulfilled_once_it_is_mailed(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, [CANADA, CANADA | {"address": "2 Rideau St"}])
    end_review(container, order)
    with container.db.system_transaction() as tx:
        first, second = item_ids(tx, order)
        change_item_statuses(
            tx, [StatusChange(first, S.PRINTED), StatusChange(second, S.PRINTED)], now=container.clock()
        )
        assert (order_row(tx, order).status, order_row(tx, order).n_over) == ("processing", 0)
        for piece, status, over in ((first, "processing", 1), (second, "fulfilled", 2)):
            MAIL.run(tx, {"pieces": [piece]}, now=container.clock())
            row = order_row(tx, order)
            assert (row.status, row.n_over, row.n_mailed, row.n_printed) == (status, over, over, 2)
        statuses = [fact.current for fact in fact_rows(tx, order) if fact.kind == "order.status"]
        assert statuses[-2:] == ["mailed", "fulfilled"]


@pytest.mark.parametrize("later", [S.IN_TRANSIT, S.DELIVERED, S.RETURNED_TO_SENDER])
def test_tracking_of_a_piece_to_abroad_stops_at_printed(container: Container, owner: Caller, later: ItemStatus) -> None:
    order = create_order(container, owner, [CANADA])
    end_review(container, order)
    with container.db.system_transaction() as tx:
        [piece] = item_ids(tx, order)
        change_item_statuses(tx, [StatusChange(piece, S.PRINTED)], now=container.clock())
        for is_over in (False, True):
            before = order_row(tx, order)
            change_item_statuses(
                tx, [StatusChange(piece, later, delivery_date=container.clock().date())], now=container.clock()
            )
            [item] = item_rows(tx, order)
            assert (item.status, item.is_over, item.delivery_date) == ("Printed", is_over, None)
            assert order_row(tx, order) == before
            MAIL.run(tx, {"pieces": [piece]}, now=container.clock())


def test_an_order_to_both_ends_with_its_last_piece_at_home(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, [person(), CANADA])
    end_review(container, order)
    with container.db.system_transaction() as tx:
        home, abroad = item_ids(tx, order)
        change_item_statuses(
            tx, [StatusChange(home, S.PRINTED), StatusChange(abroad, S.PRINTED)], now=container.clock()
        )
        assert order_row(tx, order).status == "processing"
        MAIL.run(tx, {"pieces": [home, abroad]}, now=container.clock())
        assert order_row(tx, order).status == "mailed"
        change_item_statuses(
            tx, [StatusChange(home, S.DELIVERED, delivery_date=container.clock().date())], now=container.clock()
        )
        assert order_row(tx, order).status == "fulfilled"
