"""Sending: a draft finds its audience and becomes an order with its pictures on the shelf.

Files are put away before the transaction opens, for storage may be far, and recorded inside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from quillpost import jobs
from quillpost.accounts.rules import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.audience import rules as audience
from quillpost.audience.rules import Person
from quillpost.creative.shelf import Kept, Shelf
from quillpost.database import Database, Tenant, Tx
from quillpost.kit.errors import Invalid
from quillpost.orders import listed, service
from quillpost.orders.calls import Faults
from quillpost.orders.listed import Tally
from quillpost.orders.materialising import MATERIALISE
from quillpost.orders.pictures import Art, Place
from quillpost.orders.preparing import Draft
from quillpost.orders.records import Order
from quillpost.orders.resolving import lists_at_hand
from quillpost.orders.store import OwnFiles, Piece, new_short_code
from quillpost.ports import Fetched
from quillpost.postal.judging import UNDELIVERABLE

NOBODY = Tally(pieces=0, cents=0, undeliverable=0, duplicates=0, suppressed=0)

HOW_TO_REPEAT = " Set allow_duplicates to mail to them all the same."


@dataclass(frozen=True, slots=True)
class Files:
    """What an order prints from the shelf; those in `new` still wait for their rows."""

    front: UUID | None = None
    background: UUID | None = None
    logo: UUID | None = None
    pages: UUID | None = None
    new: tuple[Kept, ...] = ()
    own: OwnFiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Audience:
    """Everyone whom a draft reaches: the call's own people, one by one, and those of its lists, counted."""

    people: list[Person]
    listed: Tally
    inline_cents: int
    warnings: list[str]

    @property
    def pieces(self) -> int:
        return sum(not person.refusal for person in self.people) + self.listed.pieces

    @property
    def cents(self) -> int:
        return self.inline_cents + self.listed.cents

    @property
    def listed_people(self) -> int:
        return (
            self.listed.pieces + self.listed.undeliverable + self.listed.duplicates + self.listed.suppressed
        )

    @property
    def undeliverable(self) -> int:
        inline = sum(person.deliverability == UNDELIVERABLE for person in self.people)
        return inline + self.listed.undeliverable

    def refused(self, *sentences: str) -> int:
        return sum(person.refusal in sentences for person in self.people)


def keep_files(db: Database, shelf: Shelf, who: Caller, draft: Draft, *, now: datetime) -> Files:
    """Put the draft's files away, each once; one that the sender has there already is not kept again."""
    art = draft.artwork
    distinct: dict[bytes, Fetched] = {
        picture.body: picture
        for pictures in (art.front, art.background, art.logo)
        for picture in pictures.distinct()
        if pictures.file is None
    }
    if art.pages is not None and art.pages_file is None:
        distinct[art.pages.body] = art.pages
    files, new = _on_the_shelf(db, shelf, who, distinct, home=draft.wish.sub_account_id, now=now)

    def by_place(pictures: Art) -> dict[Place, UUID]:
        if pictures.file is not None:
            return {None: pictures.file.id}
        return {place: files[picture.body] for place, picture in pictures.by_place.items()}

    fronts, backgrounds = by_place(art.front), by_place(art.background)
    pages = art.pages_file.id if art.pages_file else files[art.pages.body] if art.pages else None
    return Files(
        fronts.get(None),
        backgrounds.get(None),
        by_place(art.logo).get(None),
        pages,
        tuple(new),
        {
            place: (fronts.get(place), backgrounds.get(place))
            for place in fronts.keys() | backgrounds.keys()
            if place is not None
        },
    )


def _on_the_shelf(
    db: Database,
    shelf: Shelf,
    who: Caller,
    distinct: Mapping[bytes, Fetched],
    *,
    home: int | None,
    now: datetime,
) -> tuple[dict[bytes, UUID], list[Kept]]:
    """Where each of the contents lies, and those that were put there just now.

    A file of another home is not used: whoever is limited to this one could not see it.
    """
    if not distinct:
        return {}, []
    with db.transaction(Tenant(who.account_id, home)) as tx:
        known = shelf.find(tx, distinct, purpose="creative")
    new = {
        body: shelf.put(body, purpose="creative", content_type=fetched.content_type, now=now)
        for body, fetched in distinct.items()
        if body not in known
    }
    return known | {body: kept.id for body, kept in new.items()}, list(new.values())


def reach(tx: Tx, who: Caller, draft: Draft, *, mails_at: datetime, lock: bool) -> Audience:
    """Who is mailed to and who is not; `lock`, nobody else sends this creative until the transaction ends."""
    wanted = draft.reach(who, mails_at=mails_at)
    people = listed.refused_inline(tx, draft.people, wanted, lock=lock)
    mailed = [person.address_key for person in people if person.address_key and not person.refusal]
    found = listed.tally(tx, replace(wanted, inline_keys=mailed)) if wanted.list_ids else NOBODY
    prices = [draft.tariff.unit_cents(person.country) or 0 for person in people if not person.refusal]
    return Audience(people, found, sum(prices), _audience_warnings(people, found))


def due_at(draft: Draft, *, review: timedelta, now: datetime) -> datetime:
    """When the review ends, unless the caller wants it later."""
    return max(now + review, draft.wish.schedule_for or now)


def place(
    tx: Tx,
    who: Caller,
    shelf: Shelf,
    draft: Draft,
    files: Files,
    *,
    review: timedelta,
    needs_credit: bool = False,
    now: datetime,
) -> tuple[Order, Audience]:
    """The order, the rows of its files, and the job that finds the people of its lists: one transaction."""
    _hold(tx, draft)
    mails_at = due_at(draft, review=review, now=now)
    found = reach(tx, who, draft, mails_at=mails_at, lock=True)
    shelf.record_all(
        tx, files.new, account_id=who.account_id, sub_account_id=draft.wish.sub_account_id, now=now
    )
    order = service.place(
        tx,
        who,
        service.Prepared(
            wish=draft.wish,
            pieces=_pieces(draft, found.people, files.own),
            estimated=found.pieces,
            authorised=found.cents,
            listed=found.listed_people,
            sender=draft.design.sender,
            return_address=draft.return_address,
            front_file_id=files.front,
            background_file_id=files.background,
            logo_file_id=files.logo,
            pages_file_id=files.pages,
            creative_key=draft.creative_key,
            warnings=draft.warnings + found.warnings,
            lowest_dpi=draft.lowest_dpi,
        ),
        due_at=mails_at,
        needs_credit=needs_credit,
        now=now,
    )
    if draft.wish.mailing_list_ids:
        jobs.defer(tx, MATERIALISE, order_id=order.id)
    return order, found


def _hold(tx: Tx, draft: Draft) -> None:
    """What was looked up may have gone, or changed hands, meanwhile; from here on it stays."""
    home, faults = draft.wish.sub_account_id, Faults()
    if home is not None:
        require_sub_account(tx, home)
    lists_at_hand(tx, draft.wish.mailing_list_ids, home, faults, held=True)
    if faults:
        raise Invalid(faults)


def _pieces(draft: Draft, people: Sequence[Person], own: OwnFiles) -> list[Piece]:
    """Each with a price and, where it carries a QR code, its short code. The refused are free."""
    has_code, none = draft.wish.qrcode_url is not None, (None, None)
    return [
        Piece(
            person,
            0 if person.refusal else draft.tariff.unit_cents(person.country) or 0,
            new_short_code() if has_code else None,
            *own.get(place, none),
            draft.wish.on_list,
        )
        for place, person in enumerate(people)
    ]


def _audience_warnings(people: Sequence[Person], found: Tally) -> list[str]:
    """How many are not mailed to, and why; nobody should find that out from an item."""
    reasons = Counter(person.refusal for person in people if person.refusal)
    told = [f"{_recipients(n)} not mailed to: {why}{_advice(why)}" for why, n in reasons.items()]
    for n, why in (
        (found.undeliverable, "there is no whole mailing address, or no price for the country."),
        (found.duplicates, "the address is in this order already, or had the same piece within 36 hours."),
        (found.suppressed, audience.SUPPRESSED),
    ):
        told += [f"On the lists {_recipients(n)} not mailed to: {why}"] if n else []
    return told


def _recipients(n: int) -> str:
    return "1 recipient is" if n == 1 else f"{n:,} recipients are"


def _advice(why: str) -> str:
    return HOW_TO_REPEAT if why == audience.REPEATED else ""
