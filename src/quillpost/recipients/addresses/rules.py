"""The standard form of an address, its key (one for every way to write a delivery point), and whether mail can reach
it."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quillpost.recipients.addresses.cities import MILITARY_CITIES, find_standard_city, find_state_and_city, format_zip
from quillpost.recipients.addresses.parser import parse_address
from quillpost.recipients.addresses.streets import (
    GENERAL_DELIVERY,
    UNKNOWN_DESIGNATOR,
    DeliveryPoint,
    read_simple_address,
)
from quillpost.recipients.addresses.text import (
    BUILDING_WORDS,
    COMPANY_WORDS,
    DIRECTION_CODES,
    INTERCHANGEABLE_UNITS,
    MEANINGLESS_PHRASES,
    NOTE_WORDS,
    REQUEST_WORDS,
    SPELLED_ORDINALS,
    SPELLED_TENS,
    STANDARD_SPELLINGS,
    STANDARD_STREET_SUFFIXES,
    UNITS,
    UNNUMBERED_UNITS,
    normalize_for_key,
    split_delivery_line,
    standardize_text,
)
from quillpost.rendering.text.addresses import CountryAddressRules, country_name, find_country_rules, normalize_province

MAX_KEY_LENGTH = 500
"""Fits into an index in any script."""
LONG_KEY_PREFIX_LENGTH = 300
AMBIGUOUS_KEY_SUFFIX = "|?"
"""Ends the key of an address that may be in many places; no address contains it."""
KnownDetails = tuple[str | None, ...]
"""City, province, e-mail; and of what is no delivery point, the ZIP code and the name."""
CARE_OF_WORDS = frozenset({"C/O", "ATTN", "ATTENTION"})


def _build_address_key(street: str, unit: str, locality: str, country: str, *, known_details: KnownDetails) -> str:
    """`STREET|UNIT|PLACE|COUNTRY`, of parts normalized for keys; the place is a postal code, else a city. Without a
    place it is no delivery point: all known details tell people apart."""
    key = f"{street}|{unit}|{locality}|{country}"
    if not locality:
        city, province, email, *more_details = known_details
        details = [normalize_for_key(city), normalize_for_key(province), (email or "").lower()]
        key = "|".join([key, *details, *map(normalize_for_key, more_details)])
    if len(key) > MAX_KEY_LENGTH:
        key = f"{key[:LONG_KEY_PREFIX_LENGTH]}|{hashlib.sha256(key.encode()).hexdigest()}"
    return key if locality else key + AMBIGUOUS_KEY_SUFFIX


def get_street(key: str) -> str:
    return key.split("|", 1)[0]


def get_unit(key: str) -> str:
    return key.split("|", 2)[1]


def _build_street_key(street: str) -> str:
    """`12 N ASH ST`, `12NASH ST`: directions and the suffix are apart, other words joined. People write Lake Shore and
    Lakeshore for one street; but W Alton and Walton are two, and so are Fore St and Forest."""
    words = street.split()
    end = len(words)
    while end > 0 and words[end - 1] in DIRECTION_CODES:
        end -= 1
    suffix = end - 1 if end > 2 and words[end - 1] in STANDARD_STREET_SUFFIXES else -1
    spellings = [STANDARD_SPELLINGS.get(word, word) for word in words]
    for index, word in enumerate(words):
        tens, hyphen, ones = word.partition("-")
        if tens in SPELLED_TENS:
            next_word = words[index + 1] if not hyphen and index + 1 < len(words) else ""
            ordinal = SPELLED_ORDINALS.get(ones or next_word, "")
            if len(ordinal) == 3:  # 1ST to 9TH
                spellings[index] = SPELLED_TENS[tens] + ordinal
                if not hyphen:
                    spellings[index + 1] = ""
    key, needs_space = "", False
    for index, word in enumerate(spellings):
        key_word = word if word.isascii() and word.isalnum() else normalize_for_key(word)
        if not key_word:
            continue
        is_direction = word in DIRECTION_CODES
        if key and (needs_space or is_direction or index == suffix or (key[-1].isdigit() and key_word[0].isdigit())):
            key += " "
        key += key_word
        needs_space = is_direction
    return key


def _build_second_line_key(second_line: str) -> str:
    """What tells delivery points of one number apart: a building, a box; not a person, or how to get in."""
    words = second_line.split()
    care_of_index = next((index for index, word in enumerate(words) if word in CARE_OF_WORDS), len(words))
    words = words[:care_of_index]
    if not words:
        return ""
    if BUILDING_WORDS.isdisjoint(words) and UNITS.keys().isdisjoint(words):
        is_note = words[0] in REQUEST_WORDS or not NOTE_WORDS.isdisjoint(words)
        if is_note or not COMPANY_WORDS.isdisjoint(words):
            return ""
    return normalize_for_key(" ".join(words))


_CANADIAN_POSTAL_CODE = re.compile(r"([A-Z]\d[A-Z])[ -]?(\d[A-Z]\d)")
_SPACES = re.compile(r"\s+")


class ForeignAddress(NamedTuple):
    city: str
    province: str | None
    postal_code: str | None
    warnings: tuple[str, ...]


def standardize_foreign(country: str, city: str, province: str | None, postal_code: str | None) -> ForeignAddress:
    """As its country writes it, and what is doubtful."""
    rules = find_country_rules(country, None)
    code = _standardize_postal_code(country, postal_code)
    if rules is None:
        return ForeignAddress(city, province, code, ())
    warnings: list[str] = []
    province_code = rules.province_codes.get(normalize_province(province or "")) or None
    if rules.province_codes and province and province_code is None:
        warnings.append(f"{province} is not a province or state of {country_name(country)}.")
    elif province is None and "country_area" in rules.required_fields:
        warnings.append(f"An address in {country_name(country)} needs a province or state.")
    if province_code:
        rules = find_country_rules(country, province_code) or rules
    if code is None and "postal_code" in rules.required_fields:
        warnings.append(f"An address in {country_name(country)} needs a postal code{_describe_example(rules)}.")
    elif code and rules.postal_code_patterns and not all(pattern.match(code) for pattern in rules.postal_code_patterns):
        region = (
            f"{country_name(country)}, {province_code}"
            if province_code and rules.postal_code_patterns[0].match(code)
            else country_name(country)
        )
        warnings.append(f"{code} is not a postal code of {region}{_describe_example(rules)}.")
    if "city" in rules.uppercase_fields:
        city = city.upper()
    return ForeignAddress(city, _choose_province_spelling(province_code, province), code, tuple(warnings))


def _choose_province_spelling(province_code: str | None, province: str | None) -> str | None:
    """The code; but Tokyo stays Tokyo where the code is in another script."""
    return province_code if province_code and (province_code.isascii() or not (province or "").isascii()) else province


def _standardize_postal_code(country: str, code: str | None) -> str | None:
    if code is None:
        return None
    normalized = _SPACES.sub(" ", code.upper())
    canadian_match = _CANADIAN_POSTAL_CODE.fullmatch(normalized) if country == "CA" else None
    return f"{canadian_match[1]} {canadian_match[2]}" if canadian_match else normalized


def _describe_example(rules: CountryAddressRules) -> str:
    return f"; they look like {rules.postal_code_example}" if rules.postal_code_example else ""


CANADA = "CA"
MILITARY_STATES = frozenset({"AA", "AE", "AP"})
MAX_MILITARY_CITY_LENGTH = len("A. P. O.")
NO_NUMBER = "The address has neither a house number nor a box."
NO_BOX = "{} has no BOX after it."


def _find_domestic_warnings(
    parsed: DeliveryPoint, city: str, state: str, zip5: str, standard_city: str | None
) -> tuple[str, ...]:
    """The most serious first."""
    warnings: list[str] = []
    zip_state_city = find_state_and_city(zip5)
    if zip_state_city is None:
        warnings.append(f"The ZIP code {zip5} is not known.")
    elif zip_state_city[0] != state:
        warnings.append(f"The ZIP code {zip5} is in {zip_state_city[0]}, not in {state}.")
    elif standard_city is None:
        warnings.append(f"The ZIP code {zip5} belongs to {zip_state_city[1].title()}, not to {city}.")
    if state in MILITARY_STATES or standard_city is None or standard_city.replace(" ", "") in MILITARY_CITIES:
        warnings += _find_military_warnings(parsed, city, state)
    if not parsed.has_number:
        warnings.append(NO_NUMBER)
    if parsed.is_missing_box:
        warnings.append(NO_BOX.format(parsed.street))
    for designator, number in parsed.units:
        if not number and designator not in UNNUMBERED_UNITS:
            warnings.append(f"{designator} has no number after it.")
    if parsed.has_unlabeled_number:
        number = next((number for designator, number in parsed.units if designator == UNKNOWN_DESIGNATOR), "")
        warnings.append(f"The number {number} after the street does not say what it is, such as APT or STE.")
    return tuple(warnings)


def _find_military_warnings(parsed: DeliveryPoint, city: str, state: str) -> list[str]:
    is_military_city = standardize_text(city).replace(" ", "") in MILITARY_CITIES
    if state not in MILITARY_STATES:
        is_wrong = is_military_city and len(city) <= MAX_MILITARY_CITY_LENGTH
        return [f"The state of {city.upper()} is AA, AE or AP, not {state}."] if is_wrong else []
    if not is_military_city:
        return [f"In {state} the city is APO, FPO or DPO, not {city}."]
    return [] if parsed.is_military else ["Mail to the armed forces goes to a PSC, a CMR or a UNIT, and its BOX."]


HOME_COUNTRY = "US"
DELIVERABLE, DOUBTFUL, UNDELIVERABLE = "deliverable", "doubtful", "undeliverable"
DELIVERABILITIES = (DELIVERABLE, DOUBTFUL, UNDELIVERABLE)
"""What is doubtful is mailed, and the sender is warned."""
NO_ADDRESS = "There is no mailing address, only an e-mail."
INCOMPLETE_ADDRESS = "The address lacks its city, state or ZIP code."
ADDRESS_PARTS = ("address", "address2", "city", "province", "postal_code")
StandardParts = tuple[str | None, str | None, str | None, str | None, str | None]
"""In the order of `ADDRESS_PARTS`, as printed."""


@dataclass(frozen=True, slots=True)
class StandardizedAddress:
    """`standard` is None if there is no address, or too little of one."""

    key: str | None
    standard: StandardParts | None
    deliverability: str
    reasons: tuple[str, ...] = ()
    """Sentences; if undeliverable, the first says why."""


def standardize(
    parts: Mapping[str, str | None], country: str, *, email: str | None = None, name: str | None = None
) -> StandardizedAddress:
    """The parts are stripped, and None if empty; `email` and `name` matter only if it is no delivery point."""
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
    first_segments = split_delivery_line(address, state)
    second_segments = split_delivery_line(second_line, state) if second_line else []
    parsed = read_simple_address(first_segments, second_segments) or parse_address(
        first_segments, second_segments, state
    )
    unit_keys = [
        # Only the number for designators that people interchange.
        normalize_for_key(number if designator in INTERCHANGEABLE_UNITS and number else f"{designator} {number}")
        for designator, number in parsed.units
    ]
    if parsed.second_line and (second_line_key := _build_second_line_key(parsed.second_line)):
        unit_keys.append(second_line_key)
    street, unit = _build_street_key(parsed.street), ",".join(unit_keys)
    zip_code = format_zip(code or "")
    if parsed.has_number and not parsed.is_missing_box and parsed.street != GENERAL_DELIVERY:
        key = _build_address_key(street, unit, zip_code[:5], HOME_COUNTRY, known_details=(city, state, email))
    else:
        key = _build_address_key(street, unit, "", HOME_COUNTRY, known_details=(city, state, email, zip_code[:5], name))
    if city is None or state is None or code is None:
        return StandardizedAddress(key, None, UNDELIVERABLE, (INCOMPLETE_ADDRESS,))
    standard_city = find_standard_city(zip_code[:5], city)
    warnings = _find_domestic_warnings(parsed, city, state, zip_code[:5], standard_city)
    standard = (
        parsed.line,
        parsed.second_line or None,
        standard_city or standardize_text(city),
        state if state.isupper() else standardize_text(state),
        zip_code,
    )
    return StandardizedAddress(key, standard, DOUBTFUL if warnings else DELIVERABLE, warnings)


def _standardize_foreign(
    address: str, address2: str | None, parts: Mapping[str, str | None], country: str, email: str | None
) -> StandardizedAddress:
    city, province, code = (parts[name] for name in ADDRESS_PARTS[2:])
    # 110 00 is 11000; not everyone has codes
    locality = normalize_for_key(code).replace(" ", "") or normalize_for_key(city)
    street, unit = normalize_for_key(address), normalize_for_key(address2)
    key = _build_address_key(street, unit, locality, country, known_details=(city, province, email))
    if city is None:
        return StandardizedAddress(key, None, UNDELIVERABLE, (INCOMPLETE_ADDRESS,))
    foreign = standardize_foreign(
        country, _normalize_spaces(city), province and _normalize_spaces(province), code and _normalize_spaces(code)
    )
    lines = (_normalize_spaces(address), address2 and _normalize_spaces(address2))
    standard = (*lines, foreign.city, foreign.province, foreign.postal_code)
    return StandardizedAddress(key, standard, DOUBTFUL if foreign.warnings else DELIVERABLE, foreign.warnings)


def _normalize_spaces(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
