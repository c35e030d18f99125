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
from quillpost.core.paging import tenant_conditions
from quillpost.orders.models import Item, Order

MAX_SEARCH_RESULTS = 10_000
# One plan for all would hold every order for a small one, and read a large one from end to end for a name.
FORCE_CUSTOM_PLAN = sa.text("set local plan_cache_mode = force_custom_plan")
LAST_CHAR = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuery:
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
class ItemSearchResult:
    """Newest first, and each order once. `is_cut`: there are more than are shown."""

    items: list[Item]
    orders: list[Order]
    is_cut: bool


def search_by_recipient(
    db: Database, tx: Tx, tenant: Tenant, query: ItemQuery, *, limit: int | None = None
) -> ItemSearchResult:
    """The newest pieces of this kind, as many as are shown at most.

    The service itself finds their ids, and what is shown of them is read as the caller: row-level security
    comes before `lower`, which PostgreSQL does not know to keep secrets, and so closes the index over it.
    """
    limit = MAX_SEARCH_RESULTS if limit is None else limit
    with db.system_transaction() as service_tx:
        ids = _newest_ids(service_tx, [*tenant_conditions(items, tenant), *_conditions(query)], limit + 1)
    matching_items = [Item.of(row) for row in _read_newest_first(tx, items, ids[:limit])]
    order_rows = _read_newest_first(tx, orders, {item.order_id for item in matching_items})
    return ItemSearchResult(matching_items, [Order.of(row) for row in order_rows], is_cut=len(ids) > limit)


def _newest_ids(service_tx: Tx, conditions: Sequence[sa.ColumnElement[bool]], limit: int) -> list[int]:
    """The ids of the newest, the newest first.

    PostgreSQL cannot tell how rare a name is, and asked for the newest at once it reads all pieces backwards
    until it has enough of them, which for a rare one is never. So rare ones are all fetched by their index;
    what turns out to be frequent is met soon on the way back.
    """
    service_tx.execute(FORCE_CUSTOM_PLAN)
    query = sa.select(items.c.id).where(*conditions)
    ids = service_tx.execute(query.limit(max(limit, MAX_SEARCH_RESULTS) + 1)).scalars().all()
    if len(ids) > max(limit, MAX_SEARCH_RESULTS):
        ids = service_tx.execute(query.order_by(items.c.id.desc()).limit(limit)).scalars().all()
    return sorted(ids, reverse=True)[:limit]


def _conditions(query: ItemQuery) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if query.streets:
        prefixes = [_starts_with(items.c.address_key, street, sa.literal) for street in query.streets]
        conditions.append(sa.or_(*prefixes))
    if query.name is not None:
        conditions.append(_starts_with(sa.func.lower(items.c.name), query.name, sa.func.lower))
    if query.email is not None:
        conditions.append(sa.func.lower(items.c.email) == sa.func.lower(query.email))
    if query.sub_account_id is not None:
        conditions.append(items.c.sub_account_id == query.sub_account_id)
    if query.order_id is not None:
        conditions.append(items.c.order_id == query.order_id)
    return conditions


def _starts_with(
    text: sa.ColumnElement[str], prefix: str, transform: Callable[[str], sa.ColumnElement[str]]
) -> sa.ColumnElement[bool]:
    """As a range, letter by letter: LIKE would follow the index only while the pattern is a constant."""
    low, high = transform(prefix), transform(prefix + LAST_CHAR)
    return sa.and_(text.op("~>=~")(low), text.op("~<~")(high))


def _read_newest_first(tx: Tx, table: sa.Table, ids: Sequence[int] | set[int]) -> Sequence[sa.Row[Any]]:
    id_array = sa.any_(sa.cast(list(ids), ARRAY(sa.BigInteger())))
    return tx.execute(sa.select(table).where(table.c.id == id_array).order_by(table.c.id.desc())).all()


MAX_METADATA_FILTERS = 10
MAX_METADATA_DEPTH = 20
METADATA_FILTER_NAME = re.compile(r"metadata((?:\[[^\[\]]+\])+)")
# No longer than what the index holds: a number beyond that is text to it.
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]{1,999})?(?:[eE][+-]?[0-9]{1,4})?")
JSON_LITERALS = ("true", "false", "null")

MetadataAlternatives = tuple[str, ...]
"""JSON objects; an order is wanted whose metadata contains one of them."""


def parse_metadata_filters(query: Iterable[tuple[str, str]]) -> tuple[MetadataAlternatives, ...]:
    """Every filter by metadata in a query string, or `Invalid` with all that is wrong about them."""
    filters = [(name, value) for name, value in query if name.partition("[")[0] == "metadata"]
    errors = {name: [error] for name, value in filters if (error := _filter_error(name, value))}
    if len(filters) > MAX_METADATA_FILTERS:
        errors["metadata"] = [f"At most {MAX_METADATA_FILTERS} filters by metadata, please."]
    if errors:
        raise Invalid(errors)
    return tuple(_alternatives(name, value) for name, value in filters)


def _filter_error(name: str, value: str) -> str | None:
    match = METADATA_FILTER_NAME.fullmatch(name)
    if match is None:
        return "Write metadata[key]=value, or metadata[outer][inner]=value."
    if match[1].count("[") > MAX_METADATA_DEPTH:
        return f"At most {MAX_METADATA_DEPTH} keys in one another, please."
    if "\x00" in name + value:
        return "This text holds a NUL character, which no filter finds."
    return None


def _alternatives(name: str, value: str) -> MetadataAlternatives:
    """A query string is all text: `5` may have been written as the text or as the number."""
    json_values = [exact_json.dump_json(value)]
    if value in JSON_LITERALS or JSON_NUMBER.fullmatch(value):
        json_values.append(value)
    keys = name.removeprefix("metadata[").removesuffix("]").split("][")
    json_prefix = "".join(f"{{{exact_json.dump_json(key)}:" for key in keys)
    return tuple(json_prefix + json_value + "}" * len(keys) for json_value in json_values)
