"""Countries by code and by name."""

import unicodedata
from importlib.resources import files

_COUNTRY_LINES = files(__package__).joinpath("countries.csv").read_text("utf-8").splitlines()[1:]
_COUNTRY_ROWS = [line.split(",") for line in _COUNTRY_LINES]

POSTAL_COUNTRY_NAMES: dict[str, str] = {code: postal_name for code, postal_name, *_ in _COUNTRY_ROWS}
"""For the last line of an address. A code would be read as a state: DE as Delaware, CA as California."""

COUNTRY_CODES = frozenset(POSTAL_COUNTRY_NAMES)
"""ISO 3166-1 alpha-2."""

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
