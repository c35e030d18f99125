"""Secrets at rest: sealed with a key from outside the database, and bound to their own row."""

import contextlib
import secrets
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from quillpost.core.errors import NotReady
from quillpost.core.filesystem import FileLock, open_temporary_file, sync_file, sync_folder

log = structlog.get_logger(__name__)

KEY_BYTES = 32
FORMAT_VERSION = 1
NONCE_BYTES = 12
MAX_KEY_ID_LENGTH = 255
KEY_ID_BYTES = 5


ReloadKeys = Callable[[], Sequence[bytes] | None]
"""The keys, the current one first, if they were changed since the last call."""


class DecryptionFailed(Exception):
    """The bytes were changed, belong to another context, or need a key that is not configured."""


class Encryptor:
    """AES-256-GCM under named keys: the current one seals, every one of them opens.

    Sealed bytes are `format | key id length | key id | nonce | ciphertext and tag`. The context
    (such as `webhooks:7:secret`) is not stored: it is authenticated together with the header, so
    a secret that is copied into another row, or relabelled with another key, does not open.
    """

    def __init__(
        self, keys: Mapping[str, bytes], current_key_id: str, *, reload_keys: ReloadKeys | None = None
    ) -> None:
        self._key_ring = _KeyRing(keys, current_key_id)
        self._reload_keys = reload_keys
        self._reload_lock = threading.Lock()

    @classmethod
    def from_keys(cls, keys: Sequence[bytes], *, reload_keys: ReloadKeys | None = None) -> Self:
        """The first key encrypts."""
        return cls(_keys_by_id(keys), key_fingerprint(keys[0]), reload_keys=reload_keys)

    @property
    def current_key_id(self) -> str:
        return self._current_key_ring().key_ids[0]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The current key first."""
        return self._current_key_ring().key_ids

    @property
    def current_header(self) -> bytes:
        """How everything begins that is encrypted now."""
        return self._current_key_ring().header

    def encrypt(self, plaintext: bytes, *, context: str) -> bytes:
        # From the moment on at which a key is made the current one, no process seals with a former.
        key_ring = self._current_key_ring()
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = key_ring.ciphers[key_ring.header].encrypt(nonce, plaintext, key_ring.header + context.encode())
        return key_ring.header + nonce + ciphertext

    def decrypt(self, encrypted: bytes, *, context: str) -> bytes:
        """Raises `DecryptionFailed`."""
        header, body = _split_header(encrypted)
        # A key that was made since, by another process. Forged bytes cost a look at the file's date.
        cipher = self._key_ring.ciphers.get(header) or self._current_key_ring().ciphers.get(header)
        if cipher is None:
            raise DecryptionFailed("Sealed with a key that is not configured here.")
        try:
            return cipher.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], header + context.encode())
        except (InvalidTag, ValueError):  # ValueError: too short to hold a nonce
            raise DecryptionFailed(f"The seal of {context} is broken.") from None

    def derive_keys(self, purpose: str) -> Sequence[bytes]:
        """Keys for another purpose, such as signing links, one from each key, the current one first: what an older key
        has signed stays valid."""
        return self._current_key_ring().derive_keys(purpose)

    def _current_key_ring(self) -> "_KeyRing":
        """Of two threads that meet a change, the second waits for the first."""
        if self._reload_keys is not None:
            with self._reload_lock:
                keys = self._reload_keys()
                if keys is not None:
                    self._key_ring = _KeyRing(_keys_by_id(keys), key_fingerprint(keys[0]))
        return self._key_ring


class _KeyRing:
    def __init__(self, keys: Mapping[str, bytes], current_key_id: str) -> None:
        if current_key_id not in keys:
            raise ValueError(f"The current key {current_key_id!r} is not among the keys.")
        for key_id, key in keys.items():
            if len(key) != KEY_BYTES:
                raise ValueError(f"Key {key_id!r} has {len(key)} bytes instead of {KEY_BYTES}.")
        self.key_ids = (current_key_id, *(key_id for key_id in keys if key_id != current_key_id))
        self.header = _encode_header(current_key_id)
        self._keys = [keys[key_id] for key_id in self.key_ids]
        # A key is only ever an input to derivation, so that no use of it can weaken another.
        self.ciphers = {
            _encode_header(name): AESGCM(_derive_key(keys[name], "quillpost/seal")) for name in self.key_ids
        }
        self._derived_keys: dict[str, Sequence[bytes]] = {}

    def derive_keys(self, purpose: str) -> Sequence[bytes]:
        derived_keys = self._derived_keys.get(purpose)
        if derived_keys is None:
            derived_keys = tuple(_derive_key(key, f"quillpost/derived/{purpose}") for key in self._keys)
            self._derived_keys[purpose] = derived_keys
        return derived_keys


def key_fingerprint(key: bytes) -> str:
    """A key's id, which reveals nothing of the key."""
    return _derive_key(key, "quillpost/key id")[:KEY_ID_BYTES].hex()


def read_key_id(encrypted: bytes) -> str:
    return _split_header(encrypted)[0][2:].decode("ascii", "replace")


def _keys_by_id(keys: Sequence[bytes]) -> dict[str, bytes]:
    return {key_fingerprint(key): key for key in keys}


def _split_header(encrypted: bytes) -> tuple[bytes, bytes]:
    header_length = 2 + encrypted[1] if len(encrypted) > 1 else 2
    return encrypted[:header_length], encrypted[header_length:]


def _encode_header(key_id: str) -> bytes:
    encoded_id = key_id.encode()
    if not 1 <= len(encoded_id) <= MAX_KEY_ID_LENGTH:
        raise ValueError(f"A key id has 1 to {MAX_KEY_ID_LENGTH} bytes.")
    return bytes((FORMAT_VERSION, len(encoded_id))) + encoded_id


def _derive_key(key: bytes, info: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info.encode()).derive(key)


OWNER_ONLY_MODE = 0o600

FileVersion = tuple[int, int, int]


class KeyFile:
    """Keys, one a line: the first encrypts, all decrypt. A change replaces the whole file, so a reader sees the old or
    the new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version: FileVersion | None = None
        self._keys: Sequence[bytes] = ()
        self._retained_keys: Sequence[bytes] = ()

    def create_if_missing(self) -> None:
        """Of processes that start at once, all get the same key."""
        try:
            if not self.path.exists():
                _create_key_file(self.path)
        except OSError as error:
            raise self._unusable_error(error) from error

    def read_keys(self) -> Sequence[bytes]:
        """The current key first."""
        try:
            return self._read_keys(_read_file_version(self.path))
        except OSError as error:
            raise self._unusable_error(error) from error
        except ValueError:
            raise NotReady(
                f"The key file {self.path} must hold {KEY_BYTES} bytes as hexadecimal digits on each line."
            ) from None

    def reload_if_changed(self) -> Sequence[bytes] | None:
        """None if the file has not changed. A file that is gone or spoiled changes nothing, and is read again the next
        time. A file without the key that was current here is another file, or was changed more than once: we may have
        the last copy of that key, and keep it for decryption."""
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
        """Make a new key the current one; its id."""
        key = secrets.token_bytes(KEY_BYTES)
        self._rewrite(lambda keys: [key, *keys])
        return key_fingerprint(key)

    def delete_key(self, key_id: str) -> None:
        """The current key stays."""
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
    """Raises ValueError."""
    keys = [bytes.fromhex(line) for line in text.splitlines() if line.strip()]
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError
    return list(dict.fromkeys(keys))


def format_keys(keys: Iterable[bytes]) -> str:
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
    with open_temporary_file(path) as (temporary_path, file):
        file.write(format_keys(keys).encode("ascii"))
        sync_file(file)
        yield temporary_path
