"""Find the nearest people who may be mailed to. The provider is queried without a transaction, for it may be slow.
Suppressed and already mailed people are replaced by the next nearest, so that what is counted is what is bought."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import compress
from typing import Any, cast

import numpy as np
import sqlalchemy as sa
import structlog

from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.recipients import lead_sources, leads
from quillpost.core.errors import Invalid, Message, NoMatch, Unavailable
from quillpost.recipients.addresses.rules import HOME_COUNTRY, UNDELIVERABLE, StandardParts
from quillpost.recipients.addresses.text import extract_surname
from quillpost.recipients.leads.ports import Lead, LeadProvider, LeadProviderDown, LeadQuery, Resident
from quillpost.recipients.leads.rules import (
    MAX_MILES,
    METERS_PER_MILE,
    SAMPLE_TAG,
    UNKNOWN_RESIDENT,
    LeadSearch,
    compute_distances,
    find_search_center,
)
from quillpost.recipients.models import Person
from quillpost.recipients.rules import check_recipient

log = structlog.get_logger(__name__)

MAX_QUERY_COUNT = 200_000

UNKNOWN_ADDRESS = Message(
    "search_address_unknown",
    "This address is not known here, and has no ZIP code that says where it is: write it whole on one line,"
    " as 12 Main St, Austin, TX 78701, or give postal_code beside it.",
)
NO_SUCH_ZIP = "There is no ZIP code {}: correct it, so that we know where to search."
ZIP_WITHOUT_LOCATION = "The ZIP code {} is nowhere in particular: search around an address on land."
NO_LEADS = (
    "This installation has no addresses for radius searches yet: its operator imports them with "
    "`quillpost leads import`, or names a provider."
)
NO_SAMPLE_MATCH = (
    "No sample address within {} miles matches this search. Testing mode knows made-up"
    " addresses alone, in and around larger cities: try 1100 Congress Ave, Austin, TX 78701."
)

Coordinates = tuple[float, float]
"""Latitude and longitude."""

FindExcluded = Callable[[Tx, Sequence[Person]], set[int]]
"""The positions, from 1, of those to be replaced by the next nearest."""

_SELECT_COORDINATES = sa.select(leads.c.latitude, leads.c.longitude).order_by(leads.c.source_id).limit(1)
_IS_SAMPLE = leads.c.tags.bitwise_and(SAMPLE_TAG) != 0

_SELECT_EXCLUDED = sa.text(
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
class LeadSearchResult:
    """The nearest first. `ids` are the provider's; `coordinates` are None where unknown."""

    people: list[Person]
    ids: list[str]
    are_samples: bool
    needs_purchase_report: bool
    coordinates: list[Coordinates | None] = field(default_factory=list)
    center: Coordinates | None = None

    @property
    def cents(self) -> int:
        return LEAD_CENTS * len(self.people)

    def without(self, keys: AbstractSet[str | None]) -> "LeadSearchResult":
        is_left = [person.address_key not in keys for person in self.people]
        people, ids = list(compress(self.people, is_left)), list(compress(self.ids, is_left))
        return replace(self, people=people, ids=ids, coordinates=list(compress(self.coordinates, is_left)))


def search_leads(
    db: Database,
    provider: LeadProvider,
    caller: Caller,
    search: LeadSearch,
    *,
    sub_account_id: int | None,
    mailing_list_id: int | None = None,
    find_repeats: FindExcluded | None = None,
    prefix: str = "",
    now: datetime,
) -> LeadSearchResult:
    """Whom to mail to for this sub account, none of whom is on the list `mailing_list_id`; or `NoMatch`.
    `find_repeats` tells who has just had the same product. An unknown address is `Invalid`, by the field's name after
    the `prefix`."""
    key, latitude, longitude = _locate_center(db, caller, search, prefix)
    query = LeadQuery(
        latitude=latitude,
        longitude=longitude,
        count=search.record_count + 1,  # the address itself may be among them
        record_types=search.record_types,
        include_condos=search.include_condos,
        include_businesses=search.include_businesses,
        address=search.address,
        within_miles=search.within_miles,
    )
    lead_filter = _LeadFilter(
        db,
        caller,
        search,
        None if search.include_search_address else key,
        sub_account_id,
        mailing_list_id,
        find_repeats,
        now,
    )
    while True:
        try:
            candidates = provider.search(query)
        except LeadProviderDown as failure:
            log.warning("leads.provider_unavailable", error=str(failure))
            raise Unavailable("The source of addresses does not answer. Try again shortly.") from None
        near_leads = _leads_within(candidates, latitude, longitude, search.within_miles)
        leads = lead_filter.filter_leads(near_leads)
        is_exhausted = len(near_leads) < query.count or query.count >= MAX_QUERY_COUNT
        if len(leads) >= search.record_count or is_exhausted:
            break
        query = replace(query, count=min(2 * query.count + 100, MAX_QUERY_COUNT))
    if not leads:
        raise NoMatch(_explain_no_match(db, caller, provider, search))
    chosen = leads[: search.record_count]
    return LeadSearchResult(
        [person for _, person in chosen],
        [lead.id for lead, _ in chosen],
        caller.mode == "test",
        provider.needs_purchase_reports,
        [lead.coordinates for lead, _ in chosen],
        (latitude, longitude),
    )


@dataclass(frozen=True, slots=True)
class _LeadFilter:
    db: Database
    caller: Caller
    search: LeadSearch
    center_key: str | None
    sub_account_id: int | None
    mailing_list_id: int | None
    find_repeats: FindExcluded | None
    now: datetime

    def filter_leads(self, candidates: Sequence[Lead]) -> list[tuple[Lead, Person]]:
        """One for each address."""
        people: dict[str, tuple[Lead, Person]] = {}
        for lead in candidates:
            resident, person = _build_people(lead, use_owner=self.search.use_property_owner)
            key = person.address_key
            if key is None or person.deliverability == UNDELIVERABLE:
                continue
            if self.center_key is not None and self.center_key in (key, resident.address_key):
                continue
            people.setdefault(key, (lead, person))
        with self.db.transaction(build_tenant(self.caller)) as tx:
            nearest = [person for _, person in people.values()]
            excluded = self._find_excluded(tx, nearest)
            if self.find_repeats is not None:
                excluded |= self.find_repeats(tx, nearest)
        return [pair for position, pair in enumerate(people.values(), start=1) if position not in excluded]

    def _find_excluded(self, tx: Tx, people: Sequence[Person]) -> set[int]:
        """The positions, from 1, of those suppressed, on the list, or already mailed to."""
        days = self.search.mailed_within_days
        return set(
            tx.execute(
                _SELECT_EXCLUDED,
                {
                    "home": self.sub_account_id,
                    "keys": [person.address_key for person in people],
                    "surnames": [person.surname for person in people],
                    "emails": [person.email for person in people],
                    "into": self.mailing_list_id,
                    "mailed": self.search.exclude_already_mailed,
                    "since": None if days is None else self.now - timedelta(days=days),
                    "account": self.caller.account_id,
                    "mode": self.caller.mode,
                },
            ).scalars()
        )


def _locate_center(db: Database, caller: Caller, search: LeadSearch, prefix: str) -> tuple[str | None, float, float]:
    """The address's key and coordinates: its own if it is among the records, else its ZIP code's. Test mode knows only
    samples, and live mode none of them."""
    center = find_search_center(search.address, search.postal_code)
    if center.key is not None:
        with db.anonymous_transaction() as tx:
            mode_condition = _IS_SAMPLE if caller.mode == "test" else ~_IS_SAMPLE
            own_coordinates = tx.execute(
                _SELECT_COORDINATES.where(leads.c.address_key == center.key, mode_condition)
            ).first()
        if own_coordinates is not None:
            return center.key, own_coordinates.latitude, own_coordinates.longitude
    field = f"{prefix}postal_code" if search.postal_code else f"{prefix}address"
    if center.zip5 is None:
        raise Invalid({f"{prefix}address": [UNKNOWN_ADDRESS]})
    if center.zip_area is None:
        raise Invalid({field: [NO_SUCH_ZIP.format(center.zip5)]})
    if center.zip_area.latitude is None or center.zip_area.longitude is None:
        raise Invalid({field: [ZIP_WITHOUT_LOCATION.format(center.zip5)]})
    return center.key, center.zip_area.latitude, center.zip_area.longitude


def _leads_within(candidates: Sequence[Lead], latitude: float, longitude: float, miles: float | None) -> Sequence[Lead]:
    """A provider may ignore the distance."""
    if miles is None:
        return candidates
    leads_with_coordinates = [(lead, lead.coordinates) for lead in candidates if lead.coordinates is not None]
    coordinates = np.array([coordinates_pair for _, coordinates_pair in leads_with_coordinates], float).reshape(-1, 2)
    distances_meters = compute_distances(latitude, longitude, coordinates[:, 0], coordinates[:, 1])
    return [
        lead
        for (lead, _), meters in zip(leads_with_coordinates, distances_meters, strict=True)
        if meters <= miles * METERS_PER_MILE
    ]


def _explain_no_match(db: Database, caller: Caller, provider: LeadProvider, search: LeadSearch) -> str:
    miles = f"{search.within_miles or MAX_MILES:g}"
    if caller.mode == "test":
        return NO_SAMPLE_MATCH.format(miles)
    with db.anonymous_transaction() as tx:
        source = tx.execute(sa.select(lead_sources.c.id).where(~lead_sources.c.is_sample).limit(1)).first()
    if source is None and not provider.needs_purchase_reports:
        return NO_LEADS
    text = f"No address within {miles} miles matches this search: allow more record_types, or search around another"
    return Message("search_no_match", f"{text} address.", miles=miles)


def _build_people(lead: Lead, *, use_owner: bool) -> tuple[Person, Person]:
    """Who lives there, and who is mailed to."""
    resident = _build_person(lead.resident)
    if not use_owner or lead.owner is None:
        return resident, resident
    absentee_owner = replace(_build_person(lead.owner), absentee_address=_format_address_line(resident))
    return resident, absentee_owner


def _build_person(resident: Resident) -> Person:
    fields: dict[str, Any] = {
        "name": resident.name if resident.name or resident.company else UNKNOWN_RESIDENT,
        "company": resident.company, "address": resident.address, "address2": resident.address2, "city": resident.city,
        "province": resident.province, "postal_code": resident.postal_code, "country": resident.country,
    }  # fmt: skip
    if resident.address_key is None or resident.deliverability is None:
        person, errors = check_recipient(fields)
        return replace(person, deliverability=UNDELIVERABLE) if errors else person
    return Person(
        **{**fields, "country": resident.country or HOME_COUNTRY},
        surname=extract_surname(resident.name),
        address_key=resident.address_key,
        standard=cast("StandardParts | None", resident.standard and tuple(resident.standard)),
        deliverability=resident.deliverability,
        reasons=tuple(resident.reasons),
    )


def _format_address_line(person: Person) -> str:
    street = ", ".join(filter(None, (person.address, person.address2, person.city)))
    return f"{street}, {person.province or ''} {person.postal_code or ''}".strip(" ,")
