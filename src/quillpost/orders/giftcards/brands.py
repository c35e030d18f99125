"""The brands that can be given: those that are shipped, and what the operator has made of them."""

import csv
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core.database import Tx
from quillpost.core.database.tables.giftcards import giftcard_brands
from quillpost.core.errors import NotFound
from quillpost.orders.giftcards.rules import GiftcardBrand, is_brand_code, validate_brand


def list_offered_brands(tx: Tx) -> list[GiftcardBrand]:
    """Every brand that can be given now, in the order in which they are shown."""
    query = sa.select(giftcard_brands).where(giftcard_brands.c.is_offered)
    ordering = giftcard_brands.c.position, giftcard_brands.c.title, giftcard_brands.c.code
    return [_read_brand(row) for row in tx.execute(query.order_by(*ordering))]


def find_brands(tx: Tx, codes: Sequence[str], *, locked: bool = False) -> dict[str, GiftcardBrand]:
    """Those of the brands that there are, offered or not, by their codes. `locked`, nobody else changes them
    before the service's transaction ends."""
    valid_codes = [code for code in codes if is_brand_code(code)]
    query = sa.select(giftcard_brands).where(giftcard_brands.c.code.in_(valid_codes))
    rows = tx.execute(query.with_for_update() if locked else query)
    return {row.code: _read_brand(row) for row in rows}


def load_default_brands(tx: Tx) -> None:
    """Put the shipped brands in where there are none of their codes; an operator's rows win, and what was
    retired stays so."""
    csv_text = files("quillpost.orders.giftcards").joinpath("brands.csv").read_text()
    rows = [
        {
            **row,
            "amounts": [int(cents) for cents in row["amounts"].split()],
            "position": position,
            "is_offered": True,
            "updated_at": sa.func.now(),
        }
        for position, row in enumerate(csv.DictReader(csv_text.splitlines()), start=1)
    ]
    tx.execute(insert(giftcard_brands).values(rows).on_conflict_do_nothing())


def save_brand(tx: Tx, brand: GiftcardBrand, *, now: datetime) -> bool:
    """From now on the brand is as this one says, or it is `Invalid`; whether that changes anything. A new
    one comes last, any other keeps its place. Takes the service's own transaction."""
    validate_brand(brand)
    if find_brands(tx, [brand.code], locked=True).get(brand.code) == brand:
        return False
    values = {
        "title": brand.title,
        "section": brand.section,
        "amounts": list(brand.amounts),
        "accent": brand.accent,
        "issuer_code": brand.issuer_code,
        "is_offered": brand.is_offered,
        "updated_at": now,
    }
    next_position = sa.select(sa.func.coalesce(sa.func.max(giftcard_brands.c.position), 0) + 1).scalar_subquery()
    statement = insert(giftcard_brands).values(code=brand.code, position=next_position, **values)
    tx.execute(statement.on_conflict_do_update(index_elements=["code"], set_=values))
    return True


def retire_brand(tx: Tx, code: str, *, now: datetime) -> bool:
    """It is offered no more; whether it was until now. What was sent goes on. Takes the service's own
    transaction."""
    brand = find_brands(tx, [code], locked=True).get(code)
    if brand is None:
        raise NotFound
    if brand.is_offered:
        statement = sa.update(giftcard_brands).where(giftcard_brands.c.code == code)
        tx.execute(statement.values(is_offered=False, updated_at=now))
    return brand.is_offered


def _read_brand(row: sa.Row[Any]) -> GiftcardBrand:
    return GiftcardBrand(
        code=row.code,
        title=row.title,
        section=row.section,
        amounts=tuple(row.amounts),
        accent=row.accent,
        issuer_code=row.issuer_code,
        is_offered=row.is_offered,
    )
