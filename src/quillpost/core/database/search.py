"""Search by the beginnings of words.

Functions of the database split text into words, in any case and without accents, an email both whole and by its parts.
Row-level security is applied before `@@`, so no index over words is used: for large tables the service finds the ids,
and the caller reads the rows. Rows imported by the thousand are found without an index until a worker has built it.
"""

import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY

from quillpost.core.database.engine import Database, Tx
from quillpost.core.database.tables.base import item_search, items, recipient_search, recipients, search_backlog
from quillpost.core.paging import NEWEST_FIRST, PageRequest, Sorting

MAX_QUERY_LENGTH = 200
MAX_QUERY_WORDS = 20  # each is looked up by itself
SEARCHED_COLUMNS = ("name", "company", "email", "address", "address2", "city", "province", "postal_code")
PLAIN_WORD_PATTERN = re.compile(r"[a-z0-9]+")
STORED_WORD_LENGTH = 90  # letters of a word that are always kept
INDEX_TASK = "search.index_backlog"  # the task that makes the index over what waits for it

# One plan for all searches would take a rare word for a frequent one.
CUSTOM_PLAN = sa.text("set local plan_cache_mode = force_custom_plan")

# The words of a row as it is.
_RECIPIENT_WORDS = sa.func.recipient_words(
    *(recipients.c[name] for name in ("account_id", "mailing_list_id", *SEARCHED_COLUMNS))
)
_ITEM_WORDS = sa.func.item_words(*(items.c[name] for name in ("account_id", "mode", "order_id", *SEARCHED_COLUMNS)))

Condition = sa.ColumnElement[bool]


def matches_words(search: str, *columns: sa.ColumnElement[Any]) -> Condition:
    """For a table in which an account has few rows: each is read."""
    words = sa.func.search_vector("", sa.func.concat_ws(" ", *columns))
    return words.bool_op("@@")(sa.func.search_query("", search))


def select_matching_recipients(search: str, account_id: int, *, list_id: int | None = None) -> sa.CTE:
    """Of the account, or of one list, by the index; for the service's role. Apply further conditions afterwards:
    together with them, PostgreSQL would take an account whose first million was just imported for a small one, and scan
    it."""
    query = _build_query(search, f"{account_id}:", list_id and f"@{list_id}")
    indexed = sa.select(recipient_search.c.recipient_id).where(_matches(recipient_search.c.words, query))
    unindexed = _select_unindexed(recipients, account_id, search).where(_matches(_RECIPIENT_WORDS, query))
    ids = _materialize(sa.union_all(indexed, unindexed.with_only_columns(recipients.c.id)))
    column_names = ("id", "account_id", "sub_account_id", "mailing_list_id", "email_key", "updated_at")
    matching_rows = sa.select(*(recipients.c[name] for name in column_names)).join(
        ids, ids.c.recipient_id == recipients.c.id
    )
    return _materialize(matching_rows)


def select_matching_items(search: str, account_id: int, mode: str, *, order_id: int | None = None) -> sa.CTE:
    """The `item_id` and `order_id` of items, likewise."""
    query = _build_query(search, f"{account_id}{mode}:", order_id and f"#{order_id}")
    indexed = sa.select(item_search.c.item_id, item_search.c.order_id).where(_matches(item_search.c.words, query))
    unindexed = _select_unindexed(items, account_id, search).where(_matches(_ITEM_WORDS, query))
    return _materialize(sa.union_all(indexed, unindexed.with_only_columns(items.c.id, items.c.order_id)))


def index_backlog(db: Database) -> None:
    """Batches that another process works on are skipped."""
    indexed = 1
    while indexed:
        with db.system_transaction() as tx:
            indexed = tx.execute(sa.select(sa.func.index_search_backlog())).scalar_one()


def _select_unindexed(table: sa.Table, account_id: int, search: str) -> sa.Select[Any]:
    conditions = search_backlog.c.kind == table.name, search_backlog.c.account_id == account_id
    ids = sa.select(sa.func.unnest(search_backlog.c.ids).label("id")).where(*conditions).subquery()
    return sa.select(table.c.id).join(ids, ids.c.id == table.c.id).where(_may_match(search, table))


def _may_match(search: str, table: sa.Table) -> Condition:
    """A cheap check before the words of a row are built."""
    parts = {part[:STORED_WORD_LENGTH] for part in PLAIN_WORD_PATTERN.findall(search.lower())}
    text = sa.func.concat_ws(" ", *(table.c[name] for name in SEARCHED_COLUMNS))
    is_plain = sa.func.octet_length(text) == sa.func.char_length(text)
    has_all = sa.and_(sa.true(), *(sa.func.strpos(sa.func.lower(text), part) > 0 for part in sorted(parts)))
    return sa.or_(has_all, sa.not_(is_plain))


def _matches(words: sa.ColumnElement[Any], query: sa.ColumnElement[Any]) -> Condition:
    return words.bool_op("@@")(query)


def _materialize(query: sa.Select[Any] | sa.CompoundSelect[Any]) -> sa.CTE:
    return query.cte().prefix_with("materialized", dialect="postgresql")


def _build_query(search: str, scope: str, parent: str | int | None) -> sa.ColumnElement[Any]:
    """In the index each word is prefixed by its owner, and the list or order is beside them."""
    query = sa.func.search_query(scope, search)
    return query if not parent else query.op("&&")(sa.cast(f"'{parent}'", TSQUERY()))


def read_search_page(
    tx: Tx, matches: sa.Select[Any], page_request: PageRequest, *, sorting: Sorting = NEWEST_FIRST
) -> tuple[list[int], int]:
    """The ids on the page, in no order, and the total, with one look at the index. `matches` has the id and then the
    sort columns."""
    rows = _materialize(matches)
    id_column, *sort_columns = rows.c
    order = [each.desc() if sorting.is_newest_first else each.asc() for each in (*sort_columns, id_column)]
    page = sa.select(id_column).order_by(*order).offset(page_request.offset).limit(page_request.per_page)
    total = sa.select(sa.func.count()).select_from(rows).scalar_subquery()
    tx.execute(CUSTOM_PLAN)
    row = tx.execute(sa.select(sa.func.array(page.scalar_subquery(), type_=ARRAY(sa.BigInteger())), total))
    ids, count = row.one()
    return list(ids), int(count)
