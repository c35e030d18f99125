"""Links to files that open without a token: whoever holds the link may read, until it expires."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime

EXPIRY_BYTES = 5
MAC_BYTES = 16


class LinkSigner:
    """A token is URL-safe base64 of `mac | expiry in Unix seconds | file id`.

    The first of the keys signs. What another has signed is good as long as that key is there.
    """

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._keys = keys

    def sign(self, file_id: str, *, expires: datetime) -> str:
        claim = int(expires.timestamp()).to_bytes(EXPIRY_BYTES) + file_id.encode()
        return _token(self._keys()[0], claim)

    def read(self, token: str, *, now: datetime | None) -> str | None:
        """The file's id, or None when the token is forged or expired; `now` None: only when it is forged."""
        try:
            claim = urlsafe_b64decode(token + "=" * (-len(token) % 4))[MAC_BYTES:]
            # Comparing the texts refuses other spellings of the same bytes too.
            if not any(hmac.compare_digest(_token(key, claim), token) for key in self._keys()):
                return None
        except ValueError:  # not base64
            return None
        is_over = now is not None and now.timestamp() >= int.from_bytes(claim[:EXPIRY_BYTES])
        return None if is_over else claim[EXPIRY_BYTES:].decode()


def _token(key: bytes, claim: bytes) -> str:
    mac = hmac.digest(key, claim, hashlib.sha256)[:MAC_BYTES]
    return urlsafe_b64encode(mac + claim).rstrip(b"=").decode("ascii")
