"""Finding whom a radius search is about: the nearest who may be mailed to.

The source is asked without a transaction, for it may be far. Whoever is on a suppression list, or was mailed
to already, is left out and the next nearest stand in, so that what is counted is what is bought.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa
import structlog

from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.leads import lead_sources, leads
from quillpost.core.errors import Invalid, NoMatch, Unavailable
from quillpost.recipients.addresses.keys import surname_of
from quillpost.recipients.addresses.service import HOME, UNDELIVERABLE, Standard
from quillpost.recipients.leads.ports import Lead, LeadsAsked, LeadsDown, LeadsProvider, Resident
from quillpost.recipients.leads.rules import (
    FARTHEST_MILES,
    METRES_A_MILE,
    RESIDENT,
    SAMPLE,
    Search,
    distances,
    middle_of,
)
from quillpost.recipients.rules import Person, examine_alone

log = structlog.get_logger(__name__)

MOST_ASKED = 200_000
"""Records that are looked through for those who may be mailed to."""

UNKNOWN = (
    "This address is not known here, and has no ZIP code that says where it is: write it whole on one line,"
    " as 12 Main St, Austin, TX 78701, or give postal_code beside it."
)
NO_SUCH_ZIP = "There is no ZIP code {}: correct it, so that we know where to search."
NOWHERE = "The ZIP code {} is nowhere in particular: search around an address on land."
NO_DATA = (
    "This installation has no addresses for radius searches yet: its operator imports them with "
    "`quillpost leads import`, or names a provider."
)
NOBODY = (
    "No address within {} miles matches this search: allow more record_types, or search around another"
    " address."
)
NO_SAMPLE = (
    "No sample address within {} miles matches this search. Testing mode knows made-up"
    " addresses alone, in and around larger cities: try 1100 Congress Ave, Austin, TX 78701."
)

HAD_IT = (
    "All whom this search finds had the same piece less than 36 hours ago: search around another address, or"
    " set allow_duplicates."
)

Place = tuple[float, float]
"""Latitude and longitude."""

PassedOver = Callable[[Tx, Sequence[Person]], set[int]]
"""The places, from 1 on, of those whom the next nearest stand in for; who asks knows why."""

_PLACE = sa.select(leads.c.latitude, leads.c.longitude).order_by(leads.c.source_id).limit(1)
_IS_SAMPLE = leads.c.tags.bitwise_and(SAMPLE) != 0

_LEFT_OUT = sa.text(
    """
    select suppressed_places(cast(:home as bigint), :mode, cast(:keys as text[]), cast(:surnames as text[]),
                             cast(:emails as text[])) as place
     union
    select p.place from unnest(cast(:keys as text[])) with ordinality as p (key, place)
     where cast(:into as bigint) is not null
       and exists (select 1 from recipients r where r.mailing_list_id = :into and r.address_key = p.key)
        or :mailed and exists (
           select 1 from items i
            where i.account_id = :account and i.mode = :mode and i.address_key = p.key
              and i.status <> 'Failed'
              and (cast(:since as timestamptz) is null or i.created_at >= :since))
    """
)


@dataclass(frozen=True, slots=True)
class Find:
    """Whom a search has found, the nearest first. `ids` are the source's own; `is_told`, it hears of them.
    `places` are where the addresses lie around the `middle`, as far as the source says."""

    people: list[Person]
    ids: list[str]
    are_samples: bool
    is_told: bool
    places: list[Place | None] = field(default_factory=list)
    middle: Place | None = None

    @property
    def cents(self) -> int:
        return LEAD_CENTS * len(self.people)

    def without(self, keys: AbstractSet[str | None]) -> "Find":
        """Those with other addresses."""
        kept = [place for place, person in enumerate(self.people) if person.address_key not in keys]
        people = [self.people[place] for place in kept]
        places = [self.places[place] for place in kept] if self.places else []
        return replace(self, people=people, ids=[self.ids[place] for place in kept], places=places)


def find(
    db: Database,
    provider: LeadsProvider,
    who: Caller,
    search: Search,
    *,
    home: int | None,
    into: int | None = None,
    repeats: PassedOver | None = None,
    prefix: str = "",
    now: datetime,
) -> Find:
    """Whom to mail to for this sub account, none of whom is on the list `into` yet; or `NoMatch`.

    `repeats` tells who has just had the piece that they are searched for.

    An address that is nowhere is `Invalid`, by the field's name after the `prefix`.
    """
    key, latitude, longitude = _middle(db, who, search, prefix)
    asked = LeadsAsked(
        latitude=latitude,
        longitude=longitude,
        count=search.record_count + 1,  # the address itself may be among them
        record_types=search.record_types,
        include_condos=search.include_condos,
        include_businesses=search.include_businesses,
        address=search.address,
        within_miles=search.within_miles,
    )
    sieve = _Sieve(db, who, search, None if search.include_search_address else key, home, into, repeats, now)
    while True:
        try:
            candidates = provider.search(asked)
        except LeadsDown as down:
            log.warning("leads.source_down", error=str(down))
            raise Unavailable("The source of addresses does not answer. Try again shortly.") from None
        near = _near(candidates, latitude, longitude, search.within_miles)
        found = sieve.sift(near)
        are_all = len(near) < asked.count or asked.count >= MOST_ASKED
        if len(found) >= search.record_count or are_all:
            break
        asked = replace(asked, count=min(2 * asked.count + 100, MOST_ASKED))
    if not found:
        raise NoMatch(HAD_IT if repeats else _nobody(db, who, provider, search))
    chosen = found[: search.record_count]
    return Find(
        [person for _, person in chosen],
        [lead.id for lead, _ in chosen],
        who.is_testing,
        provider.is_told,
        [lead.place for lead, _ in chosen],
        (latitude, longitude),
    )


@dataclass(frozen=True, slots=True)
class _Sieve:
    """Who of the records may be bought."""

    db: Database
    who: Caller
    search: Search
    middle: str | None
    home: int | None
    into: int | None
    repeats: PassedOver | None
    now: datetime

    def sift(self, candidates: Sequence[Lead]) -> list[tuple[Lead, Person]]:
        """With their records; one for each address that is mailed to."""
        people: dict[str, tuple[Lead, Person]] = {}
        for lead in candidates:
            property_, person = _people(lead, owner=self.search.use_property_owner)
            key = person.address_key
            if key is None or person.deliverability == UNDELIVERABLE:
                continue
            if self.middle is not None and self.middle in (key, property_.address_key):
                continue
            people.setdefault(key, (lead, person))
        with self.db.transaction(tenant(self.who)) as tx:
            nearest = [person for _, person in people.values()]
            left_out = self._left_out(tx, nearest)
            if self.repeats is not None:
                left_out |= self.repeats(tx, nearest)
        return [one for place, one in enumerate(people.values(), start=1) if place not in left_out]

    def _left_out(self, tx: Tx, people: Sequence[Person]) -> set[int]:
        """The places, from 1 on, of those who are barred, or on the list, or were mailed to."""
        days = self.search.mailed_within_days
        return set(
            tx.execute(
                _LEFT_OUT,
                {
                    "home": self.home,
                    "keys": [person.address_key for person in people],
                    "surnames": [person.surname for person in people],
                    "emails": [person.email for person in people],
                    "into": self.into,
                    "mailed": self.search.exclude_already_mailed,
                    "since": None if days is None else self.now - timedelta(days=days),
                    "account": self.who.account_id,
                    "mode": self.who.mode,
                },
            ).scalars()
        )


def _middle(db: Database, who: Caller, search: Search, prefix: str) -> tuple[str | None, float, float]:
    """The address's key, and where it is: its own place if it is among the records, else its ZIP code's.

    Testing mode knows samples alone, and live mode none: a made-up place is nowhere.
    """
    middle = middle_of(search.address, search.postal_code)
    if middle.key is not None:
        with db.anonymous() as tx:
            ours = _IS_SAMPLE if who.is_testing else ~_IS_SAMPLE
            own = tx.execute(_PLACE.where(leads.c.address_key == middle.key, ours)).first()
        if own is not None:
            return middle.key, own.latitude, own.longitude
    field = f"{prefix}postal_code" if search.postal_code else f"{prefix}address"
    if middle.zip5 is None:
        raise Invalid({f"{prefix}address": [UNKNOWN]})
    if middle.place is None:
        raise Invalid({field: [NO_SUCH_ZIP.format(middle.zip5)]})
    if middle.place.latitude is None or middle.place.longitude is None:
        raise Invalid({field: [NOWHERE.format(middle.zip5)]})
    return middle.key, middle.place.latitude, middle.place.longitude


def _near(
    candidates: Sequence[Lead], latitude: float, longitude: float, miles: float | None
) -> Sequence[Lead]:
    """Those within the distance, where there is one; a source may not know that it was asked for."""
    if miles is None:
        return candidates
    placed = [(lead, lead.place) for lead in candidates if lead.place is not None]
    places = np.array([place for _, place in placed], float).reshape(-1, 2)
    far = distances(latitude, longitude, places[:, 0], places[:, 1])
    return [lead for (lead, _), metres in zip(placed, far, strict=True) if metres <= miles * METRES_A_MILE]


def _nobody(db: Database, who: Caller, provider: LeadsProvider, search: Search) -> str:
    """Why nobody was found, and what to do."""
    miles = f"{search.within_miles or FARTHEST_MILES:g}"
    if who.is_testing:
        return NO_SAMPLE.format(miles)
    with db.anonymous() as tx:
        has_any = tx.execute(sa.select(lead_sources.c.id).where(~lead_sources.c.is_sample).limit(1)).first()
    return NO_DATA if has_any is None and not provider.is_told else NOBODY.format(miles)


def _people(lead: Lead, *, owner: bool) -> tuple[Person, Person]:
    """Who lives there, and who is mailed to."""
    resident = _person(lead.resident)
    if not owner or lead.owner is None:
        return resident, resident
    elsewhere = replace(_person(lead.owner), absentee_address=_line(resident))
    return resident, elsewhere


def _person(one: Resident) -> Person:
    fields: dict[str, Any] = {
        "name": one.name if one.name or one.company else RESIDENT,
        "company": one.company, "address": one.address, "address2": one.address2, "city": one.city,
        "province": one.province, "postal_code": one.postal_code, "country": one.country,
    }  # fmt: skip
    if one.address_key is None or one.deliverability is None:
        person, faults = examine_alone(fields)
        return replace(person, deliverability=UNDELIVERABLE) if faults else person
    return Person(
        **{**fields, "country": one.country or HOME},
        surname=surname_of(one.name),
        address_key=one.address_key,
        standard=_standard(one.standard),
        deliverability=one.deliverability,
        reasons=tuple(one.reasons),
    )


def _standard(parts: Sequence[str | None] | None) -> Standard | None:
    if parts is None:
        return None
    address, address2, city, province, postal_code = parts
    return address, address2, city, province, postal_code


def _line(person: Person) -> str:
    """The address on one line."""
    street = ", ".join(filter(None, (person.address, person.address2, person.city)))
    return f"{street}, {person.province or ''} {person.postal_code or ''}".strip(" ,")
