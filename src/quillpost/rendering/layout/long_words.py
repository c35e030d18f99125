"""Words that are too long for a line, such as an e-mail address or a URL, and where they may be broken."""

import re
from collections.abc import Iterator, Sequence

from quillpost.rendering.handwriting.vocabulary import Vocabulary

# An ordinary word is never broken while there is a size at which it fits a line.
LONGEST_WHOLE = 20

# A dot begins a part and the other marks end one: `jane`, `.smith@`, `example`, `.com/`.
_PARTS = re.compile(r"[.]*[^.@/_?&=#-]+[@/_?&=#-]*|[.@/_?&=#-]+")


def break_long_words(
    vocabulary: Vocabulary, words: Sequence[int], width: float, least: float
) -> tuple[list[int], list[int]]:
    """The words with those broken that are wider than a line of `width`; and the places of parts that go on
    with the word before them.

    An ordinary word is broken only if it is wider than `least` as well, the line of the smallest letters.
    """
    found: list[int] = []
    joined: list[int] = []
    start = 0
    for place in vocabulary.wider(words, width):
        found += words[start:place]
        parts = list(_parts_of(vocabulary, words[place], width, least))
        joined += range(len(found) + 1, len(found) + len(parts))
        found += parts
        start = place + 1
    return [*found, *words[start:]], joined


def _parts_of(vocabulary: Vocabulary, word: int, width: float, least: float) -> Iterator[int]:
    text = vocabulary.text(word)
    parts = [word] if len(text) == 1 else vocabulary.numbers(_split(text))
    for part in parts:
        is_ordinary = len(vocabulary.text(part)) <= LONGEST_WHOLE and vocabulary.extent(part) <= least
        if is_ordinary or vocabulary.extent(part) <= width:
            yield part
        else:
            yield from vocabulary.parts_of(part, width)


def _split(text: str) -> list[str]:
    """The text after and before its marks; a mark by itself stays with what it follows."""
    parts: list[str] = []
    for part in _PARTS.findall(text):
        if parts and not any(map(str.isalnum, part)):
            parts[-1] += part
        else:
            parts.append(part)
    return parts
