"""Text as people and files give it, made fit to write: only what can be seen, each letter in one form."""

import re
from unicodedata import category, normalize

# Controls, marks of direction, joiners, and halves of letters: no pen can write them.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})
# Letters by name that leave the paper white: fillers, the empty braille cell, variation selectors.
_BLANK_CHARS = re.compile("[\u115f\u1160\u3164\uffa0\u2800\u180b-\u180d\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")


def to_one_line(text: str | None) -> str:
    """The text's visible letters on one line, words one space apart; nothing for None."""
    if not text:
        return ""
    return " ".join(strip_invisible(text).split())


def strip_invisible(text: str) -> str:
    """The text without what cannot be seen; its lines stay, every kind of space is a space.

    Accents typed as letters of their own join the letter before them (Unicode's form C).
    """
    if not text.replace("\n", " ").isprintable():
        text = "".join([_visible_char(char) for char in _LINE_END.sub("\n", text)])
    return text if text.isascii() else normalize("NFC", _BLANK_CHARS.sub("", text))


def _visible_char(char: str) -> str:
    if char == "\n":
        return char
    if char.isspace():
        return " "
    return "" if category(char) in _INVISIBLE_CATEGORIES else char
