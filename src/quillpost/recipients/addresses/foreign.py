"""Addresses outside the United States."""

import re
from typing import NamedTuple

from quillpost.rendering.text.addresses import CountryAddressRules, country_name, find_country_rules, normalize_province

_CANADIAN_POSTAL_CODE = re.compile(r"([A-Z]\d[A-Z])[ -]?(\d[A-Z]\d)")
_SPACES = re.compile(r"\s+")


class ForeignAddress(NamedTuple):
    city: str
    province: str | None
    postal_code: str | None
    doubts: tuple[str, ...]


def standardize_foreign(country: str, city: str, province: str | None, postal_code: str | None) -> ForeignAddress:
    """The place as its country writes it, accents and all, and what speaks against it."""
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
    """The code of a province; but Tokyo stays Tokyo where the code is in letters that nobody here reads."""
    return province_code if province_code and (province_code.isascii() or not (province or "").isascii()) else province


def _standardize_postal_code(country: str, code: str | None) -> str | None:
    """Postal codes have no small letters anywhere."""
    if code is None:
        return None
    normalized = _SPACES.sub(" ", code.upper())
    canadian_match = _CANADIAN_POSTAL_CODE.fullmatch(normalized) if country == "CA" else None
    return f"{canadian_match[1]} {canadian_match[2]}" if canadian_match else normalized


def _describe_example(rules: CountryAddressRules) -> str:
    return f"; they look like {rules.postal_code_example}" if rules.postal_code_example else ""


CANADA = "CA"
PROVINCES = {
    "ALBERTA": "AB", "BRITISH COLUMBIA": "BC", "MANITOBA": "MB", "NEW BRUNSWICK": "NB",
    "NEWFOUNDLAND AND LABRADOR": "NL", "NEWFOUNDLAND": "NL", "NOVA SCOTIA": "NS",
    "NORTHWEST TERRITORIES": "NT", "NUNAVUT": "NU", "ONTARIO": "ON", "PRINCE EDWARD ISLAND": "PE",
    "QUEBEC": "QC", "QUÉBEC": "QC", "SASKATCHEWAN": "SK", "YUKON": "YT",
}  # fmt: skip
_PROVINCE_CODES = frozenset(PROVINCES.values())
_POSTAL_CODE = re.compile(r"[ABCEGHJ-NPRSTVXY]\d[A-Z][ -]?\d[A-Z]\d", re.IGNORECASE)
_CANADIAN_ADDRESS = re.compile(
    r"(?P<street>[^,]+(?:,[^,]+)?),\s*(?P<city>[^,\d]+),\s*(?P<province>[^,\d]+?),?\s+"
    rf"(?P<code>{_POSTAL_CODE.pattern})(?P<country>,?\s+Canada)?[.,]?",
    re.IGNORECASE,
)


def is_canadian(province: str | None, postal_code: str | None) -> bool:
    """Whether one of them is of Canada; no state of the US is called like a province."""
    return _find_canadian_province(province or "") is not None or _POSTAL_CODE.fullmatch(postal_code or "") is not None


def split_canadian_address(line: str) -> tuple[dict[str, str], bool] | None:
    """Street, city, province and postal code, and whether the line names the country; None: it is no such."""
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
