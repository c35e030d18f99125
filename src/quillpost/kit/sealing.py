"""Secrets at rest: sealed with a key from outside the database, and bound to their own row."""

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from quillpost.kit.disks import sync_folder
from quillpost.kit.errors import NotReady

KEY_BYTES = 32
FORMAT = 1
NONCE_BYTES = 12
LONGEST_KEY_ID = 255


class SealBroken(Exception):
    """The bytes were changed, belong to another context, or need a key that we do not have."""


class Sealer:
    """AES-256-GCM under named keys: the current one seals, every one of them opens.

    Sealed bytes are `format | key id length | key id | nonce | ciphertext and tag`. The context
    (such as `webhooks:7:secret`) is not stored: it is authenticated together with the header, so
    a secret that is copied into another row, or relabelled with another key, does not open.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str) -> None:
        if current not in keys:
            raise ValueError(f"The current key {current!r} is not among the keys.")
        for key_id, key in keys.items():
            if len(key) != KEY_BYTES:
                raise ValueError(f"Key {key_id!r} has {len(key)} bytes instead of {KEY_BYTES}.")
        self._header = _header(current)
        self._current = keys[current]
        # A key is only ever an input to derivation, so that no use of it can weaken another.
        self._ciphers = {
            _header(key_id): AESGCM(_derived(key, "quillpost/seal")) for key_id, key in keys.items()
        }

    def seal(self, plain: bytes, *, context: str) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        bound = self._header + context.encode()
        return self._header + nonce + self._ciphers[self._header].encrypt(nonce, plain, bound)

    def open(self, sealed: bytes, *, context: str) -> bytes:
        """The plain bytes, or `SealBroken`."""
        header_length = 2 + sealed[1] if len(sealed) > 1 else 2
        header, rest = sealed[:header_length], sealed[header_length:]
        cipher = self._ciphers.get(header)
        if cipher is None:
            raise SealBroken("Sealed with a key that is not configured here.")
        try:
            return cipher.decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], header + context.encode())
        except (InvalidTag, ValueError) as broken:  # ValueError: too short to hold a nonce
            raise SealBroken(f"The seal of {context} is broken.") from broken

    def derive(self, purpose: str) -> bytes:
        """A key for one other purpose, such as signing links; it changes with the current key."""
        return _derived(self._current, f"quillpost/derived/{purpose}")


def load_or_create_key(path: Path) -> bytes:
    """The key in the file, made on first use. Of two processes that start at once, both get one."""
    try:
        if not path.exists():
            _create_key(path)
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except OSError as fault:
        raise NotReady(f"The key file {path} cannot be used: {fault.strerror}.") from fault
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise NotReady(f"The key file {path} must hold {KEY_BYTES} bytes as hexadecimal digits.")
    return key


def _create_key(path: Path) -> None:
    """Write the whole file beside the path, then link it there: a link never replaces a file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(KEY_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # the other process was first: its key counts
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    # Losing a key that has sealed something is losing the secret.
    sync_folder(path.parent)


def _header(key_id: str) -> bytes:
    name = key_id.encode()
    if not 1 <= len(name) <= LONGEST_KEY_ID:
        raise ValueError(f"A key id has 1 to {LONGEST_KEY_ID} bytes.")
    return bytes((FORMAT, len(name))) + name


def _derived(key: bytes, info: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info.encode()).derive(key)
