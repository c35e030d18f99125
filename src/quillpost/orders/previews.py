"""Previews: how a draft will look, on the shelf for a week."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.core.database import Database, Tx
from quillpost.core.errors import Invalid
from quillpost.core.stored_files import Kept, Shelf
from quillpost.core.tokens import SPECIMEN_CODE
from quillpost.orders import audience, designs
from quillpost.orders.drafts import Draft
from quillpost.orders.images import Place, shown_place
from quillpost.orders.models import Wish
from quillpost.orders.templates.images import heavy_work
from quillpost.recipients.rules import Person
from quillpost.rendering.images.limits import BadArt
from quillpost.rendering.models import Copy, Design
from quillpost.rendering.renderer import Previews, Studio

PREVIEWS_LAST = timedelta(days=7)


def draw(
    db: Database,
    studio: Studio,
    who: Caller,
    draft: Draft,
    *,
    qr_base: str,
    opt_out: str | None,
    now: datetime,
) -> Previews:
    """All sides as they would print, for the recipient asked for or the first who can be mailed."""
    place, person = _shown(db, who, draft, now=now)
    design, copy = posed(draft, place, person, qr_base=qr_base, opt_out=opt_out)
    with told_by_field(draft.wish), heavy_work():
        return studio.preview(design, copy)


@contextmanager
def told_by_field(wish: Wish) -> Iterator[None]:
    """What takes too much to be drawn is refused by the field that brought it: what a PDF draws can be
    anything, and a picture only large."""
    try:
        yield
    except BadArt as bad:
        brought = [
            (wish.pages, "PDF"), (wish.background, "image"), (wish.front, "image"), (wish.logo, "image"),
        ]  # fmt: skip
        for source, what in brought:
            if source is not None:
                raise Invalid({source.field: [f"The {what} cannot be drawn. {bad.message}"]}) from None
        raise


def posed(
    draft: Draft, place: Place, person: Person, *, qr_base: str, opt_out: str | None
) -> tuple[Design, Copy]:
    """The draft as this person's piece, to be drawn."""
    wish, art = draft.wish, draft.artwork
    front, background = art.front.of(place), art.background.of(place)
    design = replace(
        draft.design,
        front=front.body if front else None,
        background=background.body if background else None,
        pages=art.pages.body if art.pages else None,
        branding=designs.branding(wish.brand, next((p.body for p in art.logo.distinct()), None)),
    )
    copy = designs.specimen(
        person,
        or_current_resident=wish.append_or_current_resident,
        qr_url=f"{qr_base}/q/{SPECIMEN_CODE}" if wish.qrcode_url else None,
        opt_out=f"{opt_out}{SPECIMEN_CODE}" if opt_out else None,
        claim=designs.specimen_claim(wish.gift, qr_base=qr_base),
    )
    return design, copy


def keep_previews(shelf: Shelf, pictures: Mapping[str, bytes], *, now: datetime) -> dict[str, Kept]:
    """Each picture on the shelf under its name, for a week."""
    expires = now + PREVIEWS_LAST
    return {
        name: shelf.put(picture, purpose="preview", content_type="image/png", expires_at=expires, now=now)
        for name, picture in pictures.items()
    }


def record_previews(
    tx: Tx, shelf: Shelf, who: Caller, draft: Draft, kept: Mapping[str, Kept], *, now: datetime
) -> None:
    """A preview leaves its pictures, and nothing else."""
    home = draft.wish.sub_account_id
    shelf.record_all(tx, list(kept.values()), account_id=who.account_id, sub_account_id=home, now=now)


def _shown(db: Database, who: Caller, draft: Draft, *, now: datetime) -> tuple[Place, Person]:
    """Whose piece it is. One who had the same lately may be shown it again: nothing is mailed."""
    reach = replace(draft.reach(who, mails_at=now), allow_duplicates=True)
    with db.transaction(tenant(who)) as tx:
        people = audience.refused_inline(tx, draft.people, reach, lock=False)
        place = shown_place(draft.wish, people)
        if place is not None:
            return place, people[place]
        if draft.found is not None:
            return None, draft.found.people[0]
        found = audience.first_person(tx, reach)
    if found is None:
        raise Invalid({"mailing_list_ids": ["There is nobody on these lists who can be mailed to."]})
    return None, found
