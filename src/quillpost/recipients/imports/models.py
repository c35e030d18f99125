"""Files of people: their layout, columns and rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from quillpost.recipients.models import TEXT_FIELDS

MAX_COLUMNS = 1_000
MAX_CELL_LENGTH = 131_072
MAX_LINE_BYTES = 1_000_000
INTERNAL_FIELD_NAMES = {"full_address": "whole", "street_name": "route", "street_number": "number"}
"""Fields that become others, and their internal names."""
IMPORT_FIELDS = (*TEXT_FIELDS, "dob", "anniversary", "first_name", "last_name", *INTERNAL_FIELD_NAMES)
IGNORED_FIELD = ""


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


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The indexes of columns, and the fields that they hold."""

    fields: Sequence[tuple[int, str]]
    width: int
    suppress_by: str | None = None
    """None if the list is no suppression list."""

    @property
    def internal_fields(self) -> list[tuple[int, str]]:
        return [(index, INTERNAL_FIELD_NAMES.get(field, field)) for index, field in self.fields]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One row: where it begins, its cells, and an error if it cannot be read."""

    line: int
    cells: list[str]
    error: str | None = None
    width: int = 0
    """The number of cells, where they were too many to be stored."""


@dataclass(frozen=True, slots=True)
class RowChunk:
    """Consecutive rows, the number of the first and the lines where they begin."""

    first_row: int
    lines: list[int]
    rows: list[list[str]]
    errors: dict[int, str]
    """By index in the chunk, for rows that could not be read."""
    bytes_read: int

    @property
    def row_count(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class ExaminedChunk:
    """A chunk's rows in the format of COPY."""

    chunk: RowChunk
    accepted_data: bytes
    rejected_data: bytes
    accepted_count: int
    rejected_count: int


@dataclass(frozen=True, slots=True)
class SniffedFile:
    layout: FileLayout
    rows: Sequence[Sequence[str]]
