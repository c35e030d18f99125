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
MANIFEST_NAME, CHECKSUM_NAME = "manifest.json", "checksum.json"
FILES_PREFIX, DATABASE_PREFIX = "files/", "database/"
MAX_MANIFEST_BYTES = 1_000_000
PADDING_CHUNK_BYTES = 100_000

# Print files and pictures are compressed already: more effort would gain little.
COMPRESSION_LEVEL = 1


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """`key_check` tells whether secret keys are the right ones, the current one first, and nothing else of them."""

    release: str
    schema: str
    taken_at: str
    key_check: str
    counts: Mapping[str, int]
    format: str = FORMAT


class _EntryChecksum:
    """Covers names and sizes too."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.entries = 0

    def add(self, name: str, data: bytes) -> None:
        self._digest.update(f"{name}\n{len(data)}\n".encode())
        self._digest.update(data)
        self.entries += 1

    def to_json(self) -> dict[str, object]:
        return {"entries": self.entries, "sha256": self._digest.hexdigest()}


class ArchiveWriter:
    """`finish` makes it a whole backup."""

    def __init__(self, out: BinaryIO, manifest: BackupManifest) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=COMPRESSION_LEVEL, fileobj=out, mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._checksum = _EntryChecksum()
        self._database_chunks = 0
        self._add(MANIFEST_NAME, _dump_json(asdict(manifest)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gzip.close()

    def add_file(self, key: str, data: bytes) -> None:
        self._add(FILES_PREFIX + key, data)

    def add_database_chunk(self, data: bytes) -> None:
        self._database_chunks += 1
        self._add(f"{DATABASE_PREFIX}{self._database_chunks:08d}", data)

    def finish(self) -> None:
        self._add(CHECKSUM_NAME, _dump_json(self._checksum.to_json()))
        self._tar.close()

    def _add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o600
        self._tar.addfile(entry, io.BytesIO(data))
        _clear_entries(self._tar)
        self._checksum.add(name, data)


def verify_backup(file: Path) -> BackupManifest:
    """Reads all of it. `NotReady` when it is no backup, or not whole."""
    checksum = _EntryChecksum()
    manifest: BackupManifest | None = None
    expected_checksum: object = None
    for name, data in _read_entries(file):
        if expected_checksum is not None:
            raise _damaged_error(file)
        if manifest is None:
            manifest = _parse_manifest(file, name, data)
        if name == CHECKSUM_NAME:
            expected_checksum = _parse_json(data)
        else:
            checksum.add(name, data)
    if manifest is None or expected_checksum != checksum.to_json():
        raise _damaged_error(file)
    return manifest


def read_files(file: Path) -> Iterator[tuple[str, bytes]]:
    for name, data in _read_entries(file):
        if name.startswith(FILES_PREFIX):
            yield name.removeprefix(FILES_PREFIX), data


def read_database_dump(file: Path) -> Iterator[bytes]:
    for name, data in _read_entries(file):
        if name.startswith(DATABASE_PREFIX):
            yield data


def _read_entries(file: Path) -> Iterator[tuple[str, bytes]]:
    is_first = True
    try:
        with gzip.open(file) as unzipped, tarfile.open(fileobj=unzipped, mode="r|") as tar:
            while (entry := tar.next()) is not None:
                if is_first and (entry.name != MANIFEST_NAME or entry.size > MAX_MANIFEST_BYTES):
                    raise _foreign_error(file)
                is_first = False
                content = tar.extractfile(entry)
                yield entry.name, b"" if content is None else content.read()
                _clear_entries(tar)
            while unzipped.read(PADDING_CHUNK_BYTES):  # nothing but padding, up to the stream's own checksum
                pass
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        raise (_foreign_error(file) if is_first else _damaged_error(file)) from None
    except OSError as error:
        raise NotReady(f"The backup {file} cannot be read: {error.strerror}.") from None


def _clear_entries(tar: tarfile.TarFile) -> None:
    """Python keeps every entry's header for random access, which we never use."""
    tar.members.clear()  # type: ignore[attr-defined]


def _parse_manifest(file: Path, name: str, data: bytes) -> BackupManifest:
    fields = _parse_json(data)
    if name != MANIFEST_NAME or not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise _foreign_error(file)
    try:
        return BackupManifest(**fields)
    except TypeError:
        raise _foreign_error(file) from None


def _parse_json(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _dump_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=1).encode()


def _foreign_error(file: Path) -> NotReady:
    return NotReady(f"{file} is not a backup that this release of Quillpost can read.")


def _damaged_error(file: Path) -> NotReady:
    return NotReady(f"The backup {file} is damaged or cut short: use another copy.")
