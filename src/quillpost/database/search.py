"""Search: each word that is typed begins a word of what is found.

Words are read by functions of the database, the same for what is looked for and what is looked through: in
any case, without accents, an e-mail both whole and by its parts. Row-level security comes before `@@` and
closes the indexes over words: where there are many rows, the service finds the ids and the caller reads them.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY

from quillpost.database.engine import Tx
from quillpost.database.paging import NEWEST_FIRST, Sorting
from quillpost.database.tables import item_search, recipients
from quillpost.kit.paging import PageRequest

LONGEST = 200
MOST_WORDS = 20
"""Each is looked up by itself."""

PERSON = ("name", "company", "email", "address", "address2", "city", "province", "postal_code")

# One plan for all searches would take a rare word for a frequent one.
CUSTOM_PLAN = sa.text("set local plan_cache_mode = force_custom_plan")

Condition = sa.ColumnElement[bool]


def has_words(search: str, *columns: sa.ColumnElement[Any]) -> Condition:
    """Whether these columns have the words, of a table in which an account has few rows: each is read."""
    words = sa.func.search_vector("", sa.func.concat_ws(" ", *columns))
    return words.bool_op("@@")(sa.func.search_query("", search))


def recipients_with_words(search: str, account_id: int, *, list_id: int | None = None) -> sa.CTE:
    """Those of the account, or of this list of it, who have the words; for the service, on an index.

    Whatever else is wanted of them is asked afterwards. Asked at once, PostgreSQL would take an account whose
    first million has just been imported for a small one, and read it from end to end.
    """
    person = (recipients.c[name] for name in PERSON)
    words = sa.func.recipient_search(recipients.c.account_id, recipients.c.mailing_list_id, *person)
    matches = words.bool_op("@@")(_query(search, f"{account_id}:", list_id and f"@{list_id}"))
    kept = ("id", "account_id", "sub_account_id", "mailing_list_id", "email_key", "updated_at")
    return _at_once(sa.select(*(recipients.c[name] for name in kept)).where(matches))


def items_with_words(search: str, account_id: int, mode: str, *, order_id: int | None = None) -> sa.CTE:
    """The same of pieces: their `item_id` and `order_id`."""
    query = _query(search, f"{account_id}{mode}:", order_id and f"#{order_id}")
    matches = item_search.c.words.bool_op("@@")(query)
    return _at_once(sa.select(item_search.c.item_id, item_search.c.order_id).where(matches))


def _at_once(found: sa.Select[Any]) -> sa.CTE:
    return found.cte().prefix_with("materialized", dialect="postgresql")


def _query(search: str, scope: str, place: str | int | None) -> sa.ColumnElement[Any]:
    """As the words are kept: each with whose it is before it, and beside them the list or the order."""
    query = sa.func.search_query(scope, search)
    return query if not place else query.op("&&")(sa.cast(f"'{place}'", TSQUERY()))


def found_page(
    service: Tx, found: sa.Select[Any], asked: PageRequest, *, sorting: Sorting = NEWEST_FIRST
) -> tuple[list[int], int]:
    """The ids on the page of all that are `found`, in no order, and how many there are: of one look at the
    index. `found` has the id and then what the list is sorted by."""
    rows = _at_once(found)
    first, *by = rows.c
    order = [each.desc() if sorting.newest_first else each.asc() for each in (*by, first)]
    page = sa.select(first).order_by(*order).offset(asked.offset).limit(asked.per_page)
    total = sa.select(sa.func.count()).select_from(rows).scalar_subquery()
    service.execute(CUSTOM_PLAN)
    row = service.execute(
        sa.select(sa.func.array(page.scalar_subquery(), type_=ARRAY(sa.BigInteger())), total)
    )
    ids, number = row.one()
    return list(ids), int(number)
