"""The vocabulary of Publication 28; addresses and names as words, and in their normal form."""

import csv
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files

from quillpost.rendering.text.names import (
    BUSINESS_WORDS,
    FAMILY_FIRST_SCRIPT,
    HOUSEHOLD_WORDS,
    PARTICLES,
    PLACEHOLDERS,
    SUFFIXES,
    TITLES,
)

_DATA_FOLDER = files("quillpost.recipients.addresses") / "data"
_VOCABULARY = tomllib.loads((_DATA_FOLDER / "words.toml").read_text(encoding="utf-8"))


def _read_suffixes() -> dict[str, str]:
    suffixes: dict[str, str] = {}
    for row in csv.DictReader((_DATA_FOLDER / "street_suffixes.csv").read_text(encoding="utf-8").splitlines()):
        suffixes |= dict.fromkeys([row["standard"], row["name"], *row["also"].split()], row["standard"])
    return suffixes


def _index_by_spelling(entries: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {word: standard for standard, spellings in entries.items() for word in (standard, *spellings)}


STREET_SUFFIXES = _read_suffixes()
"""The standard abbreviation by any spelling."""
STANDARD_STREET_SUFFIXES = frozenset(STREET_SUFFIXES.values())
UNAMBIGUOUS_STREET_SUFFIXES = frozenset(
    word for word, standard in STREET_SUFFIXES.items() if standard in _VOCABULARY["strong_suffixes"]["standards"]
)
DIRECTIONS: dict[str, str] = _VOCABULARY["directions"] | {code: code for code in _VOCABULARY["directions"].values()}
DIRECTION_CODES = frozenset(DIRECTIONS.values())
DOUBLE_DIRECTIONS = {(first, second): first + second for first in "NS" for second in "EW"}
NUMBERED_UNITS = _index_by_spelling(_VOCABULARY["units"])
UNNUMBERED_UNITS = _index_by_spelling(_VOCABULARY["lone_units"])
UNITS = NUMBERED_UNITS | UNNUMBERED_UNITS
AMBIGUOUS_UNITS = frozenset(_VOCABULARY["weak_units"]["words"])
INTERCHANGEABLE_UNITS = frozenset(_VOCABULARY["one_door"]["designators"])
COMPANY_WORDS, NOTE_WORDS, REQUEST_WORDS, BUILDING_WORDS = (
    frozenset(_VOCABULARY["no_door"][kind]) for kind in ("companies", "notes", "requests", "buildings")
)
MEANINGLESS_PHRASES = frozenset(_VOCABULARY["says_nothing"]["phrases"])
HIGHWAY_KINDS = _index_by_spelling(_VOCABULARY["highways"])
HIGHWAY_STARTS = frozenset(phrase.split()[0] for phrase in HIGHWAY_KINDS)
HIGHWAY_PREFIXES = frozenset(_VOCABULARY["highway_kinds"]["words"])
NAME_PREFIXES = frozenset(_VOCABULARY["before_names"]["words"])
BOX_KINDS = _index_by_spelling(_VOCABULARY["boxes"])
ROUTE_KINDS = _index_by_spelling(_VOCABULARY["routes"])
MILITARY_KINDS = _index_by_spelling(_VOCABULARY["military"])
BOX_STARTS = frozenset(phrase.split()[0] for phrase in (*BOX_KINDS, *ROUTE_KINDS, *MILITARY_KINDS))
SPELLED_NUMBERS: dict[str, str] = _VOCABULARY["spelled_numbers"]
PUERTO_RICO_WORDS: dict[str, str] = _VOCABULARY["puerto_rico"]
PUERTO_RICO_NEIGHBORHOODS, PUERTO_RICO_STREETS = (
    frozenset(_VOCABULARY["neighbourhoods"][kind]) for kind in ("words", "streets")
)
STANDARD_SPELLINGS: dict[str, str] = _VOCABULARY["same"]
SPELLED_ORDINALS = {word: number for word, number in STANDARD_SPELLINGS.items() if number[0].isdigit()}
SPELLED_TENS: dict[str, str] = _VOCABULARY["tens"]
STATE_CODES_BY_NAME: dict[str, str] = _VOCABULARY["states"]
PROVINCES: dict[str, str] = _VOCABULARY["provinces"]
INVISIBLE_MARKS = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Marks that are invisible, or only select another form of the letter before them."""
_ASCII_TRANSLATION = str.maketrans(
    dict.fromkeys(map(chr, (*range(32), 127)), " ")
    | dict.fromkeys('"!$()*+:<=>?@[\\]^_{|}~', " ")
    | {"'": "", "`": "", "#": " # ", ",": " , ", ";": " , ", "\n": " , ", "\r": " , ", "%": " C/O "}
)
_INITIALS = re.compile(r"(?<!\w)([^\W\d_])\.(?=[^\W\d_](?!\w))")
_POINT = re.compile(r"(?<!\d)\.|\.(?!\d)")
_SLASH = re.compile(r"(?<![\d])/|/(?![\d])")
_CARE_OF = re.compile(r"(?<!\w)C ?/ ?O(?!\w)")
_CARE_OF_PLACEHOLDER = "\u0001"
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_QUOTES = re.compile("[\u02b9-\u02bc\u2018\u2019\u201b\u2032\u00b4\uff07]")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_LATIN_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")


def split_segments(text: str) -> list[list[str]]:
    """The words of each part between commas that is not empty."""
    words = _split_words(text)
    if "," not in words:
        return [words] if words else []
    parts: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def standardize_text(text: str) -> str:
    """In capitals without punctuation: for cities, and lines that are no street."""
    words = _split_words(text)
    return " ".join([word for word in words if word != ","])


def _split_words(text: str) -> list[str]:
    if text.isascii() and text.replace(" ", "").isalnum():
        return text.upper().split()  # nothing in it but letters, digits and spaces, as in most
    if not text.isascii():
        text = _strip_accents(text)
    text = text.upper().translate(_ASCII_TRANSLATION)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "." in text:
        text = _POINT.sub(" ", _INITIALS.sub(r"\1", text))
    if "/" in text:
        text = _SLASH.sub(" ", _CARE_OF.sub(_CARE_OF_PLACEHOLDER, text)).replace(_CARE_OF_PLACEHOLDER, " C/O ")
    words = text.split()
    return _strip_loose_hyphens(words) if "-" in text else words


def _strip_accents(text: str) -> str:
    """Letters and digits, Latin ones without accents; other characters become spaces."""
    text = INVISIBLE_MARKS.sub("", _FRACTION.sub(lambda match: f" {match[0]}", text))
    decomposed = unicodedata.normalize("NFKD", text).replace("\u2044", "/")
    decomposed = _LATIN_ACCENTS.sub("", _QUOTES.sub("", _DASHES.sub("-", decomposed)))
    return "".join([_letter_or_space(char) for char in decomposed])


def _letter_or_space(char: str) -> str:
    if char.isascii() or unicodedata.category(char)[0] in "LNM":
        return char
    return " "


def _strip_loose_hyphens(words: list[str]) -> list[str]:
    """A hyphen within a word stays; `12 - 14` is one number; other loose hyphens go."""
    cleaned: list[str] = []
    follows_hyphen = False
    for word in words:
        stripped = word.strip("-")
        if not stripped:
            follows_hyphen = True
        elif follows_hyphen and cleaned and cleaned[-1].isdigit() and stripped.isdigit():
            cleaned[-1] += f"-{stripped}"
            follows_hyphen = False
        else:
            cleaned.append(stripped)
            follows_hyphen = False
    return cleaned


ORDINAL_ENDINGS = ("ST", "ND", "RD", "TH")


def has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def is_ordinal(word: str) -> bool:
    return word.endswith(ORDINAL_ENDINGS) and word[:-2].isdigit()


def split_delivery_line(text: str, state: str | None) -> list[list[str]]:
    split = split_segments(text)
    if len(split) > 1:
        split = [words for words in split if " ".join(words) not in MEANINGLESS_PHRASES] or split[:1]
    if state == "PR":
        return [segment for words in split for segment in _split_puerto_rico(words)]
    return split


def _split_puerto_rico(words: list[str]) -> list[list[str]]:
    """An urbanization has a line of its own."""
    segments: list[list[str]] = [[]]
    words = " ".join([PUERTO_RICO_WORDS.get(word, word) for word in words]).split()
    for index, word in enumerate(words):
        if segments[-1] and (word == "URB" or _begins_street(words, index, segments[-1])):
            segments.append([])
        segments[-1].append(word)
    return segments


def _begins_street(words: list[str], index: int, preceding_words: list[str]) -> bool:
    """`URB LAS GLADIOLAS 150 CALLE A`: the house number follows the neighborhood."""
    if len(preceding_words) < 2 or preceding_words[0] not in PUERTO_RICO_NEIGHBORHOODS or not has_digit(words[index]):
        return False
    following_words = words[index + 1 :]
    return bool(following_words) and (
        following_words[0] in PUERTO_RICO_STREETS
        or (len(following_words) > 1 and following_words[-1] in STREET_SUFFIXES)
    )


NON_WORD_CHARACTER = re.compile(r"[\W_]")
REMOVABLE_SPACE = re.compile(r"(?<!\d) | (?!\d)")
OPTIONAL_VOWEL_MARKS = range(10, 37)
"""The combining classes of Hebrew and Arabic vowel points, which most people omit."""
_DIGITS = "0123456789"
_ASCII_PUNCTUATION = {code: " " for code in range(128) if not chr(code).isalnum()}


def normalize_for_key(text: str | None) -> str:
    """Letters with their marks and digits, in capitals; a space only between two numbers."""
    if text is None or text.isascii():
        return _normalize_ascii(text or "")
    composed = unicodedata.normalize("NFC", INVISIBLE_MARKS.sub("", text))
    uppercased = unicodedata.normalize("NFC", composed.upper())
    words = NON_WORD_CHARACTER.sub(lambda match: match[0] if _is_combining_mark(match[0]) else " ", uppercased)
    return REMOVABLE_SPACE.sub("", " ".join(words.split()))


def _normalize_ascii(text: str) -> str:
    """The same without patterns, for most of a million addresses."""
    normalized, is_after_digit = "", False
    if not text.replace(" ", "").isalnum():
        text = text.translate(_ASCII_PUNCTUATION)
    for word in text.upper().split():
        normalized += f" {word}" if is_after_digit and word[0] in _DIGITS else word
        is_after_digit = word[-1] in _DIGITS
    return normalized


def _is_combining_mark(char: str) -> bool:
    """Without their vowels two Thai streets would be one."""
    return unicodedata.category(char) in ("Mn", "Mc") and unicodedata.combining(char) not in OPTIONAL_VOWEL_MARKS


SURNAME_CACHE_SIZE = 4096
_PARENTHETICAL = re.compile(r"\([^()]*\)|\"[^\"]*\"|“[^“”]*”")
_OR_RESIDENT = re.compile(r"\s+or\s+(?:the\s+)?(?:current\s+)?(?:resident|occupant|neighbou?r)s?$", re.IGNORECASE)
_CARE_OF_SUFFIX = re.compile(r",?\s+(?:c\s?/\s?o|℅|(?:in\s+)?care\s+of)\s.*", re.IGNORECASE | re.DOTALL)
_FAMILY_WORDS = frozenset({"family", "household"})
_SURNAME_PREFIXES = PARTICLES | {"st"}
_JOINERS = frozenset({"and", "&", "+"})
_LEADING_WORDS = frozenset({"the", "current"})
_NON_NAME_WORDS = (
    TITLES | SUFFIXES | BUSINESS_WORDS | HOUSEHOLD_WORDS | PARTICLES | _FAMILY_WORDS | _JOINERS | _LEADING_WORDS
)


@lru_cache(maxsize=SURNAME_CACHE_SIZE)
def extract_surname(name: str | None) -> str | None:
    """DOE of `Dr. Jane Q. Doe Jr.`, `Doe, Jane` and `The Doe Family`; None of a company, or of no one."""
    text = (name or "").strip()
    if _is_simple_name(text):
        return text.split(" ")[1].upper()
    if not text.replace(" ", "").isalnum() or " care of " in text.lower():
        text = _CARE_OF_SUFFIX.sub("", _PARENTHETICAL.sub(" ", text).strip())
    if "or" in text.lower():
        text = _OR_RESIDENT.sub("", text).strip()
    if not text or "@" in text or not any(map(str.isalpha, text)):
        return None
    words = _order_surname_last(text)
    normalized_words = [_normalize_word(word) for word in words]
    if normalized_words and normalized_words[-1] in _FAMILY_WORDS:
        normalized_words = _strip_joiner(normalized_words[:-1])
    if (
        not normalized_words
        or normalized_words[-1] in BUSINESS_WORDS
        or normalized_words[-1] in HOUSEHOLD_WORDS
        or " ".join(normalized_words) in PLACEHOLDERS
    ):
        return None
    if all(map(FAMILY_FIRST_SCRIPT.fullmatch, normalized_words)):
        return normalized_words[0]
    start, end = _find_name_bounds(normalized_words)
    surname_start = end - 1
    # `van der Berg` and `de Gaulle`, but not `Van Morrison`.
    while (
        surname_start > start
        and normalized_words[surname_start - 1] in _SURNAME_PREFIXES
        and (surname_start - 1 > start or words[surname_start - 1].islower())
    ):
        surname_start -= 1
    return (normalize_for_key(" ".join(normalized_words[surname_start:end])) or None) if start < end else None


def _is_simple_name(text: str) -> bool:
    """Whether it is a first name and a last name, as most are."""
    first, _, last = text.partition(" ")
    return (
        text.isascii()
        and first.isalpha()
        and last.isalnum()
        and first.lower() not in _NON_NAME_WORDS
        and last.lower() not in _NON_NAME_WORDS
    )


def _strip_joiner(words: list[str]) -> list[str]:
    return words[:-1] if words and words[-1] in _JOINERS else words


def _normalize_word(word: str) -> str:
    return word.replace(".", "").strip(",;:").lower()


def _find_name_bounds(words: list[str]) -> tuple[int, int]:
    start, end = 0, len(words)
    while start < end and (words[start] in TITLES or words[start] in _LEADING_WORDS):
        start += 1
    while end - 1 > start and words[end - 1] in SUFFIXES:
        end -= 1
    while end > start and (words[end - 1] in TITLES or words[end - 1] in _JOINERS):
        end -= 1
    return start, end


def _order_surname_last(text: str) -> list[str]:
    """`Doe, Jane` reversed; but not at the comma before a suffix (`Doe, Jr.`)."""
    if "," not in text:
        return text.split()
    parts = [part.split() for part in text.split(",") if part.strip()]
    while len(parts) > 1 and all(_normalize_word(word) in SUFFIXES | BUSINESS_WORDS for word in parts[-1]):
        if any(_normalize_word(word) in BUSINESS_WORDS for word in parts[-1]):
            return parts[0] + parts[-1]
        parts.pop()
    if not parts:
        return []
    return parts[1] + parts[0] if len(parts) == 2 else parts[0]
