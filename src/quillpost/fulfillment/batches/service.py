"""Creates batches from due items, with their barcode serials."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.tokens import hide_secrets
from quillpost.fulfillment.batches import queries
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ITEMS,
    SERIAL_REUSE_AFTER,
    count_serial_digits,
)
from quillpost.fulfillment.models import COMPOSE, POOL, Environment, ProductionContext, enqueue_step

# Locks the mailer's counter until the transaction ends.
LOCK_MAILER = sa.text("""
    insert into mailers (mailer_id) values (:mailer_id)
    on conflict (mailer_id) do update set mailer_id = excluded.mailer_id
    returning next_serial
""")

LOWEST_SERIAL_IN_USE = sa.text("""
    select min(first_serial) from batches
     where mailer_id = :mailer_id and first_serial is not null
       and (mailed_at is null or mailed_at > :resting_since)
""")


@dataclass(frozen=True, slots=True)
class SerialRange:
    """The mailer's next serial, and how many are free from there; no more than were asked for."""

    next: int
    free: int


def lock_serials(tx: Tx, mailer_id: str, *, count: int, now: datetime) -> SerialRange:
    """Lock the mailer's free serials for this transaction. A caller that uses some advances the counter."""
    next_serial = int(tx.execute(LOCK_MAILER, {"mailer_id": mailer_id}).scalar_one())
    serial_count: int = 10 ** count_serial_digits(mailer_id)
    if next_serial + count <= serial_count:
        return SerialRange(next_serial, count)  # the count has not gone round once: every serial is new
    params = {"mailer_id": mailer_id, "resting_since": now - SERIAL_REUSE_AFTER}
    lowest_in_use = tx.execute(LOWEST_SERIAL_IN_USE, params).scalar()
    in_use = 0 if lowest_in_use is None else next_serial - int(lowest_in_use)
    return SerialRange(next_serial, max(serial_count - in_use, 0))


log = structlog.get_logger(__name__)
SMALL_POOL_ITEMS = 1_000
NO_BARCODE_RETRY = timedelta(hours=1)
CLAIM_ORDERS = sa.text("""
    select id from orders
     where pool_at <= :now and mode = :mode and status in ('processing', 'printing')
     order by id for no key update skip locked
""")

_DUE_ITEMS = """
    select i.id, i.country, coalesce(i.standard[5], i.postal_code) as postal_code,
           o.piece, o.mail_class, o.rush, s.stock,
           array[coalesce(i.front_file_id, o.front_file_id),
                 coalesce(i.background_file_id, o.background_file_id),
                 o.pages_file_id, o.logo_file_id] as look
      from items i
      join orders o on o.id = i.order_id
      join unnest(cast(:pieces as text[]), cast(:stocks as text[])) as s (piece, stock) on s.piece = o.piece
     where i.order_id = any(:orders) and i.status = 'Processing'
       and not exists (select 1 from prints p where p.item_id = i.id)
"""

# Where the images of one group exceed the limit of a batch, items of one design lie together, so that each image is
# loaded once; all else is sorted by destination. Chunks are contiguous in that order; a chunk's number counts how often
# each of the two limits was passed. Batches are inserted in the order of their groups.
_POOL_ITEMS = """
    with due as materialized ({due}),
    looks as (
        select l.*, (select coalesce(sum(f.size), 0) from files f where f.id = any(l.look)) as bytes
          from (select piece, mail_class, stock, rush, look, min(id) as first_id
                  from due group by 1, 2, 3, 4, 5) l),
    heavy as (
        select piece, mail_class, stock, rush
          from looks group by 1, 2, 3, 4 having sum(bytes) > :max_bytes),
    weighed as (
        select d.id, d.country, d.postal_code, d.piece, d.mail_class, d.stock, d.rush,
               case when h.piece is not null then d.look end as look, coalesce(l.bytes, 0) as bytes
          from due d
          left join heavy h using (piece, mail_class, stock, rush)
          left join looks l on l.first_id = d.id and h.piece is not null),
    placed as (
        select *, row_number() over line - 1 as place, sum(bytes) over line as loaded
          from weighed
        window line as (partition by piece, mail_class, stock, rush
                        order by look, country, postal_code, id rows unbounded preceding)),
    ready as materialized (
        select *, place / cast(:size as bigint) * 1000000
                  + cast(div(greatest(loaded - 1, 0), :max_bytes) as bigint) as chunk
          from placed),
    grouped as (
        select *, row_number() over (order by rush desc, piece, mail_class, stock, chunk) as number,
               cast(:next_serial as bigint) - pieces
                   + cast(sum(pieces) over (order by rush desc, piece, mail_class, stock, chunk) as bigint)
                   as first_serial
          from (select piece, mail_class, stock, rush, chunk, count(*) as pieces, min(place) as first_place,
                       bool_or(country = 'US') as has_codes
                  from ready group by 1, 2, 3, 4, 5) g),
    made as (
        insert into batches (mode, piece, mail_class, stock, rush, status, item_count,
                             mailer_id, first_serial, created_at)
        select :mode, piece, mail_class, stock, rush, 'new', pieces,
               cast(:mailer_id as text), case when has_codes then first_serial end, :now
          from grouped order by number
        returning id),
    numbered as (select id, row_number() over (order by id) as number from made),
    printed as (
        insert into prints (batch_id, position, item_id, tracking)
        select n.id, r.place - g.first_place + 1, r.id,
               case when r.country = 'US' then
                   barcode_of(t.code, cast(:mailer_id as text), g.first_serial + r.place - g.first_place) end
          from ready r
          join grouped g using (piece, mail_class, stock, rush, chunk)
          join numbered n using (number)
          join unnest(cast(:classes as text[]), cast(:codes as text[])) as t (mail_class, code)
            on t.mail_class = r.mail_class),
    counted as (
        update mailers set next_serial = next_serial + (select coalesce(sum(pieces), 0) from grouped)
         where mailer_id = :mailer_id)
    select n.id, g.rush from numbered n join grouped g using (number) order by n.id
"""

POOL_ALL = sa.text(_POOL_ITEMS.replace("{due}", _DUE_ITEMS))
POOL_LIMITED = sa.text(_POOL_ITEMS.replace("{due}", f"{_DUE_ITEMS} order by o.rush desc, i.order_id, i.id limit :free"))

# The planner underestimates the rows of a CTE, and would choose a nested loop.
SET_LARGE_PLAN = sa.text("set local enable_nestloop = off; set local work_mem = '64MB'")
RESET_PLAN = sa.text("set local enable_nestloop to default; set local work_mem to default")
COUNT_ITEMS = sa.text("select coalesce(sum(n_processing), 0) from orders where id = any(:orders)")

FIND_UNPOOLED_ORDERS = sa.text("""
    select id from orders o
     where id = any(:orders) and exists (
           select 1 from items i where i.order_id = o.id and i.status = 'Processing'
              and not exists (select 1 from prints p where p.item_id = i.id))
""")

RESCHEDULE_ORDERS = sa.text("""
    update orders set pool_at = case when id = any(cast(:waiting as bigint[])) then :later end
     where id = any(:orders)
""")


def pool_due_orders(production: ProductionContext, *, now: datetime) -> None:
    """Put every due item into a batch. Several workers share the orders."""
    for environment in production.environments.values():
        with production.db.system_transaction() as tx:
            order_ids = list(tx.execute(CLAIM_ORDERS, {"mode": environment.mode, "now": now}).scalars())
            if order_ids and environment.gaps:
                # Settings may be missing on this machine only: another one, or a later start, takes them.
                log.warning(
                    "batches.environment_not_ready", mode=environment.mode, orders=len(order_ids), gaps=environment.gaps
                )
            elif order_ids:
                pool_orders(tx, production.stock_by_product, environment, order_ids, now=now)


def pool_orders(
    tx: Tx,
    stocks: dict[str, str],
    environment: Environment,
    order_ids: Sequence[int],
    *,
    size: int = MAX_BATCH_ITEMS,
    max_bytes: int = MAX_BATCH_BYTES,
    now: datetime,
) -> list[int]:
    """The orders' items in new batches of at most `size`, sorted by destination; the batches' ids."""
    item_count = int(tx.execute(COUNT_ITEMS, {"orders": list(order_ids)}).scalar_one())
    serials = lock_serials(tx, environment.mailer_id, count=item_count, now=now)
    params = {
        "orders": list(order_ids),
        "mode": environment.mode,
        "pieces": list(stocks),
        "stocks": list(stocks.values()),
        "classes": list(environment.service_types),
        "codes": list(environment.service_types.values()),
        "mailer_id": environment.mailer_id,
        "next_serial": serials.next,
        "free": serials.free,
        "size": size,
        "max_bytes": max_bytes,
        "now": now,
    }
    has_enough_serials = item_count <= serials.free
    if item_count > SMALL_POOL_ITEMS:
        tx.execute(SET_LARGE_PLAN)
    new_batches = tx.execute(POOL_ALL if has_enough_serials else POOL_LIMITED, params).all()
    for batch in new_batches:
        enqueue_step(tx, COMPOSE, batch.id, is_urgent=batch.rush)
        log.info("batches.created", batch=batch.id, mode=environment.mode)
    _reschedule_unpooled(tx, order_ids, now=now)
    tx.execute(RESET_PLAN)
    return [batch.id for batch in new_batches]


def _reschedule_unpooled(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> None:
    """Orders whose items are all in batches need no more pooling; the others are retried."""
    unpooled = list(tx.execute(FIND_UNPOOLED_ORDERS, {"orders": list(order_ids)}).scalars())
    if unpooled:
        log.warning("batches.orders_deferred", orders=len(unpooled))
        jobs.enqueue_unique(tx, POOL, at=now + NO_BARCODE_RETRY)
    tx.execute(RESCHEDULE_ORDERS, {"orders": list(order_ids), "waiting": unpooled, "later": now + NO_BARCODE_RETRY})


# With the serials that it was created with, as they are in use: no barcode changes.
SPLIT_BATCH = sa.text("""
    with apart as (
        insert into batches (mode, piece, mail_class, stock, rush, status, item_count, reprint_of, mailer_id,
                             first_serial, trouble, trouble_at, created_at)
        select mode, piece, mail_class, stock, rush, 'new', cardinality(cast(:items as bigint[])), reprint_of,
               mailer_id, first_serial, :trouble, coalesce(trouble_at, :now), :now
          from batches where id = :batch
        returning id),
    moved as (
        update prints p set batch_id = apart.id from apart
         where p.batch_id = :batch and p.item_id = any(cast(:items as bigint[]))),
    counted as (
        update batches set item_count = item_count - cardinality(cast(:items as bigint[])) where id = :batch)
    select id from apart
""")


def split_batch(
    tx: Tx, production: ProductionContext, batch: ProductionBatch, item_ids: Sequence[int], error: str, *, now: datetime
) -> int | None:
    """Move these items to a new batch that shows the error; None where they are all there is, so the batch itself
    waits. The caller has locked the batch and its orders; none of the items has ended."""
    queries.remove_ended_items(tx, batch.id)
    if queries.read_batch(tx, batch.id).item_count == len(item_ids):
        return None
    params = {"batch": batch.id, "items": list(item_ids), "trouble": hide_secrets(error), "now": now}
    new_batch_id = int(tx.execute(SPLIT_BATCH, params).scalar_one())
    enqueue_step(
        tx, COMPOSE, new_batch_id, at=now + production.environments[batch.mode].poll_interval, is_urgent=batch.rush
    )
    return new_batch_id


# Some items of an order that found too few barcodes are already in a batch.
COUNT_WAITING = sa.text("""
    select o.pool_at, count(distinct o.id) as orders, count(*) as pieces
      from orders o
      join items i on i.order_id = o.id and i.status = 'Processing'
     where o.pool_at > :now and o.mode = :mode
       and not exists (select 1 from prints p where p.item_id = i.id)
     group by o.pool_at order by o.pool_at
""")

# Uses the orders' own counters: one of them may have a million items. An order that found too few barcodes also counts
# those in a batch that is not printed yet.
COUNT_WAITING_BY_PRODUCT = sa.text("""
    select piece, mail_class, rush, min(pool_at) as until, count(*) as orders, sum(n_processing) as pieces
      from (select piece, mail_class, rush, pool_at, n_processing from orders
             where pool_at is not null and mode = :mode order by pool_at limit :most) o
     group by piece, mail_class, rush order by min(pool_at), piece, mail_class, rush
""")
MAX_ORDERS = 5_000


@dataclass(frozen=True, slots=True)
class WaitingOrders:
    until: datetime
    orders: int
    pieces: int


def list_waiting_orders(tx: Tx, mode: str, *, now: datetime) -> list[WaitingOrders]:
    """By the time they wait for, the next one first."""
    rows = tx.execute(COUNT_WAITING, {"mode": mode, "now": now})
    return [WaitingOrders(row.pool_at, row.orders, row.pieces) for row in rows]


@dataclass(frozen=True, slots=True)
class WaitingProduct:
    """`until` is that of the first."""

    piece: str
    mail_class: str
    rush: bool
    until: datetime
    orders: int
    pieces: int


@dataclass(frozen=True, slots=True)
class PoolingBacklog:
    products: list[WaitingProduct]

    @property
    def orders(self) -> int:
        return sum(product.orders for product in self.products)

    @property
    def pieces(self) -> int:
        return sum(product.pieces for product in self.products)

    @property
    def until(self) -> datetime | None:
        return min((product.until for product in self.products), default=None)

    @property
    def is_more(self) -> bool:
        return self.orders >= MAX_ORDERS


def read_pooling_backlog(tx: Tx, mode: str) -> PoolingBacklog:
    """The next orders to be pooled; reads `MAX_ORDERS` at most."""
    rows = tx.execute(COUNT_WAITING_BY_PRODUCT, {"mode": mode, "most": MAX_ORDERS})
    return PoolingBacklog([WaitingProduct(**row._mapping) for row in rows])
