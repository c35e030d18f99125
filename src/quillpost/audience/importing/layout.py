"""How a file of people is read: its encoding, what divides its cells, and what its columns are called."""

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


def names_of(header: list[str] | None, width: int) -> tuple[str, ...]:
    """What the columns are called."""
    given = header or []
    return tuple(
        (" ".join(given[n].split()) if n < len(given) else "")[:LONGEST_NAME] or f"Column {n + 1}"
        for n in range(width)
    )
