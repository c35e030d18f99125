"""Letters and the faces that have them: every text can be written, and what it cost is told."""

import unicodedata
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache

from anyascii import anyascii

# Joiners, variation selectors and control characters draw nothing by nature.
_INVISIBLE = frozenset({"Cf", "Cc", "Mn", "Me", "Cs", "Co", "Cn"})


def legible(text: str, faces: Sequence[Container[str]]) -> str:
    """The text in letters that one of the faces has: accents are composed, the rest spelt in Latin."""
    composed = unicodedata.normalize("NFC", text)
    if all(map(faces[0].__contains__, composed)):
        return composed
    spelt = "".join(_legible_letters(composed, faces))
    # An accent may find its letter only among those that took another's place.
    return spelt if spelt == composed else legible(spelt, faces)


def unwritten(text: str, faces: Sequence[Container[str]]) -> list[str]:
    """Letters that none of the faces has, in order, once each."""
    letters = dict.fromkeys(unicodedata.normalize("NFC", text))
    return [letter for letter in letters if not _is_written(letter, faces)]


def _is_written(letter: str, faces: Sequence[Container[str]]) -> bool:
    return letter.isspace() or _is_invisible(letter) or any(letter in face for face in faces)


def _legible_letters(text: str, faces: Sequence[Container[str]]) -> Iterator[str]:
    for letter in text:
        if any(letter in face for face in faces):
            yield letter
        elif letter.isspace():
            yield " "
        elif not _is_invisible(letter):
            yield _in_latin(letter)


@lru_cache(maxsize=4096)
def _in_latin(letter: str) -> str:
    """The nearest that plain letters come to it: Li for the name, the sound for the sign.

    A little picture has no sound, nor has a letter like the Arabic alef: they are left out.
    """
    spelt = "".join(anyascii(letter).split())
    return "" if spelt.startswith(":") and len(spelt) > 1 else spelt


def _is_invisible(letter: str) -> bool:
    return unicodedata.category(letter) in _INVISIBLE
