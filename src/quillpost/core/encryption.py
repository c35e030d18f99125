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
FORMAT = 1
NONCE_BYTES = 12
LONGEST_KEY_ID = 255
ID_BYTES = 5

NAMELESS: Final = "1"
"""The id that stood on everything while there was one key, whichever it was."""

Renewed = Callable[[], Sequence[bytes] | None]
"""The keys, the current one first, if they were changed since this was last asked."""


class SealBroken(Exception):
    """The bytes were changed, belong to another context, or need a key that we do not have."""


class Sealer:
    """AES-256-GCM under named keys: the current one seals, every one of them opens.

    Sealed bytes are `format | key id length | key id | nonce | ciphertext and tag`. The context
    (such as `webhooks:7:secret`) is not stored: it is authenticated together with the header, so
    a secret that is copied into another row, or relabelled with another key, does not open.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str, *, renewed: Renewed | None = None) -> None:
        self._ring = _Ring(keys, current)
        self._renewed = renewed
        self._one_at_a_time = threading.Lock()

    @classmethod
    def of(cls, keys: Sequence[bytes], *, renewed: Renewed | None = None) -> Self:
        """The first key seals. Each is known by its fingerprint."""
        return cls(_named(keys), fingerprint(keys[0]), renewed=renewed)

    @property
    def current(self) -> str:
        """The id of the key that seals."""
        return self._present().ids[0]

    @property
    def ids(self) -> tuple[str, ...]:
        """Of every key, the current one first."""
        return self._present().ids

    @property
    def mark(self) -> bytes:
        """What everything begins with that is sealed now."""
        return self._present().header

    def seal(self, plain: bytes, *, context: str) -> bytes:
        # From the moment on at which a key is made the current one, no process seals with a former.
        ring = self._present()
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = ring.ciphers[ring.header].encrypt(nonce, plain, ring.header + context.encode())
        return ring.header + nonce + sealed

    def open(self, sealed: bytes, *, context: str) -> bytes:
        """The plain bytes, or `SealBroken`."""
        header, rest = _parted(sealed)
        # A key that was made since, by another process. Forged bytes cost a look at the file's date.
        ring = self._ring if self._ring.fitting(header) else self._present()
        ciphers = ring.fitting(header)
        if not ciphers:
            raise SealBroken("Sealed with a key that is not configured here.")
        bound = header + context.encode()
        for cipher in ciphers:
            try:
                return cipher.decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], bound)
            except (InvalidTag, ValueError):  # ValueError: too short to hold a nonce
                continue
        raise SealBroken(f"The seal of {context} is broken.")

    def derive_all(self, purpose: str) -> Sequence[bytes]:
        """A key for one other purpose, such as signing links, from every key that there is, the current one
        first: what a former one has signed is still good."""
        return self._present().derived(purpose)

    def _present(self) -> "_Ring":
        """The keys as they are now. Of two threads that meet a change, the second waits for the first."""
        if self._renewed is not None:
            with self._one_at_a_time:
                keys = self._renewed()
                if keys is not None:
                    self._ring = _Ring(_named(keys), fingerprint(keys[0]))
        return self._ring


class _Ring:
    """The keys at one moment."""

    def __init__(self, keys: Mapping[str, bytes], current: str) -> None:
        if current not in keys:
            raise ValueError(f"The current key {current!r} is not among the keys.")
        for key_id, key in keys.items():
            if len(key) != KEY_BYTES:
                raise ValueError(f"Key {key_id!r} has {len(key)} bytes instead of {KEY_BYTES}.")
        self.ids = (current, *(key_id for key_id in keys if key_id != current))
        self.header = _header(current)
        self._keys = [keys[key_id] for key_id in self.ids]
        # A key is only ever an input to derivation, so that no use of it can weaken another.
        self.ciphers = {_header(name): AESGCM(_derived(keys[name], "quillpost/seal")) for name in self.ids}
        self._fitting = {header: [cipher] for header, cipher in self.ciphers.items()}
        self._fitting.setdefault(_header(NAMELESS), list(self.ciphers.values()))
        self._derivations: dict[str, Sequence[bytes]] = {}

    def fitting(self, header: bytes) -> Sequence[AESGCM]:
        """Those that may open what begins so."""
        return self._fitting.get(header, ())

    def derived(self, purpose: str) -> Sequence[bytes]:
        known = self._derivations.get(purpose)
        if known is None:
            known = tuple(_derived(key, f"quillpost/derived/{purpose}") for key in self._keys)
            self._derivations[purpose] = known
        return known


def fingerprint(key: bytes) -> str:
    """A key's id. It tells nothing of the key."""
    return _derived(key, "quillpost/key id")[:ID_BYTES].hex()


def key_named_in(sealed: bytes) -> str:
    """The id of the key that it was sealed with, as it says itself."""
    return _parted(sealed)[0][2:].decode("ascii", "replace")


def _named(keys: Sequence[bytes]) -> dict[str, bytes]:
    return {fingerprint(key): key for key in keys}


def _parted(sealed: bytes) -> tuple[bytes, bytes]:
    header_length = 2 + sealed[1] if len(sealed) > 1 else 2
    return sealed[:header_length], sealed[header_length:]


def _header(key_id: str) -> bytes:
    name = key_id.encode()
    if not 1 <= len(name) <= LONGEST_KEY_ID:
        raise ValueError(f"A key id has 1 to {LONGEST_KEY_ID} bytes.")
    return bytes((FORMAT, len(name))) + name


def _derived(key: bytes, info: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info.encode()).derive(key)
