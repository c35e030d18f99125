"""Finds the first and the last name in a name field."""

import re
from dataclasses import dataclass
from functools import lru_cache

from quillpost.rendering.text import characters
from quillpost.rendering.text.characters import BUSINESS_WORDS, HOUSEHOLD_WORDS, SUFFIXES, comparison_key, is_joiner

# After these a single word is a given name: Sir Elton, Father Ted.
_TITLES_BEFORE_FIRST_NAMES = frozenset({"sir", "dame", "fr", "attn"})
# Particles that nobody has for a first name, unlike Van, Al, Della or Le.
_SURNAME_PARTICLES = frozenset({"de", "del", "der", "den", "dos", "von", "bin", "ibn"})

_OR_RESIDENT_SUFFIX = re.compile(r" or (?:the )?(?:current )?(?:resident|occupant)$", re.IGNORECASE)
_PARENTHESIS = re.compile(r" ?(?:\([^()]*\)|\"[^\"]*\"|“[^“”]*”)(?= |$)")
_QUOTES = '"“”„«»'
_ONE_INITIAL = re.compile(r"[^\W\d_]\.?")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W\d_]\.?")
# Words that are no part of a person's name.
_NON_NAME_WORDS = characters.TITLES | HOUSEHOLD_WORDS | BUSINESS_WORDS | characters.PLACEHOLDERS | {"the", "estate"}


@dataclass(frozen=True, slots=True)
class PersonName:
    """A part that is unknown is empty."""

    full: str
    first: str
    last: str


EMPTY_NAME = PersonName("", "", "")


@lru_cache(maxsize=4096)
def parse_name(text: str | None) -> PersonName:
    """`JANE DOE`, `Smith, Anna` and `Dr. José García Jr.` as a letter would use them.

    A household or a business ("The Smith Family", "Current Resident", "Acme LLC") has no first name, so that a greeting
    takes its fallback. What is no name at all (an email address, a number, "n/a") is empty.
    """
    cleaned = characters.to_one_line(text)
    return _parse_ordinary_name(cleaned.split(" ")) or _parse_any_name(cleaned)


def _parse_ordinary_name(words: list[str]) -> PersonName | None:
    """The fast path for most names."""
    names = [name for name in map(_parse_ordinary_word, words) if name is not None]
    if len(names) < 2 or len(names) < len(words):
        return None
    return PersonName(" ".join(names), names[0], names[-1])


@lru_cache(maxsize=8192)
def _parse_ordinary_word(word: str) -> str | None:
    return None if word.lower() in _NON_NAME_WORDS else characters.normalize_ordinary_word(word)


def _parse_any_name(text: str) -> PersonName:
    name = _OR_RESIDENT_SUFFIX.sub("", text.strip(_QUOTES + " "))
    if _is_not_a_name(name):
        return EMPTY_NAME
    full = characters.normalize_name_case(_put_first_name_first(name))
    words = _PARENTHESIS.sub("", full).split()
    if _is_household_or_business(words):
        return PersonName(full, "", "")
    return PersonName(full, *_first_and_last_names(words))


def _is_not_a_name(text: str) -> bool:
    if text.lower().rstrip(".") in characters.PLACEHOLDERS or "@" in text or "://" in text:
        return True
    return not any(map(str.isalpha, text))


def _put_first_name_first(text: str) -> str:
    """`Smith, Anna` reversed, but not a comma before a suffix (`Doe, Jr.`)."""
    if "," not in text:
        return text
    parts = [part for part in (part.strip() for part in text.split(",")) if part]
    name_part_count = len(parts)
    while name_part_count > 1 and all(
        comparison_key(word) in SUFFIXES | BUSINESS_WORDS for word in parts[name_part_count - 1].split()
    ):
        name_part_count -= 1
    name = [f"{parts[1]} {parts[0]}"] if name_part_count == 2 else parts[:name_part_count]
    return ", ".join(name + parts[name_part_count:])


def _is_household_or_business(words: list[str]) -> bool:
    if not words:
        return True
    last = comparison_key(words[-1])
    if last in HOUSEHOLD_WORDS and len(words) > 2 and is_joiner(words[-2]):
        return False
    return last in HOUSEHOLD_WORDS or last in BUSINESS_WORDS or comparison_key(words[0]) in {"the", "estate"}


def _first_and_last_names(words: list[str]) -> tuple[str, str]:
    people = _split_people(words)
    first_names = [first for first, _ in people if first]
    last_names = dict.fromkeys(last for _, last in people if last)
    joiner = next(filter(is_joiner, words), "") if len(people) > 1 else ""
    return f" {joiner} ".join(first_names), f" {joiner} ".join(last_names)


def _split_people(words: list[str]) -> list[tuple[str, str]]:
    """Each person's first and last name: the words between the joiners."""
    groups: list[list[str]] = [[]]
    for index, word in enumerate(words):
        if is_joiner(word) and (word != "y" or index == 1):
            groups.append([])
        else:
            groups[-1].append(word)
    people = [names for names in map(_split_person, groups) if any(names)]
    if len(people) > 1 and all(people[-1]):
        # `Mr. John and Mrs. Jane Smith`: both are Smith.
        return [(first or last, last if first else "") for first, last in people]
    return people


def _split_person(words: list[str]) -> tuple[str, str]:
    title = ""
    while words and comparison_key(words[0]) in characters.TITLES:
        title, words = comparison_key(words[0]), words[1:]
    while len(words) > 1 and comparison_key(words[-1]) in SUFFIXES:
        words = words[:-1]
    words = [word.strip(",;") for word in words if _can_be_name(word)]
    if words and all(map(characters.FAMILY_FIRST_SCRIPT.fullmatch, words)):
        return _split_family_first(words)
    if title and title not in _TITLES_BEFORE_FIRST_NAMES and len(words) == 1:
        return "", words[0]
    start = _last_name_start(words)
    return _choose_first_name(words[:start]), " ".join(words[start:])


def _can_be_name(word: str) -> bool:
    """A name has letters and no digits; `family` is no name."""
    if not word.isalpha() and (any(map(str.isdigit, word)) or not any(map(str.isalpha, word))):
        return False
    return comparison_key(word) not in HOUSEHOLD_WORDS


def _split_family_first(words: list[str]) -> tuple[str, str]:
    """`李 小龙` is Xiaolong of the family Li.

    Without a space it is unclear where the family name ends (欧阳修, 山田太郎): the whole name is the first name.
    """
    if len(words) == 1:
        return words[0], ""
    return " ".join(words[1:]), words[0]


def _last_name_start(words: list[str]) -> int:
    """Where the last name starts, with its particles; a single word is a first name."""
    if len(words) < 2:
        return len(words)
    start = len(words) - 1
    if start > 2 and words[start - 1] == "y":
        start -= 2
    while start > 0 and words[start - 1].lower() in characters.PARTICLES:
        start -= 1
    # `van der Berg` and `de Gaulle` are surnames, `Van Morrison` and `Della Reese` are not.
    is_surname = len(words) > 2 or words[0].islower() or words[0].lower() in _SURNAME_PARTICLES
    return 1 if start == 0 and not is_surname else start


def _choose_first_name(given_names: list[str]) -> str:
    """`Scott` of F. Scott, `J. R.` of J. R., but not a single initial."""
    full_name = next((word for word in given_names if not _INITIALS.fullmatch(word)), None)
    if full_name is not None:
        return full_name
    return "" if len(given_names) == 1 and _ONE_INITIAL.fullmatch(given_names[0]) else " ".join(given_names)
