"""Addresses outside the United States."""

import re
from typing import NamedTuple

from quillpost.rendering.text.addresses import Rules, rules_of, spelled
from quillpost.rendering.text.countries import country_name

_CANADIAN = re.compile(r"([A-Z]\d[A-Z])[ -]?(\d[A-Z]\d)")
_SPACES = re.compile(r"\s+")


class Abroad(NamedTuple):
    city: str
    province: str | None
    postal_code: str | None
    doubts: tuple[str, ...]


def standard_abroad(country: str, city: str, province: str | None, postal_code: str | None) -> Abroad:
    """The place as its country writes it, accents and all, and what speaks against it."""
    rules = rules_of(country, None)
    code = _code(country, postal_code)
    if rules is None:
        return Abroad(city, province, code, ())
    doubts: list[str] = []
    known = _province(rules, province)
    if rules.provinces and province and known is None:
        doubts.append(f"{province} is not a province or state of {country_name(country)}.")
    elif province is None and "country_area" in rules.needs:
        doubts.append(f"An address in {country_name(country)} needs a province or state.")
    if known:
        rules = rules_of(country, known) or rules
    if code is None and "postal_code" in rules.needs:
        doubts.append(f"An address in {country_name(country)} needs a postal code{_form_of(rules)}.")
    elif code and rules.codes and not all(form.match(code) for form in rules.codes):
        where = (
            f"{country_name(country)}, {known}"
            if known and rules.codes[0].match(code)
            else country_name(country)
        )
        doubts.append(f"{code} is not a postal code of {where}{_form_of(rules)}.")
    if "city" in rules.in_capitals:
        city = city.upper()
    return Abroad(city, _in_its_letters(known, province), code, tuple(doubts))


def _province(rules: Rules, province: str | None) -> str | None:
    return rules.provinces.get(spelled(province or "")) or None


def _in_its_letters(known: str | None, province: str | None) -> str | None:
    """The code of a province; but Tokyo stays Tokyo where the code is in letters that nobody here reads."""
    return known if known and (known.isascii() or not (province or "").isascii()) else province


def _code(country: str, code: str | None) -> str | None:
    """Postal codes have no small letters anywhere."""
    if code is None:
        return None
    plain = _SPACES.sub(" ", code.upper())
    canadian = _CANADIAN.fullmatch(plain) if country == "CA" else None
    return f"{canadian[1]} {canadian[2]}" if canadian else plain


def _form_of(rules: Rules) -> str:
    return f"; they look like {rules.example}" if rules.example else ""


CANADA = "CA"
PROVINCES = {
    "ALBERTA": "AB", "BRITISH COLUMBIA": "BC", "MANITOBA": "MB", "NEW BRUNSWICK": "NB",
    "NEWFOUNDLAND AND LABRADOR": "NL", "NEWFOUNDLAND": "NL", "NOVA SCOTIA": "NS",
    "NORTHWEST TERRITORIES": "NT", "NUNAVUT": "NU", "ONTARIO": "ON", "PRINCE EDWARD ISLAND": "PE",
    "QUEBEC": "QC", "QUÉBEC": "QC", "SASKATCHEWAN": "SK", "YUKON": "YT",
}  # fmt: skip
_CODES = frozenset(PROVINCES.values())
_POSTAL_CODE = re.compile(r"[ABCEGHJ-NPRSTVXY]\d[A-Z][ -]?\d[A-Z]\d", re.IGNORECASE)
_WHOLE = re.compile(
    r"(?P<street>[^,]+(?:,[^,]+)?),\s*(?P<city>[^,\d]+),\s*(?P<province>[^,\d]+?),?\s+"
    rf"(?P<code>{_POSTAL_CODE.pattern})(?P<country>,?\s+Canada)?[.,]?",
    re.IGNORECASE,
)


def is_canadian(province: str | None, postal_code: str | None) -> bool:
    """Whether one of them is of Canada; no state of the US is called like a province."""
    return (
        _canadian_province(province or "") is not None
        or _POSTAL_CODE.fullmatch(postal_code or "") is not None
    )


def taken_apart_in_canada(line: str) -> tuple[dict[str, str], bool] | None:
    """Street, city, province and postal code, and whether the line names the country; None: it is no such."""
    whole = _WHOLE.fullmatch(", ".join(" ".join(part.split()) for part in line.strip().splitlines()))
    province = whole and _canadian_province(whole["province"])
    if whole is None or province is None:
        return None
    parts = {
        "address": whole["street"].strip(),
        "city": whole["city"].strip(),
        "province": province,
        "postal_code": whole["code"].upper(),
    }
    return parts, whole["country"] is not None


def _canadian_province(text: str) -> str | None:
    plain = text.replace(".", "").strip().upper()
    return plain if plain in _CODES else PROVINCES.get(plain)
