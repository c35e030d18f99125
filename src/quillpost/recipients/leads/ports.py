"""What a provider of addresses must offer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LeadQuery:
    """The nearest records to a point, of any of the named types. `address` is the point as the user wrote it. With
    `within_miles`, records without coordinates are left out."""

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
    """Someone at an address, by our field names; with a key and deliverability if it was standardized before."""

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
    """A record that can be bought; `owner` is set if the owner lives elsewhere."""

    id: str
    resident: Resident
    owner: Resident | None = None
    coordinates: tuple[float, float] | None = None


class LeadProvider(Protocol):
    """Addresses that can be bought. What they cost our callers is decided elsewhere."""

    def search(self, query: LeadQuery) -> Sequence[Lead]:
        """The nearest first, at most as many as requested; fewer only if there are no more."""
        ...

    def confirm_purchase(self, reference: str, ids: Sequence[str], *, now: datetime) -> None:
        """Idempotent by `reference`."""
        ...

    @property
    def needs_purchase_reports(self) -> bool:
        """Whether it wants to hear of purchases."""
        ...


class LeadProviderDown(Exception):
    """A sentence for an operator."""
