"""What a print partner says of a batch in a call of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.database import Database, Tx
from quillpost.database.press_tables import prints
from quillpost.fulfilment import marking
from quillpost.fulfilment.marking import Spoiled, Status
from quillpost.fulfilment.partner_names import is_another
from quillpost.fulfilment.rules import batch_of
from quillpost.fulfilment.shown import find_batch
from quillpost.kit.errors import Conflict, Invalid
from quillpost.ports.worlds import World

CLOCKS_DIFFER = timedelta(minutes=5)
"""As far as a signature's own time may be off."""


@dataclass(frozen=True, slots=True)
class SpoiledPiece:
    """A piece that cannot be used, by one of its names."""

    item_id: int | None = None
    tracking: str | None = None
    position: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Word:
    reference: str
    event: Status
    at: datetime
    spoiled: Sequence[SpoiledPiece] = ()


def take_word(db: Database, world: World, word: Word, *, now: datetime) -> None:
    """Take down what this world's partner says of a batch that it has. Said again, it changes nothing."""
    batch_id = batch_of(word.reference)
    if batch_id is None:
        raise Invalid({"reference": ["This is not the reference of a batch, such as batch-000007."]})
    with db.work() as tx:
        batch = find_batch(tx, batch_id, mode=world.mode)
        if is_another(batch.partner, world.partner):
            raise Conflict("This batch was handed to another partner.")
        spoiled = _by_item(tx, batch_id, word.spoiled)
    # A clock that runs a little ahead is no reason to lose the word.
    at = now if now < word.at <= now + CLOCKS_DIFFER else word.at
    marking.mark(db, batch_id, word.event, at=at, spoiled=spoiled, mode=world.mode, by_partner=True, now=now)


def _by_item(tx: Tx, batch_id: int, spoiled: Sequence[SpoiledPiece]) -> list[Spoiled]:
    """Those that are named by their barcode, by their item; all others as they are."""
    codes = [piece.tracking for piece in spoiled if piece.tracking is not None]
    inside = sa.select(prints.c.tracking, prints.c.item_id).where(prints.c.batch_id == batch_id)
    found = {row.tracking: row.item_id for row in tx.execute(inside.where(prints.c.tracking.in_(codes)))}
    read, faults = [], {}
    for place, piece in enumerate(spoiled):
        if [piece.item_id, piece.tracking, piece.position].count(None) != 2:
            faults[f"spoiled.{place}"] = ["Name the piece once: by its item_id, tracking or position."]
        elif piece.tracking is not None and piece.tracking not in found:
            faults[f"spoiled.{place}.tracking"] = ["No piece of this batch has this barcode."]
        else:
            item = piece.item_id if piece.tracking is None else found[piece.tracking]
            read.append(Spoiled(piece.position, item, piece.reason))
    if faults:
        raise Invalid(faults)
    return read
