"""Whoever knows addresses."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

PostalParts = tuple[str | None, str | None, str | None, str | None, str | None]
"""Of an address at home: delivery line, second line, city, state and ZIP code, as the post writes them."""


@dataclass(frozen=True, slots=True)
class AddressQuery:
    """An address at home as we have it, and who should be found there: only whole names can have moved."""

    name: str | None
    company: str | None
    parts: PostalParts


@dataclass(frozen=True, slots=True)
class ChangeOfAddress:
    """Where somebody is now; without an address, nobody knows."""

    new_address: PostalParts | None = None
    moved_on: date | None = None


@dataclass(frozen=True, slots=True)
class AddressVerification:
    """What is known of an address. `dpv` is the postal service's word: Y it delivers there; D the unit is
    missing; S the unit is not one that it knows; N it does not deliver there. None: there is no answer."""

    dpv: str | None = None
    corrected: PostalParts | None = None
    moved: ChangeOfAddress | None = None
    is_vacant: bool = False


@dataclass(frozen=True, slots=True)
class PersonQuery:
    """Somebody of whom only an e-mail is known."""

    name: str | None
    company: str | None
    email: str


class AddressVerifier(Protocol):
    """A licensed service that knows every address at home, and who has moved. It keeps nothing between calls,
    and the same question may be asked again. One that cannot be reached says `VerifierDown`."""

    @property
    def can_append(self) -> bool:
        """Whether it also finds the address of somebody whose e-mail is known."""
        ...

    def verify(self, addresses: Sequence[AddressQuery]) -> Sequence[AddressVerification]:
        """An answer for each, in their order."""
        ...

    def append(self, people: Sequence[PersonQuery]) -> Sequence[PostalParts | None]:
        """The address of each, in their order; None where there is none."""
        ...


class VerifierDown(Exception):
    """Why no address can be verified at present, as a sentence for an operator."""
