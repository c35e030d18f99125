"""A row of a file as a person: what its columns hold, examined as the API examines one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quillpost.audience.barring import in_vain
from quillpost.audience.hook_values import day_said, put_street
from quillpost.audience.importing.columns import PARTS
from quillpost.audience.rules import Person, examine_alone, told_apart
from quillpost.composition.words.country_names import country_code

BROKEN = "{} holds a broken character: save the file as UTF-8 and import this row again."
NUL = "{} holds a NUL character, which cannot be printed or stored."
TOO_WIDE = (
    "The row has {} cells, and there are {} columns: a cell that holds the sign between them needs quotes"
    " around it."
)

ESCAPED = re.compile("'+[-=+@\t\r\n＝＋－＠]")
"""How a value begins that an export has kept from being taken for a formula."""
_FEW = re.compile(r"[\ufffd\x00]")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read of each row: the places of columns and the fields that they hold."""

    fields: Sequence[tuple[int, str]]
    width: int
    suppress_by: str | None = None
    """How the list bars people; nothing: it is no suppression list."""

    @property
    def within(self) -> list[tuple[int, str]]:
        return [(place, PARTS.get(field, field)) for place, field in self.fields]


class Reader:
    """Makes people of rows."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fields = plan.within
        self._width = plan.width
        names = {field for _, field in self._fields}
        self._has_days = bool(names & {"dob", "anniversary"})
        self._is_plain = not names & {"first_name", "last_name", "country", *PARTS.values()}

    def person(self, cells: Sequence[str]) -> Person | str:
        """Someone for a list; or why not, in one sentence."""
        given = self.given(cells)
        if isinstance(given, str):
            return given
        person, faults = examine_alone(given, may_lack=True)
        for field, sentences in faults.items():
            return f"{field}: {sentences[0]}"
        if (fault := in_vain(self._plan.suppress_by, person)) is not None:
            return ": ".join(fault)
        return person

    def given(self, cells: Sequence[str]) -> dict[str, str] | str:
        """What the row says of someone, by our names, not examined yet; or why it cannot be read."""
        count = len(cells)
        if count > self._width and any(map(str.strip, cells[self._width :])):
            return TOO_WIDE.format(count, self._width)
        given: dict[str, str] = {}
        for place, field in self._fields:
            if place < count and (text := cells[place].strip()):
                if text[0] == "'" and ESCAPED.match(text):
                    text = text[1:]
                if (not text.isascii() or "\x00" in text) and (found := _FEW.search(text)) is not None:
                    return (NUL if found[0] == "\x00" else BROKEN).format(_SHOWN.get(field, field))
                given[field] = text
        self._finish(given)
        return given

    def told_apart(self, person: Person) -> str:
        """What tells those of one address on the list apart."""
        return told_apart(self._plan.suppress_by or "", person)

    def _finish(self, given: dict[str, str]) -> None:
        """By our names alone, as people of hooks are."""
        if not self._is_plain:
            first, last = given.pop("first_name", None), given.pop("last_name", None)
            if first and last:
                given["name"] = f"{first} {last}"
            elif (first or last) and "name" not in given:
                given["name"] = first or last or ""
            if "country" in given:
                given["country"] = country_code(given["country"])
        if not self._is_plain or "\n" in given.get("address", "") or "  " in given.get("address", ""):
            put_street(given)
        if self._has_days:
            for name in ("dob", "anniversary"):
                if name in given and (day := day_said(given[name])) is not None:
                    given[name] = day


_SHOWN = {within: field for field, within in PARTS.items()}
