"""From what a caller wrote to recipients that can be mailed, with every error found at once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from operator import itemgetter
from typing import Any

from quillpost.core.body_limits import MOST_FAULTS
from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.cities import ZIP, restored_zip, state_code, written_zip
from quillpost.recipients.addresses.foreign import CANADA, is_canadian, taken_apart_in_canada
from quillpost.recipients.addresses.keys import NO_PLACE, street_of, surname_of, unit_of
from quillpost.recipients.addresses.parser import taken_apart
from quillpost.recipients.addresses.service import DELIVERABLE, HOME, UNDELIVERABLE, Standard, judge
from quillpost.recipients.webhooks.rules import Said
from quillpost.rendering.text.countries import COUNTRIES, country_code

CUSTOM = tuple(f"custom{n}" for n in range(1, 11))
TEXTS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
    "email", "phone", *CUSTOM,
)  # fmt: skip
LONGEST = 300
ONE_LINE = frozenset({"name", "company", "city"})
"""Texts that a line end or a tab within is a space of."""

HOME_NAMES = {"US", "USA", "UNITED STATES", "UNITED STATES OF AMERICA"}
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")

APART = "Outside the US and Canada give city and postal_code apart."
IN_CANADA = "An address needs a city, or write it whole on one line: 123 Main St, Toronto, ON M5V 2T6."

ADDRESS = ("address", "address2", "city", "province", "postal_code", "country")

BY_ADDRESS, BY_HOUSEHOLD, BY_EMAIL = SUPPRESS_BY = ("address", "household", "email")
"""Whom an entry of a suppression list bars: everyone at its address, its family there, or its e-mail."""

JUDGED = ("surname", "address_key", "standard", "deliverability", "reasons")
"""What we find out about a person, as columns."""

NO_PRICE = "There is no price for this piece to {}."
SAMPLE = "This address is made up, a sample for testing mode: it is not mailed to."
SUPPRESSED = "This address is on a suppression list."
SAME_ADDRESS = "Another recipient of this order has the same address."
REPEATED = "The same piece went to this address less than 36 hours ago."
"""Why someone gets no piece whose address is deliverable, in the order in which it is asked; the braces stand
for a country."""


@dataclass(frozen=True, slots=True)
class Person:
    """One recipient, ready to be an item. `refusal` says why no piece will be made; `absentee_address` is the
    house that an owner is written to about, who lives elsewhere."""

    name: str | None = None
    company: str | None = None
    address: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None
    country: str = HOME
    email: str | None = None
    phone: str | None = None
    dob: date | None = None
    anniversary: date | None = None
    custom: tuple[str | None, ...] = field(default=(None,) * 10)
    surname: str | None = None
    address_key: str | None = None
    standard: Standard | None = None
    deliverability: str = DELIVERABLE
    reasons: tuple[str, ...] = ()
    absentee_address: str | None = None
    refusal: str | None = None

    @property
    def judged(self) -> tuple[Any, ...]:
        """The values of the columns `JUDGED`."""
        standard = None if self.standard is None else list(self.standard)
        return self.surname, self.address_key, standard, self.deliverability, list(self.reasons)

    @property
    def can_be_barred(self) -> bool:
        """Whether there is a door, or at least an e-mail, that a suppression list can bar."""
        has_place = self.address_key is not None and not self.address_key.endswith(NO_PLACE)
        return has_place or self.email is not None

    @property
    def can_be_mailed(self) -> bool:
        """Whether there is a whole address."""
        needed = [self.address, self.city]
        if self.country == HOME:
            needed += [self.province, self.postal_code]
        return None not in needed


def told_apart(suppress_by: str, person: Person) -> str:
    """What tells people of one address on one list apart, as the function of the schema says it."""
    by = {BY_HOUSEHOLD: person.surname, BY_EMAIL: person.email and person.email.lower()}
    return by.get(suppress_by) or ""


Row = Mapping[str, str | None]
"""What a caller wrote of one person, by our field names."""
Faults = dict[str, list[str]]
"""What is wrong, by the dotted path of the field."""


def examine(rows: Sequence[Row]) -> list[Person]:
    """Everyone in order, or `Invalid` with all faults, or with as many as anyone is told. Doubles within the
    order are refused, not lost.

    A suppression list may bar the family or the e-mail of the first at an address and leave the address to
    the next. So a double is sure only where whatever bars one before it bars it too; the others are judged
    after that.
    """
    faults: Faults = {}
    people: list[Person] = []
    seen: dict[str, set[tuple[str | None, str | None]]] = {}
    for index, row in enumerate(rows):
        person = _person(row, f"recipients.{index}.", faults)
        if person.deliverability == UNDELIVERABLE:
            person = replace(person, refusal=person.reasons[0])
        if (key := person.address_key) is not None:
            there = seen.setdefault(key, set())
            if any((who, email) in there for who in (None, person.surname) for email in (None, person.email)):
                person = replace(person, refusal=SAME_ADDRESS)
            there.add((person.surname, person.email))
        people.append(person)
        if len(faults) >= MOST_FAULTS:
            break
    if faults:
        raise Invalid(faults)
    return people


def examine_one(row: Row) -> Person:
    """Someone for a list, or `Invalid` with all faults, by the names of the fields alone."""
    person, faults = examine_alone(row, may_lack=True)
    if faults:
        raise Invalid(faults)
    return person


def examine_alone(row: Row, *, may_lack: bool = False) -> tuple[Person, Faults]:
    """Someone, and what is wrong: where one is refused, the others go on.

    On a list an address may lack what is not known yet; it is not mailed to until it is whole.
    """
    faults: Faults = {}
    return _person(row, "", faults, may_lack=may_lack), faults


def changed(known: Person, given: Row) -> Person:
    """The same person with the fields that are named; a field that is null is cleared.

    An address given whole on one line replaces every part of the old one that is not named beside it.
    """
    alone = {part: (given.get(part) or "").strip() or None for part in ADDRESS}
    is_apart = any(alone[part] for part in ("city", "province", "postal_code"))
    if not is_apart and _split_one_line(alone, _country(alone["country"], "", {})) == CANADA:
        alone["country"] = CANADA
    is_whole = not is_apart and alone["city"] is not None
    return examine_one({**written(known), **given, **(alone if is_whole else {})})


def written(person: Person) -> dict[str, str | None]:
    """The person as a caller writes one."""
    return {
        **{name: getattr(person, name) for name in TEXTS[:8]},
        "dob": person.dob and person.dob.isoformat(),
        "anniversary": person.anniversary and person.anniversary.isoformat(),
        "email": person.email,
        "phone": person.phone,
        **dict(zip(CUSTOM, person.custom, strict=True)),
    }


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """As much of an address as someone remembers, spelled as addresses are kept."""

    street: str
    unit: str
    """Empty where none is named."""
    address_key: str | None
    """The whole of it, where the ZIP or postal code is known."""
    parts: Mapping[str, str]
    """What else is known: city, province, country."""

    @property
    def beginning(self) -> str:
        """How the keys of such addresses begin."""
        return f"{self.street}|{self.unit}" if self.unit else self.street


def whereabouts(row: Row) -> Whereabouts:
    """Where someone is to be found who lives at this address, or at this street."""
    given: dict[str, str | None] = {name: (row.get(name) or "").strip() or None for name in TEXTS}
    faults: Faults = {}
    country = _country(given["country"], "", faults)
    if faults:
        raise Invalid(faults)
    country = _split_one_line(given, country)
    if country == HOME:
        given["province"] = state_code(given["province"] or "") or given["province"]
    named = {name: given[name] for name in ("city", "province")}
    named["country"] = country if given["country"] else None
    key = judge(given, country).key or "||"
    is_door = given["postal_code"] is not None and not key.endswith(NO_PLACE)
    if not is_door:
        named["postal_code"] = given["postal_code"]
    return Whereabouts(
        street=street_of(key),
        unit=unit_of(key),
        address_key=key if is_door else None,
        parts={name: text for name, text in named.items() if text is not None},
    )


def _person(row: Row, prefix: str, faults: Faults, *, may_lack: bool = False) -> Person:
    given = _texts(row, prefix, faults)
    country = _country(given["country"], prefix, faults)
    country = _split_one_line(given, country)
    if given["email"] and not EMAIL.fullmatch(given["email"]):
        faults[f"{prefix}email"] = ["This is not an e-mail address."]
    if given["address"] is None:
        if given["email"] is None:
            faults[f"{prefix}address"] = ["Give an address, or at least an email."]
    elif country == HOME:
        _check_home(given, prefix, faults, may_lack=may_lack)
    elif given["city"] is None and not may_lack:
        faults[f"{prefix}city"] = [IN_CANADA if country == CANADA else APART]
    judged = judge(given, country, email=given["email"], name=given["name"])
    return Person(
        name=given["name"],
        company=given["company"],
        address=given["address"],
        address2=given["address2"],
        city=given["city"],
        province=given["province"],
        postal_code=given["postal_code"],
        country=country,
        email=given["email"],
        phone=given["phone"],
        dob=_day(row.get("dob"), f"{prefix}dob", faults),
        anniversary=_day(row.get("anniversary"), f"{prefix}anniversary", faults),
        custom=_custom_of(given),
        surname=surname_of(given["name"]),
        address_key=judged.key,
        standard=judged.standard,
        deliverability=judged.deliverability,
        reasons=judged.reasons,
    )


_UNSAID: dict[str, str | None] = dict.fromkeys(TEXTS)
_custom_of = itemgetter(*CUSTOM)


def _texts(row: Row, prefix: str, faults: Faults) -> dict[str, str | None]:
    """Every text, stripped; None where there is none. A million rows of a file come by here."""
    given = _UNSAID.copy()
    for name, written in row.items():
        if written and name in given and (text := written.strip()):
            if len(text) > LONGEST:
                faults[f"{prefix}{name}"] = [f"At most {LONGEST} characters, please."]
                text = text[:LONGEST]  # patterns take long over long texts
            if name in ONE_LINE and not text.isprintable():
                text = " ".join(text.split())
            given[name] = text
    return given


def _country(text: str | None, prefix: str, faults: Faults) -> str:
    if text is None or text.upper().replace(".", "") in HOME_NAMES:
        return HOME
    code = country_code(text).upper()
    if code not in COUNTRIES:
        faults[f"{prefix}country"] = ["Use a two-letter country code such as US or CA."]
    return code


def _split_one_line(given: dict[str, str | None], country: str) -> str:
    """An address given whole on one line is taken apart; parts given beside it win. The country is the one
    that is said, or that the line ends with."""
    if given["address"] is None or given["city"] or given["postal_code"] or country not in (HOME, CANADA):
        return country
    if country == HOME and (parts := taken_apart(given["address"])) is not None:
        given |= parts
        return HOME
    if (found := taken_apart_in_canada(given["address"])) is not None:
        parts, names_it = found
        if country == CANADA or (given["country"] is None and names_it):
            given |= parts
            return CANADA
    return country


def _is_canadian(given: Row) -> bool:
    """Whether an address without a country is certainly not at home."""
    if given["country"] is not None:
        return False
    whole = given["address"] and not given["city"] and taken_apart_in_canada(given["address"])
    return bool(whole) or is_canadian(given["province"], given["postal_code"])


def _check_home(given: dict[str, str | None], prefix: str, faults: Faults, *, may_lack: bool) -> None:
    own = {name for name in ("city", "province", "postal_code") if given[name] is None}
    if (own or state_code(given["province"] or "") is None) and _is_canadian(given):
        faults[f"{prefix}country"] = ["This is an address in Canada: give country CA."]
        return
    for name, what in (("city", "a city"), ("province", "a state"), ("postal_code", "a ZIP code")):
        if given[name] is None and not may_lack:
            faults[f"{prefix}{name}"] = [
                f"An address needs {what}, or write it whole on one line: 12 Main St, Austin, TX 78701."
            ]
    if given["province"]:
        code = state_code(given["province"])
        if code is None:
            faults[f"{prefix}province"] = ["This is not a state of the US; use two letters."]
        given["province"] = code or given["province"]
    if given["postal_code"]:
        code = given["postal_code"]
        if ZIP.fullmatch(code) is None:
            code = restored_zip(code, given["province"] or "", given["city"] or "") or code
        if ZIP.fullmatch(code) is None:
            faults[f"{prefix}postal_code"] = ["A ZIP code has 5 digits, or 5-4."]
        else:
            given["postal_code"] = written_zip(code)


def _day(text: str | None, path: str, faults: Faults) -> date | None:
    if text is None or not text.strip():
        return None
    for form in ("%Y-%m-%d", "%m/%d/%Y"):
        try:
            return datetime.strptime(text.strip(), form).date()  # noqa: DTZ007
        except ValueError:
            continue
    faults[path] = ["Write the date as YYYY-MM-DD or MM/DD/YYYY; it must exist."]
    return None


def is_whole(person: Person) -> bool:
    """Whether the address is a door, and not a street that may be in many places."""
    return person.address_key is not None and not person.address_key.endswith(NO_PLACE)


def may_live_together(one: Person, other: Person) -> bool:
    """Whether they have the same street, and nothing else that is known of their addresses differs."""
    if one.address_key is None or other.address_key is None:
        return False
    if street_of(one.address_key) != street_of(other.address_key) or one.country != other.country:
        return False
    parts = ("city", "province", "postal_code")
    pairs = [(getattr(one, part) or "", getattr(other, part) or "") for part in parts]
    pairs.append((unit_of(one.address_key), unit_of(other.address_key)))
    return all(not here or not there or here.casefold() == there.casefold() for here, there in pairs)


def put_together(known: Person, said: Said, person: Person) -> tuple[Person, Faults]:
    """The person that is known with what was said of `person`. What was not said stays.

    Less of an address than is known changes nothing of it; and one without a street none that has one. Half
    a name changes none either: which half of the known one it is cannot be told.
    """
    new = {name: text for name, text in written(person).items() if text is not None}
    if not said.given.get("country"):
        del new["country"]
    if known.name and said.is_half_named:
        del new["name"]
    if known.address is None and person.address is not None:
        new |= {part: getattr(person, part) for part in ADDRESS}
    elif known.address is not None and (person.address is None or is_whole(known) > is_whole(person)):
        new = {name: text for name, text in new.items() if name not in ADDRESS}
    if known.email and known.email.lower() == str(new.get("email")).lower():
        del new["email"]  # the same in other capitals
    if known.postal_code and known.postal_code.startswith(f"{new.get('postal_code')}-"):
        del new["postal_code"]  # the four further digits of a ZIP+4 are known already
    return examine_alone({**written(known), **new}, may_lack=True)
