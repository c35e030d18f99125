"""Pooling: due pieces of one product, class and stock become batches, whoever sent them.

A batch is as large as a press takes at a time, sorted by destination, and every piece of it gets a barcode.
One statement does it, for a single card and for a million.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost import jobs
from quillpost.database import Tx
from quillpost.fulfilment.press import Press
from quillpost.fulfilment.rules import BATCH_BYTES, BATCH_SIZE
from quillpost.fulfilment.serials import take_turns
from quillpost.fulfilment.steps import COMPOSE, POOL, book
from quillpost.ports.worlds import World

log = structlog.get_logger(__name__)

FEW = 1_000
WHEN_SHORT = timedelta(hours=1)
"""How long pieces wait that found no free barcode, before they ask again."""

CLAIM = sa.text(
    """
    select id from orders
     where pool_at <= :now and mode = :mode and status in ('processing', 'printing')
     order by id for no key update skip locked
    """
)

_DUE = """
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

# Where the pictures of one kind are more than a batch should carry, pieces of one look lie together, so that
# each picture is loaded once and a batch ends where it has enough of them; all else is sorted by destination.
# Chunks are contiguous in that order; the number of a chunk says which of the two bounds it has passed how
# often. Batches come out of the insert in the order of their groups.
_POOL = """
    with due as materialized ({due}),
    looks as (
        select l.*, (select coalesce(sum(f.size), 0) from files f where f.id = any(l.look)) as bytes
          from (select piece, mail_class, stock, rush, look, min(id) as first_id
                  from due group by 1, 2, 3, 4, 5) l),
    heavy as (
        select piece, mail_class, stock, rush
          from looks group by 1, 2, 3, 4 having sum(bytes) > :most_bytes),
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
                  + cast(div(greatest(loaded - 1, 0), :most_bytes) as bigint) as chunk
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

POOL_ALL = sa.text(_POOL.replace("{due}", _DUE))
POOL_SOME = sa.text(_POOL.replace("{due}", f"{_DUE} order by o.rush desc, i.order_id, i.id limit :free"))
"""For a mailer who is about to run out of barcodes: those who came first."""

# What comes out of one part of the statement the planner takes for few rows, and would join them one by one.
PLAN_FOR_MANY = sa.text("set local enable_nestloop = off; set local work_mem = '64MB'")
PLAN_AS_USUAL = sa.text("set local enable_nestloop to default; set local work_mem to default")

HOW_MANY = sa.text("select coalesce(sum(n_processing), 0) from orders where id = any(:orders)")

STILL_WAITING = sa.text(
    """
    select id from orders o
     where id = any(:orders) and exists (
           select 1 from items i where i.order_id = o.id and i.status = 'Processing'
              and not exists (select 1 from prints p where p.item_id = i.id))
    """
)

SETTLE = sa.text(
    """
    update orders set pool_at = case when id = any(cast(:waiting as bigint[])) then :later end
     where id = any(:orders)
    """
)


def pool(press: Press, *, now: datetime) -> None:
    """Put every piece whose time has come into a batch. Several at once share the orders between them."""
    for world in press.worlds.values():
        with press.db.work() as tx:
            due = list(tx.execute(CLAIM, {"mode": world.mode, "now": now}).scalars())
            if due and world.gaps:
                # Settings may be missing on this machine alone: another one, or a later start, takes them.
                log.warning("pooling.unready", mode=world.mode, orders=len(due), gaps=world.gaps)
            elif due:
                pool_orders(tx, press.stocks, world, due, now=now)


def pool_orders(
    tx: Tx,
    stocks: dict[str, str],
    world: World,
    order_ids: Sequence[int],
    *,
    size: int = BATCH_SIZE,
    most_bytes: int = BATCH_BYTES,
    now: datetime,
) -> list[int]:
    """The orders' pieces in new batches of at most `size`, sorted by destination; the batches' ids."""
    wanted = int(tx.execute(HOW_MANY, {"orders": list(order_ids)}).scalar_one())
    serials = take_turns(tx, world.mailer_id, wanted=wanted, now=now)
    asked = {
        "orders": list(order_ids),
        "mode": world.mode,
        "pieces": list(stocks),
        "stocks": list(stocks.values()),
        "classes": list(world.service_types),
        "codes": list(world.service_types.values()),
        "mailer_id": world.mailer_id,
        "next_serial": serials.next,
        "free": serials.free,
        "size": size,
        "most_bytes": most_bytes,
        "now": now,
    }
    everyone = wanted <= serials.free
    if wanted > FEW:
        tx.execute(PLAN_FOR_MANY)
    made = tx.execute(POOL_ALL if everyone else POOL_SOME, asked).all()
    for batch in made:
        book(tx, COMPOSE, batch.id, is_urgent=batch.rush)
        log.info("batch.made", batch=batch.id, mode=world.mode)
    _settle(tx, order_ids, now=now)
    tx.execute(PLAN_AS_USUAL)
    return [batch.id for batch in made]


def _settle(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> None:
    """Orders of which every piece has its place wait for nothing more; the others ask again."""
    waiting = list(tx.execute(STILL_WAITING, {"orders": list(order_ids)}).scalars())
    if waiting:
        log.warning("pooling.left_over", orders=len(waiting))
        jobs.wake(tx, POOL, at=now + WHEN_SHORT)
    tx.execute(SETTLE, {"orders": list(order_ids), "waiting": waiting, "later": now + WHEN_SHORT})
