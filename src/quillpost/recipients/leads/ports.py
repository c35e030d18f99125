"""Whoever sells addresses."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LeadQuery:
    """The nearest records to a point, of any of the kinds that are named. `address` is the point as whoever
    asks has written it, for a source that knows better where that is. `within_miles`, none that is farther:
    whose place a source does not tell is left out then."""

    latitude: float
    longitude: float
    count: int
    record_types: Sequence[str] = ("all",)
    include_condos: bool = True
    include_businesses: bool = True
    address: str = ""
    within_miles: float | None = None


@dataclass(frozen=True, slots=True)
class Resident:
    """Someone at an address, by the names of our fields. Where the address was judged before, there is its
    key, and what was found."""

    address: str | None
    name: str | None = None
    company: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None
    country: str | None = None
    address_key: str | None = None
    standard: Sequence[str | None] | None = None
    deliverability: str | None = None
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Lead:
    """A record that can be bought; `owner`, where whoever owns it lives elsewhere; `coordinates`, its latitude
    and longitude, where the source tells them."""

    id: str
    resident: Resident
    owner: Resident | None = None
    coordinates: tuple[float, float] | None = None


class LeadProvider(Protocol):
    """Addresses that can be bought. What they cost our callers is our own business."""

    def search(self, query: LeadQuery) -> Sequence[Lead]:
        """The nearest first, at most as many as are asked for; fewer only where there are no more."""
        ...

    def confirm_purchase(self, reference: str, ids: Sequence[str], *, now: datetime) -> None:
        """These are somebody's now. The same reference twice is one purchase."""
        ...

    @property
    def needs_purchase_reports(self) -> bool:
        """Whether it wants to hear of purchases."""
        ...


class LeadProviderDown(Exception):
    """Why the source of addresses could not be reached, as a sentence for an operator."""
