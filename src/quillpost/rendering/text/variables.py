"""Replacement variables: `%FIRST_NAME%`, `%FIRST_NAME|friend%`, and `~FIRST_NAME~` in URLs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import category, normalize
from urllib.parse import quote

from quillpost.rendering.models import Addressee, SenderName
from quillpost.rendering.text.names import parse_name

VariableReader = Callable[[Addressee, SenderName], str]


def _custom_field_reader(index: int) -> VariableReader:
    """A custom field may be a whole text: its lines stay."""
    return lambda addressee, _: strip_invisible((addressee.custom[index : index + 1] or ("",))[0] or "").strip()


READERS: dict[str, VariableReader] = {
    "FIRST_NAME": lambda addressee, _: parse_name(to_one_line(addressee.name)).first,
    "LAST_NAME": lambda addressee, _: parse_name(to_one_line(addressee.name)).last,
    "FULL_NAME": lambda addressee, _: parse_name(to_one_line(addressee.name)).full,
    "NAME": lambda addressee, _: parse_name(to_one_line(addressee.name)).full,
    "COMPANY": lambda addressee, _: to_one_line(addressee.company),
    "ADDRESS": lambda addressee, _: to_one_line(addressee.address),
    "ADDRESS2": lambda addressee, _: to_one_line(addressee.address2),
    "CITY": lambda addressee, _: to_one_line(addressee.city),
    "STATE": lambda addressee, _: to_one_line(addressee.province),
    "PROVINCE": lambda addressee, _: to_one_line(addressee.province),
    "ZIP": lambda addressee, _: to_one_line(addressee.postal_code),
    "POSTAL_CODE": lambda addressee, _: to_one_line(addressee.postal_code),
    "EMAIL": lambda addressee, _: to_one_line(addressee.email),
    "PHONE": lambda addressee, _: to_one_line(addressee.phone),
    **{f"CUSTOM{index + 1}": _custom_field_reader(index) for index in range(10)},
    "DOB": lambda addressee, _: to_one_line(addressee.dob),
    "ANNIVERSARY": lambda addressee, _: to_one_line(addressee.anniversary),
    "YOUR_NAME": lambda _, sender: to_one_line(sender.name),
    "YOUR_COMPANY": lambda _, sender: to_one_line(sender.company),
}
VARIABLE_NAMES: tuple[str, ...] = tuple(READERS)

_NAME_PATTERN = "|".join(sorted(VARIABLE_NAMES, key=len, reverse=True))
_VARIABLE = re.compile(
    rf"%[ ]?(?P<percent>{_NAME_PATTERN})[ ]?(?:\|(?P<fallback>[^%\n]*))?%"
    rf"|~[ ]?(?P<tilde>{_NAME_PATTERN})[ ]?(?:\|(?P<tilde_fallback>[^~\n]*))?~",
    re.IGNORECASE,
)
# What looks like a misspelled variable: a word between signs, capitals, or a known name beside a sign that
# was left over. "5% off, 10% more" is prose, and so is "~hugs~".
_MISSPELLED_VARIABLE = re.compile(
    r"%([A-Za-z][A-Za-z0-9_]*|[A-Z][A-Z0-9_]*(?: [A-Z][A-Z0-9_]*)+) ?(?:\|[^%\n]*)?%"
    r"|~([A-Z][A-Z0-9_]*|[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*) ?(?:\|[^~\n]*)?~"
    rf"|\b((?:FIRST|LAST|FULL|YOUR)_[A-Z]+|{_NAME_PATTERN})\b(?=%)"
)

# Visible text has no such character.
_EMPTY_MARK = "\0"
# Spaces are taken from the start of their run or not at all: one try a run, however long it is.
_AROUND_EMPTY_MARK = re.compile(
    r"(?P<start>^)?(?P<lead>[,;:])?(?P<before>(?<![ \t])[ \t]++)?"
    r"\0(?:[ \t]*+(?:(?P<between>[,;:])[ \t]*+)?\0)*+"
    r"(?P<after>[ \t]*+)(?P<mark>[,;:.!?])?(?P<behind>(?(start)[ \t]*+))(?P<end>$)?",
    re.MULTILINE,
)

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# What may stand in a URL as it is; a sender's fallback may be encoded already.
_URL_SAFE_CHARS = "!#$%&'()*+,/:;=?@[]~"


def find_unknown_variables(text: str) -> list[str]:
    """Names that look like variables but are unknown, in order, once each."""
    matches = _MISSPELLED_VARIABLE.finditer(_VARIABLE.sub(" ", strip_invisible(text)))
    names: dict[str, str] = {}
    for match in matches:
        name = match[1] or match[2] or match[3]
        names.setdefault(name.upper(), name)
    return list(names.values())


def has_variables(text: str) -> bool:
    """Whether the text differs between recipients."""
    return _VARIABLE.search(strip_invisible(text)) is not None


@dataclass(frozen=True, slots=True)
class _Slot:
    """One variable, and the text up to the next."""

    name: str
    read: VariableReader
    fallback: str
    text_after: str


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """A text split at its variables, to be filled for many people."""

    text_before: str
    slots: tuple[_Slot, ...]

    def fill(self, addressee: Addressee, sender: SenderName) -> str:
        """The text with its variables replaced, once: a value is never expanded again.

        An empty value takes the fallback; without one the variable leaves neither a doubled space nor a space before a
        comma. A value that contains a variable (a merge that failed elsewhere) loses it: none is ever written raw.
        """
        if not self.slots:
            return self.text_before
        parts = [self.text_before]
        for slot in self.slots:
            parts.append(remove_variables(slot.read(addressee, sender)) or slot.fallback or _EMPTY_MARK)
            parts.append(slot.text_after)
        filled = "".join(parts)
        if _EMPTY_MARK in filled:
            filled = _AROUND_EMPTY_MARK.sub(_close_gap, filled)
        return remove_variables(filled, strip=False)


def compile_template(text: str) -> TextTemplate:
    start, *segments = _split_at_variables(strip_invisible(text))
    slots = tuple(
        _Slot(name.upper(), READERS[name.upper()], fallback.strip(), text_after)
        for name, fallback, text_after in segments
    )
    return TextTemplate(start[2], slots)


def fill_url(url: str, addressee: Addressee, sender: SenderName) -> str:
    """A URL with its variables replaced; only a fallback, which the sender wrote, may contain slashes and the like."""
    parts = []
    for name, fallback, text_after in _url_segments(url):
        value = remove_variables(READERS[name.upper()](addressee, sender)) if name else ""
        parts.append(quote(value, safe="") or quote(fallback.strip(), safe=_URL_SAFE_CHARS))
        parts.append(text_after)
    # Each part by itself: a stray sign must not reach for the letters of the value behind it.
    filled = "".join([_STRAY_PERCENT.sub("%25", part) for part in parts])
    return filled.replace("~", "%7E") if _VARIABLE.search(filled.replace("%", "")) else filled


@lru_cache(maxsize=64)
def _url_segments(url: str) -> list[tuple[str, str, str]]:
    """Cached: thousands of items have the same URL."""
    return _split_at_variables(strip_invisible(url))


def _split_at_variables(text: str) -> list[tuple[str, str, str]]:
    """Each variable's name, its fallback and the text after it; the first segment has no name."""
    matches = [*_VARIABLE.finditer(text)]
    ends = [variable.start() for variable in matches[1:]] + [len(text)]
    segments = [("", "", text[: matches[0].start()] if matches else text)]
    for variable, end in zip(matches, ends, strict=False):
        percent, fallback, tilde, tilde_fallback = variable.groups()
        segments.append((percent or tilde, fallback or tilde_fallback or "", text[variable.end() : end]))
    return segments


def remove_variables(text: str, *, strip: bool = True) -> str:
    """A space replaces each, so that its surroundings cannot form another one."""
    if "%" not in text and "~" not in text:
        return text
    cleaned = _VARIABLE.sub(" ", text)
    return cleaned.strip() if strip else cleaned


def _close_gap(gap: re.Match[str]) -> str:
    """What stays where variables vanished with their spaces: at most one mark."""
    mark, lead = gap["mark"] or "", gap["lead"] or ""
    if gap["start"] is not None and not lead:
        return mark + gap["behind"] if mark and mark in ".!?" else ""
    if mark:
        return (mark if mark in ".!?" else lead or mark) + gap["behind"]
    if gap["end"] is not None:
        return lead
    joint = lead or gap["between"] or ""
    return joint + " " if gap["before"] or gap["after"] or gap["between"] else joint


# Controls, marks of direction, joiners, and halves of letters: no pen can write them.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})

# Letters by name that leave the paper white: fillers, the empty braille cell, variation selectors.
_BLANK_CHARS = re.compile("[\u115f\u1160\u3164\uffa0\u2800\u180b-\u180d\ufe00-\ufe0f\U000e0100-\U000e01ef]")

_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")


def to_one_line(text: str | None) -> str:
    """Visible characters on one line, words one space apart."""
    if not text:
        return ""
    return " ".join(strip_invisible(text).split())


def strip_invisible(text: str) -> str:
    """The text without invisible characters, in Unicode's form C; lines stay, every kind of space is a space."""
    if not text.replace("\n", " ").isprintable():
        text = "".join([_visible_char(char) for char in _LINE_END.sub("\n", text)])
    return text if text.isascii() else normalize("NFC", _BLANK_CHARS.sub("", text))


def _visible_char(char: str) -> str:
    if char == "\n":
        return char
    if char.isspace():
        return " "
    return "" if category(char) in _INVISIBLE_CATEGORIES else char
