"""SQL of carrier scans, by the chunk in temporary tables, and carrier activity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from quillpost.core.database import Tx, driver_connection
from quillpost.fulfillment.models import Environment
from quillpost.fulfillment.tracking.rules import PHASES, Scan, scan_digest
from quillpost.orders.queries import lock_orders_of_items
from quillpost.orders.rules import ItemStatus

FORWARDED_PHASES = ", ".join(f"'{phase}'" for phase, status in PHASES.items() if status is ItemStatus.RE_ROUTED)

STATUS_RANKS: Mapping[ItemStatus, int] = {
    ItemStatus.PROCESSING: 0,
    ItemStatus.PRINTED: 1,
    ItemStatus.IN_TRANSIT: 2,
    ItemStatus.IN_LOCAL_AREA: 3,
    ItemStatus.PROCESSED_FOR_DELIVERY: 4,
    ItemStatus.RE_ROUTED: 90,
    ItemStatus.DELIVERED: 98,
    ItemStatus.RETURNED_TO_SENDER: 99,
    ItemStatus.FAILED: 99,
}
"""Below `RE_ROUTED_RANK` it is the usual order, above are final statuses."""
RE_ROUTED_RANK = STATUS_RANKS[ItemStatus.RE_ROUTED]
STATUS_RANK_VALUES = ", ".join(f"('{status}', {far})" for status, far in STATUS_RANKS.items())
PHASE_VALUES = ", ".join(
    f"('{phase}', '{status}', {STATUS_RANKS[status]})"
    for phase, status in PHASES.items()
    if STATUS_RANKS[status] < RE_ROUTED_RANK
)

CREATE_TEMP_TABLES = sa.text("""
    set local work_mem = '64MB';
    create temp table scan_chunk (
        digest bytea, tracking text, phase text, at timestamptz, raw jsonb, place text,
        target text, day date, reason text) on commit drop;
    create temp table scan_seen (
        digest bytea, item_id bigint, target text, day date, reason text, at timestamptz, place text)
        on commit drop;
    create temp table scan_steps (
        item_id bigint, target text, day date, reason text, at timestamptz, place text,
        previous text, round integer) on commit drop
""")
COPY_SCANS = "copy scan_chunk (digest, tracking, phase, at, raw, place, target, day, reason) from stdin"

# A barcode may be reused after 45 days: a scan belongs to the item whose batch was newest at its time, with a day's
# tolerance for carriers' clocks; the order may be a year older. Not to void prints, nor to a batch that no printer was
# given. Sorted, so that two reports of the same scans lock in the same order.
INSERT_SCANS = sa.text("""
    with kept as (
        insert into carrier_scans (digest, tracking, phase, scanned_at, raw, place, received_at, item_id)
        select distinct on (s.digest)
               s.digest, s.tracking, s.phase, s.at, s.raw, s.place, :now,
               case when b.id is not null and not p.superseded then p.item_id end
          from scan_chunk s
          left join prints p on p.tracking = s.tracking
          left join batches b on b.id = p.batch_id and b.handed_at is not null
                            and b.created_at <= s.at + interval '1 day'
         order by s.digest, b.created_at desc nulls last, b.id desc
        on conflict (digest) do nothing
        returning digest, item_id),
    noted as (
        insert into scan_seen (digest, item_id, target, day, reason, at, place)
        select k.digest, k.item_id, s.target, s.day, s.reason, s.at, s.place
          from kept k join scan_chunk s on s.digest = k.digest
         where k.item_id is not null and s.target is not null)
    select count(*) as new, count(item_id) as ours from kept
""")

# So that what is read of the orders' items stays true.
LOCK_ORDERS = lock_orders_of_items("select item_id from scan_seen")

# Only what advances an item: of five scans in one status the first. In a tie the lower rank comes first. An inferred
# delivery may turn out to be a return.
INSERT_STEPS = sa.text(f"""
    with looked as materialized (
        select s.*, i.status as previous, i.is_mailed, i.delivery_inferred, far.rank,
               case when i.delivery_inferred then {STATUS_RANKS[ItemStatus.DELIVERED]}
                    when stood.rank > {RE_ROUTED_RANK} then 100 else stood.rank end as stood,
               i.status = 'Re-routed' or exists (
                   select 1 from carrier_scans c
                    where c.item_id = s.item_id and c.phase in ({FORWARDED_PHASES})) as is_rerouted
          from scan_seen s
          join items i on i.id = s.item_id
          join (values {STATUS_RANK_VALUES}) as far (status, rank) on far.status = s.target
          join (values {STATUS_RANK_VALUES}) as stood (status, rank) on stood.status = i.status),
    ahead as (
        select *, max(rank) over (partition by item_id order by at, rank
                                  rows between unbounded preceding and 1 preceding) as reached
          from looked where not is_rerouted),
    stepped as (
        insert into scan_steps (item_id, target, day, reason, at, place, previous, round)
        select item_id, target, day, reason, at, place, previous,
               row_number() over (partition by item_id order by at, rank)
          from ahead where rank > greatest(reached, stood))
    select coalesce(bool_or(previous = 'Processing'), false) as unprinted,
           coalesce(bool_or(not is_mailed), false) as unmailed,
           coalesce(bool_or(is_rerouted), false) as is_rerouted,
           coalesce(bool_or(delivery_inferred), false) as inferred
      from looked
""")

# A re-routed item starts again from its latest re-routing: earlier scans no longer count, later ones that were already
# known are applied again. A re-routing that is reported late changes nothing where the item has come as far again
# since.
INSERT_REROUTED_STEPS = sa.text(f"""
    with looked as materialized (
        select i.id as item_id, i.status as previous, stood.rank as stood, s.new_turn,
               (select max(c.scanned_at) from carrier_scans c
                 where c.item_id = i.id and c.phase in ({FORWARDED_PHASES})
                   and not exists (select 1 from scan_seen n where n.digest = c.digest)) as old_turn
          from (select item_id, max(at) filter (where target = 'Re-routed') as new_turn
                  from scan_seen group by item_id) s
          join items i on i.id = s.item_id
          join (values {STATUS_RANK_VALUES}) as stood (status, rank) on stood.status = i.status
         where i.status = 'Re-routed' or exists (
                   select 1 from carrier_scans c where c.item_id = i.id and c.phase in ({FORWARDED_PHASES}))),
    since as materialized (
        select l.item_id, m.status as target, c.scanned_at as at, c.place, m.rank
          from looked l
          join carrier_scans c on c.item_id = l.item_id and c.scanned_at > l.new_turn
          join (values {PHASE_VALUES}) as m (phase, status, rank) on m.phase = c.phase
         where l.new_turn > coalesce(l.old_turn, '-infinity')
           and not exists (select 1 from scan_seen n where n.digest = c.digest)),
    known as (
        select l.*, coalesce(l.old_turn, '-infinity') as old,
               l.new_turn is not null and l.new_turn > coalesce(l.old_turn, '-infinity')
               and not exists (select 1 from since s where s.item_id = l.item_id and s.rank >= l.stood)
                   as is_turned
          from looked l),
    steps as (
        select s.item_id, s.target, s.day, s.reason, s.at, s.place, k.previous, far.rank
          from known k
          join scan_seen s on s.item_id = k.item_id
          join (values {STATUS_RANK_VALUES}) as far (status, rank) on far.status = s.target
         where far.rank > {RE_ROUTED_RANK}
            or k.is_turned and s.at > k.old
            or not k.is_turned and far.rank < {RE_ROUTED_RANK} and s.at > greatest(k.old, k.new_turn)
        union all
        select s.item_id, s.target, null, null, s.at, s.place, k.previous, s.rank
          from since s join known k on k.item_id = s.item_id and k.is_turned)
    insert into scan_steps (item_id, target, day, reason, at, place, previous, round)
    select item_id, target, day, reason, at, place, previous,
           row_number() over (partition by item_id order by at, rank)
      from steps
""")
LAST_ROUND = sa.text("select coalesce(max(round), 0) from scan_steps")

# An inferred delivery that is now seen: the date is corrected, without another event.
CONFIRM_DELIVERIES = sa.text("""
    update items i set delivery_inferred = false, delivery_date = s.day, updated_at = :now
      from (select item_id, min(day) as day from scan_seen where target = 'Delivered' group by item_id) s
     where i.id = s.item_id and i.status = 'Delivered' and i.delivery_inferred
""")
COUNT_MOVED = sa.text("""
    select i.status, count(*) as n
      from (select distinct item_id, previous from scan_steps) s join items i on i.id = s.item_id
     where i.status <> s.previous group by i.status
""")


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Whether some items were not printed or mailed yet, or had inferred deliveries."""

    unprinted: bool
    unmailed: bool
    inferred: bool
    rounds: int


def insert_scans(tx: Tx, scans: Iterable[Scan], *, now: datetime) -> tuple[int, int]:
    """Store new scans, each with its item; how many are new, and how many of those have an item."""
    connection = driver_connection(tx)
    tx.execute(CREATE_TEMP_TABLES)
    with connection.cursor() as cursor, cursor.copy(COPY_SCANS) as copy:
        copy.write("".join(map(_copy_row, {scan_digest(scan): scan for scan in scans}.items())))
    connection.execute("analyze scan_chunk (digest, tracking)")
    row = tx.execute(INSERT_SCANS, {"now": now}).one()
    return row.new, row.ours


def plan_moves(tx: Tx) -> MovePlan:
    """Sort the steps into rounds: each item's first step, then the second ones."""
    driver_connection(tx).execute("analyze scan_seen (item_id)")
    tx.execute(LOCK_ORDERS)
    summary = tx.execute(INSERT_STEPS).one()
    if summary.is_rerouted:
        tx.execute(INSERT_REROUTED_STEPS)
    driver_connection(tx).execute("analyze scan_steps (item_id, round)")
    return MovePlan(summary.unprinted, summary.unmailed, summary.inferred, tx.execute(LAST_ROUND).scalar_one())


def count_moved(tx: Tx) -> dict[ItemStatus, int]:
    return {ItemStatus(row.status): row.n for row in tx.execute(COUNT_MOVED)}


def _copy_row(keyed_scan: tuple[bytes, Scan]) -> str:
    """A row in the text format of COPY."""
    digest_bytes, scan = keyed_scan
    status = PHASES.get(scan.phase)
    # The carrier's local day.
    day = scan.at.date().isoformat() if status is ItemStatus.DELIVERED else NULL
    # PostgreSQL refuses offsets of more than 16 hours, or with fractions of a second.
    at = scan.at.astimezone(UTC).isoformat()
    return (
        f"\\\\x{digest_bytes.hex()}\t{scan.tracking}\t{_copy_cell(scan.phase)}\t{at}\t{_copy_cell(scan.raw)}"
        f"\t{_copy_cell(scan.location)}\t{status or NULL}\t{day}\t{_copy_cell(scan.reason)}\n"
    )


NULL = "\\N"


def _copy_cell(text: str | None) -> str:
    if text is None:
        return NULL
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\n" in text or "\t" in text or "\r" in text:
        text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text


MAX_RECENT_SCANS = 10_000
SILENT_AFTER = timedelta(days=3)  # without a scan of any mailed item

# A barcode holds the mailer id after its first five digits.
READ_RECENT_SCANS = sa.text("""
    select max(received_at) as last_at, count(*) filter (where received_at >= :since) as new,
           count(item_id) filter (where received_at >= :since) as ours, min(received_at) as looked_back
      from (select tracking, received_at, item_id from carrier_scans order by id desc limit :most) s
     where :mailer <> '' and substr(tracking, 6, length(:mailer)) = :mailer
""")
FIND_OLDEST_MAILED = sa.text("""
    select min(mailed_at) from batches
     where mode = :mode and settled_at is null and status = 'mailed' and created_at >= :looked_back
""")
LOOKBACK = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class CarrierActivity:
    """The last scan, and how many came since yesterday, `ours` of known items. `silent_since` is set where more were
    due."""

    last_at: datetime | None
    new: int
    ours: int
    is_more: bool
    silent_since: datetime | None


def read_carrier_activity(tx: Tx, environment: Environment, *, now: datetime) -> CarrierActivity:
    """Reads only the newest scans."""
    since = now - timedelta(days=1)
    row = tx.execute(
        READ_RECENT_SCANS, {"since": since, "most": MAX_RECENT_SCANS, "mailer": environment.mailer_id}
    ).one()
    oldest_mailed_at = tx.execute(
        FIND_OLDEST_MAILED, {"mode": environment.mode, "looked_back": now - LOOKBACK}
    ).scalar()
    waiting_since = None if oldest_mailed_at is None else max(oldest_mailed_at, row.last_at or oldest_mailed_at)
    is_silent = waiting_since is not None and waiting_since < now - SILENT_AFTER
    return CarrierActivity(
        row.last_at, row.new, row.ours, row.new >= MAX_RECENT_SCANS, waiting_since if is_silent else None
    )
