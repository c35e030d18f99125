"""The card that each piece of a send brings: what the call says wins over its message template, each part by
itself, and both are held against the catalogue."""

from quillpost.creative.templates import MessageTemplate
from quillpost.database import Tx
from quillpost.giftcards import catalogue
from quillpost.giftcards.choosing import (
    Brand,
    amounts_of,
    choices_of,
    find_offered,
    no_such_brand,
    wrong_amount,
)
from quillpost.orders.calls import Call, Faults
from quillpost.orders.pieces import GIFTCARD
from quillpost.orders.wish import Gift, Source

BRAND, AMOUNT, LANDING, MESSAGE_TEMPLATE = (
    "giftcard_brand", "giftcard_amount", "landing_page_url", "message_template",
)  # fmt: skip


def gift_of(tx: Tx, call: Call, words: MessageTemplate | None, faults: Faults) -> Gift | None:
    """The card as the catalogue has it; whatever is wrong with the choice is one more fault."""
    if call.piece != GIFTCARD:
        return None
    offered = catalogue.offered(tx)
    brand, cents = _brand(call, words, offered, faults), _amount(call, words)
    if cents is None:
        told = f"Say what each card is worth, in cents. {amounts_of(brand) if brand else ''}".strip()
        faults.setdefault(AMOUNT, []).append(told)
    if brand is None or cents is None:
        return None
    if wrong := wrong_amount(cents, brand):
        is_own = call.giftcard_amount is not None
        _blame(AMOUNT if is_own else MESSAGE_TEMPLATE, wrong, "" if is_own else AMOUNT, faults)
    landing = landing_of(call, words)
    return Gift(brand.code, brand.title, brand.accent, cents, landing.url if landing else None)


def landing_of(call: Call, words: MessageTemplate | None) -> Source | None:
    """Which page whoever has the piece must visit before they redeem its card."""
    if call.piece != GIFTCARD:
        return None
    if call.landing_page_url:
        return Source(LANDING, call.landing_page_url)
    if words is not None and words.landing_page_url:
        return Source(MESSAGE_TEMPLATE, words.landing_page_url, part=f"its {LANDING}")
    return None


def faults_of(tx: Tx, gift: Gift) -> Faults:
    """What the catalogue, as it is now, has against a card that was chosen before."""
    offered = catalogue.offered(tx)
    brand = find_offered(gift.brand, offered)
    if brand is None:
        return {BRAND: [no_such_brand(gift.brand, offered)]}
    wrong = wrong_amount(gift.cents, brand)
    return {AMOUNT: [wrong]} if wrong else {}


def _brand(call: Call, words: MessageTemplate | None, offered: list[Brand], faults: Faults) -> Brand | None:
    saved = words.giftcard_brand_code if words is not None else None
    code = call.giftcard_brand or saved
    if code is None:
        faults.setdefault(BRAND, []).append(f"Say whose card it is. {choices_of(offered)}")
        return None
    found = find_offered(code, offered)
    if found is None and call.giftcard_brand:
        _blame(BRAND, no_such_brand(code, offered), "", faults)
    elif found is None:
        _blame(MESSAGE_TEMPLATE, no_such_brand(code, offered), "giftcard_brand_code", faults)
    return found


def _amount(call: Call, words: MessageTemplate | None) -> int | None:
    if call.giftcard_amount is not None:
        return call.giftcard_amount
    return words.giftcard_amount if words is not None else None


def _blame(field: str, wrong: str, part: str, faults: Faults) -> None:
    """Name the field that the caller can change, and which part of it where it is a reference."""
    faults.setdefault(field, []).append(f"{wrong} (its {part})" if part else wrong)
