"""Pages of a list: what was asked for, and where a page stands in the whole."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a page: after `skip` of them come `take`, counted from the end if `from_end`."""

    skip: int
    take: int
    from_end: bool


@dataclass(frozen=True, slots=True)
class PageRequest:
    page: int = 1
    per_page: int = 25

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.per_page

    def window(self, total: int) -> Window:
        """Where the page lies in a list of so many, seen from the end that is nearer."""
        take = max(0, min(self.per_page, total - self.offset))
        behind = total - self.offset - take
        if behind < self.offset:
            return Window(max(0, behind), take, from_end=True)
        return Window(self.offset, take, from_end=False)


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Some rows of `total`. A page beyond the end is empty, with no first and no last row."""

    rows: list[Row]
    total: int
    asked: PageRequest

    @property
    def first_row(self) -> int | None:
        return self.asked.offset + 1 if self.rows else None

    @property
    def last_row(self) -> int | None:
        return self.asked.offset + len(self.rows) if self.rows else None

    @property
    def last_page(self) -> int:
        return max(1, -(-self.total // self.asked.per_page))
