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
from support.factories import Clock, people, person
from support.orders import create_order, item_rows, open_account, order_row
from support.production import LIVE_SETTINGS, batch_rows, create_batches, enqueued_steps, print_rows, sweep_due_orders


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def with_environment(container: Container, mode: str = "test", **changes: Any) -> Container:
    """The same service in a world that differs."""
    environments = dict(container.environments) | {mode: replace(container.environments[mode], **changes)}
    return replace(
        container, environments=environments, production=replace(container.production, environments=environments)
    )


def test_small_orders_of_many_accounts_share_a_batch(container: Container, clock: Clock, owner: Caller) -> None:
    stranger = open_account(container, "stranger@example.com")
    several = [create_order(container, caller) for caller in (owner, stranger, owner)]
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        assert (batch.piece, batch.mail_class, batch.item_count) == ("postcard-4x6", "first", 3)
        assert batch.stock == container.renderer.products["postcard-4x6"].stock
        assert {order_row(tx, order).status for order in several} == {"processing"}
        assert enqueued_steps(tx) == [("fulfillment.compose_batch", {"batch_id": batch.id})]


def test_a_batch_is_of_one_product_class_and_mode(container: Container, clock: Clock, owner: Caller) -> None:
    for size in ("4x6", "6x9"):
        for mail_class in ("first", "standard"):
            create_order(container, owner, people(2), size=size, mail_class=mail_class)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        made = batch_rows(tx)
        for batch in made:
            inside = fulfillment_queries.read_batch_orders(tx, batch.id)
            assert [(f"postcard-{o.size}", o.mail_class) for o in inside] == [(batch.piece, batch.mail_class)]
            assert batch.item_count == len(fulfillment_queries.read_batch_items(tx, batch.id)) == 2
    assert len(made) == 4


def test_test_and_live_never_share_a_batch(build: Any, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS)
    caller = open_account(container, mode="live")
    create_order(container, caller)
    create_order(container, replace(caller, mode="test"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        assert sorted(batch.mode for batch in batch_rows(tx)) == ["live", "test"]


def test_pieces_lie_in_the_order_of_their_zip_codes(container: Container, clock: Clock, owner: Caller) -> None:
    zips = ["90210", "10001-0002", "78701", "10001"]
    for n, code in enumerate(zips):
        create_order(container, owner, [person(address=f"{n} Main St", postal_code=code)])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        assert [piece.postal_code for piece in fulfillment_queries.read_batch_items(tx, batch.id).values()] == sorted(
            zips
        )


def test_a_large_order_is_split_and_every_piece_has_its_place(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, [*people(7)])
    other = create_order(container, owner, people(2), size="6x9")
    with container.db.system_transaction() as tx:
        made = create_batches(container, tx, order, other, size=3)
        rows = batch_rows(tx)
        assert [(row.piece, row.item_count) for row in rows] == [
            ("postcard-4x6", 3), ("postcard-4x6", 3), ("postcard-4x6", 1), ("postcard-6x9", 2),
        ]  # fmt: skip
        assert made == [row.id for row in rows]
        for row in rows:
            assert list(fulfillment_queries.read_batch_items(tx, row.id)) == list(range(1, row.item_count + 1))


def test_pooling_again_finds_nothing(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, people(2))
    with container.db.system_transaction() as tx:
        assert len(create_batches(container, tx, order)) == 1
        assert create_batches(container, tx, order) == []


def test_the_database_itself_refuses_a_piece_twice(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    with container.db.system_transaction() as tx:
        [batch_id] = create_batches(container, tx, order)
        [item] = item_rows(tx, order)
    twice = {"batch_id": batch_id, "position": 2, "item_id": item.id, "edition": 0, "superseded": False}
    with pytest.raises(sa.exc.IntegrityError), container.db.system_transaction() as tx:
        tx.execute(sa.insert(prints).values(**twice))


def test_two_poolings_at_once_share_the_orders(container: Container, owner: Caller) -> None:
    first, second = create_order(container, owner), create_order(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(status="processing", pool_at=container.clock()))
    params = {"mode": "test", "now": container.clock()}
    with container.db.system_transaction() as one, container.db.system_transaction() as other:
        one.execute(sa.select(orders).where(orders.c.id == first.id).with_for_update(key_share=True))
        assert list(other.execute(batch_service.CLAIM_ORDERS, params).scalars()) == [second.id]


# Barcodes


@pytest.mark.parametrize(("mail_class", "service_type"), [("first", "310"), ("standard", "311")])
@pytest.mark.parametrize("mailer_id", ["999999", "123456789"])
def test_a_barcode_says_class_mailer_and_a_number_of_its_own(
    container: Container, owner: Caller, mail_class: str, service_type: str, mailer_id: str
) -> None:
    order = create_order(container, owner, people(20), mail_class=mail_class)
    with container.db.system_transaction() as tx:
        create_batches(with_environment(container, mailer_id=mailer_id), tx, order)
        codes = [piece.tracking for piece in print_rows(tx, order)]
    assert len(set(codes)) == 20
    for code in codes:
        assert len(code) == 20
        assert code.isdigit()
        assert code.startswith(f"00{service_type}{mailer_id}")


@pytest.mark.parametrize(("mail_class", "service_type"), [("first", "270"), ("standard", "271")])
def test_full_service_has_codes_of_its_own(build: Any, clock: Clock, mail_class: str, service_type: str) -> None:
    container = build(**LIVE_SETTINGS, full_service=True)
    order = create_order(container, open_account(container, mode="live"), mail_class=mail_class)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [printed] = print_rows(tx, order)
    assert printed.tracking.startswith(f"00{service_type}123456789")


def test_every_mailer_has_a_count_of_its_own(container: Container, owner: Caller) -> None:
    one, other = create_order(container, owner), create_order(container, owner)
    with container.db.system_transaction() as tx:
        create_batches(with_environment(container, mailer_id="111111"), tx, one)
        create_batches(with_environment(container, mailer_id="222222"), tx, other)
        codes = [print_rows(tx, order)[0].tracking for order in (one, other)]
    assert [code[:11] for code in codes] == ["00310111111", "00310222222"]
    assert codes[0][11:] == codes[1][11:]


def test_mail_abroad_carries_no_barcode(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner, [person(country="CA", province="ON", postal_code="K1A 0B1")])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        assert [printed.tracking for printed in print_rows(tx, order)] == [None]
        assert [batch.first_serial for batch in batch_rows(tx)] == [None]


LONG = "123456789"
"""A mailer id that leaves a million serials."""


def counted_to(tx: Tx, next_serial: int) -> None:
    tx.execute(sa.insert(mailers).values(mailer_id=LONG, next_serial=next_serial))


def test_a_count_that_goes_round_starts_again_at_zero(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, people(4))
    with container.db.system_transaction() as tx:
        counted_to(tx, 999_998)
        create_batches(with_environment(container, mailer_id=LONG), tx, order)
        codes = [printed.tracking[-6:] for printed in print_rows(tx, order)]
    assert codes == ["999998", "999999", "000000", "000001"]


def in_the_mail(tx: Tx, container: Container, *, first_serial: int, mailed_ago: timedelta | None) -> None:
    """A batch of that mailer which took its serials from there on."""
    tx.execute(
        sa.insert(batches).values(
            mode="test", piece="postcard-4x6", mail_class="first", status="mailed", item_count=1,
            mailer_id=LONG, first_serial=first_serial, created_at=container.clock(),
            mailed_at=None if mailed_ago is None else container.clock() - mailed_ago,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mailed_ago", "pooled"),
    [(None, 3), (SERIAL_REUSE_AFTER - timedelta(days=1), 3), (SERIAL_REUSE_AFTER + timedelta(days=1), 5)],
)
def test_no_serial_returns_before_its_time(
    container: Container, owner: Caller, mailed_ago: timedelta | None, pooled: int
) -> None:
    order = create_order(container, owner, people(5))
    here = with_environment(container, mailer_id=LONG)
    with container.db.system_transaction() as tx:
        counted_to(tx, 1_500_000)
        in_the_mail(tx, container, first_serial=500_003, mailed_ago=mailed_ago)
        tx.execute(sa.update(orders).values(status="processing", pool_at=container.clock()))
        create_batches(here, tx, order)
        assert len(print_rows(tx, order)) == pooled
        # Those who found none wait, and ask again.
        waits_until = order_row(tx, order).pool_at
        assert waits_until == (None if pooled == 5 else container.clock() + batch_service.NO_BARCODE_RETRY)


# What waits, and what does not


def test_refused_recipients_are_in_no_batch(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner, [person(), {"email": "jane@example.com"}])
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        mailed, refused = item_rows(tx, order)
        assert [printed.item_id for printed in print_rows(tx, order)] == [mailed.id]
        assert refused.status == "Failed"


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


def test_small_orders_of_a_day_are_pooled_together_at_the_cut_off(
    container: Container, clock: Clock, owner: Caller
) -> None:
    cutoff = (container.clock() + timedelta(hours=2)).time()
    here = with_environment(container, cutoff=cutoff)
    for _ in range(3):
        create_order(here, owner)
        sweep_due_orders(here, clock)
    with container.db.system_transaction() as tx:
        assert batch_rows(tx) == []
        assert {row.status for row in tx.execute(sa.select(orders))} == {"processing"}
    clock.advance(hours=3)
    batch_service.pool_due_orders(here.production, now=clock.now())
    with container.db.system_transaction() as tx:
        assert [batch.item_count for batch in batch_rows(tx)] == [3]


def late(container: Container) -> Container:
    return with_environment(container, cutoff=(container.clock() - timedelta(hours=1)).time())


def test_a_rushed_order_waits_for_nothing_and_goes_first(container: Container, clock: Clock, owner: Caller) -> None:
    here = late(container)
    patient, hasty = create_order(here, owner), create_order(here, owner)
    assert print_room_service.rush_orders(here.db, "test", [hasty.id], operator_id=None, now=clock.now()) == [hasty.id]
    sweep_due_orders(here, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        assert batch.rush
        assert [order.id for order in fulfillment_queries.read_batch_orders(tx, batch.id)] == [hasty.id]
        priority = sa.text("select priority from procrastinate_jobs where args ? 'batch_id'")
        assert tx.execute(priority).scalar_one() > 0
        assert order_row(tx, patient).pool_at > clock.now()


def test_an_order_that_waits_for_the_cut_off_can_be_rushed(container: Container, clock: Clock, owner: Caller) -> None:
    here = late(container)
    order = create_order(here, owner)
    sweep_due_orders(here, clock)
    for again in ([order.id], []):
        assert print_room_service.rush_orders(here.db, "test", [order.id], operator_id=None, now=clock.now()) == again
    batch_service.pool_due_orders(here.production, now=clock.now())
    with container.db.system_transaction() as tx:
        assert [batch.rush for batch in batch_rows(tx)] == [True]


def test_unknown_orders_and_those_of_another_mode_are_not_rushed(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order = create_order(container, owner)
    with pytest.raises(Refused, match=rf"^There is no order {order.id}\.$"):
        print_room_service.rush_orders(container.db, "live", [order.id], operator_id=None, now=clock.now())
    for unknown in ([order.id, 999], [999, order.id], [999], [999, 998]):
        with pytest.raises(Refused, match=r"^There is no order 999\.$"):
            print_room_service.rush_orders(container.db, "test", unknown, operator_id=None, now=clock.now())
    with container.db.system_transaction() as tx:
        assert not order_row(tx, order).rush


def test_the_print_room_need_not_wait_for_the_cut_off(container: Container, clock: Clock, owner: Caller) -> None:
    here = late(container)
    create_order(here, owner)
    sweep_due_orders(here, clock)
    assert print_room_service.pool_orders_now(here.db, "live", now=clock.now()) == 0
    assert print_room_service.pool_orders_now(here.db, "test", now=clock.now()) == 1
    batch_service.pool_due_orders(here.production, now=clock.now())
    with container.db.system_transaction() as tx:
        assert len(batch_rows(tx)) == 1


def test_more_orders_than_a_statement_has_parameters_are_pooled(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(status="processing", pool_at=container.clock()))
        ids = [*range(order.id, order.id + 70_000)]
        environment = container.environments["test"]
        made = batch_service.pool_orders(
            tx, container.production.stock_by_product, environment, ids, now=container.clock()
        )
        assert len(made) == 1
        assert order_row(tx, order).pool_at is None


def test_pieces_of_a_product_that_is_unknown_here_are_not_forgotten(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(status="processing", pool_at=container.clock(), piece="poster"))
        assert create_batches(container, tx, order) == []
        assert order_row(tx, order).pool_at == container.clock() + batch_service.NO_BARCODE_RETRY


def test_a_machine_that_is_not_ready_pools_nothing(build: Any, clock: Clock) -> None:
    """Settings may be missing on one of several machines: the others see to it."""
    container = build(**LIVE_SETTINGS)
    order = create_order(container, open_account(container, mode="live"))
    here = with_environment(container, "live", cutoff=(clock.now() - timedelta(hours=1)).time())
    sweep_due_orders(here, clock)
    clock.advance(days=1)
    batch_service.pool_due_orders(
        with_environment(container, "live", gaps=(Message("mailer_id", "No mailer id."),), mailer_id="").production,
        now=clock.now(),
    )
    with container.db.system_transaction() as tx:
        assert batch_rows(tx) == []
        assert order_row(tx, order).pool_at is not None
    batch_service.pool_due_orders(here.production, now=clock.now())
    with container.db.system_transaction() as tx:
        assert len(batch_rows(tx)) == 1


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


def test_a_batch_holds_no_more_pictures_than_a_printer_can_load(container: Container, owner: Caller) -> None:
    several = [create_order(container, owner, people(2)) for _ in range(6)]
    with container.db.system_transaction() as tx:
        for order in several:
            front_of(tx, order, own_picture(tx, owner, container, 40))
        made = create_batches(container, tx, *several, max_bytes=100)
        inside = [{order.id for order in fulfillment_queries.read_batch_orders(tx, batch)} for batch in made]
        assert all(len(each) <= 3 for each in inside)  # two pictures fit, and one is begun
        assert sum(len(fulfillment_queries.read_batch_items(tx, batch)) for batch in made) == 12
        assert 2 < len(made) < 6


def test_orders_that_share_a_picture_share_a_batch(container: Container, owner: Caller) -> None:
    several = [create_order(container, owner) for _ in range(6)]
    with container.db.system_transaction() as tx:
        shared = own_picture(tx, owner, container, 90)
        for order in several:
            front_of(tx, order, shared)
        assert len(create_batches(container, tx, *several, max_bytes=100)) == 1


def test_pieces_with_pictures_of_their_own_are_parted_too(container: Container, owner: Caller) -> None:
    order = create_order(container, owner, people(6))
    with container.db.system_transaction() as tx:
        for item in item_rows(tx, order):
            own = own_picture(tx, owner, container, 50)
            tx.execute(sa.update(items).where(items.c.id == item.id).values(front_file_id=own))
        made = create_batches(container, tx, order, max_bytes=100)
        assert [len(fulfillment_queries.read_batch_items(tx, batch)) for batch in made] == [2, 2, 2]
