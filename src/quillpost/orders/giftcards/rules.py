"""Brands of gift cards, and the codes of claims."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quillpost.accounts.billing.rules import format_dollars
from quillpost.core.errors import Invalid

BRAND_GROUPS: Mapping[str, str] = {
    "main": "Favorites",
    "food": "Food and drink",
    "entertainment": "Entertainment",
    "gifts": "Gifts and flowers",
    "travel": "Travel",
    "big_box": "Big stores",
    "other": "Other",
}
"""Titles by name."""

CLAIM_BYTES = 16
"""128 random bits: guessing is hopeless."""

CLAIM_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Without letters that look like others; see `CLAIM_TRANSLATION`."""

CLAIM_TRANSLATION = str.maketrans({"O": "0", "I": "1", "L": "1", " ": None, "-": None})
CLAIM_LENGTH = 26
CLAIM_GROUP_LENGTHS = (4, 4, 5, 4, 4, 5)

SPECIMEN_CLAIM = "SPEC1MEN" + "0" * (CLAIM_LENGTH - 8)
"""For previews: beyond 128 bits, so no card has it."""


def encode_claim(secret: bytes) -> str:
    """26 letters and digits, as in the QR code."""
    number = int.from_bytes(secret)
    return "".join(CLAIM_ALPHABET[number >> shift & 31] for shift in range((CLAIM_LENGTH - 1) * 5, -1, -5))


def format_claim(code: str) -> str:
    """In groups, to be typed: 7ZZZ-ZZZZ-ZZZZZ-ZZZZ-ZZZZ-ZZZZZ."""
    groups, start = [], 0
    for length in CLAIM_GROUP_LENGTHS:
        groups.append(code[start : start + length])
        start += length
    return "-".join(groups)


def parse_claim(text: str) -> str | None:
    """The code that was typed; None where it cannot be one."""
    code = text.strip().upper().translate(CLAIM_TRANSLATION)
    return code if len(code) == CLAIM_LENGTH and not code.strip(CLAIM_ALPHABET) else None


def claim_digest(code: str) -> bytes:
    """To find a claim by; 128 bits need no salt."""
    return hashlib.sha256(code.encode("ascii")).digest()


DEFAULT_ACCENT = "#213669"

MAX_AMOUNTS, MAX_AMOUNT_CENTS = 50, 1_000_000
MAX_TITLE_LENGTH, MAX_ISSUER_CODE_LENGTH = 60, 200

_CODE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ACCENT = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class GiftcardBrand:
    """`section` is its group; `accent` is #rrggbb; `issuer_code` is the issuer's name for it, if not our code."""

    code: str
    title: str
    section: str
    amounts: tuple[int, ...]
    accent: str
    issuer_code: str | None = None
    is_offered: bool = True


def validate_brand(brand: GiftcardBrand) -> None:
    """Raise `Invalid` with all errors, by the API's field names."""
    messages = {
        "brand_code": None
        if is_brand_code(brand.code)
        else "Up to 64 small letters, digits, - and _, a letter or digit first: river-cafe.",
        "title": _text_error(brand.title, MAX_TITLE_LENGTH),
        "group": None if brand.section in BRAND_GROUPS else f"Choose one of {', '.join(BRAND_GROUPS)}.",
        "available_amounts": _amounts_error(brand.amounts),
        "color": None if _ACCENT.fullmatch(brand.accent) else "Write it as #rrggbb, such as #5b3a29.",
        "issuer_code": brand.issuer_code and _text_error(brand.issuer_code, MAX_ISSUER_CODE_LENGTH),
    }
    errors = {name: [message] for name, message in messages.items() if message}
    if errors:
        raise Invalid(errors)


def is_brand_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None


def _text_error(text: str, max_length: int) -> str | None:
    if not text.strip() or not text.isprintable():
        return "Write it on one line, in characters that can be seen."
    return f"At most {max_length} characters, please." if len(text) > max_length else None


def _amounts_error(amounts: Sequence[int]) -> str | None:
    if not amounts:
        return "Give at least one amount, in cents."
    if len(amounts) > MAX_AMOUNTS:
        return f"At most {MAX_AMOUNTS} amounts, please."
    if not all(0 < cents <= MAX_AMOUNT_CENTS for cents in amounts):
        return f"Each amount is in cents, from 1 to {MAX_AMOUNT_CENTS}."
    if list(amounts) != sorted(set(amounts)):
        return "Write each amount once, the smallest first."
    return None


def unknown_brand_error(code: str, offered_brands: Sequence[GiftcardBrand]) -> str:
    return f"There is no gift card brand {code}. {brand_choices_text(offered_brands)}"


def brand_choices_text(offered_brands: Sequence[GiftcardBrand]) -> str:
    codes = ", ".join(brand.code for brand in offered_brands)
    return f"Choose one of {codes}." if codes else "None is offered at present: ask the operator."


def amount_error(cents: int, brand: GiftcardBrand) -> str | None:
    if cents in brand.amounts:
        return None
    return f"There is no {brand.title} card of {cents} cents. {amount_choices_text(brand)}"


def amount_choices_text(brand: GiftcardBrand) -> str:
    return f"Choose one of {', '.join(map(str, brand.amounts))}, in cents."


def find_offered_brand(code: str, offered_brands: Sequence[GiftcardBrand]) -> GiftcardBrand | None:
    return next((brand for brand in offered_brands if brand.code == code), None)


def shortage_text(title: str, cents: int, cards: int, available: int) -> str:
    noun = "card" if cards == 1 else "cards"
    availability = f"{available:,} {'is' if available == 1 else 'are'} free"
    return f"It needs {cards:,} gift {noun} of {title} over {format_dollars(cents)}, and {availability}"
