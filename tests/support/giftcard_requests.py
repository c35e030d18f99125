"""Cards that are asked for, and an operator's own to give."""

from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

from quillpost.app.container import Container
from quillpost.orders.giftcards.ports import CardRequest, CardSecret
from quillpost.orders.giftcards.stock import load_stock
from support.factories import Clock

BRAND, CENTS = "brindlewick", 2_500


def card(reference: str | None = None, **more: Any) -> CardRequest:
    usual: dict[str, Any] = {"brand": BRAND, "issuer_product": "PRODUCT1", "cents": CENTS}
    return CardRequest(reference or str(uuid4()), **(usual | more))


def add_stock(
    container: Container, folder: Path, clock: Clock, codes: list[str], *, expires_on: date | None = None
) -> None:
    file = folder / f"{uuid4()}.csv"
    rows = [f"{BRAND},25.00,{code},{expires_on or ''}" for code in codes]
    file.write_text("\n".join(["brand,amount,code,expires_on", *rows]))
    load_stock(container.db, container.encryptor, file, now=clock.now())


def is_issued(found: Any) -> list[CardSecret]:
    cards = list(found.values())
    assert all(isinstance(each, CardSecret) and (each.code or each.url) for each in cards), cards
    return cards
