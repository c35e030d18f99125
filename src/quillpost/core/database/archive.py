"""A backup as one file: a compressed tar whose first entry says what it is and whose last proves it whole.

manifest.json    which release and schema, when, how many of everything
files/KEY        each file of the file store
database/N       the database's dump, in pieces
checksum.json    the digest of all that came before
"""

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from quillpost.core.errors import NotReady

FORMAT = "quillpost backup 1"
MANIFEST, CHECKSUM = "manifest.json", "checksum.json"
FILES, DATABASE = "files/", "database/"
LONGEST_MANIFEST = 1_000_000
REST_BYTES = 100_000

# Print files and pictures are compressed already: more effort would gain little.
EFFORT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup is. `key_check` tells whether secret keys are the right ones, the
    current one first, and nothing else of them."""

    release: str
    schema: str
    taken_at: str
    key_check: str
    counts: Mapping[str, int]
    format: str = FORMAT


class _Tally:
    """The digest of all entries, names and sizes included."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.entries = 0

    def add(self, name: str, data: bytes) -> None:
        self._digest.update(f"{name}\n{len(data)}\n".encode())
        self._digest.update(data)
        self.entries += 1

    def shown(self) -> dict[str, object]:
        return {"entries": self.entries, "sha256": self._digest.hexdigest()}


class ArchiveWriter:
    """Writes entry after entry to a stream; `finish` makes it a whole backup."""

    def __init__(self, out: BinaryIO, manifest: Manifest) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=EFFORT, fileobj=out, mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._tally = _Tally()
        self._database_pieces = 0
        self._add(MANIFEST, _json(asdict(manifest)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gzip.close()

    def add_file(self, key: str, data: bytes) -> None:
        self._add(FILES + key, data)

    def add_database_piece(self, data: bytes) -> None:
        self._database_pieces += 1
        self._add(f"{DATABASE}{self._database_pieces:08d}", data)

    def finish(self) -> None:
        self._add(CHECKSUM, _json(self._tally.shown()))
        self._tar.close()

    def _add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o600
        self._tar.addfile(entry, io.BytesIO(data))
        _forget_entries(self._tar)
        self._tally.add(name, data)


def verified(file: Path) -> Manifest:
    """Read a backup through to its end. `NotReady` when it is no backup, or not whole."""
    tally = _Tally()
    manifest: Manifest | None = None
    promised: object = None
    for name, data in _entries(file):
        if promised is not None:
            raise _damaged(file)
        if manifest is None:
            manifest = _manifest(file, name, data)
        if name == CHECKSUM:
            promised = _parsed(data)
        else:
            tally.add(name, data)
    if manifest is None or promised != tally.shown():
        raise _damaged(file)
    return manifest


def files_in(file: Path) -> Iterator[tuple[str, bytes]]:
    """The file store's keys and bytes."""
    for name, data in _entries(file):
        if name.startswith(FILES):
            yield name.removeprefix(FILES), data


def database_in(file: Path) -> Iterator[bytes]:
    """The database's dump, in pieces."""
    for name, data in _entries(file):
        if name.startswith(DATABASE):
            yield data


def _entries(file: Path) -> Iterator[tuple[str, bytes]]:
    is_first = True
    try:
        with gzip.open(file) as unzipped, tarfile.open(fileobj=unzipped, mode="r|") as tar:
            while (entry := tar.next()) is not None:
                if is_first and (entry.name != MANIFEST or entry.size > LONGEST_MANIFEST):
                    raise _foreign(file)
                is_first = False
                content = tar.extractfile(entry)
                yield entry.name, b"" if content is None else content.read()
                _forget_entries(tar)
            while unzipped.read(REST_BYTES):  # nothing but padding, up to the stream's own checksum
                pass
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        raise (_foreign(file) if is_first else _damaged(file)) from None
    except OSError as fault:
        raise NotReady(f"The backup {file} cannot be read: {fault.strerror}.") from None


def _forget_entries(tar: tarfile.TarFile) -> None:
    """Python keeps every entry's header for random access, which we never make: memory stays flat."""
    tar.members.clear()  # type: ignore[attr-defined]


def _manifest(file: Path, name: str, data: bytes) -> Manifest:
    fields = _parsed(data)
    if name != MANIFEST or not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise _foreign(file)
    try:
        return Manifest(**fields)
    except TypeError:
        raise _foreign(file) from None


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=1).encode()


def _foreign(file: Path) -> NotReady:
    return NotReady(f"{file} is not a backup that this release of Quillpost can read.")


def _damaged(file: Path) -> NotReady:
    return NotReady(f"The backup {file} is damaged or cut short: use another copy.")
