"""Links to files that open without a token: whoever holds the link may read, until it expires."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime

EXPIRY_BYTES = 5
MAC_BYTES = 16


class LinkSigner:
    """A token is URL-safe base64 of `mac | expiry in Unix seconds | file id`."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, file_id: str, *, expires: datetime) -> str:
        return self._token(int(expires.timestamp()).to_bytes(EXPIRY_BYTES) + file_id.encode())

    def read(self, token: str, *, now: datetime) -> str | None:
        """The file's id, or None when the token is forged or expired."""
        try:
            claim = urlsafe_b64decode(token + "=" * (-len(token) % 4))[MAC_BYTES:]
            genuine = self._token(claim)
            # Comparing the texts refuses other spellings of the same bytes too.
            if not hmac.compare_digest(genuine, token):
                return None
        except ValueError:  # not base64
            return None
        expires = int.from_bytes(claim[:EXPIRY_BYTES])
        return claim[EXPIRY_BYTES:].decode() if now.timestamp() < expires else None

    def _token(self, claim: bytes) -> str:
        mac = hmac.digest(self._key, claim, hashlib.sha256)[:MAC_BYTES]
        return urlsafe_b64encode(mac + claim).rstrip(b"=").decode("ascii")
