"""What an issuer of gift cards must offer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class CardRequest:
    """The same reference is always the same card. `brand` is our code, `issuer_product` the issuer's."""

    reference: str
    brand: str
    issuer_product: str
    cents: int


@dataclass(frozen=True, slots=True)
class CardSecret:
    """A code, perhaps with a PIN, or a page of the issuer."""

    code: str | None = field(default=None, repr=False)
    pin: str | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    expires_on: date | None = None


@dataclass(frozen=True, slots=True)
class CardNotIssued:
    """Why there is no card, as a sentence for an operator, and how that stands with the issuer:

    - `none`: it has issued none, so that it or another may be asked later: there are none left, say;
    - `ordered`: it has the order, or may have it, and no card yet: only it is asked again;
    - `never`: it will never issue this one, and has none to take back.
    """

    reason: str
    issuer_status: Literal["none", "ordered", "never"] = "none"


class GiftcardIssuer(Protocol):
    """Keeps what it issued by our reference, so a repeated request gives the same card. Raises `IssuerDown`."""

    @property
    def name(self) -> str:
        """Who it is, in the print room."""
        ...

    def issue(self, card_requests: Sequence[CardRequest], *, now: datetime) -> Mapping[str, CardSecret | CardNotIssued]:
        """By reference; what is left out is requested again."""
        ...

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        """How many could be issued now; None: any number."""
        ...

    def return_card(self, reference: str, *, now: datetime) -> bool:
        """Whether the issuer took the void card back; idempotent."""
        ...


class IssuerDown(Exception):
    """A sentence for the print room; it names no card."""
