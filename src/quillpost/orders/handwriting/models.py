"""Handwriting that is an account's own: styles made from a person's sheet, and signatures."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import sqlalchemy as sa

from quillpost.rendering.handwriting.sheet.models import EmptyBox, SheetProblem, SheetReading, Signature, WrittenChar

LetterKey = tuple[str, int]
"""A character, and which of its instances on the sheet."""


@dataclass(frozen=True, slots=True)
class OwnHandwriting:
    """The files that a design takes from its account: of a style, and of a signature."""

    hand: bytes | None = field(default=None, repr=False)
    signature: bytes | None = field(default=None, repr=False)


NO_OWN_HANDWRITING = OwnHandwriting()


@dataclass(frozen=True, slots=True)
class SheetLetters:
    """What was read from a sheet, and which of its letters their writer does not want."""

    chars: tuple[WrittenChar, ...]
    signature: Signature | None = None
    missing: tuple[EmptyBox, ...] = ()
    problems: tuple[SheetProblem, ...] = ()
    rejected: frozenset[LetterKey] = frozenset()

    @classmethod
    def of(cls, reading: SheetReading) -> Self:
        """Doubtful letters are left out unless their writer accepts them."""
        doubtful = frozenset(letter_key(char) for char in reading.chars if char.is_doubtful)
        return cls(reading.chars, reading.signature, reading.missing, reading.problems, doubtful)

    @property
    def accepted(self) -> list[WrittenChar]:
        return [char for char in self.chars if char.strokes and letter_key(char) not in self.rejected]


def letter_key(char: WrittenChar) -> LetterKey:
    return char.char, char.instance_number


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedHand:
    """A style of the account; until its letters are accepted nothing can be written in it."""

    id: int
    account_id: int
    sub_account_id: int | None
    name: str
    is_ready: bool
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        return cls(**row._mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSignature:
    id: int
    account_id: int
    sub_account_id: int | None
    name: str
    outlines: bytes = field(repr=False)
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        return cls(**row._mapping)
