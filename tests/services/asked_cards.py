"""Cards that are asked for, and an operator's own to give."""

from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

from makers import Clock
from quillpost.app.container import Parts
from quillpost.orders.giftcards.ports import CardAsked, GiftCard
from quillpost.orders.giftcards.stock import load

BRAND, CENTS = "brindlewick", 2_500


def card(reference: str | None = None, **more: Any) -> CardAsked:
    usual: dict[str, Any] = {"brand": BRAND, "product": "PRODUCT1", "cents": CENTS}
    return CardAsked(reference or str(uuid4()), **(usual | more))


def stock_up(
    parts: Parts, folder: Path, clock: Clock, codes: list[str], *, expires_on: date | None = None
) -> None:
    file = folder / f"{uuid4()}.csv"
    rows = [f"{BRAND},25.00,{code},{expires_on or ''}" for code in codes]
    file.write_text("\n".join(["brand,amount,code,expires_on", *rows]))
    load(parts.db, parts.sealer, file, now=clock.now())


def good(found: Any) -> list[GiftCard]:
    cards = list(found.values())
    assert all(isinstance(each, GiftCard) and (each.code or each.url) for each in cards), cards
    return cards
