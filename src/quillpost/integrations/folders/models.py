"""What print partners and carriers need of a folder."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class SftpCredentials:
    """With a key file, the password is its passphrase."""

    key: Path | None = None
    password: str | None = field(default=None, repr=False)
    known_hosts: Path | None = None


class FolderDown(Exception):
    """Why the folder cannot be used now, as a sentence for an operator."""


class UnreadableFile(FolderDown):
    """Why one file cannot be read, while others may be."""


class FolderFileTooLarge(Exception):
    """A file is larger than the reader takes, as a sentence that names it."""


class OpenFolder(Protocol):
    """One connection. Names are relative, with slashes. Any failure is `FolderDown`."""

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:
        """Write a file atomically, over an existing one; creates folders. Those of a secret file are for our own user
        and group only, where that is supported."""

    def get(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """The bytes, or `FileMissing`, or `FolderFileTooLarge`, or `UnreadableFile`."""

    def exists(self, name: str) -> bool: ...

    def size(self, name: str) -> int | None:
        """Of a file; None where it does not exist."""

    def names(self, folder: str) -> list[str]:
        """What is in the folder, sorted; `""` is the root, and a missing folder is empty. Names that are not usable are
        left out."""

    def rename(self, old: str, new: str) -> bool:
        """Move a file or a folder; False where `new` exists. Of two concurrent calls, one wins. `FileMissing` without
        `old`."""

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with its content. Idempotent."""


class RemoteFolder(Protocol):
    """Where a folder is and how to connect. Stateless between connections."""

    @property
    def label(self) -> str:
        """For people; without secrets."""

    def open(self) -> AbstractContextManager[OpenFolder]: ...


def is_usable_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable() and not {"/", "\\"} & {*name} and name != ".."


def check_path(name: str) -> str:
    """Names are ours, or came from `names`: a wrong one is a bug."""
    if not all(is_usable_name(step) and step != "." for step in name.split("/")):
        raise ValueError(f"{name!r} is not the name of a file.")
    return name


def build_too_large_error(name: str, max_bytes: int) -> FolderFileTooLarge:
    return FolderFileTooLarge(f"{name} is larger than {max_bytes:,} bytes.")
