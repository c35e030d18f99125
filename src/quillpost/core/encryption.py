"""Secrets at rest: sealed with a key from outside the database, and bound to their own row."""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
FORMAT_VERSION = 1
NONCE_BYTES = 12
MAX_KEY_ID_LENGTH = 255
KEY_ID_BYTES = 5

LEGACY_KEY_ID: Final = "1"
"""The id that stood on everything while there was one key, whichever it was."""

ReloadKeys = Callable[[], Sequence[bytes] | None]
"""The keys, the current one first, if they were changed since this was last asked."""


class DecryptionFailed(Exception):
    """The bytes were changed, belong to another context, or need a key that we do not have."""


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
        """The first key seals. Each is known by its fingerprint."""
        return cls(_keys_by_id(keys), key_fingerprint(keys[0]), reload_keys=reload_keys)

    @property
    def current_key_id(self) -> str:
        """The id of the key that seals."""
        return self._current_key_ring().key_ids[0]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Of every key, the current one first."""
        return self._current_key_ring().key_ids

    @property
    def current_header(self) -> bytes:
        """What everything begins with that is sealed now."""
        return self._current_key_ring().header

    def encrypt(self, plaintext: bytes, *, context: str) -> bytes:
        # From the moment on at which a key is made the current one, no process seals with a former.
        key_ring = self._current_key_ring()
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = key_ring.ciphers[key_ring.header].encrypt(nonce, plaintext, key_ring.header + context.encode())
        return key_ring.header + nonce + ciphertext

    def decrypt(self, encrypted: bytes, *, context: str) -> bytes:
        """The plain bytes, or `DecryptionFailed`."""
        header, body = _split_header(encrypted)
        # A key that was made since, by another process. Forged bytes cost a look at the file's date.
        key_ring = self._key_ring if self._key_ring.find_ciphers(header) else self._current_key_ring()
        ciphers = key_ring.find_ciphers(header)
        if not ciphers:
            raise DecryptionFailed("Sealed with a key that is not configured here.")
        associated_data = header + context.encode()
        for cipher in ciphers:
            try:
                return cipher.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], associated_data)
            except (InvalidTag, ValueError):  # ValueError: too short to hold a nonce
                continue
        raise DecryptionFailed(f"The seal of {context} is broken.")

    def derive_keys(self, purpose: str) -> Sequence[bytes]:
        """A key for one other purpose, such as signing links, from every key that there is, the current one
        first: what a former one has signed is still good."""
        return self._current_key_ring().derive_keys(purpose)

    def _current_key_ring(self) -> "_KeyRing":
        """The keys as they are now. Of two threads that meet a change, the second waits for the first."""
        if self._reload_keys is not None:
            with self._reload_lock:
                keys = self._reload_keys()
                if keys is not None:
                    self._key_ring = _KeyRing(_keys_by_id(keys), key_fingerprint(keys[0]))
        return self._key_ring


class _KeyRing:
    """The keys at one moment."""

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
        self._ciphers_by_header = {header: [cipher] for header, cipher in self.ciphers.items()}
        self._ciphers_by_header.setdefault(_encode_header(LEGACY_KEY_ID), list(self.ciphers.values()))
        self._derived_keys: dict[str, Sequence[bytes]] = {}

    def find_ciphers(self, header: bytes) -> Sequence[AESGCM]:
        """Those that may open what begins so."""
        return self._ciphers_by_header.get(header, ())

    def derive_keys(self, purpose: str) -> Sequence[bytes]:
        derived_keys = self._derived_keys.get(purpose)
        if derived_keys is None:
            derived_keys = tuple(_derive_key(key, f"quillpost/derived/{purpose}") for key in self._keys)
            self._derived_keys[purpose] = derived_keys
        return derived_keys


def key_fingerprint(key: bytes) -> str:
    """A key's id. It tells nothing of the key."""
    return _derive_key(key, "quillpost/key id")[:KEY_ID_BYTES].hex()


def read_key_id(encrypted: bytes) -> str:
    """The id of the key that it was sealed with, as it says itself."""
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
