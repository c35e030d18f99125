"""What a piece costs now, and what it will cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.dashboard.piece_names import piece_name
from quillpost.pricing.rules import EVERYWHERE_ELSE, LEAD_CENTS, Price
from quillpost.pricing.store import all_prices
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/money/prices"
CLASSES = {"first": "First class", "standard": "Standard"}
HOME = "US"
PLACES = {HOME: "United States", EVERYWHERE_ELSE: "Every other country"}


@dataclass(slots=True)
class Row:
    """One piece: by class and country what it costs now, and what is to come."""

    title: str
    now: dict[tuple[str, str], int] = field(default_factory=dict)
    coming: list[tuple[tuple[str, str], Price]] = field(default_factory=list)


@router.get(PAGE)
def prices_page(request: Request, who: Reader, parts: OurParts) -> Response:
    now = parts.clock()
    with parts.db.transaction(tenant(who.caller)) as tx:
        prices = all_prices(tx)
    rows = table_of(prices, on=now.astimezone(UTC).date())
    columns = sorted({column for row in rows for column in row.now}, key=_placed)
    return show(
        request,
        "money/prices.html",
        who=who,
        now=now,
        rows=rows,
        columns=[(column, words_of(column)) for column in columns],
        words_of=words_of,
        day=lambda on: f"{on.day} {on:%B %Y}",
        lead_cents=LEAD_CENTS,
    )


def table_of(prices: Sequence[Price], *, on: date) -> list[Row]:
    """Of each price the one that came into force last, not after the day; those after it are coming."""
    rows: dict[tuple[str, str], Row] = {}
    for price in sorted(prices, key=lambda price: price.valid_from):
        row = rows.setdefault((price.type, price.size), Row(piece_name(price.type, price.size)))
        column = (price.mail_class, price.country)
        if price.valid_from <= on:
            row.now[column] = price.unit_cents
        else:
            row.coming.append((column, price))
    return list(rows.values())


def words_of(column: tuple[str, str]) -> tuple[str, str]:
    mail_class, country = column
    return CLASSES.get(mail_class, mail_class), PLACES.get(country, country)


def _placed(column: tuple[str, str]) -> tuple[bool, bool, str, str]:
    """Home first, everywhere else last."""
    mail_class, country = column
    return country != HOME, country == EVERYWHERE_ELSE, country, mail_class
