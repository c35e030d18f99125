"""How due pieces become batches: kinds, sizes, order, barcodes, cut-off, rush."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import files, items, orders
from quillpost.core.database.tables.fulfillment import batches, mailers, prints
from quillpost.core.errors import Message, Refused
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches.rules import SERIAL_REUSE_AFTER, next_cutoff
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.orders.models import Order
from support import production
from support.factories import Build, Clock, people, person
from support.orders import create_order, item_rows, open_account, order_row
from support.production import batch_items, batch_rows, print_rows, sweep_due_orders, with_environment
from support.rows import execute, run, scalar

pytestmark = pytest.mark.usefixtures("clean_database")


def pool(container: Container, *several: Order, **how: Any) -> list[int]:
    with container.db.system_transaction() as tx:
        return production.create_batches(container, tx, *several, **how)


def orders_in(container: Container, batch_id: int) -> list[Order]:
    return list(run(container, fulfillment_queries.read_batch_orders, batch_id))


def test_small_orders_of_many_accounts_share_a_batch(container: Container, clock: Clock, caller: Caller) -> None:
    stranger = open_account(container, "stranger@example.com")
    several = [create_order(container, sender) for sender in (caller, stranger, caller)]
    sweep_due_orders(container, clock)
    batch = production.only_batch(container)
    assert (batch.piece, batch.mail_class, batch.item_count) == ("postcard-4x6", "first", 3)
    assert batch.stock == container.renderer.products["postcard-4x6"].stock
    assert {order_row(container, order).status for order in several} == {"processing"}
    assert production.enqueued_steps(container) == [("fulfillment.compose_batch", {"batch_id": batch.id})]


def test_a_batch_is_of_one_product_and_class(container: Container, clock: Clock, caller: Caller) -> None:
    for size in ("4x6", "6x9"):
        for mail_class in ("first", "standard"):
            create_order(container, caller, people(2), size=size, mail_class=mail_class)
    sweep_due_orders(container, clock)
    made = batch_rows(container)
    for batch in made:
        inside = orders_in(container, batch.id)
        assert [(f"postcard-{o.size}", o.mail_class) for o in inside] == [(batch.piece, batch.mail_class)]
        assert batch.item_count == len(batch_items(container, batch.id)) == 2
    assert len(made) == 4


def test_pieces_lie_by_zip_code_and_the_refused_in_no_batch(container: Container, clock: Clock, caller: Caller) -> None:
    zips = ["90210", "10001-0002", "78701", "10001"]
    for n, code in enumerate(zips):
        create_order(container, caller, [person(address=f"{n} Main St", postal_code=code)])
    order = create_order(container, caller, [person(postal_code="99999"), {"email": "jane@example.com"}])
    sweep_due_orders(container, clock)
    inside = batch_items(container, production.only_batch(container).id)
    assert [piece.postal_code for piece in inside.values()] == sorted([*zips, "99999"])
    mailed, refused = item_rows(container, order)
    assert [printed.item_id for printed in print_rows(container, order)] == [mailed.id]
    assert refused.status == "Failed"


def test_a_large_order_is_split_and_each_piece_has_one_place(container: Container, caller: Caller) -> None:
    order, other = create_order(container, caller, people(7)), create_order(container, caller, people(2), size="6x9")
    made = pool(container, order, other, size=3)
    found = batch_rows(container)
    assert [(row.piece, row.item_count) for row in found] == [
        ("postcard-4x6", 3), ("postcard-4x6", 3), ("postcard-4x6", 1), ("postcard-6x9", 2),
    ]  # fmt: skip
    assert made == [row.id for row in found]
    for row in found:
        assert list(batch_items(container, row.id)) == list(range(1, row.item_count + 1))
    assert pool(container, order, other) == [], "there is nothing left"
    twice = {"batch_id": made[0], "position": 9, "edition": 0, "superseded": False}
    with pytest.raises(sa.exc.IntegrityError):
        execute(container, sa.insert(prints).values(**twice, item_id=item_rows(container, order)[0].id))


def test_two_poolings_at_once_share_the_orders(container: Container, caller: Caller) -> None:
    first, second = create_order(container, caller), create_order(container, caller)
    execute(container, sa.update(orders).values(status="processing", pool_at=container.clock()))
    params = {"mode": "test", "now": container.clock()}
    with container.db.system_transaction() as one, container.db.system_transaction() as other:
        one.execute(sa.select(orders).where(orders.c.id == first.id).with_for_update(key_share=True))
        assert list(other.execute(batch_service.CLAIM_ORDERS, params).scalars()) == [second.id]


# Barcodes


def test_barcodes_say_class_mailer_and_serial(container: Container, caller: Caller, subtests: pytest.Subtests) -> None:
    for mail_class, service_type in (("first", "310"), ("standard", "311")):
        for mailer_id in ("999999", "123456789"):
            with subtests.test(mail_class=mail_class, mailer_id=mailer_id):
                order = create_order(container, caller, people(20), mail_class=mail_class)
                pool(with_environment(container, mailer_id=mailer_id), order)
                codes = [piece.tracking for piece in print_rows(container, order)]
                assert len(set(codes)) == 20
                assert all(len(code) == 20 and code.isdigit() for code in codes)
                assert all(code.startswith(f"00{service_type}{mailer_id}") for code in codes)


def test_full_service_has_codes_of_its_own_and_test_mail_batches_of_its_own(build: Build, clock: Clock) -> None:
    container = build(**production.LIVE_SETTINGS, full_service=True)
    caller = open_account(container, mode="live")
    sent = {mail_class: create_order(container, caller, mail_class=mail_class) for mail_class in ("first", "standard")}
    create_order(container, replace(caller, mode="test"))
    sweep_due_orders(container, clock)
    codes = {mail_class: print_rows(container, order)[0].tracking for mail_class, order in sent.items()}
    assert codes["first"].startswith("00270123456789")
    assert codes["standard"].startswith("00271123456789")
    assert sorted(batch.mode for batch in batch_rows(container)) == ["live", "live", "test"]


def test_a_mailer_has_a_count_that_goes_round_and_mail_abroad_no_barcode(container: Container, caller: Caller) -> None:
    one, other = create_order(container, caller), create_order(container, caller)
    abroad = create_order(container, caller, [person(country="CA", province="ON", postal_code="K1A 0B1")])
    pool(with_environment(container, mailer_id="111111"), one)
    pool(with_environment(container, mailer_id="222222"), other)
    codes = [print_rows(container, order)[0].tracking for order in (one, other)]
    assert ([code[:11] for code in codes], codes[0][11:]) == (["00310111111", "00310222222"], codes[1][11:])
    pool(container, abroad)
    assert [printed.tracking for printed in print_rows(container, abroad)] == [None]
    assert batch_rows(container)[-1].first_serial is None
    order = create_order(container, caller, people(4))
    execute(container, sa.insert(mailers).values(mailer_id=LONG, next_serial=999_998))
    pool(with_environment(container, mailer_id=LONG), order)
    codes = [printed.tracking[-6:] for printed in print_rows(container, order)]
    assert codes == ["999998", "999999", "000000", "000001"]


LONG = "123456789"
"""A mailer id that leaves a million serials."""


@pytest.mark.parametrize(
    ("mailed_ago", "pooled"),
    [(None, 3), (SERIAL_REUSE_AFTER - timedelta(days=1), 3), (SERIAL_REUSE_AFTER + timedelta(days=1), 5)],
)
def test_a_serial_is_given_again_only_long_after_it_was_mailed(
    container: Container, caller: Caller, mailed_ago: timedelta | None, pooled: int
) -> None:
    order, now = create_order(container, caller, people(5)), container.clock()
    in_the_mail = {
        "mode": "test", "piece": "postcard-4x6", "mail_class": "first", "status": "mailed", "item_count": 1,
        "mailer_id": LONG, "first_serial": 500_003, "created_at": now,
        "mailed_at": None if mailed_ago is None else now - mailed_ago,
    }  # fmt: skip
    execute(container, sa.insert(mailers).values(mailer_id=LONG, next_serial=1_500_000))
    execute(container, sa.insert(batches).values(**in_the_mail))
    execute(container, sa.update(orders).values(status="processing", pool_at=now))
    pool(with_environment(container, mailer_id=LONG), order)
    assert len(print_rows(container, order)) == pooled
    # Those who found none wait, and ask again.
    assert order_row(container, order).pool_at == (None if pooled == 5 else now + batch_service.NO_BARCODE_RETRY)


# What waits, and what does not


@pytest.mark.parametrize(
    ("now", "pooled"),
    [
        ("2026-05-04T15:59:00", "2026-05-04T16:00:00"),
        ("2026-05-04T16:00:00", "2026-05-04T16:00:00"),
        ("2026-05-04T16:00:01", "2026-05-05T16:00:00"),
        ("2026-03-07T16:00:01", "2026-03-08T16:00:00"),  # the clocks go forward that night
    ],
)
def test_the_cutoff_is_a_local_time_of_the_print_shop(now: str, pooled: str) -> None:
    zone = ZoneInfo("America/New_York")
    local = [datetime.fromisoformat(text).replace(tzinfo=zone) for text in (now, pooled)]
    assert next_cutoff(local[0].astimezone(UTC), time(16), zone) == local[1]


def test_orders_of_a_day_are_pooled_together_at_the_cut_off(container: Container, clock: Clock, caller: Caller) -> None:
    here = with_environment(container, cutoff=(container.clock() + timedelta(hours=2)).time())
    several = [create_order(here, caller) for _ in range(3)]
    sweep_due_orders(here, clock)
    assert batch_rows(container) == []
    assert {order_row(container, order).status for order in several} == {"processing"}
    clock.advance(hours=3)
    batch_service.pool_due_orders(here.production, now=clock.now())
    assert production.only_batch(container).item_count == 3


def late(container: Container) -> Container:
    return with_environment(container, cutoff=(container.clock() - timedelta(hours=1)).time())


def rush(container: Container, *order_ids: int, mode: str = "test") -> list[int]:
    now = container.clock()
    return print_room_service.rush_orders(container.db, mode, order_ids, operator_id=None, now=now)


def test_a_rushed_order_waits_for_nothing_and_goes_first(container: Container, clock: Clock, caller: Caller) -> None:
    here = late(container)
    patient, hasty = create_order(here, caller), create_order(here, caller)
    assert rush(here, hasty.id) == [hasty.id]
    sweep_due_orders(here, clock)
    batch = production.only_batch(container)
    assert batch.rush
    assert [order.id for order in orders_in(container, batch.id)] == [hasty.id]
    assert scalar(container, "select priority from procrastinate_jobs where args ? 'batch_id'") > 0
    assert order_row(container, patient).pool_at > clock.now()
    # One that waits for the cut-off already can still be rushed, once.
    assert [rush(here, patient.id, hasty.id), rush(here, patient.id)] == [[patient.id], []]
    batch_service.pool_due_orders(here.production, now=clock.now())
    assert [batch.rush for batch in batch_rows(container)] == [True, True]


def test_unknown_orders_and_those_of_another_mode_are_not_rushed(container: Container, caller: Caller) -> None:
    order = create_order(container, caller)
    with pytest.raises(Refused, match=rf"^There is no order {order.id}\.$"):
        rush(container, order.id, mode="live")
    unknown = order.id + 999
    for several in ([order.id, unknown], [unknown, order.id], [unknown], [unknown, unknown - 1]):
        with pytest.raises(Refused, match=rf"^There is no order {unknown}\.$"):
            rush(container, *several)
    assert not order_row(container, order).rush


def test_the_print_room_need_not_wait_for_the_cut_off(container: Container, clock: Clock, caller: Caller) -> None:
    here = late(container)
    order = create_order(here, caller)
    sweep_due_orders(here, clock)
    assert print_room_service.pool_orders_now(here.db, "live", now=clock.now()) == 0
    assert print_room_service.pool_orders_now(here.db, "test", now=clock.now()) == 1
    batch_service.pool_due_orders(here.production, now=clock.now())
    assert production.only_batch(container).item_count == 1
    assert rush(here, order.id) == [], "all of it is in a batch"


def test_more_orders_than_a_statement_takes_are_pooled_and_others_wait(container: Container, caller: Caller) -> None:
    order, now = create_order(container, caller), container.clock()
    execute(container, sa.update(orders).values(status="processing", pool_at=now))
    environment, stock = container.environments["test"], container.production.stock_by_product
    ids = [*range(order.id, order.id + 70_000)]
    assert len(run(container, batch_service.pool_orders, stock, environment, ids, now=now)) == 1
    assert order_row(container, order).pool_at is None
    order, now = create_order(container, caller), container.clock()
    execute(container, sa.update(orders).values(status="processing", pool_at=now, piece="poster"))
    assert pool(container, order) == []
    assert order_row(container, order).pool_at == now + batch_service.NO_BARCODE_RETRY


def test_a_machine_that_is_not_ready_pools_nothing(build: Build, clock: Clock) -> None:
    """Settings may be missing on one of several machines: the others see to it."""
    container = build(**production.LIVE_SETTINGS)
    order = create_order(container, open_account(container, mode="live"))
    here = with_environment(container, "live", cutoff=(clock.now() - timedelta(hours=1)).time())
    sweep_due_orders(here, clock)
    clock.advance(days=1)
    unready = with_environment(container, "live", gaps=(Message("mailer_id", "No mailer id."),), mailer_id="")
    batch_service.pool_due_orders(unready.production, now=clock.now())
    assert batch_rows(container) == []
    assert order_row(container, order).pool_at is not None
    batch_service.pool_due_orders(here.production, now=clock.now())
    assert len(batch_rows(container)) == 1


# Pictures


def own_picture(tx: Tx, caller: Caller, container: Container, size: int) -> Any:
    number = uuid4()
    tx.execute(
        sa.insert(files).values(
            id=number, account_id=caller.account_id, purpose="front", key=f"files/{number}", size=size,
            content_type="image/png", sha256=number.bytes, created_at=container.clock(),
        )
    )  # fmt: skip
    return number


def front_of(tx: Tx, order: Order, picture: Any) -> None:
    tx.execute(sa.update(orders).where(orders.c.id == order.id).values(front_file_id=picture))


def test_a_batch_holds_no_more_pictures_than_a_printer_can_load(container: Container, caller: Caller) -> None:
    several = [create_order(container, caller, people(2)) for _ in range(6)]
    with container.db.system_transaction() as tx:
        for order in several:
            front_of(tx, order, own_picture(tx, caller, container, 40))
    made = pool(container, *several, max_bytes=100)
    assert all(len(orders_in(container, batch)) <= 3 for batch in made)  # two pictures fit, and one is begun
    assert sum(len(batch_items(container, batch)) for batch in made) == 12
    assert 2 < len(made) < 6


def test_a_shared_picture_is_loaded_once_and_pieces_own_are_parted(container: Container, caller: Caller) -> None:
    several = [create_order(container, caller) for _ in range(6)]
    parted = create_order(container, caller, people(6))
    with container.db.system_transaction() as tx:
        shared = own_picture(tx, caller, container, 90)
        for order in several:
            front_of(tx, order, shared)
        for item in item_rows(tx, parted):
            own = own_picture(tx, caller, container, 50)
            tx.execute(sa.update(items).where(items.c.id == item.id).values(front_file_id=own))
    assert len(pool(container, *several, max_bytes=100)) == 1
    assert [len(batch_items(container, batch)) for batch in pool(container, parted, max_bytes=100)] == [2, 2, 2]
