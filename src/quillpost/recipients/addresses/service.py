"""What the post makes of an address: its standard form, its key, whether mail can reach it."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from quillpost.recipients.addresses.cities import MILITARY_CITIES, find_standard_city, find_state_and_city, format_zip
from quillpost.recipients.addresses.domestic import ParsedAddress, parse_address
from quillpost.recipients.addresses.foreign import standardize_foreign
from quillpost.recipients.addresses.keys import build_address_key, normalize_for_key
from quillpost.recipients.addresses.segments import standardize_text
from quillpost.recipients.addresses.tables import MEANINGLESS_PHRASES, UNNUMBERED_UNITS
from quillpost.recipients.addresses.units import UNKNOWN_DESIGNATOR

MILITARY_STATES = frozenset({"AA", "AE", "AP"})

MAX_MILITARY_CITY_LENGTH = len("A. P. O.")

NO_NUMBER = "The address has neither a house number nor a box."
NO_BOX = "{} has no BOX after it."
MILITARY_BOX_REQUIRED = "Mail to the armed forces goes to a PSC, a CMR or a UNIT, and its BOX."


def find_domestic_doubts(
    parsed: ParsedAddress, city: str, state: str, zip5: str, *, is_city_known: bool
) -> tuple[str, ...]:
    """What does not agree, the gravest first."""
    doubts = _find_zip_doubts(city, state, zip5, is_city_known=is_city_known)
    if state in MILITARY_STATES or (len(city) <= MAX_MILITARY_CITY_LENGTH and _is_military(city)):
        doubts += _find_military_doubts(parsed, city, state)
    if not parsed.has_number:
        doubts.append(NO_NUMBER)
    if parsed.is_missing_box:
        doubts.append(NO_BOX.format(parsed.street))
    for designator, number in parsed.units:
        if not number and designator not in UNNUMBERED_UNITS:
            doubts.append(f"{designator} has no number after it.")
    if parsed.has_unlabeled_number:
        number = next((number for designator, number in parsed.units if designator == UNKNOWN_DESIGNATOR), "")
        doubts.append(f"The number {number} after the street does not say what it is, such as APT or STE.")
    return tuple(doubts)


def _find_zip_doubts(city: str, state: str, zip5: str, *, is_city_known: bool) -> list[str]:
    zip_state_city = find_state_and_city(zip5)
    if zip_state_city is None:
        return [f"The ZIP code {zip5} is not known."]
    if zip_state_city[0] != state:
        return [f"The ZIP code {zip5} is in {zip_state_city[0]}, not in {state}."]
    if not is_city_known:
        return [f"The ZIP code {zip5} belongs to {zip_state_city[1].title()}, not to {city}."]
    return []


def _find_military_doubts(parsed: ParsedAddress, city: str, state: str) -> list[str]:
    if not _is_military(city):
        return [f"In {state} the city is APO, FPO or DPO, not {city}."]
    if state not in MILITARY_STATES:
        return [f"The state of {city.upper()} is AA, AE or AP, not {state}."]
    return [] if parsed.is_military else [MILITARY_BOX_REQUIRED]


def _is_military(city: str) -> bool:
    """APO, also as A.P.O."""
    return standardize_text(city).replace(" ", "") in MILITARY_CITIES


HOME_COUNTRY = "US"

DELIVERABLE, DOUBTFUL, UNDELIVERABLE = "deliverable", "doubtful", "undeliverable"
DELIVERABILITIES = (DELIVERABLE, DOUBTFUL, UNDELIVERABLE)
"""How sure it is that mail arrives. What is doubtful is mailed, and the sender is told why."""

NO_ADDRESS = "There is no mailing address, only an e-mail."
INCOMPLETE_ADDRESS = "The address lacks its city, state or ZIP code."

ADDRESS_PARTS = ("address", "address2", "city", "province", "postal_code")

StandardParts = tuple[str | None, str | None, str | None, str | None, str | None]
"""The parts of an address, in the order of `ADDRESS_PARTS`, as they are printed."""


@dataclass(frozen=True, slots=True)
class StandardizedAddress:
    """`standard` is None where there is no address, or too little of one to say how it is written."""

    key: str | None
    standard: StandardParts | None
    deliverability: str
    reasons: tuple[str, ...] = ()
    """Sentences; of what is undeliverable the first says why."""


def standardize(
    parts: Mapping[str, str | None], country: str, *, email: str | None = None, name: str | None = None
) -> StandardizedAddress:
    """The address of these parts (stripped; an empty one is None) in this country; whose it is matters only
    where it is no door."""
    if parts["address"] is None:
        return StandardizedAddress(None, None, UNDELIVERABLE, (NO_ADDRESS,))
    second_line = parts["address2"]
    if second_line is not None and standardize_text(second_line) in MEANINGLESS_PHRASES | {""}:
        second_line = None
    if country == HOME_COUNTRY:
        return _standardize_domestic(parts["address"], second_line, parts, email, name)
    return _standardize_foreign(parts["address"], second_line, parts, country, email)


def _standardize_domestic(
    address: str, second_line: str | None, parts: Mapping[str, str | None], email: str | None, name: str | None
) -> StandardizedAddress:
    city, state, code = parts["city"], parts["province"], parts["postal_code"]
    parsed = parse_address(address, second_line, state)
    street, unit = parsed.key
    zip_code = format_zip(code or "")
    if parsed.is_delivery_point:
        key = build_address_key(street, unit, zip_code[:5], HOME_COUNTRY, known_details=(city, state, email))
    else:
        key = build_address_key(street, unit, "", HOME_COUNTRY, known_details=(city, state, email, zip_code[:5], name))
    if city is None or state is None or code is None:
        return StandardizedAddress(key, None, UNDELIVERABLE, (INCOMPLETE_ADDRESS,))
    standard_city = find_standard_city(zip_code[:5], city)
    doubts = find_domestic_doubts(parsed, city, state, zip_code[:5], is_city_known=standard_city is not None)
    standard = (
        parsed.line,
        parsed.second_line,
        standard_city or standardize_text(city),
        state if state.isupper() else standardize_text(state),
        zip_code,
    )
    return StandardizedAddress(key, standard, DOUBTFUL if doubts else DELIVERABLE, doubts)


def _standardize_foreign(
    address: str, address2: str | None, parts: Mapping[str, str | None], country: str, email: str | None
) -> StandardizedAddress:
    city, province, code = (parts[name] for name in ADDRESS_PARTS[2:])
    locality = normalize_for_key(code).replace(" ", "") or normalize_for_key(
        city
    )  # 110 00 is 11000; not everyone has codes
    key = build_address_key(
        normalize_for_key(address),
        normalize_for_key(address2),
        locality,
        country,
        known_details=(city, province, email),
    )
    if city is None:
        return StandardizedAddress(key, None, UNDELIVERABLE, (INCOMPLETE_ADDRESS,))
    foreign_address = standardize_foreign(
        country, _normalize_spaces(city), province and _normalize_spaces(province), code and _normalize_spaces(code)
    )
    lines = (_normalize_spaces(address), address2 and _normalize_spaces(address2))
    standard = (*lines, foreign_address.city, foreign_address.province, foreign_address.postal_code)
    return StandardizedAddress(
        key, standard, DOUBTFUL if foreign_address.doubts else DELIVERABLE, foreign_address.doubts
    )


def _normalize_spaces(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
