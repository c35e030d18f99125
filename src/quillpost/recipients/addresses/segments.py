"""The words of an address line: capitals, without the marks that the postal service does not read."""

import re
import unicodedata

from quillpost.recipients.addresses.keys import INVISIBLE_MARKS

_ASCII_TRANSLATION = str.maketrans(
    dict.fromkeys(map(chr, (*range(32), 127)), " ")
    | dict.fromkeys('"!$()*+:<=>?@[\\]^_{|}~', " ")
    | {"'": "", "`": "", "#": " # ", ",": " , ", ";": " , ", "\n": " , ", "\r": " , ", "%": " C/O "}
)
_INITIALS = re.compile(r"(?<!\w)([^\W\d_])\.(?=[^\W\d_](?!\w))")
_POINT = re.compile(r"(?<!\d)\.|\.(?!\d)")
_SLASH = re.compile(r"(?<![\d])/|/(?![\d])")
_CARE_OF = re.compile(r"(?<!\w)C ?/ ?O(?!\w)")
_CARE_OF_PLACEHOLDER = "\u0001"
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_QUOTES = re.compile("[\u02b9-\u02bc\u2018\u2019\u201b\u2032\u00b4\uff07]")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_LATIN_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")


def split_segments(text: str) -> list[list[str]]:
    """The words of each part between commas; an empty part is none."""
    words = _split_words(text)
    if "," not in words:
        return [words] if words else []
    parts: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def standardize_text(text: str) -> str:
    """The text in capitals without marks: for cities, and lines that are no street."""
    words = _split_words(text)
    return " ".join([word for word in words if word != ","])


def _split_words(text: str) -> list[str]:
    if text.isascii() and text.replace(" ", "").isalnum():
        return text.upper().split()  # nothing in it but letters, digits and spaces, as in most
    if not text.isascii():
        text = _strip_accents(text)
    text = text.upper().translate(_ASCII_TRANSLATION)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "." in text:
        text = _POINT.sub(" ", _INITIALS.sub(r"\1", text))
    if "/" in text:
        text = _SLASH.sub(" ", _CARE_OF.sub(_CARE_OF_PLACEHOLDER, text)).replace(_CARE_OF_PLACEHOLDER, " C/O ")
    words = text.split()
    return _strip_loose_hyphens(words) if "-" in text else words


def _strip_accents(text: str) -> str:
    """Letters and digits, Latin ones without their accents; other marks are spaces."""
    text = INVISIBLE_MARKS.sub("", _FRACTION.sub(lambda match: f" {match[0]}", text))
    decomposed = unicodedata.normalize("NFKD", text).replace("\u2044", "/")
    decomposed = _LATIN_ACCENTS.sub("", _QUOTES.sub("", _DASHES.sub("-", decomposed)))
    return "".join([_letter_or_space(char) for char in decomposed])


def _letter_or_space(char: str) -> str:
    if char.isascii() or unicodedata.category(char)[0] in "LNM":
        return char
    return " "


def _strip_loose_hyphens(words: list[str]) -> list[str]:
    """A hyphen within a word stays; `12 - 14` is one number, and any other lone one says nothing."""
    cleaned: list[str] = []
    follows_hyphen = False
    for word in words:
        stripped = word.strip("-")
        if not stripped:
            follows_hyphen = True
        elif follows_hyphen and cleaned and cleaned[-1].isdigit() and stripped.isdigit():
            cleaned[-1] += f"-{stripped}"
            follows_hyphen = False
        else:
            cleaned.append(stripped)
            follows_hyphen = False
    return cleaned
