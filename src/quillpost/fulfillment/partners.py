"""How a batch names its print partner, and what that partner reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.print_room import prints
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.print_room import marks
from quillpost.fulfillment.print_room.marks import Spoiled, Status
from quillpost.fulfillment.print_room.queries import find_batch
from quillpost.fulfillment.rules import batch_of

USUAL_PORTS = {"sftp": 22, "http": 80, "https": 443}


def partner_name(address: str) -> str:
    """The address without what may be written otherwise, and without a password.

    Capitals of the host, a port that is the usual one and slashes at the end make no other partner. A user is
    told where it is a part of the place, which it is over SFTP; elsewhere it may be a secret.
    """
    try:
        parsed = urlsplit(address)
        host, port = parsed.hostname or "", parsed.port
    except ValueError:
        return address.rpartition("@")[2]
    if not parsed.scheme:
        return address
    user = f"{parsed.username}@" if parsed.username and parsed.scheme == "sftp" else ""
    host = f"[{host}]" if ":" in host else host
    door = "" if port in (None, USUAL_PORTS.get(parsed.scheme)) else f":{port}"
    return f"{parsed.scheme}://{user}{host}{door}{parsed.path.rstrip('/')}"


def is_another(known: str | None, partner: str) -> bool:
    """Whether a batch is another partner's. One that knows none may be anybody's.

    Those that were handed over long ago know the address as it was written then.
    """
    return known is not None and partner_name(known) != partner_name(partner)


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
    marks.mark(db, batch_id, word.event, at=at, spoiled=spoiled, mode=world.mode, by_partner=True, now=now)


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
