"""Sending: a draft becomes an order with its pictures on the shelf, or a preview of itself.

Files are put away before the transaction opens, for storage may be far, and recorded inside it.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.composition.studio import Studio
from quillpost.creative.images import heavy_work
from quillpost.creative.shelf import Kept, Shelf
from quillpost.database import Database, Tx
from quillpost.orders import look, service
from quillpost.orders.pictures import Art, Place, shown_place
from quillpost.orders.preparing import Draft
from quillpost.orders.records import Order
from quillpost.orders.store import OwnFiles

PREVIEWS_LAST = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of an order on the shelf; those in `new` still wait for their rows."""

    front: UUID | None
    background: UUID | None
    new: tuple[Kept, ...]
    own: OwnFiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a previewed piece."""

    name: str
    picture: Kept


def keep_pictures(db: Database, shelf: Shelf, who: Caller, draft: Draft, *, now: datetime) -> Pictures:
    """Put the draft's pictures away, each once; one that the sender has there already is not kept again."""
    distinct = {
        picture.body: picture for art in (draft.front, draft.background) for picture in art.distinct()
    }
    with db.transaction(tenant(who)) as tx:
        known = shelf.find(tx, distinct, purpose="creative")
    new = {
        body: shelf.put(body, purpose="creative", content_type=picture.content_type, now=now)
        for body, picture in distinct.items()
        if body not in known
    }
    files = known | {body: kept.id for body, kept in new.items()}

    def by_place(art: Art) -> dict[Place, UUID]:
        return {place: files[picture.body] for place, picture in art.by_place.items()}

    fronts, backgrounds = by_place(draft.front), by_place(draft.background)
    return Pictures(
        fronts.get(None),
        backgrounds.get(None),
        tuple(new.values()),
        {
            place: (fronts.get(place), backgrounds.get(place))
            for place in fronts.keys() | backgrounds.keys()
            if place is not None
        },
    )


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
        own_files=pictures.own,
    )
    return service.place(tx, who, ready, review=review, now=now)


def draw(studio: Studio, shelf: Shelf, draft: Draft, *, qr_base: str, now: datetime) -> list[Side]:
    """Both sides as they would print, for the recipient asked for or the first who can be mailed."""
    wish = draft.wish
    chosen = shown_place(wish, [person for person, _, _ in draft.people])
    person, _, code = draft.people[chosen]
    front, background = draft.front.of(chosen), draft.background.of(chosen)
    design = replace(
        draft.design,
        front=front.body if front else None,
        background=background.body if background else None,
    )
    copy = look.specimen(
        person,
        or_current_resident=wish.append_or_current_resident,
        qr_url=f"{qr_base}/q/{code}" if code else None,
    )
    with heavy_work():
        drawn = studio.preview(design, copy)
    expires = now + PREVIEWS_LAST
    return [
        Side(
            name,
            shelf.put(picture, purpose="preview", content_type="image/png", expires_at=expires, now=now),
        )
        for name, picture in drawn.sides.items()
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
