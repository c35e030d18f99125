"""Recognising a token and counting its call: one round trip, against two, and against not counting."""

import tempfile
from pathlib import Path

import sqlalchemy as sa

from benchmarks.harness import Contest
from quillpost.accounts import service
from quillpost.app import bootstrap
from quillpost.cli.runtime import upgrade
from quillpost.core import tokens
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings

FIND = sa.text("select account_id, mode, scopes from tokens where digest = :digest")
COUNT = sa.text("select * from count_call(:key, 60)")


def contest(server: EmbeddedPostgres, home: Path) -> Contest:
    upgrade(server.conninfo())
    parts = bootstrap.build(Settings(home=home), server.conninfo())
    with parts.db.work() as tx:
        account = service.open_account(tx, email="bench@example.com", name="Bench", now=parts.clock())
        token = service.mint_token(tx, account, mode="test", name="bench", now=parts.clock())
    digest = tokens.digest(token)

    def ours() -> None:
        service.authenticate(parts.db, token, limit=120, now=parts.clock())

    def two_statements() -> None:
        with parts.db.work() as tx:
            tx.execute(FIND, {"digest": digest}).one()
            tx.execute(COUNT, {"key": "bench"}).one()

    def look_up_alone() -> None:
        with parts.db.work() as tx:
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
