"""Finding the first and the last name in what people type into a name field."""

import re
from dataclasses import dataclass
from functools import lru_cache

from quillpost.rendering.text.casing import bare, cased, joins, ordinary
from quillpost.rendering.text.characters import one_line
from quillpost.rendering.text.titles import BUSINESS, FAMILY_FIRST, HOUSEHOLD, PARTICLES, SUFFIXES, TITLES
from quillpost.rendering.text.titles import PLACEHOLDERS as NO_NAMES

# After these a single word is a given name: Sir Elton, Father Ted.
_TITLES_OF_FIRST_NAMES = frozenset({"sir", "dame", "fr", "attn"})
# Particles that nobody has for a first name, unlike Van, Al, Della or Le.
_NEVER_FIRST = frozenset({"de", "del", "der", "den", "dos", "von", "bin", "ibn"})

_OR_RESIDENT = re.compile(r" or (?:the )?(?:current )?(?:resident|occupant)$", re.IGNORECASE)
_ASIDE = re.compile(r" ?(?:\([^()]*\)|\"[^\"]*\"|“[^“”]*”)(?= |$)")
_QUOTES = '"“”„«»'
_ONE_INITIAL = re.compile(r"[^\W\d_]\.?")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W\d_]\.?")
# Words that are no part of a person's name.
_APART = TITLES | HOUSEHOLD | BUSINESS | NO_NAMES | {"the", "estate"}


@dataclass(frozen=True, slots=True)
class PersonName:
    """A name in its parts; a part that cannot be told is empty."""

    full: str
    first: str
    last: str


NO_NAME = PersonName("", "", "")


@lru_cache(maxsize=4096)
def find_name(text: str | None) -> PersonName:
    """`JANE DOE`, `Smith, Anna` and `Dr. José García Jr.` as a letter would use them.

    A household or a firm ("The Smith Family", "Current Resident", "Acme LLC") has no first name,
    so that a salutation takes its fallback instead of "Hi Current". What is no name at all (an
    e-mail address, a number, "n/a") is nobody's.
    """
    typed = one_line(text)
    return _ordinary_name(typed.split(" ")) or _any_name(typed)


def _ordinary_name(words: list[str]) -> PersonName | None:
    """What most names are, found without the doubts that the others need."""
    shown = [name for name in map(_ordinary_part, words) if name is not None]
    if len(shown) < 2 or len(shown) < len(words):
        return None
    return PersonName(" ".join(shown), shown[0], shown[-1])


@lru_cache(maxsize=8192)
def _ordinary_part(word: str) -> str | None:
    return None if word.lower() in _APART else ordinary(word)


def _any_name(text: str) -> PersonName:
    typed = _OR_RESIDENT.sub("", text.strip(_QUOTES + " "))
    if _is_no_name(typed):
        return NO_NAME
    full = cased(_in_speaking_order(typed))
    words = _ASIDE.sub("", full).split()
    if _is_many(words):
        return PersonName(full, "", "")
    return PersonName(full, *_parts(words))


def _is_no_name(text: str) -> bool:
    if text.lower().rstrip(".") in NO_NAMES or "@" in text or "://" in text:
        return True
    return not any(map(str.isalpha, text))


def _in_speaking_order(text: str) -> str:
    """`Smith, Anna` turned round; the comma before a suffix (`Doe, Jr.`) is no turn."""
    if "," not in text:
        return text
    parts = [part for part in (part.strip() for part in text.split(",")) if part]
    ends = len(parts)
    while ends > 1 and all(bare(word) in SUFFIXES | BUSINESS for word in parts[ends - 1].split()):
        ends -= 1
    name = [f"{parts[1]} {parts[0]}"] if ends == 2 else parts[:ends]
    return ", ".join(name + parts[ends:])


def _is_many(words: list[str]) -> bool:
    """Whether this is a household or a firm."""
    if not words:
        return True
    last = bare(words[-1])
    if last in HOUSEHOLD and len(words) > 2 and joins(words[-2]):
        return False
    return last in HOUSEHOLD or last in BUSINESS or bare(words[0]) in {"the", "estate"}


def _parts(words: list[str]) -> tuple[str, str]:
    """First and last name of one person, or of a couple."""
    people = _people(words)
    firsts = [first for first, _ in people if first]
    lasts = dict.fromkeys(last for _, last in people if last)
    joiner = next(filter(joins, words), "") if len(people) > 1 else ""
    return f" {joiner} ".join(firsts), f" {joiner} ".join(lasts)


def _people(words: list[str]) -> list[tuple[str, str]]:
    """Each person's first and last name: the words between the joiners."""
    groups: list[list[str]] = [[]]
    for place, word in enumerate(words):
        if joins(word) and (word != "y" or place == 1):
            groups.append([])
        else:
            groups[-1].append(word)
    people = [names for names in map(_person, groups) if any(names)]
    if len(people) > 1 and all(people[-1]):
        # `Mr. John and Mrs. Jane Smith`: both are Smith.
        return [(first or last, last if first else "") for first, last in people]
    return people


def _person(words: list[str]) -> tuple[str, str]:
    title = ""
    while words and bare(words[0]) in TITLES:
        title, words = bare(words[0]), words[1:]
    while len(words) > 1 and bare(words[-1]) in SUFFIXES:
        words = words[:-1]
    words = [word.strip(",;") for word in words if _may_be_name(word)]
    if words and all(map(FAMILY_FIRST.fullmatch, words)):
        return _family_first(words)
    if title and title not in _TITLES_OF_FIRST_NAMES and len(words) == 1:
        return "", words[0]
    start = _start_of_last(words)
    return _first_of(words[:start]), " ".join(words[start:])


def _may_be_name(word: str) -> bool:
    """A person's name has letters and no digits; `family` stands for the others of the house."""
    if not word.isalpha() and (any(map(str.isdigit, word)) or not any(map(str.isalpha, word))):
        return False
    return bare(word) not in HOUSEHOLD


def _family_first(words: list[str]) -> tuple[str, str]:
    """`李 小龙` is Xiaolong of the family Li.

    Without a space it is not certain where the family's name ends (欧阳修, 山田太郎), and the
    whole name is how one greets: it stands for the first name.
    """
    if len(words) == 1:
        return words[0], ""
    return " ".join(words[1:]), words[0]


def _start_of_last(words: list[str]) -> int:
    """Where the last name starts, with its particles; a lone word is a first name."""
    if len(words) < 2:
        return len(words)
    start = len(words) - 1
    if start > 2 and words[start - 1] == "y":
        start -= 2
    while start > 0 and words[start - 1].lower() in PARTICLES:
        start -= 1
    if start == 0 and not _is_surname_alone(words):
        return 1
    return start


def _is_surname_alone(words: list[str]) -> bool:
    """`van der Berg` and `de Gaulle`, but neither `Van Morrison` nor `Della Reese`."""
    return len(words) > 2 or words[0].islower() or words[0].lower() in _NEVER_FIRST


def _first_of(given: list[str]) -> str:
    """The name one is called by: `Scott` of F. Scott, `J. R.` of J. R.; one initial alone is none."""
    called = next((word for word in given if not _INITIALS.fullmatch(word)), None)
    if called is not None:
        return called
    return "" if len(given) == 1 and _ONE_INITIAL.fullmatch(given[0]) else " ".join(given)
