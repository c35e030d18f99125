"""What holds for gift cards wherever they come from: the groups of brands, and the codes of claims."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quillpost.core.errors import Invalid

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


HOUSE_ACCENT = "#213669"
"""The colour of a brand that has none of its own."""

MOST_AMOUNTS, LARGEST_AMOUNT = 50, 1_000_000
LONGEST_TITLE, LONGEST_ISSUER_CODE = 60, 200

_CODE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ACCENT = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Brand:
    """`section` is the group that it is shown in; `accent` is its colour, as #rrggbb; `issuer_code` is what a
    live issuer calls it, where that is not our code."""

    code: str
    title: str
    section: str
    amounts: tuple[int, ...]
    accent: str
    issuer_code: str | None = None
    is_offered: bool = True


def examine_brand(brand: Brand) -> None:
    """Raise `Invalid` with all that is wrong, by the names that the interface has for a brand's parts."""
    found = {
        "brand_code": _wrong_code(brand.code),
        "title": _wrong_line(brand.title, LONGEST_TITLE),
        "group": None if brand.section in GROUPS else f"Choose one of {', '.join(GROUPS)}.",
        "available_amounts": _wrong_amounts(brand.amounts),
        "color": None if _ACCENT.fullmatch(brand.accent) else "Write it as #rrggbb, such as #5b3a29.",
        "issuer_code": brand.issuer_code and _wrong_line(brand.issuer_code, LONGEST_ISSUER_CODE),
    }
    faults = {name: [wrong] for name, wrong in found.items() if wrong}
    if faults:
        raise Invalid(faults)


def is_code(text: str) -> bool:
    """Whether a brand could have this code."""
    return _CODE.fullmatch(text) is not None


def _wrong_code(code: str) -> str | None:
    if is_code(code):
        return None
    return "Up to 64 small letters, digits, - and _, a letter or digit first: river-cafe."


def _wrong_line(text: str, longest: int) -> str | None:
    if not text.strip() or not text.isprintable():
        return "Write it on one line, in characters that can be seen."
    return f"At most {longest} characters, please." if len(text) > longest else None


def _wrong_amounts(amounts: Sequence[int]) -> str | None:
    if not amounts:
        return "Give at least one amount, in cents."
    if len(amounts) > MOST_AMOUNTS:
        return f"At most {MOST_AMOUNTS} amounts, please."
    if not all(0 < cents <= LARGEST_AMOUNT for cents in amounts):
        return f"Each amount is in cents, from 1 to {LARGEST_AMOUNT}."
    if list(amounts) != sorted(set(amounts)):
        return "Write each amount once, the smallest first."
    return None


def no_such_brand(code: str, offered: Sequence[Brand]) -> str:
    return f"There is no gift card brand {code}. {choices_of(offered)}"


def choices_of(offered: Sequence[Brand]) -> str:
    """Which brands there are, to whoever has named none of them."""
    codes = ", ".join(brand.code for brand in offered)
    return f"Choose one of {codes}." if codes else "None is offered at present: ask the operator."


def wrong_amount(cents: int, brand: Brand) -> str | None:
    """What is wrong with an amount for a card of this brand."""
    if cents in brand.amounts:
        return None
    return f"There is no {brand.title} card of {cents} cents. {amounts_of(brand)}"


def amounts_of(brand: Brand) -> str:
    return f"Choose one of {', '.join(map(str, brand.amounts))}, in cents."


def find_offered(code: str, offered: Sequence[Brand]) -> Brand | None:
    return next((brand for brand in offered if brand.code == code), None)
