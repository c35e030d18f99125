"""What the print partners and the carrier's folder ask of a place for files."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class SftpCredentials:
    """How we prove who we are, and whom we believe. With a key file, the password is its passphrase."""

    key: Path | None = None
    password: str | None = field(default=None, repr=False)
    known_hosts: Path | None = None


class FolderDown(Exception):
    """Why the place cannot be reached or used now, as a sentence for an operator."""


class UnreadableFile(FolderDown):
    """Why one file cannot be read, while others may be."""


class FolderFileTooLarge(Exception):
    """A file is larger than the reader takes, as a sentence that names it."""


class OpenFolder(Protocol):
    """One visit. Names are relative, with slashes. Whatever goes wrong on the way is `FolderDown`."""

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:
        """Write a file, whole or not at all, over one that is there. Folders are made.

        The folders that are made for one that is secret are for our own user and the group alone, where a
        place knows of such; so nobody else there reads it.
        """
        ...

    def get(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """The bytes, or `FileMissing`, or `FolderFileTooLarge`, or `UnreadableFile`."""
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


class RemoteFolder(Protocol):
    """Where a folder is and how to get in. It keeps nothing between visits."""

    @property
    def label(self) -> str:
        """How a person calls it; without secrets."""
        ...

    def open(self) -> AbstractContextManager[OpenFolder]: ...


def is_usable_name(name: str) -> bool:
    """Whether the name is one step of a path that every system spells alike."""
    return 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable() and not {"/", "\\"} & {*name} and name != ".."


def check_path(name: str) -> str:
    """Names are ours, or came from `names`: a wrong one is a fault in the program."""
    if not all(is_usable_name(step) and step != "." for step in name.split("/")):
        raise ValueError(f"{name!r} is not the name of a file.")
    return name


def build_too_large_error(name: str, max_bytes: int) -> FolderFileTooLarge:
    return FolderFileTooLarge(f"{name} is larger than {max_bytes:,} bytes.")
