"""What a brand is, and what can be wrong with one or with the choice of one: sentences name the choices."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quillpost.giftcards.rules import GROUPS
from quillpost.kit.errors import Invalid

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
