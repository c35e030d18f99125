"""Whoever issues gift cards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class CardRequest:
    """A card to be issued. The same reference is the same card, however often it is asked for. `brand` is our
    code of it; `issuer_product` is what the issuer calls it."""

    reference: str
    brand: str
    issuer_product: str
    cents: int


@dataclass(frozen=True, slots=True)
class CardSecret:
    """What a card is redeemed with: a code, perhaps with a PIN, or a page of the issuer's. No repr has it."""

    code: str | None = field(default=None, repr=False)
    pin: str | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    expires_on: date | None = None


@dataclass(frozen=True, slots=True)
class CardNotIssued:
    """Why there is no card, as a sentence for an operator, and how that stands with the issuer:

    - `none`: it has issued none, so that it or another may be asked later: there are none left, say;
    - `ordered`: it has the order, or may have it, and no card yet: it alone is asked again;
    - `never`: it will never issue this one, and has none to take back.
    """

    reason: str
    issuer_status: Literal["none", "ordered", "never"] = "none"


class GiftcardIssuer(Protocol):
    """Issues gift cards. It keeps what it has issued by our reference, so that a card that is asked for again
    after a crash is the same. One that cannot be reached says `IssuerDown`, and is asked again."""

    @property
    def name(self) -> str:
        """Who it is, in the print room."""
        ...

    def issue(self, card_requests: Sequence[CardRequest], *, now: datetime) -> Mapping[str, CardSecret | CardNotIssued]:
        """A card, or the reason why there is none, by the reference. What is left out is asked for again: the
        issuer could be reached for some of them alone."""
        ...

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        """How many such cards could be issued now; None: as many as are wanted."""
        ...

    def return_card(self, reference: str, *, now: datetime) -> bool:
        """The card is void, and nobody has seen its code: whether the issuer has taken it back. It is asked
        once; said twice, it changes nothing."""
        ...


class IssuerDown(Exception):
    """Why the issuer could not be reached, as a sentence for the print room. It names no card."""
