"""Sending: a draft becomes an order with its pictures on the shelf, or a preview of itself.

Files are put away before the transaction opens, for storage may be far, and recorded inside it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.composition.compose import preview
from quillpost.creative.images import heavy_work
from quillpost.creative.shelf import Kept, Shelf
from quillpost.database import Database, Tx
from quillpost.orders import look, service
from quillpost.orders.preparing import Draft
from quillpost.orders.records import Order
from quillpost.ports import Fetched

PREVIEWS_LAST = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of an order on the shelf; those in `new` still wait for their rows."""

    front: UUID | None
    background: UUID | None
    new: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a previewed piece."""

    name: str
    picture: Kept


def keep_pictures(db: Database, shelf: Shelf, who: Caller, draft: Draft, *, now: datetime) -> Pictures:
    """Put the draft's pictures away; one that the sender has there already is not kept twice."""
    new: list[Kept] = []

    def kept(picture: Fetched | None) -> UUID | None:
        if picture is None:
            return None
        with db.transaction(tenant(who)) as tx:
            known = shelf.find(tx, picture.body, purpose="creative")
        if known is not None:
            return known
        new.append(shelf.put(picture.body, purpose="creative", content_type=picture.content_type, now=now))
        return new[-1].id

    front = kept(draft.front)
    return Pictures(front, kept(draft.background), tuple(new))


def place(
    tx: Tx,
    who: Caller,
    shelf: Shelf,
    draft: Draft,
    pictures: Pictures,
    *,
    review: timedelta,
    now: datetime,
) -> Order:
    """The order, and the rows of its pictures, in one transaction."""
    _record(tx, shelf, who, draft, pictures.new, now=now)
    ready = service.Prepared(
        wish=draft.wish,
        people=draft.people,
        sender=draft.design.sender,
        return_address=draft.return_address,
        front_file_id=pictures.front,
        background_file_id=pictures.background,
        warnings=draft.warnings,
    )
    return service.place(tx, who, ready, review=review, now=now)


def draw(shelf: Shelf, draft: Draft, *, qr_base: str, now: datetime) -> list[Side]:
    """Both sides as they would print, for the recipient asked for or the first who can be mailed."""
    wish, chosen = draft.wish, draft.wish.preview_recipient
    if chosen is None:
        chosen = next((i for i, (person, _, _) in enumerate(draft.people) if not person.refusal), 0)
    person, _, code = draft.people[chosen]
    copy = look.specimen(
        person,
        or_current_resident=wish.append_or_current_resident,
        qr_url=f"{qr_base}/q/{code}" if code else None,
    )
    with heavy_work():
        drawn = preview(draft.design, copy)
    expires = now + PREVIEWS_LAST
    return [
        Side(
            name,
            shelf.put(picture, purpose="preview", content_type="image/png", expires_at=expires, now=now),
        )
        for name, picture in drawn.items()
    ]


def record_sides(
    tx: Tx, shelf: Shelf, who: Caller, draft: Draft, sides: list[Side], *, now: datetime
) -> None:
    """A preview leaves its pictures, and nothing else."""
    _record(tx, shelf, who, draft, [side.picture for side in sides], now=now)


def _record(
    tx: Tx, shelf: Shelf, who: Caller, draft: Draft, files: tuple[Kept, ...] | list[Kept], *, now: datetime
) -> None:
    for kept in files:
        shelf.record(tx, kept, account_id=who.account_id, sub_account_id=draft.wish.sub_account_id, now=now)
