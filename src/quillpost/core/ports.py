"""File storage, and documents fetched by URL."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Protocol


class FileStore(Protocol):
    """Bytes under a key such as `batches/7/print.pdf`. Writes are atomic."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """Raises `FileMissing`."""
        ...

    def put_file(self, key: str, file: IO[bytes]) -> None:
        """The rest of a file of any length, in constant memory."""
        ...

    def open(self, key: str) -> IO[bytes]:
        """Raises `FileMissing`. The caller closes it."""
        ...

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """A missing key is no error."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Every key that starts with the prefix, in order."""
        ...

    def delete_unfinished(self, *, before: datetime) -> int:
        """Remove what killed writers left before then, which no key shows; how many."""
        ...


class FileMissing(Exception):
    """No file under that key."""


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    content_type: str
    body: bytes


class Fetcher(Protocol):
    """Fetches a caller's URL: guarded, bounded in size and time, without redirects."""

    def fetch(self, url: str, *, max_bytes: int) -> FetchedDocument:
        """Raises `FetchFailed`."""
        ...


class FetchFailed(Exception):
    """The reason, as a sentence that may be shown to the caller."""
