"""Capital and small letters in names that were typed without care for them."""

import re

from quillpost.kit.name_words import DEGREES, PARTICLES, ROMAN, SUFFIXES

_JOINERS = frozenset({"&", "+", "and", "und", "et"})
_ACRONYMS = frozenset({"llc", "llp", "pllc", "hoa", "usa"})
# Words whose capitals follow no rule.
_SPELLINGS = {"phd": "PhD"} | {word: word.upper() for word in ROMAN | DEGREES | _ACRONYMS}
_ODD = PARTICLES | _JOINERS | SUFFIXES | frozenset(_SPELLINGS)
_BEFORE_APOSTROPHE = frozenset({"dell", "dall", "sant"})
_APOSTROPHE = re.compile("['’ʼ`´]")
_TYPED_ACCENT = re.compile(r"(?<=\w)[`´](?=\w)")
_TWO_CONSONANTS = re.compile("(?!ng|mr|ms|mx|dr|fr|st)[bcdfghjklmnpqrstvwxz]{2}")
_MARKED = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)+")
_PART = re.compile(r"[^-.]+")


def cased(name: str) -> str:
    """Capitals for words typed all in capitals or all in small letters; others stay.

    In a name of mixed words (`Jane DOE`, `Vincent van Gogh`, `TJ Smith`) only shouted words are
    calmed, and only the first is raised.
    """
    name = _TYPED_ACCENT.sub("'", name)
    words = name.split(" ")
    # A sharp s has no capital in daily use: `WEIß` is shouted all the same.
    if name.replace("ß", "") == name.replace("ß", "").upper() or name == name.lower():
        # `JUAN Y MARIA LOPEZ` are two, `JOHN Y SMITH` is one with an initial.
        if len(words) > 3 and words[1] in "yY":
            words[1] = "y"
        return " ".join([_cased_word(word, inside=place > 0) for place, word in enumerate(words)])
    return " ".join([_calmed(word, inside=place > 0) for place, word in enumerate(words)])


def ordinary(word: str) -> str | None:
    """The word as a name shows it, if it leaves no doubt; most do."""
    if len(word) < 3 or word.lower() in _ODD or not _is_plain(word):
        return None
    if word.istitle():
        return word
    return _cased_word(word, inside=True) if word.isupper() else None


def joins(word: str) -> bool:
    """Whether the word stands between two people, or (`y`) between two surnames."""
    return word == "y" or word.lower() in _JOINERS


def bare(word: str) -> str:
    """The word without the marks around and inside it, in small letters: for comparing."""
    return word.replace(".", "").strip(",;:").lower()


def _is_plain(word: str) -> bool:
    """Letters, perhaps joined by apostrophes or hyphens."""
    return word.isalpha() or _MARKED.fullmatch(word) is not None


def _calmed(word: str, *, inside: bool) -> str:
    is_shouted = len(word) > 2 and word.isupper() and _is_plain(word)
    is_small = not inside and word.islower() and word not in PARTICLES
    return _cased_word(word, inside=inside) if is_shouted or is_small else word


def _cased_word(word: str, *, inside: bool) -> str:
    small = word.lower()
    plain = bare(small)
    if plain in _SPELLINGS and (inside or plain not in SUFFIXES) and "." not in word:
        return word.lower().replace(plain, _SPELLINGS[plain])
    if inside and (small in PARTICLES or small in _JOINERS or word == "y"):
        return small
    if not inside and _TWO_CONSONANTS.fullmatch(small):
        return small.upper()
    return _PART.sub(lambda part: _cased_part(part[0]), word)


def _cased_part(part: str) -> str:
    """A part between hyphens or full stops."""
    mark = _APOSTROPHE.search(part)
    if mark is not None:
        head, tail = part[: mark.start()], part[mark.end() :]
        if (len(head) == 1 and len(tail) > 1) or head.lower() in _BEFORE_APOSTROPHE:
            return capitalised(head) + mark[0] + capitalised(tail)
    if len(part) > 4 and part[:2].lower() == "mc":
        return "Mc" + capitalised(part[2:])
    return capitalised(part)


def capitalised(part: str) -> str:
    """The first letter large, the others small. A dotted İ becomes a plain i, not an i with two dots."""
    if part.isascii() and part.isalpha():
        return part.capitalize()
    for place, letter in enumerate(part):
        if letter.isalpha():
            head = part[:place] + (letter if letter.isupper() else letter.title())
            return head + part[place + 1 :].replace("İ", "i").lower()
    return part
