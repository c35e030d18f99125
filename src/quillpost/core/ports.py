"""Files that we keep, and documents that we fetch."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Protocol


class FileStore(Protocol):
    """Bytes under a key such as `batches/7/print.pdf`. A write is whole or not there at all."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """The bytes, or `FileMissing`."""
        ...

    def put_file(self, key: str, file: IO[bytes]) -> None:
        """The rest of a file, however long, at flat memory."""
        ...

    def open(self, key: str) -> IO[bytes]:
        """The bytes to be read piece by piece, or `FileMissing`. Whoever opens it closes it."""
        ...

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Remove it; a key that is not there is no fault."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Every key that starts with the prefix, in order."""
        ...

    def delete_unfinished(self, *, before: datetime) -> int:
        """Remove what writers that were killed before then had not finished; how many. No key shows them."""
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
        """The document, or `FetchFailed`."""
        ...


class FetchFailed(Exception):
    """The reason, as a sentence that may be shown to the caller."""
