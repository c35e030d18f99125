"""The words of an address line: capitals, without the marks that the postal service does not read."""

import re
import unicodedata

from quillpost.recipients.addresses.keys import SELECTORS

_ASCII = str.maketrans(
    dict.fromkeys(map(chr, (*range(32), 127)), " ")
    | dict.fromkeys('"!$()*+:<=>?@[\\]^_{|}~', " ")
    | {"'": "", "`": "", "#": " # ", ",": " , ", ";": " , ", "\n": " , ", "\r": " , ", "%": " C/O "}
)
_INITIALS = re.compile(r"(?<!\w)([^\W\d_])\.(?=[^\W\d_](?!\w))")
_POINT = re.compile(r"(?<!\d)\.|\.(?!\d)")
_SLASH = re.compile(r"(?<![\d])/|/(?![\d])")
_CARE_OF = re.compile(r"(?<!\w)C ?/ ?O(?!\w)")
_CARE = "\u0001"
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_QUOTES = re.compile("[\u02b9-\u02bc\u2018\u2019\u201b\u2032\u00b4\uff07]")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_MARK_OF_A_LATIN_LETTER = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")


def segments(text: str) -> list[list[str]]:
    """The words of each part between commas; an empty part is none."""
    words = _words(text)
    if "," not in words:
        return [words] if words else []
    found: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            found.append([])
        else:
            found[-1].append(word)
    return [part for part in found if part]


def plain(text: str) -> str:
    """The text in capitals without marks: for cities, and lines that are no street."""
    words = _words(text)
    return " ".join([word for word in words if word != ","])


def _words(text: str) -> list[str]:
    if text.isascii() and text.replace(" ", "").isalnum():
        return text.upper().split()  # nothing in it but letters, digits and spaces, as in most
    if not text.isascii():
        text = _seen(text)
    text = text.upper().translate(_ASCII)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "." in text:
        text = _POINT.sub(" ", _INITIALS.sub(r"\1", text))
    if "/" in text:
        text = _SLASH.sub(" ", _CARE_OF.sub(_CARE, text)).replace(_CARE, " C/O ")
    words = text.split()
    return _without_loose_hyphens(words) if "-" in text else words


def _seen(text: str) -> str:
    """Letters and digits, Latin ones without their accents; other marks are spaces."""
    text = SELECTORS.sub("", _FRACTION.sub(lambda found: f" {found[0]}", text))
    apart = unicodedata.normalize("NFKD", text).replace("\u2044", "/")
    apart = _MARK_OF_A_LATIN_LETTER.sub("", _QUOTES.sub("", _DASHES.sub("-", apart)))
    return "".join([_letter(sign) for sign in apart])


def _letter(sign: str) -> str:
    if sign.isascii() or unicodedata.category(sign)[0] in "LNM":
        return sign
    return " "


def _without_loose_hyphens(words: list[str]) -> list[str]:
    """A hyphen within a word stays; `12 - 14` is one number, and any other lone one says nothing."""
    found: list[str] = []
    is_open = False
    for word in words:
        inside = word.strip("-")
        if not inside:
            is_open = True
        elif is_open and found and found[-1].isdigit() and inside.isdigit():
            found[-1] += f"-{inside}"
            is_open = False
        else:
            found.append(inside)
            is_open = False
    return found
