"""Finding the first and the last name in what people type into a name field."""

from dataclasses import dataclass

_TITLES = frozenset({"mr", "mrs", "ms", "miss", "mx", "dr", "prof", "rev", "sir", "fr", "hon", "capt"})
_SUFFIXES = frozenset({"jr", "sr", "ii", "iii", "iv", "phd", "md", "dds", "esq", "cpa", "rn"})
_PARTICLES = frozenset(
    {"de", "del", "della", "der", "den", "di", "da", "do", "dos", "du", "la", "le"}
    | {"van", "von", "bin", "ibn", "al", "el"}
)
_HOUSEHOLD = frozenset({"family", "household", "resident", "residents", "neighbor", "homeowner"})
_JOINERS = frozenset({"&", "and", "und", "y"})
_ROMAN = frozenset({"ii", "iii", "iv"})


@dataclass(frozen=True, slots=True)
class PersonName:
    """A name in its parts; a part that cannot be told is empty."""

    full: str
    first: str
    last: str


def find_name(text: str | None) -> PersonName:
    """`JANE DOE`, `Smith, Anna` and `Dr. José García Jr.` as a letter would use them.

    A household ("The Smith Family", "Current Resident") has no first name, so that a
    salutation takes its fallback instead of "Hi Current".
    """
    full = cased(" ".join(_in_speaking_order(text or "").split()))
    words = full.split()
    if words and _bare(words[-1]) in _HOUSEHOLD:
        return PersonName(full, "", "")
    while len(words) > 1 and _bare(words[0]) in _TITLES:
        words = words[1:]
    while len(words) > 1 and _bare(words[-1]) in _SUFFIXES:
        words = words[:-1]
    if words:
        words[-1] = words[-1].rstrip(",")
    return PersonName(full, _first_of(words), _last_of(words))


def cased(name: str) -> str:
    """Capitals for a name typed all in capitals or all in small letters; others stay."""
    if name != name.upper() and name != name.lower():
        return name
    words = name.split(" ")
    return " ".join(_cased_word(word, inside=place > 0) for place, word in enumerate(words))


def _in_speaking_order(text: str) -> str:
    """`Smith, Anna` turned round; the comma before a suffix (`Doe, Jr.`) is no turn."""
    last, comma, first = text.partition(",")
    turned = comma and first.strip() and _bare(first.split()[0]) not in _SUFFIXES
    return f"{first} {last}" if turned and "," not in first else text


def _first_of(words: list[str]) -> str:
    for place, word in enumerate(words[1:-1], start=1):
        if word.lower() in _JOINERS:
            return f"{words[0]} {word} {words[place + 1]}"
    return words[0] if words else ""


def _last_of(words: list[str]) -> str:
    if len(words) < 2:
        return ""
    start = len(words) - 1
    while start > 1 and words[start - 1].lower() in _PARTICLES:
        start -= 1
    return " ".join(words[start:])


def _bare(word: str) -> str:
    return word.replace(".", "").strip(",").lower()


def _cased_word(word: str, *, inside: bool) -> str:
    small = word.lower()
    if _bare(small) in _ROMAN:
        return small.upper()
    if inside and (small in _PARTICLES or small in _JOINERS):
        return small
    return "-".join(_cased_part(part) for part in small.split("-"))


def _cased_part(part: str) -> str:
    for mark in ("'", "’"):
        head, found, tail = part.partition(mark)
        if found and len(head) == 1 and len(tail) > 1:
            return head.upper() + mark + tail.capitalize()
    if part.startswith("mc") and len(part) > 4:
        return "Mc" + part[2:].capitalize()
    return part.capitalize()
