"""Browsers that somebody was let in with before: what they keep, to be told from strangers who guess.

It opens nothing. It only has attempts counted by themselves, so that whoever guesses at somebody's password
cannot shut them out. It is good for one e-mail of one person, until the password changes, and for a year.
"""

import hmac
import secrets
from datetime import datetime, timedelta

from quillpost.kit import tokens
from quillpost.kit.sealing import Sealer

LASTS = timedelta(days=365)
NONCE_BYTES = 12
ID_BYTES, DAY_BYTES, MAC_BYTES = 8, 4, 32
HEAD_BYTES = ID_BYTES + DAY_BYTES + NONCE_BYTES


def remember(
    sealer: Sealer, person_id: int, email: str, *, password_changed_at: datetime | None, now: datetime
) -> str:
    """What the browser keeps from now on."""
    day = (now + LASTS).date().toordinal()
    head = person_id.to_bytes(ID_BYTES) + day.to_bytes(DAY_BYTES) + secrets.token_bytes(NONCE_BYTES)
    return tokens.mint("known", head + _macs(sealer, head, email, password_changed_at)[0])


def identity(
    sealer: Sealer,
    known: str | None,
    person_id: int,
    email: str,
    *,
    password_changed_at: datetime | None,
    now: datetime,
) -> str | None:
    """Which of the person's known browsers it is; none of them, if it was not made for them, or is over."""
    if known is None or not tokens.is_of_kind(known, "known"):
        return None
    kept = tokens.randomness_of(known, HEAD_BYTES + MAC_BYTES)
    if kept is None:
        return None
    head, mac = kept[:HEAD_BYTES], kept[HEAD_BYTES:]
    is_ours = any(hmac.compare_digest(mac, ours) for ours in _macs(sealer, head, email, password_changed_at))
    day = int.from_bytes(head[ID_BYTES : ID_BYTES + DAY_BYTES])
    if not is_ours or int.from_bytes(head[:ID_BYTES]) != person_id or day < now.date().toordinal():
        return None
    return head[-NONCE_BYTES:].hex()


def _macs(sealer: Sealer, head: bytes, email: str, password_changed_at: datetime | None) -> list[bytes]:
    """By the current key, and by the former ones: a browser stays known when the key is changed."""
    changed = "" if password_changed_at is None else f"{password_changed_at.timestamp():.6f}"
    bound = head + f"{changed}|{email}".encode()
    return [hmac.digest(key, bound, "sha256") for key in sealer.derive_all("known browsers")]
