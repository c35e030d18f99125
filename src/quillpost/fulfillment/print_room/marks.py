"""What a person in the print room says of a batch.

Which pieces it is about is looked up first, so that a slip of the pen is told instead of passed over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from quillpost.core.database import Database, Tx
from quillpost.core.errors import Invalid
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service
from quillpost.fulfillment.print_room.queries import find_batch, find_paper, items_at, positions_of
from quillpost.fulfillment.print_room.service import Deed, Reprinted, nothing_more
from quillpost.fulfillment.queries import Batch

Status = Literal["acknowledged", "printed", "mailed", "spoiled"]
STATUSES: tuple[Status, ...] = ("acknowledged", "printed", "mailed", "spoiled")

MOST_PIECES = 5_000


@dataclass(frozen=True, slots=True)
class Spoiled:
    """A piece that cannot be used, by its place in the batch or by its item."""

    position: int | None = None
    item_id: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """Of the pieces that were called spoiled, how many fail by it, and how many it changes nothing for."""

    spoiled: int
    passed_over: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Some pieces of a batch: by their positions, from the first to the last, or by their items."""

    positions: Sequence[int] = ()
    first: int | None = None
    last: int | None = None
    item_ids: Sequence[int] = ()


def mark(
    db: Database,
    batch_id: int,
    status: Status,
    *,
    at: datetime | None = None,
    spoiled: Sequence[Spoiled] = (),
    mode: str | None = None,
    by_partner: bool = False,
    noted: Deed = nothing_more,
    now: datetime,
) -> Marked:
    """Take down how far the batch is; `mode`, only if it is of that mode. What is `noted` about it is
    written in the same transaction, unless it was known.

    A person is told of a spoiled piece that the carrier has seen, or that was reprinted since. What a partner
    says of it is passed over: refused, the rest of its call would be lost with it.
    """
    when = at or now
    with db.work() as tx:
        _require_sensible(find_batch(tx, batch_id, mode=mode), status, at, spoiled, now=now)
        found = _spoiled_items(tx, batch_id, spoiled)
        batch = service.hold(tx, batch_id)
        fulfillment_queries.take_turns(tx, [batch_id])
        if not by_partner:
            _require_in_the_house(tx, batch_id, spoiled, list(found))
        progress = PrintProgress(
            acknowledged_at=when if status == "acknowledged" else None,
            printed_at=when if status == "printed" else None,
            mailed_at=when if status == "mailed" else None,
            spoiled=found,
        )
        failed = service.take(tx, batch, progress, now=now)
        if failed or fulfillment_queries.read_batch(tx, batch_id) != batch:
            noted(tx)
    return Marked(failed, len(found) - failed)


def _require_sensible(
    batch: Batch, status: Status, at: datetime | None, spoiled: Sequence[Spoiled], *, now: datetime
) -> None:
    faults = {}
    if status == "spoiled" and not spoiled:
        faults["spoiled"] = ["Name the spoiled pieces, by position or item_id."]
    if at is not None and at > now:
        faults["at"] = ["This must not lie in the future."]
    elif at is not None and at < batch.created_at:
        faults["at"] = ["This is before the batch was made."]
    if faults:
        raise Invalid(faults)


def _spoiled_items(tx: Tx, batch_id: int, spoiled: Sequence[Spoiled]) -> dict[int, str]:
    """The reasons by item; every name that is no piece of the batch is a fault."""
    at = items_at(tx, batch_id, [one.position for one in spoiled if one.position is not None])
    known = positions_of(tx, batch_id, [one.item_id for one in spoiled if one.item_id is not None])
    faults, found = {}, dict[int, str]()
    for place, one in enumerate(spoiled):
        item = one.item_id if one.position is None else at.get(one.position)
        if (one.position is None) == (one.item_id is None):
            faults[f"spoiled.{place}"] = ["Give either the position of the piece or its item_id."]
        elif item is None:
            faults[f"spoiled.{place}.position"] = [_not_there(batch_id, one.position)]
        elif one.item_id is not None and one.item_id not in known:
            faults[f"spoiled.{place}.item_id"] = [f"Item {one.item_id} is not in batch {batch_id}."]
        else:
            found[item] = one.reason or ""
    if faults:
        raise Invalid(faults)
    return found


def _require_in_the_house(tx: Tx, batch_id: int, spoiled: Sequence[Spoiled], item_ids: Sequence[int]) -> None:
    """Nobody moves or reprints them meanwhile: what holds here holds when they are marked."""
    named = find_paper(tx, batch_id, item_ids=item_ids)
    why_not = {("position", paper.position): paper.why_not_spoiled for paper in named}
    why_not |= {("item_id", paper.item_id): paper.why_not_spoiled for paper in named}
    faults = {}
    for place, one in enumerate(spoiled):
        name, number = ("item_id", one.item_id) if one.position is None else ("position", one.position)
        if number is not None and (told := why_not.get((name, number))) is not None:
            faults[f"spoiled.{place}.{name}"] = [told]
    if faults:
        raise Invalid(faults)


def reprint(
    db: Database,
    world: World,
    batch_id: int,
    pieces: Pieces,
    *,
    reason: str,
    noted: Deed = nothing_more,
    now: datetime,
) -> Reprinted:
    """Print these pieces again; all of them must be in the batch."""
    if not reason.strip():
        raise Invalid({"reason": ["Say why they are printed again."]})
    with db.work() as tx:
        find_batch(tx, batch_id, mode=world.mode)
        positions = _positions(tx, batch_id, pieces)
    return service.reprint(db, world, batch_id, positions=positions, reason=reason, noted=noted, now=now)


def _positions(tx: Tx, batch_id: int, pieces: Pieces) -> list[int]:
    is_range = pieces.first is not None or pieces.last is not None
    if sum((bool(pieces.positions), is_range, bool(pieces.item_ids))) != 1:
        told = "Say which pieces: by positions, or from one to another, or by item_ids."
        raise Invalid({"positions": [told]})
    if pieces.item_ids:
        known = positions_of(tx, batch_id, pieces.item_ids)
        for place, item in enumerate(pieces.item_ids):
            if item not in known:
                raise Invalid({f"item_ids.{place}": [f"Item {item} is not in batch {batch_id}."]})
        return sorted(known.values())
    if is_range:
        return _range(tx, batch_id, pieces.first, pieces.last)
    there = items_at(tx, batch_id, pieces.positions)
    for place, position in enumerate(pieces.positions):
        if position not in there:
            raise Invalid({f"positions.{place}": [_not_there(batch_id, position)]})
    return sorted(there)


def _range(tx: Tx, batch_id: int, first: int | None, last: int | None) -> list[int]:
    if first is None or last is None:
        raise Invalid({"from" if first is None else "to": ["Give both: from and to."]})
    if first > last:
        raise Invalid({"to": ["This must not be before from."]})
    if last - first >= MOST_PIECES:
        raise Invalid({"to": [f"At most {MOST_PIECES:,} pieces at once, please."]})
    there = items_at(tx, batch_id, range(first, last + 1))
    for name, position in (("from", first), ("to", last)):
        if position not in there:
            raise Invalid({name: [_not_there(batch_id, position)]})
    return sorted(there)


def _not_there(batch_id: int, position: int | None) -> str:
    return f"There is no piece {position} in batch {batch_id}."
