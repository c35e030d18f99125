"""Replacement variables: `%FIRST_NAME%`, `%FIRST_NAME|friend%`, and `~FIRST_NAME~` in URLs."""

import re
from collections.abc import Mapping

from quillpost.composition.content import Addressee, Sender
from quillpost.composition.words.names import find_name

KNOWN: tuple[str, ...] = (
    *("FIRST_NAME", "LAST_NAME", "FULL_NAME", "NAME", "COMPANY"),
    *("ADDRESS", "ADDRESS2", "CITY", "STATE", "PROVINCE", "ZIP", "POSTAL_CODE"),
    *("EMAIL", "PHONE"),
    *(f"CUSTOM{number}" for number in range(1, 11)),
    *("DOB", "ANNIVERSARY", "YOUR_NAME", "YOUR_COMPANY"),
)

_NAMES = "|".join(sorted(KNOWN, key=len, reverse=True))
_VARIABLE = re.compile(
    rf"%(?P<percent>{_NAMES})(?:\|(?P<fallback>[^%\n]*))?%"
    rf"|~(?P<tilde>{_NAMES})(?:\|(?P<tilde_fallback>[^~\n]*))?~",
    re.IGNORECASE,
)
# Only an all-capitals word is taken for a misspelt variable: "5% off, 10% more" is prose.
_SUSPECT = re.compile(r"%([A-Z][A-Z0-9_]*)(?:\|[^%\n]*)?%|~([A-Z][A-Z0-9_]*)(?:\|[^~\n]*)?~")

_GONE = "\0"
# Spaces are taken from the start of their run or not at all: one try a run, however long it is.
_AROUND_GONE = re.compile(
    r"(^)?((?<![ \t])[ \t]++)?\0(?:[ \t]*\0)*([ \t]*)([,;:.!?]?)([ \t]*)($)?", re.MULTILINE
)


def unknown_variables(text: str) -> list[str]:
    """Names that look like variables and are none of ours, in order, once each."""
    suspects = _SUSPECT.finditer(_VARIABLE.sub(" ", text))
    return list(dict.fromkeys(suspect[1] or suspect[2] for suspect in suspects))


def holds_variable(text: str) -> bool:
    """Whether the text reads differently from one recipient to the next."""
    return _VARIABLE.search(text) is not None


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its variables replaced, once: a value is never expanded again.

    An empty value takes the fallback; without one the variable leaves no trace, neither a
    doubled space nor a space before a comma.
    """

    def replacement(variable: re.Match[str]) -> str:
        name = (variable["percent"] or variable["tilde"]).upper()
        fallback = variable["fallback"] or variable["tilde_fallback"] or ""
        return values.get(name, "").strip() or fallback.strip() or _GONE

    if "%" not in text and "~" not in text:
        return text
    filled = _VARIABLE.sub(replacement, text.replace(_GONE, ""))
    return _AROUND_GONE.sub(_closed_up, filled) if _GONE in filled else filled


def _closed_up(gap: re.Match[str]) -> str:
    """What stays where a variable vanished together with its spaces."""
    starts_line, before, after, mark, behind, ends_line = gap.groups()
    if starts_line is not None:
        return "" if mark in ",;:" else mark + behind
    if mark:
        return mark + behind
    if ends_line is not None:
        return ""
    return " " if before or after else ""


def values_of(addressee: Addressee, sender: Sender) -> dict[str, str]:
    """Every known variable's value for one recipient; unknown facts are empty."""
    name = find_name(addressee.name)
    values = {
        "FIRST_NAME": name.first,
        "LAST_NAME": name.last,
        "FULL_NAME": name.full,
        "NAME": name.full,
        "COMPANY": addressee.company,
        "ADDRESS": addressee.address,
        "ADDRESS2": addressee.address2,
        "CITY": addressee.city,
        "STATE": addressee.province,
        "PROVINCE": addressee.province,
        "ZIP": addressee.postal_code,
        "POSTAL_CODE": addressee.postal_code,
        "EMAIL": addressee.email,
        "PHONE": addressee.phone,
        "DOB": addressee.dob,
        "ANNIVERSARY": addressee.anniversary,
        "YOUR_NAME": sender.name,
        "YOUR_COMPANY": sender.company,
    }
    values |= {f"CUSTOM{number}": value for number, value in enumerate(addressee.custom, start=1)}
    return {known: value or "" for known, value in values.items()}
