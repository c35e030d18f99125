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
from quillpost.orders.giftcards.rules import Brand, examine_brand, is_code


def offered(tx: Tx) -> list[Brand]:
    """Every brand that can be given now, in the order in which they are shown."""
    wanted = sa.select(giftcard_brands).where(giftcard_brands.c.is_offered)
    order = giftcard_brands.c.position, giftcard_brands.c.title, giftcard_brands.c.code
    return [_brand(row) for row in tx.execute(wanted.order_by(*order))]


def find_brands(tx: Tx, codes: Sequence[str], *, locked: bool = False) -> dict[str, Brand]:
    """Those of the brands that there are, offered or not, by their codes. `locked`, nobody else changes them
    before the service's transaction ends."""
    known = [code for code in codes if is_code(code)]
    wanted = sa.select(giftcard_brands).where(giftcard_brands.c.code.in_(known))
    found = tx.execute(wanted.with_for_update() if locked else wanted)
    return {row.code: _brand(row) for row in found}


def load_default_brands(tx: Tx) -> None:
    """Put the shipped brands in where there are none of their codes; an operator's rows win, and what was
    retired stays so."""
    source = files("quillpost.orders.giftcards").joinpath("brands.csv").read_text()
    rows = [
        {
            **row,
            "amounts": [int(cents) for cents in row["amounts"].split()],
            "position": place,
            "is_offered": True,
            "updated_at": sa.func.now(),
        }
        for place, row in enumerate(csv.DictReader(source.splitlines()), start=1)
    ]
    tx.execute(insert(giftcard_brands).values(rows).on_conflict_do_nothing())


def put_brand(tx: Tx, brand: Brand, *, now: datetime) -> bool:
    """From now on the brand is as this one says, or it is `Invalid`; whether that changes anything. A new
    one comes last, any other keeps its place. Takes the service's own transaction."""
    examine_brand(brand)
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
    last = sa.select(sa.func.coalesce(sa.func.max(giftcard_brands.c.position), 0) + 1).scalar_subquery()
    put = insert(giftcard_brands).values(code=brand.code, position=last, **values)
    tx.execute(put.on_conflict_do_update(index_elements=["code"], set_=values))
    return True


def retire(tx: Tx, code: str, *, now: datetime) -> bool:
    """It is offered no more; whether it was until now. What was sent goes on. Takes the service's own
    transaction."""
    brand = find_brands(tx, [code], locked=True).get(code)
    if brand is None:
        raise NotFound
    if brand.is_offered:
        retired = sa.update(giftcard_brands).where(giftcard_brands.c.code == code)
        tx.execute(retired.values(is_offered=False, updated_at=now))
    return brand.is_offered


def _brand(row: sa.Row[Any]) -> Brand:
    return Brand(
        code=row.code,
        title=row.title,
        section=row.section,
        amounts=tuple(row.amounts),
        accent=row.accent,
        issuer_code=row.issuer_code,
        is_offered=row.is_offered,
    )
