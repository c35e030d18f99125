"""Recognising a token and counting its call: one round trip, against two, and against not counting."""

import tempfile
from pathlib import Path

import sqlalchemy as sa

from benchmarks.harness import Contest
from quillpost.accounts import service
from quillpost.accounts.queries import insert_token
from quillpost.app import bootstrap
from quillpost.app.runtime import upgrade_database
from quillpost.core import tokens
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings

FIND = sa.text("select account_id, mode, scopes from tokens where digest = :digest")
COUNT = sa.text("select * from count_call(:key, 60)")


def contest(server: EmbeddedPostgres, home: Path) -> Contest:
    upgrade_database(server.conninfo())
    container = bootstrap.build_container(Settings(home=home), server.conninfo())
    with container.db.system_transaction() as tx:
        account = service.create_account(tx, email="bench@example.com", name="Bench", now=container.clock())
        token = insert_token(tx, account, mode="test", name="bench", now=container.clock())[1]
    digest = tokens.hash_token(token)

    def ours() -> None:
        service.authenticate(container.db, token, limit=120, now=container.clock())

    def two_statements() -> None:
        with container.db.system_transaction() as tx:
            tx.execute(FIND, {"digest": digest}).one()
            tx.execute(COUNT, {"key": "bench"}).one()

    def look_up_alone() -> None:
        with container.db.system_transaction() as tx:
            tx.execute(FIND, {"digest": digest}).one()

    return Contest(
        name="authenticate",
        unit="seconds a call",
        ours=ours,
        peers={"look-up and count as two statements": two_statements},
        limit=look_up_alone,
        rounds=2_000,
    )


def prepare() -> tuple[Contest, EmbeddedPostgres]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-bench-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home)
    server.start()
    return contest(server, home), server
