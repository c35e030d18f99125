"""Whoever prints."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PrintJob:
    """One production batch as a printer sees it. `secret_names` names those of its files that hold the claims of
    gift cards: whoever prints them needs them in clear, and they lie nowhere else so."""

    reference: str
    files: Mapping[str, bytes] = field(repr=False)
    ticket: Mapping[str, object]
    secret_names: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PrintProgress:
    """How far the printer is. `spoiled` maps an item's id to the reason its piece is unusable."""

    acknowledged_at: datetime | None = None
    printed_at: datetime | None = None
    mailed_at: datetime | None = None
    spoiled: Mapping[int, str] | None = None


class PrintPartner(Protocol):
    """Keeps nothing between calls. One that cannot be reached says `PartnerDown`, and is asked again."""

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """Hand the job over, whole or not at all. The same reference twice is one job."""
        ...

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        """How far it is with the job. What it was once said to be it stays."""
        ...


class PartnerDown(Exception):
    """Why the printer could not be reached, as a sentence for the print room."""
