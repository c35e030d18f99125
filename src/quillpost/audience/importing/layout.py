"""How a file of people is read: its encoding, what divides its cells, and what its columns are called."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

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
