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

from quillpost.core.encryption import KEY_BYTES, fingerprint
from quillpost.core.errors import NotReady
from quillpost.core.files import drafted, sync_file, sync_folder
from quillpost.core.locks import Turn

log = structlog.get_logger(__name__)

FOR_THE_OWNER = 0o600

Seen = tuple[int, int, int]


class KeyFile:
    """It remembers what it has read, to tell whether the file was changed since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: Seen | None = None
        self._keys: Sequence[bytes] = ()
        self._saved: Sequence[bytes] = ()

    def make(self) -> None:
        """A first key, where there is no file. Of processes that start at once, all get the same."""
        try:
            if not self.path.exists():
                _create(self.path)
        except OSError as fault:
            raise self._unusable(fault) from fault

    def read(self) -> Sequence[bytes]:
        """Every key, the current one first."""
        try:
            return self._read(_look(self.path))
        except OSError as fault:
            raise self._unusable(fault) from fault
        except ValueError:
            raise NotReady(
                f"The key file {self.path} must hold {KEY_BYTES} bytes as hexadecimal digits on each line."
            ) from None

    def renewed(self) -> Sequence[bytes] | None:
        """The keys, if they were changed since they were last read. A file that is gone or spoiled changes
        nothing for a process that has its keys, and is looked at again the next time.

        A file without the key that was the current one here is another file, or was changed more than once
        since: we may have the last copy of that key, and go on opening with it.
        """
        before = self._keys
        try:
            seen = _look(self.path)
            if seen == self._seen:
                return None
            keys = self._read(seen)
        except (OSError, ValueError):
            return None
        if before and before[0] not in keys:
            log.error("keys.replaced", file=str(self.path), kept_until_the_end=fingerprint(before[0]))
            self._saved = [*self._saved, *before]
        return list(dict.fromkeys([*keys, *self._saved]))

    @property
    def changed_at(self) -> datetime:
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    @property
    def is_open_to_others(self) -> bool:
        return stat.S_IMODE(self.path.stat().st_mode) != FOR_THE_OWNER

    def add(self) -> str:
        """A new key, which is the current one from now on; its id."""
        key = secrets.token_bytes(KEY_BYTES)
        self._change(lambda keys: [key, *keys])
        return fingerprint(key)

    def forget(self, key_id: str) -> None:
        """The key with this id is gone, unless it is the current one."""
        self._change(lambda keys: [keys[0], *(key for key in keys[1:] if fingerprint(key) != key_id)])

    def _read(self, seen: Seen) -> Sequence[bytes]:
        keys = read_keys(self.path.read_text(encoding="ascii"))
        self._seen, self._keys = seen, keys  # only now: what could not be read was not seen
        return keys

    def _unusable(self, fault: OSError) -> NotReady:
        return NotReady(f"The key file {self.path} cannot be used: {fault.strerror}.")

    def _change(self, change: Callable[[Sequence[bytes]], Sequence[bytes]]) -> None:
        turn = Turn(self.path.with_name(f"{self.path.name}.lock"))
        try:
            turn.take()
            keys = change(self.read())
            with _draft(self.path, keys) as draft:
                draft.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as fault:
            raise NotReady(f"The key file {self.path} cannot be changed: {fault.strerror}.") from fault
        finally:
            turn.end()


def read_keys(text: str) -> Sequence[bytes]:
    """A key from each line; ValueError if one is none, or if there are none."""
    keys = [bytes.fromhex(line) for line in text.splitlines() if line.strip()]
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError
    return list(dict.fromkeys(keys))


def written_keys(keys: Iterable[bytes]) -> str:
    """Each key once, on a line of its own."""
    return "".join(f"{key.hex()}\n" for key in dict.fromkeys(keys))


def _look(path: Path) -> Seen:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _create(path: Path) -> None:
    """Write the whole file beside the path, then link it there: a link never replaces a file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        _draft(path, [secrets.token_bytes(KEY_BYTES)]) as draft,
        contextlib.suppress(FileExistsError),  # the other process was first: its key counts
    ):
        path.hardlink_to(draft)
    # Losing a key that has sealed something is losing the secret.
    sync_folder(path.parent)


@contextmanager
def _draft(path: Path, keys: Iterable[bytes]) -> Iterator[Path]:
    """A file beside the path with these keys; gone in the end."""
    with drafted(path) as (draft, file):
        file.write(written_keys(keys).encode("ascii"))
        sync_file(file)
        yield draft
