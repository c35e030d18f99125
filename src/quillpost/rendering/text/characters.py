"""Visible characters, and the capitals of names and addresses."""

import re
from unicodedata import category, normalize

from quillpost.rendering.models import AddressParts

# Controls, marks of direction, joiners, and halves of letters: no pen can write them.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})
# Letters by name that leave the paper white: fillers, the empty braille cell, variation selectors.
_BLANK_CHARS = re.compile("[\u115f\u1160\u3164\uffa0\u2800\u180b-\u180d\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")


def to_one_line(text: str | None) -> str:
    """Visible characters on one line, words one space apart."""
    if not text:
        return ""
    return " ".join(strip_invisible(text).split())


def strip_invisible(text: str) -> str:
    """The text without invisible characters, in Unicode's form C; lines stay, every kind of space is a space."""
    if not text.replace("\n", " ").isprintable():
        text = "".join([_visible_char(char) for char in _LINE_END.sub("\n", text)])
    return text if text.isascii() else normalize("NFC", _BLANK_CHARS.sub("", text))


def _visible_char(char: str) -> str:
    if char == "\n":
        return char
    if char.isspace():
        return " "
    return "" if category(char) in _INVISIBLE_CATEGORIES else char


PARTICLES = frozenset(
    {"de", "del", "della", "der", "den", "di", "da", "do", "dos", "du", "la", "le", "ten", "ter"}
    | {"van", "von", "zu", "bin", "ibn", "al", "el"}
)
ROMAN_NUMERALS = frozenset({"ii", "iii", "iv"})
DEGREES = frozenset({"md", "dds", "dmd", "dvm", "cpa", "rn", "jd"})
SUFFIXES = frozenset({"jr", "sr", "esq", "phd"}) | ROMAN_NUMERALS | DEGREES
TITLES = frozenset({"mr", "mrs", "ms", "miss", "mx", "dr", "prof", "rev", "sir", "dame", "fr", "hon", "capt", "attn"})
HOUSEHOLD_WORDS = frozenset(
    {"family", "household", "resident", "residents", "occupant", "occupants", "neighbor", "neighbors"}
    | {"neighbour", "neighbours", "homeowner", "homeowners", "customer", "owner"}
)
BUSINESS_WORDS = frozenset(
    {"llc", "llp", "pllc", "inc", "incorporated", "ltd", "limited", "corp", "corporation", "co", "company"}
    | {"plc", "gmbh", "trust", "estate", "foundation", "association", "hoa", "sons", "holdings"}
    | {"properties", "partners", "group", "enterprises"}
)
PLACEHOLDERS = frozenset({"na", "n/a", "none", "null", "nil", "nan", "unknown", "undefined", "anonymous"})
FAMILY_FIRST_SCRIPT = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U000323af]+"
)
"""Scripts that put the family name first and need no space between names."""


_JOINERS = frozenset({"&", "+", "and", "und", "et"})
_ACRONYMS = frozenset({"llc", "llp", "pllc", "hoa", "usa"})
# Words whose capitals follow no rule.
_FIXED_SPELLINGS = {"phd": "PhD"} | {word: word.upper() for word in ROMAN_NUMERALS | DEGREES | _ACRONYMS}
_IRREGULAR_WORDS = PARTICLES | _JOINERS | SUFFIXES | frozenset(_FIXED_SPELLINGS)
_APOSTROPHE_PREFIXES = frozenset({"dell", "dall", "sant"})
_APOSTROPHE = re.compile("['’ʼ`´]")
_TYPED_ACCENT = re.compile(r"(?<=\w)[`´](?=\w)")
_TWO_CONSONANTS = re.compile("(?!ng|mr|ms|mx|dr|fr|st)[bcdfghjklmnpqrstvwxz]{2}")
_HYPHENATED_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)+")
_WORD_PART = re.compile(r"[^-.]+")


def normalize_name_case(name: str) -> str:
    """Capitalizes words typed all in capitals or all in small letters; others stay.

    In a name of mixed words (`Jane DOE`, `Vincent van Gogh`, `TJ Smith`) only words in capitals are lowered, and only
    the first is raised.
    """
    name = _TYPED_ACCENT.sub("'", name)
    words = name.split(" ")
    # A sharp s has no capital in daily use: `WEIß` is shouted all the same.
    if name.replace("ß", "") == name.replace("ß", "").upper() or name == name.lower():
        # `JUAN Y MARIA LOPEZ` are two, `JOHN Y SMITH` is one with an initial.
        if len(words) > 3 and words[1] in "yY":
            words[1] = "y"
        return " ".join([_capitalize_word(word, is_inside=index > 0) for index, word in enumerate(words)])
    return " ".join([_lower_shouted_word(word, is_inside=index > 0) for index, word in enumerate(words)])


def normalize_ordinary_word(word: str) -> str | None:
    """The word as a name shows it, if there is no doubt; most words."""
    if len(word) < 3 or word.lower() in _IRREGULAR_WORDS or not _is_plain(word):
        return None
    if word.istitle():
        return word
    return _capitalize_word(word, is_inside=True) if word.isupper() else None


def is_joiner(word: str) -> bool:
    """Whether the word stands between two people, or (`y`) between two surnames."""
    return word == "y" or word.lower() in _JOINERS


def comparison_key(word: str) -> str:
    """The word in small letters without punctuation, for comparisons."""
    return word.replace(".", "").strip(",;:").lower()


def _is_plain(word: str) -> bool:
    """Letters, perhaps joined by apostrophes or hyphens."""
    return word.isalpha() or _HYPHENATED_WORD.fullmatch(word) is not None


def _lower_shouted_word(word: str, *, is_inside: bool) -> str:
    is_shouted = len(word) > 2 and word.isupper() and _is_plain(word)
    is_lowercase_start = not is_inside and word.islower() and word not in PARTICLES
    return _capitalize_word(word, is_inside=is_inside) if is_shouted or is_lowercase_start else word


def _capitalize_word(word: str, *, is_inside: bool) -> str:
    lower = word.lower()
    key = comparison_key(lower)
    if key in _FIXED_SPELLINGS and (is_inside or key not in SUFFIXES) and "." not in word:
        return word.lower().replace(key, _FIXED_SPELLINGS[key])
    if is_inside and (lower in PARTICLES or lower in _JOINERS or word == "y"):
        return lower
    if not is_inside and _TWO_CONSONANTS.fullmatch(lower):
        return lower.upper()
    return _WORD_PART.sub(lambda part: _capitalize_part(part[0]), word)


def _capitalize_part(part: str) -> str:
    """A part between hyphens or full stops."""
    mark = _APOSTROPHE.search(part)
    if mark is not None:
        head, tail = part[: mark.start()], part[mark.end() :]
        if (len(head) == 1 and len(tail) > 1) or head.lower() in _APOSTROPHE_PREFIXES:
            return capitalize(head) + mark[0] + capitalize(tail)
    if len(part) > 4 and part[:2].lower() == "mc":
        return "Mc" + capitalize(part[2:])
    return capitalize(part)


def capitalize(part: str) -> str:
    """The first letter large, the others small. A dotted İ becomes a plain i, not an i with two dots."""
    if part.isascii() and part.isalpha():
        return part.capitalize()
    for index, char in enumerate(part):
        if char.isalpha():
            head = part[:index] + (char if char.isupper() else char.title())
            return head + part[index + 1 :].replace("İ", "i").lower()
    return part


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
