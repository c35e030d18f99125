"""What the print partners and the carrier's folder ask of a place for files."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class SftpKeys:
    """How we prove who we are, and whom we believe. With a key file, the password is its passphrase."""

    key: Path | None = None
    password: str | None = field(default=None, repr=False)
    known_hosts: Path | None = None


class PlaceDown(Exception):
    """Why the place cannot be reached or used now, as a sentence for an operator."""


class Barred(PlaceDown):
    """Why one file cannot be read, while others may be."""


class TooLarge(Exception):
    """A file is larger than the reader takes, as a sentence that names it."""


class OpenPlace(Protocol):
    """One visit. Names are relative, with slashes. Whatever goes wrong on the way is `PlaceDown`."""

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:
        """Write a file, whole or not at all, over one that is there. Folders are made.

        The folders that are made for one that is secret are for our own user and the group alone, where a
        place knows of such; so nobody else there reads it.
        """
        ...

    def get(self, name: str, *, most_bytes: int | None = None) -> bytes:
        """The bytes, or `FileMissing`, or `TooLarge`, or `Barred`."""
        ...

    def exists(self, name: str) -> bool:
        """Whether there is a file or a folder."""
        ...

    def size(self, name: str) -> int | None:
        """Of a file; None where there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """What is in the folder, sorted; `""` is the whole place, and a folder that is not there is empty.

        Others put files there: a name that we could not write down is left out.
        """
        ...

    def rename(self, old: str, new: str) -> bool:
        """Move a file or a folder; False, and nothing moved, where `new` is there already.

        Of two that give folders the same name at once, one wins. `FileMissing` where there is no `old`.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove a file, or a folder and all that is in it; what is not there is no fault."""
        ...


class Place(Protocol):
    """Where a folder is and how to get in. It keeps nothing between visits."""

    @property
    def shown(self) -> str:
        """How a person calls it; without secrets."""
        ...

    def open(self) -> AbstractContextManager[OpenPlace]: ...


def is_usable(name: str) -> bool:
    """Whether the name is one step of a path that every system spells alike."""
    return 0 < len(name) <= LONGEST_NAME and name.isprintable() and not {"/", "\\"} & {*name} and name != ".."


def check_path(name: str) -> str:
    """Names are ours, or came from `names`: a wrong one is a fault in the program."""
    if not all(is_usable(step) and step != "." for step in name.split("/")):
        raise ValueError(f"{name!r} is not the name of a file.")
    return name


def too_large(name: str, most_bytes: int) -> TooLarge:
    return TooLarge(f"{name} is larger than {most_bytes:,} bytes.")
