"""The standard form of an address, its key, and whether mail can reach it."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quillpost.recipients.addresses.cities import MILITARY_CITIES, find_standard_city, find_state_and_city, format_zip
from quillpost.recipients.addresses.domestic import ParsedAddress, parse_address
from quillpost.recipients.addresses.keys import build_address_key, normalize_for_key
from quillpost.recipients.addresses.text import MEANINGLESS_PHRASES, PROVINCES, UNNUMBERED_UNITS, standardize_text
from quillpost.recipients.addresses.units import UNKNOWN_DESIGNATOR
from quillpost.rendering.text.addresses import CountryAddressRules, country_name, find_country_rules, normalize_province

_CANADIAN_POSTAL_CODE = re.compile(r"([A-Z]\d[A-Z])[ -]?(\d[A-Z]\d)")
_SPACES = re.compile(r"\s+")


class ForeignAddress(NamedTuple):
    city: str
    province: str | None
    postal_code: str | None
    doubts: tuple[str, ...]


def standardize_foreign(country: str, city: str, province: str | None, postal_code: str | None) -> ForeignAddress:
    """As its country writes it, and what is doubtful."""
    rules = find_country_rules(country, None)
    code = _standardize_postal_code(country, postal_code)
    if rules is None:
        return ForeignAddress(city, province, code, ())
    doubts: list[str] = []
    province_code = _find_province(rules, province)
    if rules.province_codes and province and province_code is None:
        doubts.append(f"{province} is not a province or state of {country_name(country)}.")
    elif province is None and "country_area" in rules.required_fields:
        doubts.append(f"An address in {country_name(country)} needs a province or state.")
    if province_code:
        rules = find_country_rules(country, province_code) or rules
    if code is None and "postal_code" in rules.required_fields:
        doubts.append(f"An address in {country_name(country)} needs a postal code{_describe_example(rules)}.")
    elif code and rules.postal_code_patterns and not all(pattern.match(code) for pattern in rules.postal_code_patterns):
        region = (
            f"{country_name(country)}, {province_code}"
            if province_code and rules.postal_code_patterns[0].match(code)
            else country_name(country)
        )
        doubts.append(f"{code} is not a postal code of {region}{_describe_example(rules)}.")
    if "city" in rules.uppercase_fields:
        city = city.upper()
    return ForeignAddress(city, _choose_province_spelling(province_code, province), code, tuple(doubts))


def _find_province(rules: CountryAddressRules, province: str | None) -> str | None:
    return rules.province_codes.get(normalize_province(province or "")) or None


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
_PROVINCE_CODES = frozenset(PROVINCES.values())
_POSTAL_CODE = re.compile(r"[ABCEGHJ-NPRSTVXY]\d[A-Z][ -]?\d[A-Z]\d", re.IGNORECASE)
_CANADIAN_ADDRESS = re.compile(
    r"(?P<street>[^,]+(?:,[^,]+)?),\s*(?P<city>[^,\d]+),\s*(?P<province>[^,\d]+?),?\s+"
    rf"(?P<code>{_POSTAL_CODE.pattern})(?P<country>,?\s+Canada)?[.,]?",
    re.IGNORECASE,
)


def is_canadian(province: str | None, postal_code: str | None) -> bool:
    """Whether one of them is Canadian; no US state has the name of a province."""
    return _find_canadian_province(province or "") is not None or _POSTAL_CODE.fullmatch(postal_code or "") is not None


def split_canadian_address(line: str) -> tuple[dict[str, str], bool] | None:
    """Street, city, province and postal code, and whether the line names the country; or None."""
    match = _CANADIAN_ADDRESS.fullmatch(", ".join(" ".join(part.split()) for part in line.strip().splitlines()))
    province = match and _find_canadian_province(match["province"])
    if match is None or province is None:
        return None
    parts = {
        "address": match["street"].strip(),
        "city": match["city"].strip(),
        "province": province,
        "postal_code": match["code"].upper(),
    }
    return parts, match["country"] is not None


def _find_canadian_province(text: str) -> str | None:
    normalized = text.replace(".", "").strip().upper()
    return normalized if normalized in _PROVINCE_CODES else PROVINCES.get(normalized)


MILITARY_STATES = frozenset({"AA", "AE", "AP"})
MAX_MILITARY_CITY_LENGTH = len("A. P. O.")
NO_NUMBER = "The address has neither a house number nor a box."
NO_BOX = "{} has no BOX after it."
MILITARY_BOX_REQUIRED = "Mail to the armed forces goes to a PSC, a CMR or a UNIT, and its BOX."


def find_domestic_doubts(
    parsed: ParsedAddress, city: str, state: str, zip5: str, *, is_city_known: bool
) -> tuple[str, ...]:
    """The most serious first."""
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
    return standardize_text(city).replace(" ", "") in MILITARY_CITIES


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
    # 110 00 is 11000; not everyone has codes
    locality = normalize_for_key(code).replace(" ", "") or normalize_for_key(city)
    street, unit = normalize_for_key(address), normalize_for_key(address2)
    key = build_address_key(street, unit, locality, country, known_details=(city, province, email))
    if city is None:
        return StandardizedAddress(key, None, UNDELIVERABLE, (INCOMPLETE_ADDRESS,))
    foreign = standardize_foreign(
        country, _normalize_spaces(city), province and _normalize_spaces(province), code and _normalize_spaces(code)
    )
    lines = (_normalize_spaces(address), address2 and _normalize_spaces(address2))
    standard = (*lines, foreign.city, foreign.province, foreign.postal_code)
    return StandardizedAddress(key, standard, DOUBTFUL if foreign.doubts else DELIVERABLE, foreign.doubts)


def _normalize_spaces(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
