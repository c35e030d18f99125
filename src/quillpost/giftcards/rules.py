"""What holds for gift cards wherever they come from: the groups of brands, and the codes of claims."""

import hashlib
from collections.abc import Mapping

GROUPS: Mapping[str, str] = {
    "main": "Favourites",
    "food": "Food and drink",
    "entertainment": "Entertainment",
    "gifts": "Gifts and flowers",
    "travel": "Travel",
    "big_box": "Big stores",
    "other": "Other",
}
"""The titles of the groups that brands are shown in, by what they are called in addresses."""

CLAIM_BYTES = 16
"""A claim is a secret of 128 bits: guessing one is in vain, however many pieces there are."""

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""No letter that is read as another, or as a digit; see `READ_AS`."""

READ_AS = str.maketrans({"O": "0", "I": "1", "L": "1", " ": None, "-": None})
CLAIM_LENGTH = 26
SPELLED_IN = (4, 4, 5, 4, 4, 5)

SPECIMEN = "SPEC1MEN" + "0" * (CLAIM_LENGTH - 8)
"""What previews and proofs show: no piece has it, as it stands for more than 128 bits."""


def claim_code(secret: bytes) -> str:
    """The secret as 26 letters and digits, as the piece's QR code holds it."""
    number = int.from_bytes(secret)
    return "".join(ALPHABET[number >> shift & 31] for shift in range((CLAIM_LENGTH - 1) * 5, -1, -5))


def spelled(code: str) -> str:
    """The same in groups, as a person types it: 7ZZZ-ZZZZ-ZZZZZ-ZZZZ-ZZZZ-ZZZZZ."""
    groups, place = [], 0
    for length in SPELLED_IN:
        groups.append(code[place : place + length])
        place += length
    return "-".join(groups)


def read_claim(typed: str) -> str | None:
    """The code that somebody typed, however they write it; None where it cannot be one."""
    code = typed.strip().upper().translate(READ_AS)
    return code if len(code) == CLAIM_LENGTH and not code.strip(ALPHABET) else None


def claim_digest(code: str) -> bytes:
    """By which a claim is found. So many bits need neither salt nor key."""
    return hashlib.sha256(code.encode("ascii")).digest()
