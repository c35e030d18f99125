"""Signatures after the Standard Webhooks convention: receivers can use any of its libraries."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

PREFIX = "whsec_"
VERSION = "v1"
TOLERANCE = timedelta(minutes=5)
SECRET_BYTES = range(24, 65)


def new_secret(randomness: bytes) -> str:
    if len(randomness) not in SECRET_BYTES:
        raise ValueError("A webhook secret is made of 24 to 64 random bytes.")
    return PREFIX + b64encode(randomness).decode("ascii")


def is_secret(text: str) -> bool:
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except ValueError:  # not base64, or not ASCII
        return False
    return text.startswith(PREFIX) and len(key) in SECRET_BYTES


def sign(secrets: Sequence[str], *, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers of one delivery, with a signature for each secret: a rotation loses nothing."""
    return sign_with([Signer(secret) for secret in secrets], message_id=message_id, at=at, body=body)


class Signer:
    """A secret made ready to sign, once for all that is signed with it."""

    def __init__(self, secret: str) -> None:
        self._begun = hmac.new(b64decode(secret.removeprefix(PREFIX)), digestmod=hashlib.sha256)

    def signature(self, message_id: str, stamp: str, body: bytes) -> str:
        signing = self._begun.copy()
        signing.update(f"{message_id}.{stamp}.".encode() + body)
        return b64encode(signing.digest()).decode("ascii")


def sign_with(signers: Sequence[Signer], *, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    if not signers:
        raise ValueError("A delivery is signed with at least one secret.")
    stamp = str(int(at.timestamp()))
    signatures = [f"{VERSION},{signer.signature(message_id, stamp, body)}" for signer in signers]
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": " ".join(signatures)}


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, *, now: datetime) -> bool:
    """Whether one of the secrets signed exactly this body, within five minutes of now."""
    given = {name.lower(): value for name, value in headers.items()}
    message_id, stamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not message_id or not _is_recent(stamp, now):
        return False
    offered = [
        signature.encode()
        for version, _, signature in (each.partition(",") for each in given.get("webhook-signature", "").split())
        if version == VERSION
    ]
    genuine = [Signer(secret).signature(message_id, stamp, body).encode() for secret in secrets]
    return any(hmac.compare_digest(ours, theirs) for ours in genuine for theirs in offered)


def _is_recent(stamp: str, now: datetime) -> bool:
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= len("253402300799")):
        return False
    return abs(now.timestamp() - int(stamp)) <= TOLERANCE.total_seconds()
