"""The capitals of names, and the first and the last name in a name field."""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_WORDS = {
    kind: frozenset(words.split())
    for kind, words in tomllib.loads(files(__package__).joinpath("names.toml").read_text("utf-8")).items()
}
PARTICLES, TITLES, PLACEHOLDERS = _WORDS["particles"], _WORDS["titles"], _WORDS["placeholders"]
HOUSEHOLD_WORDS, BUSINESS_WORDS = _WORDS["household_words"], _WORDS["business_words"]
SUFFIXES = _WORDS["suffixes"] | _WORDS["roman_numerals"] | _WORDS["degrees"]
_JOINERS = _WORDS["joiners"]
FAMILY_FIRST_SCRIPT = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U000323af]+"
)
"""Scripts that put the family name first and need no space between names."""


# Words whose capitals follow no rule.
_FIXED_SPELLINGS = {"phd": "PhD"} | {
    word: word.upper() for word in _WORDS["roman_numerals"] | _WORDS["degrees"] | _WORDS["acronyms"]
}
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
    """The word as a name shows it, where that is certain; most words."""
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


# After these a single word is a given name: Sir Elton, Father Ted.
_TITLES_BEFORE_FIRST_NAMES = frozenset({"sir", "dame", "fr", "attn"})
# Particles that are never a first name, unlike Van, Al, Della or Le.
_SURNAME_PARTICLES = frozenset({"de", "del", "der", "den", "dos", "von", "bin", "ibn"})

_OR_RESIDENT_SUFFIX = re.compile(r" or (?:the )?(?:current )?(?:resident|occupant)$", re.IGNORECASE)
_PARENTHESIS = re.compile(r" ?(?:\([^()]*\)|\"[^\"]*\"|“[^“”]*”)(?= |$)")
_QUOTES = '"“”„«»'
_ONE_INITIAL = re.compile(r"[^\W\d_]\.?")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W\d_]\.?")
# Words that are no part of a person's name.
_NON_NAME_WORDS = TITLES | HOUSEHOLD_WORDS | BUSINESS_WORDS | PLACEHOLDERS | {"the", "estate"}


@dataclass(frozen=True, slots=True)
class PersonName:
    """A part that is unknown is empty."""

    full: str
    first: str
    last: str


EMPTY_NAME = PersonName("", "", "")


@lru_cache(maxsize=4096)
def parse_name(text: str) -> PersonName:
    """Of one line: `JANE DOE`, `Smith, Anna` and `Dr. José García Jr.` as a letter would use them.

    A household or a business ("The Smith Family", "Current Resident", "Acme LLC") has no first name, so that a greeting
    takes its fallback. What is no name at all (an email address, a number, "n/a") is empty.
    """
    return _parse_ordinary_name(text.split(" ")) or _parse_any_name(text)


def _parse_ordinary_name(words: list[str]) -> PersonName | None:
    """The fast path for most names."""
    names = [name for name in map(_parse_ordinary_word, words) if name is not None]
    if len(names) < 2 or len(names) < len(words):
        return None
    return PersonName(" ".join(names), names[0], names[-1])


@lru_cache(maxsize=8192)
def _parse_ordinary_word(word: str) -> str | None:
    return None if word.lower() in _NON_NAME_WORDS else normalize_ordinary_word(word)


def _parse_any_name(text: str) -> PersonName:
    name = _OR_RESIDENT_SUFFIX.sub("", text.strip(_QUOTES + " "))
    if _is_not_a_name(name):
        return EMPTY_NAME
    full = normalize_name_case(_put_first_name_first(name))
    words = _PARENTHESIS.sub("", full).split()
    if _is_household_or_business(words):
        return PersonName(full, "", "")
    return PersonName(full, *_first_and_last_names(words))


def _is_not_a_name(text: str) -> bool:
    if text.lower().rstrip(".") in PLACEHOLDERS or "@" in text or "://" in text:
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
    while words and comparison_key(words[0]) in TITLES:
        title, words = comparison_key(words[0]), words[1:]
    while len(words) > 1 and comparison_key(words[-1]) in SUFFIXES:
        words = words[:-1]
    words = [word.strip(",;") for word in words if _can_be_name(word)]
    if words and all(map(FAMILY_FIRST_SCRIPT.fullmatch, words)):
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
    while start > 0 and words[start - 1].lower() in PARTICLES:
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
