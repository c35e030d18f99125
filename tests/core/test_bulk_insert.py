"""Many rows at once, by either way in."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx, engine
from quillpost.core.database.tables.base import mailing_lists, recipients
from support.orders import open_account
from support.tenant_rows import insert_least

MOMENT = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
COLUMNS = (
    "account_id", "mailing_list_id", "name", "company", "city", "dob", "created_at", "updated_at",
)  # fmt: skip
AWKWARD = ("", "\\N", "a\tb", "two\nlines", "back\\slash", "\\.", "'; drop table items; --", "Zoë 🎈", None)
EVERY_WAY = pytest.mark.parametrize("few", [0, 1_000], ids=["copy", "plain"])


@pytest.fixture
def owner(container: Container) -> int:
    return open_account(container).account_id


def make_list(tx: Tx, account_id: int) -> int:
    return int(insert_least(tx, mailing_lists, {"account_id": account_id}))


def rows_for(account_id: int, list_id: int, how_many: int) -> list[tuple[Any, ...]]:
    return [
        (account_id, list_id, AWKWARD[n % len(AWKWARD)], str(n), None, date(2000, 1, 1), MOMENT, MOMENT)
        for n in range(how_many)
    ]


def stored(tx: Tx, list_id: int) -> list[tuple[Any, ...]]:
    found = tx.execute(
        sa.select(*(recipients.c[name] for name in COLUMNS))
        .where(recipients.c.mailing_list_id == list_id)
        .order_by(recipients.c.id)
    )
    return [tuple(row) for row in found]


@EVERY_WAY
def test_every_value_arrives_as_it_was_in_the_order_given(
    container: Container, owner: int, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(engine, "MAX_PLAIN_INSERTS", few)
    with container.db.transaction(Tenant(owner)) as tx:
        list_id = make_list(tx, owner)
        rows = rows_for(owner, list_id, 300)
        engine.insert_rows(tx, recipients, COLUMNS, rows)
        assert stored(tx, list_id) == rows


@EVERY_WAY
def test_a_row_for_another_account_is_refused_and_takes_the_rest_along(
    container: Container, owner: int, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(engine, "MAX_PLAIN_INSERTS", few)
    stranger = open_account(container, "stranger@example.com").account_id
    with container.db.system_transaction() as tx:
        list_id = make_list(tx, owner)
    rows = [*rows_for(owner, list_id, 60), *rows_for(stranger, list_id, 1)]
    with pytest.raises(Exception, match="row-level security policy"), container.db.transaction(Tenant(owner)) as tx:
        engine.insert_rows(tx, recipients, COLUMNS, rows)
    with container.db.system_transaction() as tx:
        assert stored(tx, list_id) == []


@pytest.mark.parametrize("how_many", [0, 1, engine.MAX_PLAIN_INSERTS, engine.MAX_PLAIN_INSERTS + 1])
def test_no_row_is_lost_where_one_way_ends_and_the_other_begins(
    container: Container, owner: int, how_many: int
) -> None:
    with container.db.transaction(Tenant(owner)) as tx:
        list_id = make_list(tx, owner)
        engine.insert_rows(tx, recipients, COLUMNS, rows_for(owner, list_id, how_many))
        assert len(stored(tx, list_id)) == how_many


def test_a_transaction_can_insert_in_bulk_again_with_other_columns(container: Container, owner: int) -> None:
    with container.db.transaction(Tenant(owner)) as tx:
        lists = [make_list(tx, owner) for _ in range(2)]
        engine.insert_rows(tx, recipients, COLUMNS, rows_for(owner, lists[0], 60))
        fewer = [(owner, lists[1], MOMENT, MOMENT)] * 60
        names = ("account_id", "mailing_list_id", "created_at", "updated_at")
        engine.insert_rows(tx, recipients, names, fewer)
        assert [len(stored(tx, list_id)) for list_id in lists] == [60, 60]
