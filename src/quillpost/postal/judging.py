"""What the post makes of an address: its standard form, its key, and whether mail can reach it."""

from collections.abc import Mapping
from dataclasses import dataclass

from quillpost.postal.keys import address_key, bare

HOME = "US"

DELIVERABLE, DOUBTFUL, UNDELIVERABLE = "deliverable", "doubtful", "undeliverable"
VERDICTS = (DELIVERABLE, DOUBTFUL, UNDELIVERABLE)
"""How sure it is that mail arrives. What is doubtful is mailed, and the sender is told why."""

NO_ADDRESS = "There is no mailing address, only an e-mail."
HALF_AN_ADDRESS = "The address lacks its city, state or ZIP code."

PARTS = ("address", "address2", "city", "province", "postal_code")

Standard = tuple[str | None, str | None, str | None, str | None, str | None]
"""The parts of an address, in the order of `PARTS`, as they are printed."""


@dataclass(frozen=True, slots=True)
class Judged:
    """`standard` is None where there is no address, or too little of one to say how it is written."""

    key: str | None
    standard: Standard | None
    deliverability: str
    reasons: tuple[str, ...] = ()
    """Sentences; of what is undeliverable the first says why."""


def judge(parts: Mapping[str, str | None], country: str, *, email: str | None = None) -> Judged:
    """The address of these parts (stripped; an empty one is None) in this country."""
    key = address_key(parts, country, email=email, home=HOME)
    if key is None:
        return Judged(None, None, UNDELIVERABLE, (NO_ADDRESS,))
    if is_half(parts, country):
        return Judged(key, None, UNDELIVERABLE, (HALF_AN_ADDRESS,))
    address, address2, city, province, postal_code = (parts[name] for name in PARTS)
    return Judged(key, (address, address2, city, province, postal_code), DELIVERABLE)


def is_half(parts: Mapping[str, str | None], country: str) -> bool:
    """Whether the address is too little for the mail."""
    needed = ("city", "province", "postal_code") if country == HOME else ("city",)
    return any(parts[name] is None for name in needed)


def surname_of(name: str | None) -> str | None:
    """The family's name, as households are compared by it; None where nobody is named."""
    words = (name or "").split()
    return bare(words[-1]) or None if words else None
