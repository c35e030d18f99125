"""How a file is divided, and which column holds what."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from quillpost.core.errors import Invalid
from quillpost.core.exact_json import MAX_REPORTED_ERRORS
from quillpost.recipients.addresses.cities import ZIP_PATTERN, find_state_code
from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.field_names import FieldMeaning, find_field_meaning, normalize_name
from quillpost.recipients.models import TEXT_FIELDS
from quillpost.recipients.rules import EMAIL_PATTERN

MAX_COLUMNS = 1_000
MAX_CELL_LENGTH = 131_072
MAX_LINE_BYTES = 1_000_000
MAX_COLUMN_NAME_LENGTH = 100
SINGLE_COLUMN_DELIMITER = "\x1f"
"""The delimiter of a file with one column: a character that no one types."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    encoding: str
    delimiter: str
    has_header: bool
    names: tuple[str, ...]
    """Of its columns; those without a name are numbered."""
    is_workbook: bool = False
    """Whether it was converted from a workbook, so that rows are counted and not lines."""

    @property
    def width(self) -> int:
        return len(self.names)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "names": tuple(values["names"])})


_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def clean_column_name(name: str) -> str:
    return _CONTROL_CHARACTER.sub("\ufffd", " ".join(name.split()))[:MAX_COLUMN_NAME_LENGTH]


def build_column_names(header: list[str] | None, width: int) -> tuple[str, ...]:
    header_names = header or []
    return tuple(
        (clean_column_name(header_names[index]) if index < len(header_names) else "") or f"Column {index + 1}"
        for index in range(width)
    )


INTERNAL_FIELD_NAMES = {"full_address": "whole", "street_name": "route", "street_number": "number"}
"""Fields that become others, and their internal names."""
IMPORT_FIELDS = (*TEXT_FIELDS, "dob", "anniversary", "first_name", "last_name", *INTERNAL_FIELD_NAMES)
IGNORED_FIELD = ""
MAX_NAMES_LISTED = 30
MAX_SAMPLE_LENGTH = 100
_PUBLIC_FIELD_NAMES = {within: field for field, within in INTERNAL_FIELD_NAMES.items()}
_STREET_FIELDS = frozenset({"address", "whole", "route"})
_MAILABLE_FIELDS = frozenset({"address", "full_address", "street_name"})
_IDENTIFYING_FIELDS = _MAILABLE_FIELDS | {"email"}
_HOUSE_AND_STREET = re.compile(r"\d+\S*\s+\S.*|P\.?\s*O\.?\s+Box\s.*", re.IGNORECASE)
_SEVERAL_WORDS = re.compile(r"[^\W\d_]+[.,'’-]?(?:[\s-]+[^\W\d_]+[.,'’]?)+")
_PHONE = re.compile(r"\+?[\d\s().-]{10,20}")


@dataclass(frozen=True, slots=True)
class MappedColumn:
    name: str
    sample: str
    field: str
    """One of `IMPORT_FIELDS`, or `IGNORED_FIELD`."""
    is_excluded: bool = False
    """Whether the sender excluded it."""

    def to_dict(self) -> dict[str, str]:
        return {"column": self.name, "sample": self.sample, "field": self.field}

    def to_stored(self) -> dict[str, Any]:
        return {**self.to_dict(), "unwanted": self.is_excluded}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> "MappedColumn":
        return cls(stored["column"], stored["sample"], stored["field"], stored.get("unwanted", False))

    @property
    def is_overlooked(self) -> bool:
        """Whether it is ignored, not empty, and not excluded by the sender."""
        return self.field == IGNORED_FIELD and self.sample != "" and not self.is_excluded


def choose_columns(
    layout: FileLayout, rows: Sequence[Sequence[str]], mapping: Mapping[str, Any] | None
) -> list[MappedColumn]:
    """The field of each column: from the mapping, else guessed."""
    mapped_fields = _read_mapping(layout, mapping or {})
    guessed_fields = _guess_fields(layout, rows)
    used_fields = set(mapped_fields.values()) - {IGNORED_FIELD}
    fields = [
        mapped_fields.get(index, IGNORED_FIELD if guessed_field in used_fields else guessed_field)
        for index, guessed_field in enumerate(guessed_fields)
    ]
    return [
        MappedColumn(name, _find_sample(rows, index), fields[index], mapped_fields.get(index) == IGNORED_FIELD)
        for index, name in enumerate(layout.names)
    ]


def build_warnings(columns: Sequence[MappedColumn]) -> list[str]:
    """Which columns are ignored though they are not empty."""
    indexes_by_name: dict[str, list[int]] = {}
    for index, column in enumerate(columns):
        indexes_by_name.setdefault(column.name, []).append(index)
    warnings, overlooked_names = [], []
    for name, same_name_indexes in indexes_by_name.items():
        ignored_indexes = [index for index in same_name_indexes if columns[index].is_overlooked]
        count = _COUNT_LABELS.get(len(same_name_indexes), str(len(same_name_indexes)))
        if len(same_name_indexes) > 1 and len(ignored_indexes) == 1:
            number = ignored_indexes[0]
            ordinal = _ORDINAL_LABELS.get(same_name_indexes.index(number), "another")
            warnings.append(
                f"{count} columns are called {name}: {ordinal} is left out; map it by its number, {number}."
            )
        elif len(same_name_indexes) > 1 and ignored_indexes:
            numbers = " and ".join(map(str, ignored_indexes[:MAX_NAMES_LISTED]))
            warnings.append(
                f"{count} columns are called {name}: {len(ignored_indexes)} of them are left out; map them by their "
                f"numbers, {numbers}."
            )
        elif ignored_indexes:
            overlooked_names.append(name)
    if overlooked_names:
        is_single = len(overlooked_names) == 1
        warnings.append(
            f"{'1 column is' if is_single else f'{len(overlooked_names):,} columns are'} left out: "
            f"{join_names(overlooked_names)}."
            f" Map {'it' if is_single else 'them'} if you need {'it' if is_single else 'them'}."
        )
    return warnings


_COUNT_LABELS = {2: "Two", 3: "Three"}
_ORDINAL_LABELS = {0: "the first", 1: "the second", 2: "the third"}


def has_street_column(columns: Sequence[MappedColumn]) -> bool:
    return not _MAILABLE_FIELDS.isdisjoint(column.field for column in columns)


def require_address_or_email(columns: Sequence[MappedColumn]) -> None:
    if not _IDENTIFYING_FIELDS & {column.field for column in columns}:
        raise Invalid(
            {
                "mapping": [
                    "No column seems to hold an address or an e-mail: map one to address or email."
                    f" The columns are {join_names(column.name for column in columns)}."
                ]
            }
        )


def join_names(names: Any) -> str:
    """Names in a sentence, at most `MAX_NAMES_LISTED` of them."""
    all_names = list(names)
    listed = ", ".join(all_names[:MAX_NAMES_LISTED])
    return listed if len(all_names) <= MAX_NAMES_LISTED else f"{listed} and {len(all_names) - MAX_NAMES_LISTED:,} more"


def _read_mapping(layout: FileLayout, mapping: Mapping[str, Any]) -> dict[int, str]:
    """The field that the sender says, by the index of the column."""
    mapped_fields: dict[int, str] = {}
    errors: dict[str, list[str]] = {}
    for column, field in mapping.items():
        path = f"mapping.{clean_column_name(column)}"
        field = IGNORED_FIELD if field is None else field
        column_index = _find_column(layout, column)
        if isinstance(column_index, str):
            errors[path] = [column_index]
        elif not isinstance(field, str) or field not in (*IMPORT_FIELDS, IGNORED_FIELD):
            errors[path] = [f"A column can hold {', '.join(IMPORT_FIELDS)}; leave it out with an empty text."]
        elif column_index in mapped_fields:
            errors[path] = [f"This column is mapped already, by its {'name' if column.isdigit() else 'number'}."]
        elif field and field in mapped_fields.values():
            errors[path] = [f"Another column is mapped to {field} already."]
        else:
            mapped_fields[column_index] = field
        if len(errors) >= MAX_REPORTED_ERRORS:
            break
    if errors:
        raise Invalid(errors)
    return mapped_fields


def _find_column(layout: FileLayout, column: str) -> int | str:
    """The index of the column with this name or number; or an error."""
    indexes = [index for index, name in enumerate(layout.names) if name == clean_column_name(column)]
    if len(indexes) == 1:
        return indexes[0]
    if indexes:
        numbers = " and ".join(map(str, indexes))
        return f"Several columns have this name: say which by its number, here {numbers}."
    if column.isascii() and column.isdigit() and len(column) < 6 and int(column) < layout.width:
        return int(column)
    return f"There is no such column. The columns are {join_names(layout.names)}."


def _guess_fields(layout: FileLayout, rows: Sequence[Sequence[str]]) -> list[str]:
    meanings = [find_field_meaning(normalize_name(name)) if layout.has_header else None for name in layout.names]
    address_index = _choose_address(meanings)
    best: dict[str, tuple[int, int]] = {}
    for index, field_meaning in enumerate(meanings):
        if (
            field_meaning is None
            or field_meaning.address_index not in (None, address_index)
            or field_meaning.name_address_index not in (None, address_index)
        ):
            continue
        if field_meaning.field not in best or field_meaning.rank < best[field_meaning.field][0]:
            best[field_meaning.field] = field_meaning.rank, index
    fields = [IGNORED_FIELD] * layout.width
    for field, (_, index) in best.items():
        fields[index] = _PUBLIC_FIELD_NAMES.get(field, field)
    unknown = [index for index, field_meaning in enumerate(meanings) if field_meaning is None]
    _guess_from_cells(fields, unknown, rows, has_header=layout.has_header)
    return fields


def _choose_address(meanings: Sequence[FieldMeaning | None]) -> int | None:
    """Of several addresses the first with a street, else the first."""
    address_fields = [
        (field_meaning.address_index, field_meaning.field)
        for field_meaning in meanings
        if field_meaning is not None and field_meaning.address_index is not None
    ]
    streets = sorted(address_index for address_index, field in address_fields if field in _STREET_FIELDS)
    return next(iter(streets or sorted(address_index for address_index, _ in address_fields)), None)


CellTest = Callable[[str], object]
_CERTAIN_CELL_TESTS: tuple[tuple[str, CellTest, float], ...] = (
    ("email", EMAIL_PATTERN.fullmatch, 0.8),
    ("address", split_address_line, 0.6),
)
_CELL_TESTS: tuple[tuple[str, CellTest, float], ...] = (
    ("postal_code", ZIP_PATTERN.fullmatch, 0.9),
    ("province", find_state_code, 0.9),
    ("address", _HOUSE_AND_STREET.fullmatch, 0.6),
    ("phone", _PHONE.fullmatch, 0.8),
)
"""What the cells of a field look like, and which share of them must."""


def _guess_from_cells(
    fields: list[str], unknown: Sequence[int], rows: Sequence[Sequence[str]], *, has_header: bool
) -> None:
    """Guess fields from cells. Where columns have names, only what cannot be anything else."""

    def assign_field(field: str, cell_test: CellTest, min_share: float) -> None:
        is_assigned = field in fields or (field == "address" and {"full_address", "street_name"} & {*fields})
        if is_assigned:
            return
        for index in unknown:
            if fields[index] == IGNORED_FIELD and _matching_share(rows, index, cell_test) >= min_share:
                fields[index] = field
                return

    for field, cell_test, min_share in _CERTAIN_CELL_TESTS:
        assign_field(field, cell_test, min_share)
    if has_header:
        return
    for field, cell_test, min_share in _CELL_TESTS:
        assign_field(field, cell_test, min_share)
    previous_index = fields.index("province") - 1 if "province" in fields else -1
    if previous_index >= 0 and fields[previous_index] == IGNORED_FIELD:
        fields[previous_index] = "city"
    assign_field("name", _SEVERAL_WORDS.fullmatch, 0.6)


def _matching_share(rows: Sequence[Sequence[str]], index: int, cell_test: CellTest) -> float:
    cells = [cell for row in rows if index < len(row) and (cell := row[index].strip())]
    return sum(bool(cell_test(cell[:300])) for cell in cells) / len(cells) if cells else 0.0


def _find_sample(rows: Sequence[Sequence[str]], index: int) -> str:
    cells = (" ".join(row[index].split()) for row in rows if index < len(row))
    return next((cell[:MAX_SAMPLE_LENGTH] for cell in cells if cell), "").replace("\x00", "\ufffd")
