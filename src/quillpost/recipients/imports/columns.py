"""How a file is divided, and which column holds what."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from quillpost.core.body_limits import MOST_FAULTS
from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.cities import ZIP, state_code
from quillpost.recipients.addresses.parser import taken_apart
from quillpost.recipients.field_names import Meaning, meaning, plain
from quillpost.recipients.rules import EMAIL, TEXTS

MOST_COLUMNS = 1_000
LONGEST_CELL = 131_072
"""Characters; Python's own limit for one."""
LONGEST_LINE = 1_000_000
"""Bytes."""
LONGEST_NAME = 100

ONE_COLUMN = "\x1f"
"""What divides the cells of a file that has one: a sign that nobody types."""


@dataclass(frozen=True, slots=True)
class Layout:
    encoding: str
    delimiter: str
    has_header: bool
    names: tuple[str, ...]
    """Of its columns; those without a name are numbered."""
    is_workbook: bool = False
    """Whether it was made of a workbook: its rows are counted as they were there."""

    @property
    def width(self) -> int:
        return len(self.names)

    def written(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        return cls(**{**written, "names": tuple(written["names"])})


_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""What neither the database nor an answer can hold, or nobody sees."""


def name_of(given: str) -> str:
    """A column's name as we keep it and show it."""
    return _UNWRITABLE.sub("\ufffd", " ".join(given.split()))[:LONGEST_NAME]


def names_of(header: list[str] | None, width: int) -> tuple[str, ...]:
    """What the columns are called."""
    given = header or []
    return tuple((name_of(given[n]) if n < len(given) else "") or f"Column {n + 1}" for n in range(width))


PARTS = {"full_address": "whole", "street_name": "route", "street_number": "number"}
"""Fields that become others', and what they are called within."""
FIELDS = (*TEXTS, "dob", "anniversary", "first_name", "last_name", *PARTS)
"""What a column may hold."""
LEFT_OUT = ""

MOST_NAMED = 30
LONGEST_SAMPLE = 100

_SHOWN = {within: field for field, within in PARTS.items()}
_STREETS = frozenset({"address", "whole", "route"})
_MAILABLE = frozenset({"address", "full_address", "street_name"})
_REACHING = _MAILABLE | {"email"}
_HOUSE_AND_STREET = re.compile(r"\d+\S*\s+\S.*|P\.?\s*O\.?\s+Box\s.*", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]+[.,'’-]?(?:[\s-]+[^\W\d_]+[.,'’]?)+")
_PHONE = re.compile(r"\+?[\d\s().-]{10,20}")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    sample: str
    field: str
    """One of `FIELDS`, or `LEFT_OUT`."""
    is_unwanted: bool = False
    """Whether its sender says that it is to be left out."""

    def written(self) -> dict[str, str]:
        return {"column": self.name, "sample": self.sample, "field": self.field}

    def stored(self) -> dict[str, Any]:
        return {**self.written(), "unwanted": self.is_unwanted}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "Column":
        return cls(stored["column"], stored["sample"], stored["field"], stored.get("unwanted", False))

    @property
    def is_missed(self) -> bool:
        """Whether it is left out, with something in it, and nobody has said so."""
        return self.field == LEFT_OUT and self.sample != "" and not self.is_unwanted


def chosen_columns(
    layout: Layout, rows: Sequence[Sequence[str]], mapping: Mapping[str, Any] | None
) -> list[Column]:
    """What each column holds: what the mapping says, and of the others what they seem to."""
    said = _said(layout, mapping or {})
    guessed = _guessed(layout, rows)
    taken = set(said.values()) - {LEFT_OUT}
    fields = [said.get(place, LEFT_OUT if guess in taken else guess) for place, guess in enumerate(guessed)]
    return [
        Column(name, _sample(rows, place), fields[place], said.get(place) == LEFT_OUT)
        for place, name in enumerate(layout.names)
    ]


def warnings_of(columns: Sequence[Column]) -> list[str]:
    """What of the file is not read, though there is something in it."""
    places: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        places.setdefault(column.name, []).append(place)
    told, missed = [], []
    for name, same in places.items():
        left_out = [place for place in same if columns[place].is_missed]
        if len(same) > 1 and len(left_out) == 1:
            number = left_out[0]
            which = _ORDINALS.get(same.index(number), "another")
            told.append(
                f"{_COUNTS.get(len(same), str(len(same)))} columns are called {name}: {which} is left out;"
                f" map it by its number, {number}."
            )
        elif len(same) > 1 and left_out:
            numbers = " and ".join(map(str, left_out[:MOST_NAMED]))
            told.append(
                f"{_COUNTS.get(len(same), str(len(same)))} columns are called {name}: {len(left_out)} of them"
                f" are left out; map them by their numbers, {numbers}."
            )
        elif left_out:
            missed.append(name)
    if missed:
        one = len(missed) == 1
        told.append(
            f"{'1 column is' if one else f'{len(missed):,} columns are'} left out: {named(missed)}."
            f" Map {'it' if one else 'them'} if you need {'it' if one else 'them'}."
        )
    return told


_COUNTS = {2: "Two", 3: "Three"}
_ORDINALS = {0: "the first", 1: "the second", 2: "the third"}


def have_street(columns: Sequence[Column]) -> bool:
    """Whether anybody can be mailed to. Without it people are known by their e-mail alone."""
    return not _MAILABLE.isdisjoint(column.field for column in columns)


def require_someone(columns: Sequence[Column]) -> None:
    """Without an address and without an e-mail nobody can be told from anybody."""
    if not _REACHING & {column.field for column in columns}:
        raise Invalid(
            {
                "mapping": [
                    "No column seems to hold an address or an e-mail: map one to address or email."
                    f" The columns are {named(column.name for column in columns)}."
                ]
            }
        )


def named(names: Any) -> str:
    """Names in a sentence, not all of them where they are many."""
    several = list(names)
    told = ", ".join(several[:MOST_NAMED])
    return told if len(several) <= MOST_NAMED else f"{told} and {len(several) - MOST_NAMED:,} more"


def _said(layout: Layout, mapping: Mapping[str, Any]) -> dict[int, str]:
    """By the place of a column, the field that its sender says it holds."""
    said: dict[int, str] = {}
    faults: dict[str, list[str]] = {}
    for column, field in mapping.items():
        path = f"mapping.{name_of(column)}"
        field = LEFT_OUT if field is None else field
        place = _place(layout, column)
        if isinstance(place, str):
            faults[path] = [place]
        elif not isinstance(field, str) or field not in (*FIELDS, LEFT_OUT):
            faults[path] = [f"A column can hold {', '.join(FIELDS)}; leave it out with an empty text."]
        elif place in said:
            faults[path] = [
                f"This column is mapped already, by its {'name' if column.isdigit() else 'number'}."
            ]
        elif field and field in said.values():
            faults[path] = [f"Another column is mapped to {field} already."]
        else:
            said[place] = field
        if len(faults) >= MOST_FAULTS:
            break
    if faults:
        raise Invalid(faults)
    return said


def _place(layout: Layout, column: str) -> int | str:
    """Which column is meant, by its name or its number from 0; or why none is."""
    places = [place for place, name in enumerate(layout.names) if name == name_of(column)]
    if len(places) == 1:
        return places[0]
    if places:
        numbers = " and ".join(map(str, places))
        return f"Several columns have this name: say which by its number, here {numbers}."
    if column.isascii() and column.isdigit() and len(column) < 6 and int(column) < layout.width:
        return int(column)
    return f"There is no such column. The columns are {named(layout.names)}."


def _guessed(layout: Layout, rows: Sequence[Sequence[str]]) -> list[str]:
    meant = [meaning(plain(name)) if layout.has_header else None for name in layout.names]
    which = _address_among(meant)
    best: dict[str, tuple[int, int]] = {}
    for place, what in enumerate(meant):
        if what is None or what.address not in (None, which) or what.at not in (None, which):
            continue
        if what.field not in best or what.rank < best[what.field][0]:
            best[what.field] = what.rank, place
    fields = [LEFT_OUT] * layout.width
    for field, (_, place) in best.items():
        fields[place] = _SHOWN.get(field, field)
    unknown = [place for place, what in enumerate(meant) if what is None]
    _look_at_cells(fields, unknown, rows, has_header=layout.has_header)
    return fields


def _address_among(meant: Sequence[Meaning | None]) -> int | None:
    """Of several addresses the first that has a street, else the first of which there is anything."""
    parts = [(what.address, what.field) for what in meant if what is not None and what.address is not None]
    streets = sorted(which for which, field in parts if field in _STREETS)
    return next(iter(streets or sorted(which for which, _ in parts)), None)


Looks = Callable[[str], object]
_BY_NAME_TOO: tuple[tuple[str, Looks, float], ...] = (
    ("email", EMAIL.fullmatch, 0.8),
    ("address", taken_apart, 0.6),
)
_BY_CELLS_ALONE: tuple[tuple[str, Looks, float], ...] = (
    ("postal_code", ZIP.fullmatch, 0.9),
    ("province", state_code, 0.9),
    ("address", _HOUSE_AND_STREET.fullmatch, 0.6),
    ("phone", _PHONE.fullmatch, 0.8),
)
"""How the cells of a column look that holds a field, and how many of them must."""


def _look_at_cells(
    fields: list[str], unknown: Sequence[int], rows: Sequence[Sequence[str]], *, has_header: bool
) -> None:
    """Fill in what the cells themselves show. Where columns have names, only what cannot be anything else."""

    def give(field: str, looks: Looks, share: float) -> None:
        is_there = field in fields or (field == "address" and {"full_address", "street_name"} & {*fields})
        if is_there:
            return
        for place in unknown:
            if fields[place] == LEFT_OUT and _share(rows, place, looks) >= share:
                fields[place] = field
                return

    for field, looks, share in _BY_NAME_TOO:
        give(field, looks, share)
    if has_header:
        return
    for field, looks, share in _BY_CELLS_ALONE:
        give(field, looks, share)
    before = fields.index("province") - 1 if "province" in fields else -1
    if before >= 0 and fields[before] == LEFT_OUT:
        fields[before] = "city"
    give("name", _WORDS.fullmatch, 0.6)


def _share(rows: Sequence[Sequence[str]], place: int, looks: Looks) -> float:
    """How many of a column's cells that are not blank look so."""
    cells = [cell for row in rows if place < len(row) and (cell := row[place].strip())]
    return sum(bool(looks(cell[:300])) for cell in cells) / len(cells) if cells else 0.0


def _sample(rows: Sequence[Sequence[str]], place: int) -> str:
    """The column's first cell that is not blank."""
    cells = (" ".join(row[place].split()) for row in rows if place < len(row))
    return next((cell[:LONGEST_SAMPLE] for cell in cells if cell), "").replace("\x00", "\ufffd")
