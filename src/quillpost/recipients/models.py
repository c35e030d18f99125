"""People, recipients and mailing lists: the types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from quillpost.recipients.addresses.rules import (
    AMBIGUOUS_KEY_SUFFIX,
    DELIVERABLE,
    HOME_COUNTRY,
    UNDELIVERABLE,
    StandardParts,
)

CUSTOM_FIELDS = tuple(f"custom{n}" for n in range(1, 11))

TEXT_FIELDS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
    "email", "phone", *CUSTOM_FIELDS,
)  # fmt: skip

ADDRESS_FIELDS = ("address", "address2", "city", "province", "postal_code", "country")
BY_ADDRESS, BY_HOUSEHOLD, BY_EMAIL = SUPPRESS_BY = ("address", "household", "email")
"""Who an entry of a suppression list suppresses: everyone at its address, its family there, or its e-mail."""

DERIVED_COLUMNS = ("surname", "address_key", "standard", "deliverability", "reasons")
"""What we derive from a person's fields, as columns."""


@dataclass(frozen=True, slots=True)
class Person:
    """One recipient. `refusal` says why no item will be made; `absentee_address` is the house of an owner who lives
    elsewhere."""

    name: str | None = None
    company: str | None = None
    address: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None
    country: str = HOME_COUNTRY
    email: str | None = None
    phone: str | None = None
    dob: date | None = None
    anniversary: date | None = None
    custom: tuple[str | None, ...] = field(default=(None,) * 10)
    surname: str | None = None
    address_key: str | None = None
    standard: StandardParts | None = None
    deliverability: str = DELIVERABLE
    reasons: tuple[str, ...] = ()
    absentee_address: str | None = None
    refusal: str | None = None

    @property
    def derived_values(self) -> tuple[Any, ...]:
        standard = None if self.standard is None else list(self.standard)
        return self.surname, self.address_key, standard, self.deliverability, list(self.reasons)

    @property
    def can_be_suppressed(self) -> bool:
        """Whether there is a delivery point or an e-mail that a suppression list can match."""
        has_full_key = self.address_key is not None and not self.address_key.endswith(AMBIGUOUS_KEY_SUFFIX)
        return has_full_key or self.email is not None

    @property
    def can_be_mailed(self) -> bool:
        """Whether the address is complete."""
        required_values = [self.address, self.city]
        if self.country == HOME_COUNTRY:
            required_values += [self.province, self.postal_code]
        return None not in required_values

    @property
    def mail_deliverability(self) -> str:
        """Whether mail arrives there: never at an incomplete address."""
        return self.deliverability if self.can_be_mailed else UNDELIVERABLE


def get_distinguishing_key(suppress_by: str, person: Person) -> str:
    """What tells people of one address on one list apart; the schema has the same function."""
    keys_by_rule = {BY_HOUSEHOLD: person.surname, BY_EMAIL: person.email and person.email.lower()}
    return keys_by_rule.get(suppress_by) or ""


RecipientFields = Mapping[str, str | None]
"""What a caller wrote of one person, by our field names."""

RecipientErrors = dict[str, list[str]]
"""By the dotted path of the field."""


@dataclass(frozen=True, slots=True)
class PartialAddress:
    """As much of an address as someone remembers, in standard form."""

    street: str
    unit: str
    address_key: str | None
    """Set where the ZIP or postal code is known."""
    parts: Mapping[str, str]
    """City, province and country, where known."""

    @property
    def key_prefix(self) -> str:
        return f"{self.street}|{self.unit}" if self.unit else self.street


PERSON_COLUMNS = (*(name for name in TEXT_FIELDS if name not in CUSTOM_FIELDS), "dob", "anniversary")
"""The fields of a person that are columns of the same name."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """Someone on a list; the person has no `refusal`."""

    id: int
    mailing_list_id: int
    person: Person
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class MailingList:
    id: int
    account_id: int
    sub_account_id: int | None
    type: str
    description: str
    qrcode_url: str | None
    total_recipients: int
    processed: bool
    is_suppression_list: bool
    total_scans: int
    unique_scans: int
    total_sends: int
    last_scan: datetime | None
    last_send: datetime | None
    key_sealed: bytes | None
    created_at: datetime
    updated_at: datetime
    kept_for: str | None
    """In which mode the service keeps scanners or, on a suppression list, opt-outs here; None for the sender's own
    lists."""
    suppress_by: str
    """Only of a suppression list."""

    @property
    def is_opt_out_list(self) -> bool:
        return self.is_suppression_list and self.kept_for is not None
