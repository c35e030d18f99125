"""Sending: a draft finds its audience and becomes an order with its pictures on the shelf.

Files are put away before the transaction opens, for storage may be far, and recorded inside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core import jobs
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Invalid, NoMatch
from quillpost.core.ports import Fetched
from quillpost.core.stored_files import Kept, Shelf
from quillpost.orders import audience as listed
from quillpost.orders import create, validation
from quillpost.orders.audience import Reach, Tally
from quillpost.orders.drafts import Draft
from quillpost.orders.images import Art, Place
from quillpost.orders.items import OwnFiles, Piece, new_short_code
from quillpost.orders.materialization import MATERIALISE
from quillpost.orders.models import Order
from quillpost.orders.request import lists_at_hand
from quillpost.orders.requests import Faults
from quillpost.recipients import rules as audience
from quillpost.recipients.addresses.service import DOUBTFUL
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.search import HAD_IT, Find, PassedOver
from quillpost.recipients.lists.queries import MailingList
from quillpost.recipients.rules import Person

NOBODY = Tally(pieces=0, cents=0, undeliverable=0, duplicates=0, suppressed=0)

REFUSALS_TOLD = 5
"""Reasons of refusals that are told one by one."""

TOLD_OF_DOUBTS = " doubtful: "
"""What comes after it in a warning may name one person's city."""

NOT_MAILED_TO = " not mailed to"
"""In every warning that counts recipients who get no piece."""

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
    gift_cents: int = 0
    """What is on the card that each piece brings."""

    @property
    def pieces(self) -> int:
        return sum(not person.refusal for person in self.people) + self.listed.pieces

    @property
    def cents(self) -> int:
        return self.inline_cents + self.listed.cents

    @property
    def gift_total(self) -> int:
        return self.pieces * self.gift_cents

    @property
    def listed_people(self) -> int:
        found = self.listed
        return found.pieces + found.undeliverable + found.duplicates + found.suppressed + found.samples

    @property
    def suppressed(self) -> int:
        return self._refused(audience.SUPPRESSED) + self.listed.suppressed

    @property
    def duplicates(self) -> int:
        return self._refused(audience.SAME_ADDRESS, audience.REPEATED) + self.listed.duplicates

    @property
    def undeliverable(self) -> int:
        """Everyone else who is not mailed to: so all who were given are counted once."""
        everyone = len(self.people) + self.listed_people
        return everyone - self.pieces - self.suppressed - self.duplicates

    def _refused(self, *sentences: str) -> int:
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
    if draft.found is not None and not wanted.list_ids:
        found = _tally_of(tx, draft, draft.found, wanted)
    prices = [draft.tariff.unit_cents(person.country) or 0 for person in people if not person.refusal]
    gift = draft.wish.gift
    return Audience(
        people, found, sum(prices), _audience_warnings(people, found), gift_cents=gift.cents if gift else 0
    )


def _tally_of(tx: Tx, draft: Draft, found: Find, wanted: Reach) -> Tally:
    """What would become of those whom a search has found, who are on no list yet."""
    people = listed.refused_inline(tx, found.people, wanted, lock=False)
    prices = [draft.tariff.unit_cents(person.country) for person in people if not person.refusal]
    offered = [cents for cents in prices if cents is not None]
    refusals = Counter(person.refusal for person in people if person.refusal)
    return Tally(
        pieces=len(offered),
        cents=sum(offered),
        undeliverable=len(prices) - len(offered),
        duplicates=refusals[audience.REPEATED] + refusals[audience.SAME_ADDRESS],
        suppressed=refusals[audience.SUPPRESSED],
    )


def repeats_of(draft: Draft, who: Caller, *, mails_at: datetime) -> PassedOver:
    """Who of any people would be refused, as they had this creative a short time ago."""
    wanted = draft.reach(who, mails_at=mails_at)

    def repeats(tx: Tx, people: Sequence[Person]) -> set[int]:
        judged = listed.refused_inline(tx, people, wanted, lock=False)
        return {place for place, one in enumerate(judged, start=1) if one.refusal == audience.REPEATED}

    return repeats


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
    sealer: Sealer | None = None,
    review: timedelta,
    needs_credit: bool = False,
    now: datetime,
) -> tuple[Order, Audience]:
    """The order, the rows of its files, and the job that finds the people of its lists: one transaction.

    So is what its radius search has found, on a list of its own, and the fee: neither is without the other.
    """
    _hold(tx, draft)
    mails_at = due_at(draft, review=review, now=now)
    draft, bought_onto = _with_list(tx, who, sealer, draft, mails_at=mails_at, now=now)
    found = reach(tx, who, draft, mails_at=mails_at, lock=True)
    shelf.record_all(
        tx, files.new, account_id=who.account_id, sub_account_id=draft.wish.sub_account_id, now=now
    )
    order = create.place(
        tx,
        who,
        create.Prepared(
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
            lowest_contrast=draft.lowest_contrast,
            leads_fee=draft.found.cents if draft.found else 0,
            gift_total=found.gift_total,
        ),
        due_at=mails_at,
        needs_credit=needs_credit,
        now=now,
    )
    if bought_onto is not None and draft.found is not None:
        lead_service.note_purchase(tx, who, draft.found, bought_onto, order_id=order.id, now=now)
    if draft.wish.mailing_list_ids:
        jobs.defer(tx, MATERIALISE, order_id=order.id)
    return order, found


def _with_list(
    tx: Tx, who: Caller, sealer: Sealer | None, draft: Draft, *, mails_at: datetime, now: datetime
) -> tuple[Draft, MailingList | None]:
    """The draft as one to a list, where it is one to those whom a search has found. Whoever was sent the same
    while it was prepared is not bought: nobody pays for a record that no piece goes to."""
    wish = draft.wish
    if draft.found is None or wish.radius is None:
        return draft, None
    assert sealer is not None, "whoever buys people for an order has a sealer for their list's key"
    listed.take_turns(tx, draft.reach(who, mails_at=mails_at))
    had_it = repeats_of(draft, who, mails_at=mails_at)(tx, draft.found.people)
    found = draft.found.without({draft.found.people[place - 1].address_key for place in had_it})
    if not found.people:
        raise NoMatch(HAD_IT)
    onto = lead_service.new_list(tx, who, sealer, wish.radius, home=wish.sub_account_id, now=now)
    lead_service.put_on(tx, onto, found, now=now)
    return replace(draft, found=found, wish=replace(wish, mailing_list_ids=[onto.id])), onto


def _hold(tx: Tx, draft: Draft) -> None:
    """What was looked up may have gone, or changed hands, meanwhile; from here on it stays."""
    home, faults = draft.wish.sub_account_id, Faults()
    if home is not None:
        require_sub_account(tx, home)
    lists_at_hand(tx, draft.wish.mailing_list_ids, home, faults, held=True)
    if draft.wish.gift is not None:
        faults |= validation.faults_of(tx, draft.wish.gift)
    if faults:
        raise Invalid(faults)


def _pieces(draft: Draft, people: Sequence[Person], own: OwnFiles) -> list[Piece]:
    """Each with a price and its short code. The refused are free, and have no paper to put a code on."""
    none = (None, None)
    return [
        Piece(
            person,
            0 if person.refusal else draft.tariff.unit_cents(person.country) or 0,
            None if person.refusal else new_short_code(),
            *own.get(place, none),
            draft.wish.on_list,
        )
        for place, person in enumerate(people)
    ]


def _audience_warnings(people: Sequence[Person], found: Tally) -> list[str]:
    """How many are not mailed to, and why; nobody should find that out from an item. And whom mail may not
    reach: what is wrong with one address may be wrong with that one alone, so a few reasons stand for all."""
    reasons = Counter(person.refusal for person in people if person.refusal)
    shown = [why for why, _ in reasons.most_common(REFUSALS_TOLD)]
    told = [
        f"{_recipients(reasons[why])}{NOT_MAILED_TO}: {why}{_advice(why)}" for why in reasons if why in shown
    ]
    if others := sum(n for why, n in reasons.items() if why not in shown):
        told.append(f"{_recipients(others)}{NOT_MAILED_TO} for other reasons: their items say which.")
    told += _doubts(people, found)
    for n, why in (
        (found.undeliverable, "mail does not reach their addresses, or there is no price for the country."),
        (found.duplicates, "the address is in this order already, or had the same piece within 36 hours."),
        (found.suppressed, audience.SUPPRESSED),
        (found.samples, audience.SAMPLE),
    ):
        told += [f"On the lists {_recipients(n)}{NOT_MAILED_TO}: {why}"] if n else []
    return told


def _doubts(people: Sequence[Person], found: Tally) -> list[str]:
    doubtful = [p for p in people if p.deliverability == DOUBTFUL and not p.refusal]
    n = len(doubtful) + found.doubtful
    if not n:
        return []
    reasons = dict.fromkeys([*(why for person in doubtful for why in person.reasons[:1]), *found.doubts])
    told = " ".join(list(reasons)[: listed.DOUBTS_TOLD])
    return [f"{'1 address is' if n == 1 else f'{n:,} addresses are'}{TOLD_OF_DOUBTS}{told}"]


def _recipients(n: int) -> str:
    return "1 recipient is" if n == 1 else f"{n:,} recipients are"


def _advice(why: str) -> str:
    return HOW_TO_REPEAT if why == audience.REPEATED else ""
