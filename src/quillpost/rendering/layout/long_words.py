"""Words too long for a line, such as an email address or a URL, and where they may be broken."""

import re
from collections.abc import Iterator, Sequence

from quillpost.rendering.handwriting.vocabulary import Vocabulary

MAX_UNBROKEN_LENGTH = 20  # an ordinary word is never broken while there is a size at which it fits a line

# A dot begins a part and the other marks end one: `jane`, `.smith@`, `example`, `.com/`.
_WORD_PARTS = re.compile(r"[.]*[^.@/_?&=#-]+[@/_?&=#-]*|[.@/_?&=#-]+")


def break_long_words(
    vocabulary: Vocabulary, words: Sequence[int], width: float, smallest_width: float
) -> tuple[list[int], list[int]]:
    """The words with those broken that are wider than `width`, and the indexes of continued parts.

    An ordinary word is broken only if it is also wider than `smallest_width`, the line of the smallest letters.
    """
    result: list[int] = []
    continuations: list[int] = []
    start = 0
    for index in vocabulary.find_wider(words, width):
        result += words[start:index]
        parts = list(_split_long_word(vocabulary, words[index], width, smallest_width))
        continuations += range(len(result) + 1, len(result) + len(parts))
        result += parts
        start = index + 1
    return [*result, *words[start:]], continuations


def _split_long_word(vocabulary: Vocabulary, word: int, width: float, smallest_width: float) -> Iterator[int]:
    text = vocabulary.word_text(word)
    parts = [word] if len(text) == 1 else vocabulary.word_numbers(_split_at_marks(text))
    for part in parts:
        is_ordinary = (
            len(vocabulary.word_text(part)) <= MAX_UNBROKEN_LENGTH and vocabulary.word_extent(part) <= smallest_width
        )
        if is_ordinary or vocabulary.word_extent(part) <= width:
            yield part
        else:
            yield from vocabulary.split_word(part, width)


def _split_at_marks(text: str) -> list[str]:
    """The text split after and before its marks; a lone mark stays with what it follows."""
    parts: list[str] = []
    for part in _WORD_PARTS.findall(text):
        if parts and not any(map(str.isalnum, part)):
            parts[-1] += part
        else:
            parts.append(part)
    return parts
