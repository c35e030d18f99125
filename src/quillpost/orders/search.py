"""Finds orders and items by recipient, and by metadata."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from quillpost.core import exact_json
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Invalid
from quillpost.core.paging import rows_of
from quillpost.orders.models import Item, Order

MOST_FOUND = 10_000
# One plan for all would hold every order for a small one, and read a large one from end to end for a name.
CUSTOM_PLAN = sa.text("set local plan_cache_mode = force_custom_plan")
LAST_LETTER = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """All that is given must be true of a piece.

    `streets` are ways in which an address may begin, as addresses are kept; `name` is the beginning of a
    name, `email` the whole of it, both in any case.
    """

    streets: Sequence[str] = ()
    name: str | None = None
    email: str | None = None
    sub_account_id: int | None = None
    order_id: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Newest first, and each order once. `is_cut`: there are more than are shown."""

    items: list[Item]
    orders: list[Order]
    is_cut: bool


def search(db: Database, tx: Tx, who: Tenant, sought: Sought, *, most: int | None = None) -> Found:
    """The newest pieces of this kind, as many as are shown at most.

    The service itself finds their ids, and what is shown of them is read as the caller: row-level security
    comes before `lower`, which PostgreSQL does not know to keep secrets, and so closes the index over it.
    """
    most = MOST_FOUND if most is None else most
    with db.work() as service:
        ids = _newest(service, [*rows_of(items, who), *_conditions(sought)], most + 1)
    pieces = [Item.of(row) for row in _newest_first(tx, items, ids[:most])]
    inside = _newest_first(tx, orders, {piece.order_id for piece in pieces})
    return Found(pieces, [Order.of(row) for row in inside], is_cut=len(ids) > most)


def _newest(service: Tx, wanted: Sequence[sa.ColumnElement[bool]], how_many: int) -> list[int]:
    """The ids of the newest, the newest first.

    PostgreSQL cannot tell how rare a name is, and asked for the newest at once it reads all pieces backwards
    until it has enough of them, which for a rare one is never. So rare ones are all fetched by their index;
    what turns out to be frequent is met soon on the way back.
    """
    service.execute(CUSTOM_PLAN)
    found = sa.select(items.c.id).where(*wanted)
    ids = service.execute(found.limit(max(how_many, MOST_FOUND) + 1)).scalars().all()
    if len(ids) > max(how_many, MOST_FOUND):
        ids = service.execute(found.order_by(items.c.id.desc()).limit(how_many)).scalars().all()
    return sorted(ids, reverse=True)[:how_many]


def _conditions(sought: Sought) -> list[sa.ColumnElement[bool]]:
    wanted: list[sa.ColumnElement[bool]] = []
    if sought.streets:
        begins = [_starts_with(items.c.address_key, street, sa.literal) for street in sought.streets]
        wanted.append(sa.or_(*begins))
    if sought.name is not None:
        wanted.append(_starts_with(sa.func.lower(items.c.name), sought.name, sa.func.lower))
    if sought.email is not None:
        wanted.append(sa.func.lower(items.c.email) == sa.func.lower(sought.email))
    if sought.sub_account_id is not None:
        wanted.append(items.c.sub_account_id == sought.sub_account_id)
    if sought.order_id is not None:
        wanted.append(items.c.order_id == sought.order_id)
    return wanted


def _starts_with(
    text: sa.ColumnElement[str], beginning: str, spelled: Callable[[str], sa.ColumnElement[str]]
) -> sa.ColumnElement[bool]:
    """As a range, letter by letter: LIKE would follow the index only while the pattern is a constant."""
    low, high = spelled(beginning), spelled(beginning + LAST_LETTER)
    return sa.and_(text.op("~>=~")(low), text.op("~<~")(high))


def _newest_first(tx: Tx, table: sa.Table, ids: Sequence[int] | set[int]) -> Sequence[sa.Row[Any]]:
    wanted = sa.any_(sa.cast(list(ids), ARRAY(sa.BigInteger())))
    return tx.execute(sa.select(table).where(table.c.id == wanted).order_by(table.c.id.desc())).all()


MOST_METADATA_FILTERS = 10
DEEPEST = 20
NAME = re.compile(r"metadata((?:\[[^\[\]]+\])+)")
# No longer than what the index holds: a number beyond that is text to it.
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]{1,999})?(?:[eE][+-]?[0-9]{1,4})?")
LITERALS = ("true", "false", "null")

Alternatives = tuple[str, ...]
"""JSON objects; an order is wanted whose metadata contains one of them."""


def read_filters(query: Iterable[tuple[str, str]]) -> tuple[Alternatives, ...]:
    """Every filter by metadata in a query string, or `Invalid` with all that is wrong about them."""
    given = [(name, value) for name, value in query if name.partition("[")[0] == "metadata"]
    faults = {name: [fault] for name, value in given if (fault := _fault(name, value))}
    if len(given) > MOST_METADATA_FILTERS:
        faults["metadata"] = [f"At most {MOST_METADATA_FILTERS} filters by metadata, please."]
    if faults:
        raise Invalid(faults)
    return tuple(_alternatives(name, value) for name, value in given)


def _fault(name: str, value: str) -> str | None:
    keys = NAME.fullmatch(name)
    if keys is None:
        return "Write metadata[key]=value, or metadata[outer][inner]=value."
    if keys[1].count("[") > DEEPEST:
        return f"At most {DEEPEST} keys in one another, please."
    if "\x00" in name + value:
        return "This text holds a NUL character, which no filter finds."
    return None


def _alternatives(name: str, value: str) -> Alternatives:
    """A query string is all text: `5` may have been written as the text or as the number."""
    readings = [exact_json.write(value)]
    if value in LITERALS or NUMBER.fullmatch(value):
        readings.append(value)
    keys = name.removeprefix("metadata[").removesuffix("]").split("][")
    opening = "".join(f"{{{exact_json.write(key)}:" for key in keys)
    return tuple(opening + reading + "}" * len(keys) for reading in readings)
