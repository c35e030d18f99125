"""Batches as operators look at them: their files, their statement, and the prints in them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.print_room import batch_files, batches, prints
from quillpost.core.encryption import SealBroken
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.paging import Page, PageRequest, read_page
from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.files import BatchStore, place_of
from quillpost.fulfillment.queries import Batch, read_batch
from quillpost.fulfillment.rules import reference
from quillpost.orders.rules import ENDS, ItemStatus

IN_THE_HOUSE = frozenset({ItemStatus.PROCESSING, ItemStatus.PRINTED})
"""Where the carrier has not seen a piece, it may still be in the print room."""

FIND = sa.text(
    """
    select p.position, p.item_id, p.superseded, i.status, i.person_gone_at is not null as is_erased,
           exists (select 1 from giftcards g where g.item_id = p.item_id
                      and g.claim_digest is not null and g.claim_sealed is null) as claim_is_gone,
           (select max(n.batch_id) from prints n
             where p.superseded and n.item_id = p.item_id and not n.superseded) as anew
      from prints p join items i on i.id = p.item_id
     where p.batch_id = :batch
       and (p.position = any(cast(:positions as integer[])) or p.item_id = any(cast(:items as bigint[])))
     order by p.position
    """
)


@dataclass(frozen=True, slots=True)
class Paper:
    """A piece as it lies in a batch. Void, it is printed again in batch `anew`, unless it ended before."""

    position: int
    item_id: int
    status: ItemStatus
    is_void: bool
    anew: int | None
    is_erased: bool = False
    claim_is_gone: bool = False
    """Of a gift card; it works for whoever has the piece, and cannot be printed again."""

    @property
    def is_in_the_mail(self) -> bool:
        """What has failed is no news, and void paper is not what the carrier has."""
        return not self.is_void and self.status not in (*IN_THE_HOUSE, ItemStatus.FAILED)

    @property
    def why_not_spoiled(self) -> str | None:
        """What a person is told who calls it spoiled in vain."""
        if self.is_void and self.anew is not None:
            return f"Piece {self.position} was reprinted in {reference(self.anew)}: mark it there."
        if self.is_void:
            return f"Piece {self.position} was to be reprinted, and has ended before ({self.status})."
        if self.is_in_the_mail:
            return f"Piece {self.position} is in the mail already ({self.status}): it cannot be spoiled."
        return None

    @property
    def why_not_reprinted(self) -> str | None:
        if self.status in ENDS:
            return f"Ended already ({self.status})."
        if self.status not in IN_THE_HOUSE:
            return f"In the mail already ({self.status})."
        if self.is_erased:
            return "Its recipient was erased."
        if self.claim_is_gone:
            return "Its gift card's claim is no longer kept. Take the card back, and reissue it."
        if self.is_void:
            return f"Reprinted in {reference(self.anew)}." if self.anew else "Reprinted already."
        return None


def find_paper(
    tx: Tx, batch_id: int, *, positions: Sequence[int] = (), item_ids: Sequence[int] = ()
) -> list[Paper]:
    """These pieces of the batch, each once, by their places; what is not there is left out."""
    if not positions and not item_ids:
        return []
    asked = {"batch": batch_id, "positions": list(positions), "items": list(item_ids)}
    return [
        Paper(
            position=row.position,
            item_id=row.item_id,
            status=ItemStatus(row.status),
            is_void=row.superseded,
            anew=row.anew,
            is_erased=row.is_erased,
            claim_is_gone=row.claim_is_gone,
        )
        for row in tx.execute(FIND, asked)
    ]


STATUSES = ("new", "composed", "handed", "printed", "mailed")
STATEMENT = "statement.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """Which batches are wanted; what is not said does not matter. An open one is not in the mail yet."""

    mode: str | None = None
    status: str | None = None
    is_open: bool | None = None
    in_trouble: bool = False
    piece: str | None = None
    made_since: datetime | None = None
    made_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class BatchFile:
    """One that `is_secret` holds the claims of gift cards, and lies sealed in the store."""

    name: str
    size: int
    sha256: str
    is_secret: bool = False

    @property
    def content_type(self) -> str:
        kinds = {"pdf": "application/pdf", "csv": "text/csv; charset=utf-8", "json": "application/json"}
        return kinds.get(self.name.rpartition(".")[2], "application/octet-stream")


@dataclass(frozen=True, slots=True)
class BatchShown:
    """A batch with all that is known of it. `pieces` counts by status those that count here; `void` are those
    that were printed again since, in the batches of `reprints`."""

    batch: Batch
    files: list[BatchFile]
    pieces: dict[str, int]
    void: int
    reprints: list[int]


def list_batches(tx: Tx, asked: PageRequest, wanted: BatchFilter) -> Page[Batch]:
    """Newest first."""
    conditions = _conditions(wanted)
    total = int(tx.execute(sa.select(sa.func.count()).select_from(batches).where(*conditions)).scalar_one())
    rows = read_page(tx, batches, conditions, asked, total=total)
    return Page([Batch.of(row) for row in rows], total, asked)


def _conditions(wanted: BatchFilter) -> list[sa.ColumnElement[bool]]:
    conditions = []
    if wanted.mode is not None:
        conditions.append(batches.c.mode == wanted.mode)
    if wanted.status is not None:
        conditions.append(batches.c.status == wanted.status)
    if wanted.is_open is True:
        # What is settled is in the mail; said as well, it is in an index.
        conditions += [batches.c.settled_at.is_(None), batches.c.status != "mailed"]
    if wanted.is_open is False:
        conditions.append(batches.c.status == "mailed")
    if wanted.in_trouble:
        conditions.append(batches.c.trouble.is_not(None))
    if wanted.piece is not None:
        conditions.append(batches.c.piece == wanted.piece)
    if wanted.made_since is not None:
        conditions.append(batches.c.created_at >= wanted.made_since)
    if wanted.made_before is not None:
        conditions.append(batches.c.created_at < wanted.made_before)
    return conditions


def find_batch(tx: Tx, batch_id: int, *, mode: str | None = None) -> Batch:
    """The batch, if there is such a one; `mode`, if it is of that mode."""
    batch = read_batch(tx, batch_id)
    if mode is not None and batch.mode != mode:
        raise NotFound
    return batch


def read_batch_shown(tx: Tx, batch_id: int, *, mode: str | None = None) -> BatchShown:
    batch = find_batch(tx, batch_id, mode=mode)
    counted = tx.execute(
        sa.select(items.c.status, prints.c.superseded, sa.func.count().label("pieces"))
        .join(items, items.c.id == prints.c.item_id)
        .where(prints.c.batch_id == batch_id)
        .group_by(items.c.status, prints.c.superseded)
    ).all()
    anew = sa.select(batches.c.id).where(batches.c.reprint_of == batch_id).order_by(batches.c.id)
    return BatchShown(
        batch,
        list_files(tx, batch_id),
        {row.status: row.pieces for row in sorted(counted) if not row.superseded},
        sum(row.pieces for row in counted if row.superseded),
        list(tx.execute(anew).scalars()),
    )


def list_files(tx: Tx, batch_id: int) -> list[BatchFile]:
    rows = tx.execute(
        sa.select(batch_files).where(batch_files.c.batch_id == batch_id).order_by(batch_files.c.name)
    )
    return [BatchFile(row.name, row.size, bytes(row.sha256).hex(), row.is_secret) for row in rows]


def find_file(tx: Tx, batch_id: int, name: str) -> BatchFile:
    file = next((each for each in list_files(tx, batch_id) if each.name == name), None)
    if file is None:
        raise NotFound
    return file


def read_file(kept: BatchStore, batch_id: int, file: BatchFile) -> bytes:
    """The file as it was composed. The store may be far: for outside transactions."""
    try:
        data = kept.get(batch_id, file.name, is_secret=file.is_secret)
    except FileMissing:
        raise NotFound from None
    except SealBroken:
        raise _damaged(batch_id, file) from None
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise _damaged(batch_id, file)
    return data


def _damaged(batch_id: int, file: BatchFile) -> Unavailable:
    batch = reference(batch_id)
    return Unavailable(
        f"{file.name} of {batch} is damaged, or sealed with a key that is missing here:"
        f" `quillpost print remake {batch}` makes it again."
    )


def read_statement(store: FileStore, shown: BatchShown) -> dict[str, Any] | None:
    """The mailing statement, once the batch is composed. The store may be far: for outside transactions."""
    if not any(file.name == STATEMENT for file in shown.files):
        return None
    try:
        statement: dict[str, Any] = json.loads(store.get(place_of(shown.batch.id, STATEMENT)))
    except FileMissing:
        return None
    return statement


def items_at(tx: Tx, batch_id: int, positions: Sequence[int]) -> dict[int, int]:
    """Which item lies where in the batch, by the position; what is not there is left out."""
    at = prints.c.batch_id == batch_id, prints.c.position.in_(positions)
    return {row.position: row.item_id for row in tx.execute(sa.select(prints).where(*at))}


def positions_of(tx: Tx, batch_id: int, item_ids: Sequence[int]) -> dict[int, int]:
    """Where in the batch the items lie, by their ids; those that do not are left out."""
    of = prints.c.batch_id == batch_id, prints.c.item_id.in_(item_ids)
    return {row.item_id: row.position for row in tx.execute(sa.select(prints).where(*of))}


PIECES = sa.text(
    """
    select p.position, p.item_id, p.superseded, p.tracking, i.order_id, i.status, i.failure, i.country,
           i.name, i.company, i.city, i.province, i.postal_code
      from prints p join items i on i.id = p.item_id
     where p.batch_id = :batch and p.position > :after and p.position <= :until
     order by p.position
    """
)


@dataclass(frozen=True, slots=True)
class PieceShown:
    """A piece as it lies in a batch."""

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


def list_pieces(tx: Tx, batch: Batch, asked: PageRequest) -> Page[PieceShown]:
    """By their places, which are counted from one without a gap."""
    span = {"batch": batch.id, "after": asked.offset, "until": asked.offset + asked.per_page}
    return Page([PieceShown(**row._mapping) for row in tx.execute(PIECES, span)], batch.item_count, asked)
