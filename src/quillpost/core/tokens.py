"""The format of tokens, short codes and signed links.

A token is `qp_test_` or `qp_live_`, random characters in base 62, and a checksum of all that; other secrets have other
prefixes. By its prefix a secret scanner finds a leaked token, and we hide it; the checksum saves database lookups.
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
# Tokens by mode; an app's refresh token, code and client secret; browser cookies; links to join or reset a password.
SecretKind = Literal["test", "live", "refresh", "code", "secret", "session", "visitor", "known", "invitation", "reset"]
TOKEN_BYTES = range(24, 65)
SHORT_CODE_LENGTH = 8

BASE62_CHARS = string.digits + string.ascii_uppercase + string.ascii_lowercase
# Nothing that reads as something else when a person copies it from paper.
UNAMBIGUOUS_CHARS = "".join(letter for letter in BASE62_CHARS if letter not in "0O1Il")

PREVIEW_CODE = "PREVIEW0"  # on every preview; no item can have it, as two of its characters are ambiguous

CHECKSUM_LENGTH = 6  # 62 ** 6 > 2 ** 32
SECRET_PATTERN = re.compile(
    rf"(?P<checked>qp_(?P<kind>{'|'.join(get_args(SecretKind))})_[0-9A-Za-z]{{33,86}})"  # 24 to 64 bytes in base 62
    rf"(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)
HINT_LENGTH = 4
# Whatever begins as a secret is hidden as one, mistyped or cut off though it may be.
SECRET_START_PATTERN = re.compile(rf"(qp_(?:{'|'.join(get_args(SecretKind))})_)[0-9A-Za-z]{{8,}}")
HIDDEN_REPLACEMENT = r"\1[hidden]"

# ULIDs from 2004 to 2039 begin so. They look like claims, but no claim begins so: callers' ids stay readable.
ULID_PREFIX = "01"

# What may stand between two letters of a claim that a person wrote: hyphens of any kind, blanks, line ends,
# as they are or as JSON and addresses write them.
SEPARATOR = r"(?:\s/\s|[\s+\u2010-\u2015\u2212-]|\\[nrt]|%(?:20|2[Dd]|0[AaDd]))"
CLAIM_START = r"(?:(?<![0-9A-Za-z])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
SEPARATED_CHAR = rf"{SEPARATOR}{{1,3}}[0-9A-Za-z]"

# In the link on a piece it may be mistyped or cut off; elsewhere it is hidden where it is whole, as it is or
# in the groups that are printed. The letters are those that a person may type: see orders/giftcards/rules.py.
CLAIM_PATTERN = re.compile(
    r"(?:(?<=/gift/)|(?<=%2[Ff]gift%2[Ff]))(?:[0-7][0-9A-Za-z%-]{7,}|[0-9A-Za-z%-]{26,})"
    rf"|{CLAIM_START}(?!{ULID_PREFIX})(?=[0-9]*[A-Za-z])[0-7][0-9A-TV-Za-tv-z]{{25}}(?![0-9A-Za-z])"
    rf"|{CLAIM_START}[0-7][0-9A-Za-z]{{3}}{SEPARATED_CHAR}{{4}}{SEPARATED_CHAR}{{5}}"
    rf"{SEPARATED_CHAR}{{4}}{SEPARATED_CHAR}{{4}}{SEPARATED_CHAR}{{5}}(?![0-9A-Za-z])"
)

# In other groups, or with a letter for its first digit, if it is mixed as claims are, and no part of a longer
# word with hyphens.
SPACED_CLAIM_PATTERN = re.compile(
    rf"{CLAIM_START}(?<![0-9A-Za-z]-)[0-7OILoil](?:{SEPARATOR}{{0,3}}[0-9A-TV-Za-tv-z]){{25}}(?!-?[0-9A-Za-z])"
)
DIGIT_LETTER_CHANGE = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
# All claims but one or two of a thousand change so often between digits and letters; words and numbers hardly do, but
# for sizes such as 4x6.
MIN_DIGIT_LETTER_CHANGES = 3
SIZE_PATTERN = r"\b[0-9]+x[0-9]+\b"


def mint_secret(kind: SecretKind, randomness: bytes) -> str:
    """`randomness` is 24 to 64 bytes."""
    if len(randomness) not in TOKEN_BYTES:
        raise ValueError("A token is made of 24 to 64 random bytes.")
    # Padded to the width of the largest value, so that a token's length tells nothing.
    width = len(_encode_number(256 ** len(randomness) - 1))
    checked = f"qp_{kind}_{_encode_number(int.from_bytes(randomness)).rjust(width, BASE62_CHARS[0])}"
    return checked + _checksum(checked)


def is_of_kind(secret: str, kind: SecretKind) -> bool:
    return _secret_kind(secret) == kind


def decode_randomness(secret: str, length: int) -> bytes | None:
    """The bytes that a secret was minted from; None where there were more than `length`."""
    number = 0
    for char in secret.rpartition("_")[2][:-CHECKSUM_LENGTH]:
        number = number * len(BASE62_CHARS) + BASE62_CHARS.index(char)
    return number.to_bytes(length) if number < 256**length else None


def token_mode(token: str) -> Mode | None:
    """None for anything that we cannot have minted."""
    kind = _secret_kind(token)
    return kind if kind in ("test", "live") else None


def is_wellformed_token(token: str) -> bool:
    return token_mode(token) is not None


def secret_hint(secret: str) -> str:
    """Its last characters, by which its owner knows it."""
    return secret[-HINT_LENGTH:]


def hide_secrets(text: str) -> str:
    """For logs and errors."""
    without_secrets = SECRET_START_PATTERN.sub(HIDDEN_REPLACEMENT, text) if "qp_" in text else text
    return _hide_spaced_claims(CLAIM_PATTERN.sub("[hidden]", without_secrets))


def _hide_spaced_claims(text: str) -> str:
    chunks, position = [], 0
    match = SPACED_CLAIM_PATTERN.search(text)
    while match:
        search_start = match.start() + 1
        if _looks_like_claim(match[0]):
            chunks += [text[position : match.start()], "[hidden]"]
            position = search_start = match.end()
        match = SPACED_CLAIM_PATTERN.search(text, search_start)
    return "".join([*chunks, text[position:]])


def _looks_like_claim(text: str) -> bool:
    """Neither words nor the time that a ULID begins with."""
    plain_text = re.sub(f"{SEPARATOR}|{SIZE_PATTERN}", " ", text)
    return (
        not plain_text.startswith(ULID_PREFIX)
        and len(DIGIT_LETTER_CHANGE.findall(plain_text)) >= MIN_DIGIT_LETTER_CHANGES
    )


def _secret_kind(secret: str) -> SecretKind | None:
    parts = SECRET_PATTERN.fullmatch(secret)
    if parts is None or _checksum(parts["checked"]) != parts["checksum"]:
        return None
    kind: SecretKind = parts["kind"]  # type: ignore[assignment]
    return kind


def hash_token(token: str) -> bytes:
    """What is stored instead of the token: it is random enough for a plain hash."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(text: str) -> str:
    return _encode_number(zlib.crc32(text.encode("ascii"))).rjust(CHECKSUM_LENGTH, BASE62_CHARS[0])


def _encode_number(number: int) -> str:
    """In base 62, without leading zeros."""
    encoded = ""
    while number:
        number, remainder = divmod(number, len(BASE62_CHARS))
        encoded = BASE62_CHARS[remainder] + encoded
    return encoded


EXPIRY_BYTES = 5
MAC_BYTES = 16


class LinkSigner:
    """A token is URL-safe base64 of `mac | expiry in Unix seconds | file id`.

    The first of the keys signs. What another has signed is good as long as that key is there.
    """

    def __init__(self, get_keys: Callable[[], Sequence[bytes]]) -> None:
        self._get_keys = get_keys

    def sign_file_id(self, file_id: str, *, expires_at: datetime) -> str:
        payload = int(expires_at.timestamp()).to_bytes(EXPIRY_BYTES) + file_id.encode()
        return _sign_payload(self._get_keys()[0], payload)

    def read_file_id(self, token: str, *, now: datetime | None) -> str | None:
        """None when the token is forged or expired; with `now` None, only when it is forged."""
        try:
            payload = urlsafe_b64decode(token + "=" * (-len(token) % 4))[MAC_BYTES:]
            # Comparing the texts refuses other spellings of the same bytes too.
            if not any(hmac.compare_digest(_sign_payload(key, payload), token) for key in self._get_keys()):
                return None
        except ValueError:  # not base64
            return None
        is_expired = now is not None and now.timestamp() >= int.from_bytes(payload[:EXPIRY_BYTES])
        return None if is_expired else payload[EXPIRY_BYTES:].decode()


def _sign_payload(key: bytes, payload: bytes) -> str:
    mac = hmac.digest(key, payload, hashlib.sha256)[:MAC_BYTES]
    return urlsafe_b64encode(mac + payload).rstrip(b"=").decode("ascii")
