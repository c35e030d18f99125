"""What an address verifier must offer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

PostalParts = tuple[str | None, str | None, str | None, str | None, str | None]
"""Delivery line, second line, city, state and ZIP code of a US address, in standard form."""


@dataclass(frozen=True, slots=True)
class AddressQuery:
    """A US address, and who should be there: only complete names can have moved."""

    name: str | None
    company: str | None
    parts: PostalParts


@dataclass(frozen=True, slots=True)
class ChangeOfAddress:
    """Without `new_address` it is unknown."""

    new_address: PostalParts | None = None
    moved_on: date | None = None


@dataclass(frozen=True, slots=True)
class AddressVerification:
    """`dpv` is the USPS code: Y delivers; D unit missing; S unit unknown; N does not deliver; None: no result."""

    dpv: str | None = None
    corrected: PostalParts | None = None
    moved: ChangeOfAddress | None = None
    is_vacant: bool = False


@dataclass(frozen=True, slots=True)
class PersonQuery:
    """A person of whom only an e-mail is known."""

    name: str | None
    company: str | None
    email: str


class AddressVerifier(Protocol):
    """A licensed service that knows every US address, and who has moved. Calls may be repeated. It raises
    `VerifierDown`."""

    @property
    def can_append(self) -> bool:
        """Whether it finds the address of a person by e-mail."""
        ...

    def verify(self, addresses: Sequence[AddressQuery]) -> Sequence[AddressVerification]:
        """A result for each, in order."""
        ...

    def append(self, people: Sequence[PersonQuery]) -> Sequence[PostalParts | None]:
        """The address of each, in order, or None."""
        ...


class VerifierDown(Exception):
    """A sentence for an operator."""
