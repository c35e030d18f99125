"""Connections that lie idle in the pool are used again as they are, and replaced once they have ended; and what one was
asked before it need not plan again."""

import psycopg
import sqlalchemy as sa

from quillpost.app.container import Container

END_ALL = """select count(*) filter (where pg_terminate_backend(pid, 5000)) from pg_stat_activity
              where datname = current_database() and pid <> pg_backend_pid()"""


def use_connection(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(sa.text("select pg_backend_pid()")).scalar_one())


def test_connections_that_ended_while_idle_are_replaced_and_nobody_notices(conninfo: str, container: Container) -> None:
    with container.db.system_transaction():
        use_connection(container)
    idle = {use_connection(container) for _ in range(4)}
    assert {use_connection(container) for _ in range(4)} == idle, "an idle connection is used again"
    with psycopg.connect(conninfo) as connection:
        [(ended,)] = connection.execute(END_ALL)
    assert ended >= len(idle) >= 2
    assert not idle & {use_connection(container) for _ in range(4)}


def test_hundreds_of_different_statements_are_planned_once_each(conninfo: str, container: Container) -> None:
    with container.db.system_transaction() as tx:
        for statement in [f"select {number} as number" for number in range(300)] * 3:
            tx.execute(sa.text(statement))
        kept = "select count(*) from pg_prepared_statements where statement like 'select % as number'"
        assert tx.execute(sa.text(kept)).scalar_one() == 300
