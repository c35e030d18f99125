"""The key of an address: one for every way to write a delivery point."""

import hashlib
import re
import unicodedata
from functools import lru_cache

from quillpost.recipients.addresses.text import (
    BUILDING_WORDS,
    COMPANY_WORDS,
    DIRECTION_CODES,
    INVISIBLE_MARKS,
    NOTE_WORDS,
    REQUEST_WORDS,
    SPELLED_ORDINALS,
    SPELLED_TENS,
    STANDARD_SPELLINGS,
    STANDARD_STREET_SUFFIXES,
    UNITS,
)
from quillpost.rendering.text.characters import (
    BUSINESS_WORDS,
    FAMILY_FIRST_SCRIPT,
    HOUSEHOLD_WORDS,
    PARTICLES,
    PLACEHOLDERS,
    SUFFIXES,
    TITLES,
)

MAX_KEY_LENGTH = 500
"""Fits into an index in any script."""
LONG_KEY_PREFIX_LENGTH = 300
AMBIGUOUS_KEY_SUFFIX = "|?"
"""Ends the key of an address that may be in many places; no address contains it."""

NON_WORD_CHARACTER = re.compile(r"[\W_]")
REMOVABLE_SPACE = re.compile(r"(?<!\d) | (?!\d)")
OPTIONAL_VOWEL_MARKS = range(10, 37)
"""The combining classes of Hebrew and Arabic vowel points, which most people omit."""
_DIGITS = "0123456789"
_ASCII_PUNCTUATION = {code: " " for code in range(128) if not chr(code).isalnum()}


KnownDetails = tuple[str | None, ...]
"""City, province, e-mail; and of what is no delivery point, the ZIP code and the name."""


def build_address_key(street: str, unit: str, locality: str, country: str, *, known_details: KnownDetails) -> str:
    """`STREET|UNIT|PLACE|COUNTRY`, of parts normalized for keys; the place is a postal code, else a city. Without a
    place it is no delivery point: all known details tell people apart."""
    key_parts = [street, unit, locality, country]
    if locality:
        return _shorten_key("|".join(key_parts))
    city, province, email, *more_details = known_details
    detail_parts = [
        normalize_for_key(city),
        normalize_for_key(province),
        (email or "").lower(),
        *map(normalize_for_key, more_details),
    ]
    return _shorten_key("|".join([*key_parts, *detail_parts])) + AMBIGUOUS_KEY_SUFFIX


def get_street(key: str) -> str:
    return key.split("|", 1)[0]


def get_unit(key: str) -> str:
    return key.split("|", 2)[1]


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


def _shorten_key(key: str) -> str:
    if len(key) <= MAX_KEY_LENGTH:
        return key
    return f"{key[:LONG_KEY_PREFIX_LENGTH]}|{hashlib.sha256(key.encode()).hexdigest()}"


def _is_combining_mark(char: str) -> bool:
    """Without their vowels two Thai streets would be one."""
    return unicodedata.category(char) in ("Mn", "Mc") and unicodedata.combining(char) not in OPTIONAL_VOWEL_MARKS


CARE_OF_WORDS = frozenset({"C/O", "ATTN", "ATTENTION"})


def build_street_key(street: str) -> str:
    """`12 N ASH ST`, `12NASH ST`: directions and the suffix are apart, other words joined. People write Lake Shore and
    Lakeshore for one street; but W Alton and Walton are two, and so are Fore St and Forest."""
    words = street.split()
    end = len(words)
    while end > 0 and words[end - 1] in DIRECTION_CODES:
        end -= 1
    suffix = end - 1 if end > 2 and words[end - 1] in STANDARD_STREET_SUFFIXES else -1
    key, needs_space = "", False
    for index, word in enumerate(_ordinals_to_digits(words)):
        key_word = word if word.isascii() and word.isalnum() else normalize_for_key(word)
        if not key_word:
            continue
        is_direction = word in DIRECTION_CODES
        if key and (needs_space or is_direction or index == suffix or (key[-1].isdigit() and key_word[0].isdigit())):
            key += " "
        key += key_word
        needs_space = is_direction
    return key


def _ordinals_to_digits(words: list[str]) -> list[str]:
    """Each word in its standard spelling; as many as there were."""
    spellings = [STANDARD_SPELLINGS.get(word, word) for word in words]
    for index, word in enumerate(words):
        tens, hyphen, ones = word.partition("-")
        if tens not in SPELLED_TENS:
            continue
        next_word = words[index + 1] if not hyphen and index + 1 < len(words) else ""
        ordinal = SPELLED_ORDINALS.get(ones or next_word, "")
        if len(ordinal) == 3:  # 1ST to 9TH
            spellings[index] = SPELLED_TENS[tens] + ordinal
            if not hyphen:
                spellings[index + 1] = ""
    return spellings


def build_second_line_key(second_line: str) -> str:
    """What tells delivery points of one number apart: a building, a box; not a person, or how to get in."""
    words = second_line.split()
    care_of_index = next((index for index, word in enumerate(words) if word in CARE_OF_WORDS), len(words))
    words = words[:care_of_index]
    if not words:
        return ""
    if BUILDING_WORDS.isdisjoint(words) and UNITS.keys().isdisjoint(words):
        is_note = words[0] in REQUEST_WORDS or not NOTE_WORDS.isdisjoint(words)
        if is_note or not COMPANY_WORDS.isdisjoint(words):
            return ""
    return normalize_for_key(" ".join(words))


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
