"""Batches as operators see them: files, statement, printed items."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import batch_files, batches, prints
from quillpost.core.encryption import DecryptionFailed
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.paging import Page, PageRequest, equal_conditions, read_page
from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.batches.files import BatchFileStorage, batch_file_key
from quillpost.fulfillment.batches.queries import ProductionBatch, read_batch
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.orders.rules import FINAL_STATUSES, ItemStatus

BEFORE_MAIL_STATUSES = frozenset({ItemStatus.PROCESSING, ItemStatus.PRINTED})  # not seen by the carrier yet
FIND_PRINTED_ITEMS = sa.text("""
    select p.position, p.item_id, i.status, p.superseded as is_void, i.person_gone_at is not null as is_erased,
           exists (select 1 from giftcards g where g.item_id = p.item_id
                      and g.claim_digest is not null and g.claim_sealed is null) as is_claim_deleted,
           (select max(n.batch_id) from prints n
             where p.superseded and n.item_id = p.item_id and not n.superseded) as reprint_batch_id
      from prints p join items i on i.id = p.item_id
     where p.batch_id = :batch
       and (p.position = any(cast(:positions as integer[])) or p.item_id = any(cast(:items as bigint[])))
     order by p.position
""")


@dataclass(frozen=True, slots=True)
class PrintedItem:
    """An item in a batch. A void one is reprinted in batch `reprint_batch_id`, unless it ended before."""

    position: int
    item_id: int
    status: ItemStatus
    is_void: bool
    reprint_batch_id: int | None
    is_erased: bool = False
    is_claim_deleted: bool = False  # it still works, but cannot be printed again

    @property
    def is_mailed(self) -> bool:
        return not self.is_void and self.status not in (*BEFORE_MAIL_STATUSES, ItemStatus.FAILED)

    @property
    def spoil_error(self) -> str | None:
        if self.is_void and self.reprint_batch_id is not None:
            return f"Piece {self.position} was reprinted in {batch_reference(self.reprint_batch_id)}: mark it there."
        if self.is_void:
            return f"Piece {self.position} was to be reprinted, and has ended before ({self.status})."
        if self.is_mailed:
            return f"Piece {self.position} is in the mail already ({self.status}): it cannot be spoiled."
        return None

    @property
    def reprint_error(self) -> str | None:
        if self.status in FINAL_STATUSES:
            return f"Ended already ({self.status})."
        if self.status not in BEFORE_MAIL_STATUSES:
            return f"In the mail already ({self.status})."
        if self.is_erased:
            return "Its recipient was erased."
        if self.is_claim_deleted:
            return "Its gift card's claim is no longer kept. Take the card back, and reissue it."
        if self.is_void:
            batch_id = self.reprint_batch_id
            return f"Reprinted in {batch_reference(batch_id)}." if batch_id else "Reprinted already."
        return None


def find_printed_items(
    tx: Tx, batch_id: int, *, positions: Sequence[int] = (), item_ids: Sequence[int] = ()
) -> list[PrintedItem]:
    """These items of the batch, each once, by position; missing ones are left out."""
    if not positions and not item_ids:
        return []
    params = {"batch": batch_id, "positions": list(positions), "items": list(item_ids)}
    rows = tx.execute(FIND_PRINTED_ITEMS, params)
    return [PrintedItem(**{**row._mapping, "status": ItemStatus(row.status)}) for row in rows]


BATCH_STATUSES = ("new", "composed", "handed", "printed", "mailed")
STATEMENT_FILE = "statement.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQuery:
    """None means any. An open batch is not mailed yet."""

    mode: str | None = None
    status: str | None = None
    is_open: bool | None = None
    has_error: bool = False
    product_name: str | None = None
    created_since: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class BatchFileInfo:
    name: str
    size: int
    sha256: str
    is_secret: bool = False

    @property
    def content_type(self) -> str:
        types = {"pdf": "application/pdf", "csv": "text/csv; charset=utf-8", "json": "application/json"}
        return types.get(self.name.rpartition(".")[2], "application/octet-stream")


@dataclass(frozen=True, slots=True)
class BatchDetails:
    """`pieces` counts items by status; `void` are those reprinted since, in the batches of `reprints`."""

    batch: ProductionBatch
    files: list[BatchFileInfo]
    pieces: dict[str, int]
    void: int
    reprints: list[int]


def list_batches(tx: Tx, page_request: PageRequest, filters: BatchQuery) -> Page[ProductionBatch]:
    conditions = _filter_conditions(filters)
    total = int(tx.execute(sa.select(sa.func.count()).select_from(batches).where(*conditions)).scalar_one())
    rows = read_page(tx, batches, conditions, page_request, total=total)
    return Page([ProductionBatch.of(row) for row in rows], total, page_request)


def _filter_conditions(filters: BatchQuery) -> list[sa.ColumnElement[bool]]:
    conditions = equal_conditions(batches, mode=filters.mode, status=filters.status, piece=filters.product_name)
    if filters.is_open is True:
        # A settled batch is mailed; the condition finds an index.
        conditions += [batches.c.settled_at.is_(None), batches.c.status != "mailed"]
    if filters.is_open is False:
        conditions.append(batches.c.status == "mailed")
    if filters.has_error:
        conditions.append(batches.c.trouble.is_not(None))
    if filters.created_since is not None:
        conditions.append(batches.c.created_at >= filters.created_since)
    if filters.created_before is not None:
        conditions.append(batches.c.created_at < filters.created_before)
    return conditions


def find_batch(tx: Tx, batch_id: int, *, mode: str | None = None) -> ProductionBatch:
    batch = read_batch(tx, batch_id)
    if mode is not None and batch.mode != mode:
        raise NotFound
    return batch


def read_batch_details(tx: Tx, batch_id: int, *, mode: str | None = None) -> BatchDetails:
    batch = find_batch(tx, batch_id, mode=mode)
    status_counts = tx.execute(
        sa.select(items.c.status, prints.c.superseded, sa.func.count().label("pieces"))
        .join(items, items.c.id == prints.c.item_id)
        .where(prints.c.batch_id == batch_id)
        .group_by(items.c.status, prints.c.superseded)
    ).all()
    reprint_ids = sa.select(batches.c.id).where(batches.c.reprint_of == batch_id).order_by(batches.c.id)
    return BatchDetails(
        batch,
        list_files(tx, batch_id),
        {row.status: row.pieces for row in sorted(status_counts) if not row.superseded},
        sum(row.pieces for row in status_counts if row.superseded),
        list(tx.execute(reprint_ids).scalars()),
    )


def list_files(tx: Tx, batch_id: int) -> list[BatchFileInfo]:
    rows = tx.execute(sa.select(batch_files).where(batch_files.c.batch_id == batch_id).order_by(batch_files.c.name))
    return [BatchFileInfo(row.name, row.size, bytes(row.sha256).hex(), row.is_secret) for row in rows]


def find_file(tx: Tx, batch_id: int, name: str) -> BatchFileInfo:
    file = next((candidate for candidate in list_files(tx, batch_id) if candidate.name == name), None)
    if file is None:
        raise NotFound
    return file


def read_file(storage: BatchFileStorage, batch_id: int, file: BatchFileInfo) -> bytes:
    """The file as it was composed. Call it outside transactions: the store may be slow."""
    try:
        data = storage.read_file(batch_id, file.name, is_secret=file.is_secret)
        if hashlib.sha256(data).hexdigest() == file.sha256:
            return data
    except FileMissing:
        raise NotFound from None
    except DecryptionFailed:
        pass
    batch = batch_reference(batch_id)
    raise Unavailable(
        f"{file.name} of {batch} is damaged, or sealed with a key that is missing here:"
        f" `quillpost print remake {batch}` makes it again."
    )


def read_statement(store: FileStore, details: BatchDetails) -> dict[str, Any] | None:
    """The mailing statement, once the batch is composed. Call it outside transactions: the store may be slow."""
    if not any(file.name == STATEMENT_FILE for file in details.files):
        return None
    try:
        statement: dict[str, Any] = json.loads(store.get(batch_file_key(details.batch.id, STATEMENT_FILE)))
    except FileMissing:
        return None
    return statement


def find_items_at(tx: Tx, batch_id: int, positions: Sequence[int]) -> dict[int, int]:
    """Item ids by position; missing ones are left out."""
    conditions = prints.c.batch_id == batch_id, prints.c.position.in_(positions)
    return {row.position: row.item_id for row in tx.execute(sa.select(prints).where(*conditions))}


def find_positions(tx: Tx, batch_id: int, item_ids: Sequence[int]) -> dict[int, int]:
    """Positions by item id; missing ones are left out."""
    conditions = prints.c.batch_id == batch_id, prints.c.item_id.in_(item_ids)
    return {row.item_id: row.position for row in tx.execute(sa.select(prints).where(*conditions))}


READ_BATCH_ITEMS = sa.text("""
    select p.position, p.item_id, p.superseded, p.tracking, i.order_id, i.status, i.failure, i.country,
           i.name, i.company, i.city, i.province, i.postal_code
      from prints p join items i on i.id = p.item_id
     where p.batch_id = :batch and p.position > :after and p.position <= :until
     order by p.position
""")


@dataclass(frozen=True, slots=True)
class BatchItem:
    position: int
    item_id: int
    superseded: bool
    tracking: str | None
    order_id: int
    status: str
    failure: str | None
    country: str
    name: str | None
    company: str | None
    city: str | None
    province: str | None
    postal_code: str | None


def list_batch_items(tx: Tx, batch: ProductionBatch, page_request: PageRequest) -> Page[BatchItem]:
    """By position, which has no gaps."""
    params = {"batch": batch.id, "after": page_request.offset, "until": page_request.offset + page_request.per_page}
    return Page(
        [BatchItem(**row._mapping) for row in tx.execute(READ_BATCH_ITEMS, params)], batch.item_count, page_request
    )


LATE_AFTER = timedelta(days=2)  # since handover
LOOKBACK = timedelta(days=14)  # what is printed or mailed today was created in this time

COUNT_OPEN_BATCHES = sa.text("""
    select status, count(*) as batches, sum(item_count - void_count) as pieces, min(created_at) as oldest,
           count(*) filter (where trouble is not null) as failing,
           count(*) filter (where handed_at < :late) as late
      from batches where mode = :mode and status <> 'mailed' group by status
""")

COUNT_OUTPUT = sa.text("""
    select coalesce(sum(item_count - void_count) filter (where created_at >= :since), 0) as made,
           coalesce(sum(item_count - void_count) filter (where printed_at >= :since), 0) as printed,
           coalesce(sum(item_count - void_count) filter (where mailed_at >= :since), 0) as mailed,
           count(*) filter (where created_at >= :since) as batches
      from batches where mode = :mode and created_at >= :looked_back
""")

COUNT_PAUSED = sa.text(
    "select count(*) from (select 1 from orders where mode = :mode and status = 'paused' limit :most) held"
)

COUNT_HANDOVERS = sa.text("""
    select partner, max(handed_at) as last_at, count(*) filter (where handed_at >= :since) as batches,
           coalesce(sum(item_count) filter (where handed_at >= :since), 0) as pieces
      from batches where mode = :mode and created_at >= :looked_back and handed_at is not null
     group by partner order by max(handed_at) desc limit 10
""")

COUNT_STUCK = sa.text("""
    select count(*) as batches, min(trouble_at) as since, min(trouble) as error
      from batches where mode = :mode and status <> 'mailed' and status = 'composed' and trouble is not null
""")

MAX_PAUSED = 1_000


@dataclass(frozen=True, slots=True)
class OpenBatchCount:
    batches: int = 0
    pieces: int = 0
    failing: int = 0
    late: int = 0
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True)
class DailyOutput:
    """In items; a spoiled one does not count, a reprinted one counts where it is now."""

    made: int
    printed: int
    mailed: int
    batches: int


@dataclass(frozen=True, slots=True)
class PartnerHandovers:
    """What one partner was given: last, and since yesterday."""

    partner: str | None
    last_at: datetime
    batches: int
    pieces: int


@dataclass(frozen=True, slots=True)
class StuckBatches:
    """Batches that cannot be handed over; the error is that of one of them."""

    batches: int
    since: datetime | None
    error: str | None


def count_open_batches(tx: Tx, mode: str, *, now: datetime) -> dict[str, OpenBatchCount]:
    rows = tx.execute(COUNT_OPEN_BATCHES, {"mode": mode, "late": now - LATE_AFTER})
    return {row.status: OpenBatchCount(row.batches, row.pieces, row.failing, row.late, row.oldest) for row in rows}


def count_output_since(tx: Tx, mode: str, *, since: datetime, now: datetime) -> DailyOutput:
    row = tx.execute(COUNT_OUTPUT, {"mode": mode, "since": since, "looked_back": now - LOOKBACK}).one()
    return DailyOutput(row.made, row.printed, row.mailed, row.batches)


def count_paused_orders(tx: Tx, mode: str) -> int:
    """`MAX_PAUSED` stands for that or more."""
    return int(tx.execute(COUNT_PAUSED, {"mode": mode, "most": MAX_PAUSED}).scalar_one())


def list_handovers(tx: Tx, mode: str, *, now: datetime) -> Sequence[PartnerHandovers]:
    """The latest first."""
    params = {"mode": mode, "since": now - timedelta(days=1), "looked_back": now - LOOKBACK}
    return [PartnerHandovers(**row._mapping) for row in tx.execute(COUNT_HANDOVERS, params)]


def read_stuck_batches(tx: Tx, mode: str) -> StuckBatches:
    return StuckBatches(**tx.execute(COUNT_STUCK, {"mode": mode}).one()._mapping)
