"""Tokens, short codes and signed links: how they look, never where they are stored.

A token is `qp_test_` or `qp_live_`, its random part in base 62, and a checksum over all of that. Others are
made alike: `qp_refresh_`, say. The prefix lets secret scanners find one that leaked, and lets us hide it
where it does not belong; the checksum keeps garbage off the database.
"""

import hashlib
import hmac
import re
import string
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, get_args

Mode = Literal["test", "live"]
Kind = Literal[
    "test", "live", "refresh", "code", "secret", "session", "visitor", "known", "invitation", "reset"
]
"""What a secret is for: a token in its mode; an app's refresh token, code or client secret; a browser's
cookies; the links by which somebody joins, or sets another password."""

TOKEN_BYTES = range(24, 65)
LEAST_CODE_BYTES = 16
SHORT_CODE_LENGTH = 8

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
# Nothing that reads as something else when a person copies it from paper.
UNAMBIGUOUS = "".join(letter for letter in BASE62 if letter not in "0O1Il")

SPECIMEN_CODE = "PREVIEW0"
"""The code on every preview. No piece can have it: two of its letters are in no code that is made."""

CHECKSUM_LENGTH = 6  # 62 ** 6 > 2 ** 32
PATTERN = re.compile(
    rf"(?P<checked>qp_(?P<kind>{'|'.join(get_args(Kind))})_[0-9A-Za-z]{{33,86}})"  # 24 to 64 bytes in base 62
    rf"(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)
HINT_LENGTH = 4
# Whatever begins as a secret is hidden as one, mistyped or cut off though it may be.
SECRET = re.compile(rf"(qp_(?:{'|'.join(get_args(Kind))})_)[0-9A-Za-z]{{8,}}")
HIDDEN = r"\1[hidden]"

TIMED = "01"
"""How ids begin that others make of the present time (ULIDs), from 2004 to 2039. They look as claims do, but
no claim of a gift card begins so: callers' ids stay readable."""

# What may stand between two letters of a claim that somebody wrote: hyphens of any kind, blanks, line ends,
# as they are or as JSON and addresses write them.
APART = r"(?:\s/\s|[\s+\u2010-\u2015\u2212-]|\\[nrt]|%(?:20|2[Dd]|0[AaDd]))"
BEFORE = r"(?:(?<![0-9A-Za-z])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
GROUP = rf"{APART}{{1,3}}[0-9A-Za-z]"

# In the link on a piece it may be mistyped or cut off; elsewhere it is hidden where it is whole, as it is or
# in the groups that are printed. The letters are those that a person may type: see orders/giftcards/rules.py.
CLAIM = re.compile(
    r"(?:(?<=/gift/)|(?<=%2[Ff]gift%2[Ff]))(?:[0-7][0-9A-Za-z%-]{7,}|[0-9A-Za-z%-]{26,})"
    rf"|{BEFORE}(?!{TIMED})(?=[0-9]*[A-Za-z])[0-7][0-9A-TV-Za-tv-z]{{25}}(?![0-9A-Za-z])"
    rf"|{BEFORE}[0-7][0-9A-Za-z]{{3}}{GROUP}{{4}}{GROUP}{{5}}"
    rf"{GROUP}{{4}}{GROUP}{{4}}{GROUP}{{5}}(?![0-9A-Za-z])"
)

# In other groups, or with a letter for its first digit, if it is mixed as claims are, and no part of a longer
# word with hyphens.
WRITTEN_CLAIM = re.compile(
    rf"{BEFORE}(?<![0-9A-Za-z]-)[0-7OILoil](?:{APART}{{0,3}}[0-9A-TV-Za-tv-z]){{25}}(?!-?[0-9A-Za-z])"
)
MIXED = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
LEAST_MIXED = 3
"""So often a digit follows a letter, or a letter a digit, in all claims but one or two of a thousand. In
words and numbers that hardly happens, but for sizes such as 4x6."""
SIZE = r"\b[0-9]+x[0-9]+\b"


def mint(kind: Kind, randomness: bytes) -> str:
    """A new secret; `randomness` is 24 to 64 bytes that nobody else can guess."""
    if len(randomness) not in TOKEN_BYTES:
        raise ValueError("A token is made of 24 to 64 random bytes.")
    # Padded to the width of the largest value, so that a token's length tells nothing.
    width = len(_written(256 ** len(randomness) - 1, BASE62))
    checked = f"qp_{kind}_{_written(int.from_bytes(randomness), BASE62).rjust(width, BASE62[0])}"
    return checked + _checksum(checked)


def is_of_kind(secret: str, kind: Kind) -> bool:
    """Whether we may have minted it for this."""
    return _kind_of(secret) == kind


def randomness_of(secret: str, how_many: int) -> bytes | None:
    """The bytes that a secret was minted from; None where it was made of more than so many."""
    number = 0
    for letter in secret.rpartition("_")[2][:-CHECKSUM_LENGTH]:
        number = number * len(BASE62) + BASE62.index(letter)
    return number.to_bytes(how_many) if number < 256**how_many else None


def mode_of(token: str) -> Mode | None:
    """The token's mode, or None for anything that we cannot have minted."""
    kind = _kind_of(token)
    return kind if kind in ("test", "live") else None


def looks_valid(token: str) -> bool:
    """Whether it is worth a look in the database."""
    return mode_of(token) is not None


def hint_of(secret: str) -> str:
    """Its last letters, by which its owner tells it from others."""
    return secret[-HINT_LENGTH:]


def hide_secrets(text: str) -> str:
    """The same without any secret of ours, for logs and errors."""
    plain = SECRET.sub(HIDDEN, text) if "qp_" in text else text
    return _without_written_claims(CLAIM.sub("[hidden]", plain))


def _without_written_claims(text: str) -> str:
    shown, place = [], 0
    found = WRITTEN_CLAIM.search(text)
    while found:
        after = found.start() + 1
        if _is_mixed(found[0]):
            shown += [text[place : found.start()], "[hidden]"]
            place = after = found.end()
        found = WRITTEN_CLAIM.search(text, after)
    return "".join([*shown, text[place:]])


def _is_mixed(written: str) -> bool:
    """Whether it may be a claim, and is neither words nor the time that an id begins with."""
    bare = re.sub(f"{APART}|{SIZE}", " ", written)
    return not bare.startswith(TIMED) and len(MIXED.findall(bare)) >= LEAST_MIXED


def _kind_of(secret: str) -> Kind | None:
    parts = PATTERN.fullmatch(secret)
    if parts is None or _checksum(parts["checked"]) != parts["checksum"]:
        return None
    kind: Kind = parts["kind"]  # type: ignore[assignment]
    return kind


def digest(token: str) -> bytes:
    """What is stored instead of the token: it is random enough that a plain hash does."""
    return hashlib.sha256(token.encode()).digest()


def short_code(randomness: bytes) -> str:
    """Eight letters and digits that a person can copy from paper, each code as likely as any.

    Sixteen bytes or more are folded into 57 ** 8 codes: the unevenness is below 2 ** -80.
    """
    if len(randomness) < LEAST_CODE_BYTES:
        raise ValueError(f"A short code needs at least {LEAST_CODE_BYTES} random bytes.")
    number = int.from_bytes(randomness) % len(UNAMBIGUOUS) ** SHORT_CODE_LENGTH
    return _written(number, UNAMBIGUOUS).rjust(SHORT_CODE_LENGTH, UNAMBIGUOUS[0])


def _checksum(text: str) -> str:
    return _written(zlib.crc32(text.encode("ascii")), BASE62).rjust(CHECKSUM_LENGTH, BASE62[0])


def _written(number: int, digits: str) -> str:
    """The number in the base of these digits, without leading zeros."""
    written = ""
    while number:
        number, rest = divmod(number, len(digits))
        written = digits[rest] + written
    return written


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
