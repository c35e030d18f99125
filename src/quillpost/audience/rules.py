"""From what a caller wrote to people that can be mailed, with every fault named by its place."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from quillpost.audience.countries import COUNTRIES
from quillpost.audience.states import state_code
from quillpost.kit.errors import Invalid

CUSTOM = tuple(f"custom{n}" for n in range(1, 11))
TEXTS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
    "email", "phone", *CUSTOM,
)  # fmt: skip
LONGEST = 300
LONGEST_KEY = 500
"""Characters of an address's key, so that it fits into an index in any script."""
NO_PLACE = "|?"
"""How the key of an address ends that may be in many places; no letter or digit of an address is like it."""

HOME = "US"
HOME_NAMES = {"US", "USA", "UNITED STATES", "UNITED STATES OF AMERICA"}
ZIP = re.compile(r"([0-9]{5})(?:-?([0-9]{4}))?")
ONE_LINE = re.compile(
    r"(?P<place>.+?),?\s+(?P<zip>[0-9]{5}(?:-?[0-9]{4})?)(?:,?\s+(?:USA?|United States))?\.?"
)
LONGEST_STATE = 4
"""Words in the name of a state."""
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")

ADDRESS = ("address", "address2", "city", "province", "postal_code", "country")
NOT_A_LETTER = re.compile(r"[\W_]")
BESIDE_A_LETTER = re.compile(r"(?<!\d) | (?!\d)")
OPTIONAL_POINTS = range(10, 37)
"""The combining classes of Hebrew and Arabic vowel points: most people leave them out."""
SELECTORS = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Marks that nobody sees, or that only choose another form of the letter before them."""

NO_ADDRESS = "There is no mailing address, only an e-mail."
HALF_AN_ADDRESS = "The address lacks its city, state or ZIP code."
NO_PRICE = "There is no price for this piece to {}."
SUPPRESSED = "This address is on a suppression list."
SAME_ADDRESS = "Another recipient of this order has the same address."
REPEATED = "The same piece went to this address less than 36 hours ago."
"""Why someone gets no piece, in the order in which it is asked; the braces stand for a country."""


@dataclass(frozen=True, slots=True)
class Person:
    """One recipient, ready to be an item. `refusal` says why no piece will be made."""

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
    address_key: str | None = None
    refusal: str | None = None

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


Row = Mapping[str, str | None]
"""What a caller wrote of one person, by our field names."""
Faults = dict[str, list[str]]
"""What is wrong, by the dotted path of the field."""


def examine(rows: Sequence[Row]) -> list[Person]:
    """Everyone in order, or `Invalid` with all faults. Doubles within the order are refused, not lost.

    A suppression list may bar the e-mail of the first at an address and leave the address to the next. So a
    double is sure only where whatever bars one before it bars it too; the others are judged after that.
    """
    faults: Faults = {}
    people: list[Person] = []
    seen: dict[str, set[str | None]] = {}
    for index, row in enumerate(rows):
        person = _person(row, f"recipients.{index}.", faults)
        if person.address is None:
            person = replace(person, refusal=NO_ADDRESS)
        if (key := person.address_key) is not None:
            emails = seen.setdefault(key, set())
            if None in emails or person.email in emails:
                person = replace(person, refusal=SAME_ADDRESS)
            emails.add(person.email)
        people.append(person)
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
    if not is_apart and _country(alone["country"], "", {}) == HOME:
        _split_one_line(alone)
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
    address_key: str | None
    """The whole of it, where the ZIP or postal code is known."""
    parts: Mapping[str, str]
    """What else is known: address2, city, province, country."""


def whereabouts(row: Row) -> Whereabouts:
    """Where someone is to be found who lives at this address, or at this street."""
    given: dict[str, str | None] = {name: (row.get(name) or "").strip() or None for name in TEXTS}
    faults: Faults = {}
    country = _country(given["country"], "", faults)
    if faults:
        raise Invalid(faults)
    if country == HOME:
        _split_one_line(given)
        given["province"] = state_code(given["province"] or "") or given["province"]
    named = {name: given[name] for name in ("address2", "city", "province")}
    named["country"] = country if given["country"] else None
    return Whereabouts(
        street=_bare(given["address"]),
        address_key=_address_key(given, country) if given["postal_code"] else None,
        parts={name: text for name, text in named.items() if text is not None},
    )


def _person(row: Row, prefix: str, faults: Faults, *, may_lack: bool = False) -> Person:
    given = {name: (row.get(name) or "").strip() or None for name in TEXTS}
    for name, text in given.items():
        if text is not None and len(text) > LONGEST:
            faults[f"{prefix}{name}"] = [f"At most {LONGEST} characters, please."]
            given[name] = text[:LONGEST]  # the patterns below take long over long texts
    country = _country(given["country"], prefix, faults)
    if country == HOME:
        _split_one_line(given)
    if given["email"] and not EMAIL.fullmatch(given["email"]):
        faults[f"{prefix}email"] = ["This is not an e-mail address."]
    if given["address"] is None:
        if given["email"] is None:
            faults[f"{prefix}address"] = ["Give an address, or at least an email."]
    elif country == HOME:
        _check_home(given, prefix, faults, may_lack=may_lack)
    elif given["city"] is None and not may_lack:
        faults[f"{prefix}city"] = ["An address needs a city."]
    return Person(
        **{name: given[name] for name in TEXTS[:7]},
        country=country,
        email=given["email"],
        phone=given["phone"],
        dob=_day(row.get("dob"), f"{prefix}dob", faults),
        anniversary=_day(row.get("anniversary"), f"{prefix}anniversary", faults),
        custom=tuple(given[name] for name in CUSTOM),
        address_key=_address_key(given, country),
    )


def _country(text: str | None, prefix: str, faults: Faults) -> str:
    if text is None or text.upper().replace(".", "") in HOME_NAMES:
        return HOME
    if text.upper() not in COUNTRIES:
        faults[f"{prefix}country"] = ["Use a two-letter country code such as US or CA."]
    return text.upper()


def _split_one_line(given: dict[str, str | None]) -> None:
    """An address given whole on one line is taken apart; parts given beside it win."""
    if given["address"] is None or given["city"] or given["postal_code"]:
        return
    whole = ONE_LINE.fullmatch(" ".join(given["address"].split()))
    if whole and (place := _street_city_state(whole["place"])):
        street, city, state = place
        given.update(address=street, city=city, province=state, postal_code=whole["zip"])


def _street_city_state(text: str) -> tuple[str, str, str] | None:
    """Read from the end, the longest state first: a city may be named New York, a state West Virginia."""
    words = text.split()
    for count in range(LONGEST_STATE, 0, -1):
        if state := state_code(" ".join(words[-count:])):
            street, _, city = (part.strip() for part in " ".join(words[:-count]).rstrip(", ").rpartition(","))
            is_whole = street and city and not re.search(r"\d", city)
            return (street, city, state) if is_whole else None
    return None


def _check_home(given: dict[str, str | None], prefix: str, faults: Faults, *, may_lack: bool) -> None:
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
        code_parts = ZIP.fullmatch(given["postal_code"])
        if code_parts is None:
            faults[f"{prefix}postal_code"] = ["A ZIP code has 5 digits, or 5-4."]
        elif code_parts[2]:
            given["postal_code"] = f"{code_parts[1]}-{code_parts[2]}"


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


def street_of(address_key: str) -> str:
    """The part of an address's key that says the street and the house."""
    return address_key.split("|", 1)[0]


def _address_key(given: Mapping[str, str | None], country: str) -> str | None:
    """The same for two spellings of one address that differ in case, spacing and punctuation.

    A street whose place is not known is no door: there its key tells people apart by all that is known.
    """
    if given["address"] is None:
        return None
    code = _bare(given["postal_code"]).replace(" ", "")  # 110 00 is 11000
    # At home with or without the four digits of a ZIP+4; abroad not everyone has codes.
    place = code[:5] if country == HOME else code or _bare(given["city"])
    parts = [_bare(given["address"]), _bare(given["address2"]), place, country]
    if place:
        return _short("|".join(parts))
    known = [_bare(given["city"]), _bare(given["province"]), (given["email"] or "").lower()]
    return _short("|".join(parts + known)) + NO_PLACE


def _short(key: str) -> str:
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[:LONGEST]}|{hashlib.sha256(key.encode()).hexdigest()}"


def _bare(text: str | None) -> str:
    """Letters with their marks and digits, in capitals; where two numbers would run together, a space."""
    composed = unicodedata.normalize("NFC", SELECTORS.sub("", text or ""))
    capitals = unicodedata.normalize("NFC", composed.upper())
    words = NOT_A_LETTER.sub(lambda found: found[0] if _is_mark(found[0]) else " ", capitals)
    return BESIDE_A_LETTER.sub("", " ".join(words.split()))


def _is_mark(sign: str) -> bool:
    """Whether it is spoken with the letter before it: without their vowels two Thai streets are one."""
    return unicodedata.category(sign) in ("Mn", "Mc") and unicodedata.combining(sign) not in OPTIONAL_POINTS
