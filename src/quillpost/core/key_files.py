"""The file with the keys that seal secrets: one on each line, the first seals, every one opens.

A change is a whole new file in the place of the old: whoever reads it meanwhile sees the one or the other.
"""

import contextlib
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import structlog

from quillpost.core.encryption import KEY_BYTES, key_fingerprint
from quillpost.core.errors import NotReady
from quillpost.core.files import open_temporary_file, sync_file, sync_folder
from quillpost.core.locks import FileLock

log = structlog.get_logger(__name__)

OWNER_ONLY_MODE = 0o600

FileVersion = tuple[int, int, int]


class KeyFile:
    """It remembers what it has read, to tell whether the file was changed since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version: FileVersion | None = None
        self._keys: Sequence[bytes] = ()
        self._retained_keys: Sequence[bytes] = ()

    def create_if_missing(self) -> None:
        """A first key, where there is no file. Of processes that start at once, all get the same."""
        try:
            if not self.path.exists():
                _create_key_file(self.path)
        except OSError as error:
            raise self._unusable_error(error) from error

    def read_keys(self) -> Sequence[bytes]:
        """Every key, the current one first."""
        try:
            return self._read_keys(_read_file_version(self.path))
        except OSError as error:
            raise self._unusable_error(error) from error
        except ValueError:
            raise NotReady(
                f"The key file {self.path} must hold {KEY_BYTES} bytes as hexadecimal digits on each line."
            ) from None

    def reload_if_changed(self) -> Sequence[bytes] | None:
        """The keys, if they were changed since they were last read. A file that is gone or spoiled changes
        nothing for a process that has its keys, and is looked at again the next time.

        A file without the key that was the current one here is another file, or was changed more than once
        since: we may have the last copy of that key, and go on opening with it.
        """
        previous_keys = self._keys
        try:
            version = _read_file_version(self.path)
            if version == self._version:
                return None
            keys = self._read_keys(version)
        except (OSError, ValueError):
            return None
        if previous_keys and previous_keys[0] not in keys:
            log.error("keys.replaced", file=str(self.path), retained_key=key_fingerprint(previous_keys[0]))
            self._retained_keys = [*self._retained_keys, *previous_keys]
        return list(dict.fromkeys([*keys, *self._retained_keys]))

    @property
    def changed_at(self) -> datetime:
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    @property
    def is_accessible_to_others(self) -> bool:
        return stat.S_IMODE(self.path.stat().st_mode) != OWNER_ONLY_MODE

    def add_key(self) -> str:
        """A new key, which is the current one from now on; its id."""
        key = secrets.token_bytes(KEY_BYTES)
        self._rewrite(lambda keys: [key, *keys])
        return key_fingerprint(key)

    def delete_key(self, key_id: str) -> None:
        """The key with this id is gone, unless it is the current one."""
        self._rewrite(lambda keys: [keys[0], *(key for key in keys[1:] if key_fingerprint(key) != key_id)])

    def _read_keys(self, version: FileVersion) -> Sequence[bytes]:
        keys = parse_keys(self.path.read_text(encoding="ascii"))
        self._version, self._keys = version, keys  # only now: what could not be read was not seen
        return keys

    def _unusable_error(self, error: OSError) -> NotReady:
        return NotReady(f"The key file {self.path} cannot be used: {error.strerror}.")

    def _rewrite(self, change: Callable[[Sequence[bytes]], Sequence[bytes]]) -> None:
        lock = FileLock(self.path.with_name(f"{self.path.name}.lock"))
        try:
            lock.acquire()
            keys = change(self.read_keys())
            with _temporary_key_file(self.path, keys) as temporary_path:
                temporary_path.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            raise NotReady(f"The key file {self.path} cannot be changed: {error.strerror}.") from error
        finally:
            lock.release()


def parse_keys(text: str) -> Sequence[bytes]:
    """A key from each line; ValueError if one is none, or if there are none."""
    keys = [bytes.fromhex(line) for line in text.splitlines() if line.strip()]
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError
    return list(dict.fromkeys(keys))


def format_keys(keys: Iterable[bytes]) -> str:
    """Each key once, on a line of its own."""
    return "".join(f"{key.hex()}\n" for key in dict.fromkeys(keys))


def _read_file_version(path: Path) -> FileVersion:
    file_stat = path.stat()
    return file_stat.st_ino, file_stat.st_mtime_ns, file_stat.st_size


def _create_key_file(path: Path) -> None:
    """Write the whole file beside the path, then link it there: a link never replaces a file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        _temporary_key_file(path, [secrets.token_bytes(KEY_BYTES)]) as temporary_path,
        contextlib.suppress(FileExistsError),  # the other process was first: its key counts
    ):
        path.hardlink_to(temporary_path)
    # Losing a key that has sealed something is losing the secret.
    sync_folder(path.parent)


@contextmanager
def _temporary_key_file(path: Path, keys: Iterable[bytes]) -> Iterator[Path]:
    """A file beside the path with these keys; gone in the end."""
    with open_temporary_file(path) as (temporary_path, file):
        file.write(format_keys(keys).encode("ascii"))
        sync_file(file)
        yield temporary_path
