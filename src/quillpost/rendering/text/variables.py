"""Replacement variables: `%FIRST_NAME%`, `%FIRST_NAME|friend%`, and `~FIRST_NAME~` in URLs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from quillpost.rendering.models import Addressee, Sender
from quillpost.rendering.text.characters import one_line, visible
from quillpost.rendering.text.names import find_name

Reader = Callable[[Addressee, Sender], str]


def _custom(place: int) -> Reader:
    """A field of the sender's own may be a whole text: its lines stay."""
    return lambda addressee, _: visible((addressee.custom[place : place + 1] or ("",))[0] or "").strip()


_READERS: dict[str, Reader] = {
    "FIRST_NAME": lambda addressee, _: find_name(addressee.name).first,
    "LAST_NAME": lambda addressee, _: find_name(addressee.name).last,
    "FULL_NAME": lambda addressee, _: find_name(addressee.name).full,
    "NAME": lambda addressee, _: find_name(addressee.name).full,
    "COMPANY": lambda addressee, _: one_line(addressee.company),
    "ADDRESS": lambda addressee, _: one_line(addressee.address),
    "ADDRESS2": lambda addressee, _: one_line(addressee.address2),
    "CITY": lambda addressee, _: one_line(addressee.city),
    "STATE": lambda addressee, _: one_line(addressee.province),
    "PROVINCE": lambda addressee, _: one_line(addressee.province),
    "ZIP": lambda addressee, _: one_line(addressee.postal_code),
    "POSTAL_CODE": lambda addressee, _: one_line(addressee.postal_code),
    "EMAIL": lambda addressee, _: one_line(addressee.email),
    "PHONE": lambda addressee, _: one_line(addressee.phone),
    **{f"CUSTOM{place + 1}": _custom(place) for place in range(10)},
    "DOB": lambda addressee, _: one_line(addressee.dob),
    "ANNIVERSARY": lambda addressee, _: one_line(addressee.anniversary),
    "YOUR_NAME": lambda _, sender: one_line(sender.name),
    "YOUR_COMPANY": lambda _, sender: one_line(sender.company),
}
KNOWN: tuple[str, ...] = tuple(_READERS)

_NAMES = "|".join(sorted(KNOWN, key=len, reverse=True))
_VARIABLE = re.compile(
    rf"%[ ]?(?P<percent>{_NAMES})[ ]?(?:\|(?P<fallback>[^%\n]*))?%"
    rf"|~[ ]?(?P<tilde>{_NAMES})[ ]?(?:\|(?P<tilde_fallback>[^~\n]*))?~",
    re.IGNORECASE,
)
# What looks like a misspelt variable: a word between signs, capitals, or a known name beside a sign that
# was left over. "5% off, 10% more" is prose, and so is "~hugs~".
_SUSPECT = re.compile(
    r"%([A-Za-z][A-Za-z0-9_]*|[A-Z][A-Z0-9_]*(?: [A-Z][A-Z0-9_]*)+) ?(?:\|[^%\n]*)?%"
    r"|~([A-Z][A-Z0-9_]*|[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*) ?(?:\|[^~\n]*)?~"
    rf"|\b((?:FIRST|LAST|FULL|YOUR)_[A-Z]+|{_NAMES})\b(?=%)"
)

# `visible` text holds no such letter.
_GONE = "\0"
# Spaces are taken from the start of their run or not at all: one try a run, however long it is.
_AROUND_GONE = re.compile(
    r"(?P<start>^)?(?P<lead>[,;:])?(?P<before>(?<![ \t])[ \t]++)?"
    r"\0(?:[ \t]*+(?:(?P<between>[,;:])[ \t]*+)?\0)*+"
    r"(?P<after>[ \t]*+)(?P<mark>[,;:.!?])?(?P<behind>(?(start)[ \t]*+))(?P<end>$)?",
    re.MULTILINE,
)

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# What may stand in a URL as it is; a sender's fallback may be encoded already.
_URL_LETTERS = "!#$%&'()*+,/:;=?@[]~"


def unknown_variables(text: str) -> list[str]:
    """Names that look like variables and are none of ours, in order, once each."""
    suspects = _SUSPECT.finditer(_VARIABLE.sub(" ", visible(text)))
    found: dict[str, str] = {}
    for suspect in suspects:
        name = suspect[1] or suspect[2] or suspect[3]
        found.setdefault(name.upper(), name)
    return list(found.values())


def holds_variable(text: str) -> bool:
    """Whether the text reads differently from one recipient to the next."""
    return _VARIABLE.search(visible(text)) is not None


@dataclass(frozen=True, slots=True)
class _Slot:
    """One variable in a text, and what stands between it and the next."""

    name: str
    read: Reader
    fallback: str
    then: str


@dataclass(frozen=True, slots=True)
class Template:
    """A text taken apart at its variables, to be filled for many people."""

    start: str
    slots: tuple[_Slot, ...]

    def fill(self, addressee: Addressee, sender: Sender) -> str:
        """The text with its variables replaced, once: a value is never expanded again.

        An empty value takes the fallback; without one the variable leaves no trace, neither a
        doubled space nor a space before a comma. A value that holds a variable of ours (a merge
        that failed elsewhere) loses it: no raw variable is ever written.
        """
        if not self.slots:
            return self.start
        return self._joined([slot.read(addressee, sender) for slot in self.slots])

    def fill_with(self, values: Mapping[str, str]) -> str:
        """The same with values that are known by the variables' names."""
        return self._joined([visible(values.get(slot.name, "")).strip() for slot in self.slots])

    def _joined(self, values: list[str]) -> str:
        parts = [self.start]
        for slot, value in zip(self.slots, values, strict=True):
            parts.append(without_variables(value) or slot.fallback or _GONE)
            parts.append(slot.then)
        filled = "".join(parts)
        if _GONE in filled:
            filled = _AROUND_GONE.sub(_closed_up, filled)
        return without_variables(filled, strip=False)


def compile_text(text: str) -> Template:
    """The text's visible letters as a template."""
    start, *pieces = _taken_apart(visible(text))
    slots = tuple(
        _Slot(name.upper(), _READERS[name.upper()], fallback.strip(), then) for name, fallback, then in pieces
    )
    return Template(start[2], slots)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its variables replaced by the values; see `Template.fill`."""
    return compile_text(text).fill_with(values)


def fill_url(url: str, addressee: Addressee, sender: Sender) -> str:
    """A URL with its variables replaced; a value can never become a part of the address itself.

    Only a fallback, which the sender wrote, may hold slashes and the like.
    """
    parts = []
    for name, fallback, then in _url_pieces(url):
        value = without_variables(_READERS[name.upper()](addressee, sender)) if name else ""
        parts.append(quote(value, safe="") or quote(fallback.strip(), safe=_URL_LETTERS))
        parts.append(then)
    # Each part by itself: a stray sign must not reach for the letters of the value behind it.
    filled = "".join([_STRAY_PERCENT.sub("%25", part) for part in parts])
    return filled.replace("~", "%7E") if _VARIABLE.search(filled.replace("%", "")) else filled


@lru_cache(maxsize=64)
def _url_pieces(url: str) -> list[tuple[str, str, str]]:
    """Thousands of pieces carry the same URL."""
    return _taken_apart(visible(url))


def values_of(addressee: Addressee, sender: Sender) -> dict[str, str]:
    """Every known variable's value for one recipient; unknown facts are empty."""
    return {name: read(addressee, sender) for name, read in _READERS.items()}


def _taken_apart(text: str) -> list[tuple[str, str, str]]:
    """Each variable's name, its fallback and the text behind it; before the first there is no name."""
    found = [*_VARIABLE.finditer(text)]
    ends = [variable.start() for variable in found[1:]] + [len(text)]
    pieces = [("", "", text[: found[0].start()] if found else text)]
    for variable, end in zip(found, ends, strict=False):
        percent, fallback, tilde, tilde_fallback = variable.groups()
        pieces.append((percent or tilde, fallback or tilde_fallback or "", text[variable.end() : end]))
    return pieces


def without_variables(text: str, *, strip: bool = True) -> str:
    """A space takes the place of each: what stood around it cannot grow into another one."""
    if "%" not in text and "~" not in text:
        return text
    without = _VARIABLE.sub(" ", text)
    return without.strip() if strip else without


def _closed_up(gap: re.Match[str]) -> str:
    """What stays where variables vanished together with their spaces: at most one mark."""
    mark, lead = gap["mark"] or "", gap["lead"] or ""
    if gap["start"] is not None and not lead:
        return mark + gap["behind"] if mark and mark in ".!?" else ""
    if mark:
        return (mark if mark in ".!?" else lead or mark) + gap["behind"]
    if gap["end"] is not None:
        return lead
    joint = lead or gap["between"] or ""
    return joint + " " if gap["before"] or gap["after"] or gap["between"] else joint
