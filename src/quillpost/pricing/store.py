"""The dated price table."""

import csv
from datetime import date
from importlib.resources import files

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.database import Tx
from quillpost.database.tables import prices
from quillpost.pricing.rules import Price, Tariff, tariff


def all_prices(tx: Tx) -> list[Price]:
    """Every price that there is, was or will be, in the order in which it came into the table."""
    rows = tx.execute(sa.select(prices).order_by(prices.c.id))
    return [
        Price(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from) for row in rows
    ]


def tariff_on(tx: Tx, *, type: str, size: str | None, mail_class: str, on: date) -> Tariff:  # noqa: A002
    """What this piece costs that day."""
    rows = tx.execute(
        sa.select(prices).where(
            prices.c.type == type, prices.c.size == (size or ""), prices.c.mail_class == mail_class
        )
    )
    return tariff(
        [
            Price(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from)
            for row in rows
        ],
        on,
    )


def load_default_prices(tx: Tx) -> None:
    """Put the shipped price list in where there is none for its dates; an operator's rows win."""
    source = files("quillpost.pricing").joinpath("prices.csv").read_text()
    rows = list(csv.DictReader(source.splitlines()))
    tx.execute(insert(prices).on_conflict_do_nothing(), rows)
