"""How other tests see that a refused call has left no trace."""

from collections.abc import Callable
from itertools import pairwise

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts
from support.factories import Account
from support.traces import TraceWatch, traces

# Into the part of its table where those lie that wait, as only the schema's own functions may.
A_DELIVERY = """
    insert into deliveries_pending
           (account_id, mode, webhook_id, fact_id, event_id, event_type, stream, status, created_at)
    values (1, 'test', 1, 1, gen_random_uuid(), 'x', 'x', 'pending', now())
"""


@pytest.mark.usefixtures("conninfo")
def test_a_watch_sees_every_change_that_reading_every_table_shows(owner: Account, container: Container) -> None:
    """Also what a key or a trigger changes in another table, what a table in parts has, and files."""
    watch = TraceWatch(container)
    changes: list[Callable[[psycopg.Connection], object]] = [
        lambda db: owner.post("/mailing-lists", {"description": "Visitors"}), lambda db: owner.send(),
        lambda db: db.execute("update accounts set company = 'Another'"),
        lambda db: db.execute("update mailing_lists set description = 'Friends'"), lambda db: db.execute(A_DELIVERY),
        lambda db: container.storage.store.put("a/file", b"x"), lambda db: db.execute("delete from accounts"),
        lambda db: db.execute("truncate prices cascade"),
    ]  # fmt: skip
    seen = [watch.traces()]
    for change in changes:
        with psycopg.connect(container.db.conninfo) as db:
            change(db)
        seen.append(watch.traces())
        assert seen[-1] == traces(container)
    assert all(before != after for before, after in pairwise(seen))


@pytest.mark.usefixtures("conninfo")
def test_what_only_reads_and_what_is_rolled_back_leaves_none(owner: Account, container: Container) -> None:
    owner.send()
    watch, before = TraceWatch(container), traces(container)
    assert owner.get("/orders").status_code == 200
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).values(company="Another"))
        tx.rollback()
    assert watch.traces() == before == traces(container)
