"""Settings and a database at the right schema, for every command."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy as sa
from rich.console import Console
from rich.markup import escape

from quillpost.accounts.billing.prices import load_default_prices
from quillpost.app.runtime import Footing, load_settings, open_ground, stand
from quillpost.core.database.engine import administrator
from quillpost.core.database.schema import SchemaState, migrate, require_current, state
from quillpost.core.errors import QuillpostError
from quillpost.orders.giftcards.brands import load_default_brands


def schema_of(conninfo: str) -> SchemaState:
    engine = administrator(conninfo)
    try:
        with engine.connect() as connection:
            return state(connection)
    finally:
        engine.dispose()


def make_ready(conninfo: str) -> None:
    """Fill an empty database; any other must be at this release's schema already."""
    found = schema_of(conninfo)
    if found.verdict == "empty":
        upgrade(conninfo)
    else:
        require_current(found)


def upgrade(conninfo: str) -> SchemaState:
    """Bring the schema up to date and put the shipped prices and brands in; where it stood before."""
    before = migrate(conninfo)
    engine = administrator(conninfo)
    try:
        with engine.begin() as tx:
            tx.execute(sa.text("set local role quillpost_worker"))
            load_default_prices(tx)
            load_default_brands(tx)
    finally:
        engine.dispose()
    return before


@contextmanager
def standing() -> Iterator[Footing]:
    """What a command that comes and goes stands on, beside a running server or alone."""
    settings = load_settings()
    ground = open_ground(settings)
    try:
        make_ready(ground.conninfo)
        footing = stand(settings, ground.conninfo)
        try:
            yield footing
        finally:
            footing.db.close()
    finally:
        ground.close()


def leave_with(failure: Exception) -> None:
    """Say it and end; what only we can mend is left to be raised."""
    sentence = _sentence(failure)
    if sentence is None:
        return
    out = Console(stderr=True, soft_wrap=True, highlight=False)
    out.print(f"[bold red]quillpost:[/] {escape(sentence)}")
    sys.exit(1)


def _sentence(failure: Exception) -> str | None:
    if isinstance(failure, QuillpostError):
        return failure.message
    if isinstance(failure, psycopg.Error | sa.exc.DBAPIError):
        said = failure.orig if isinstance(failure, sa.exc.DBAPIError) else failure
        return f"The database refused: {str(said).strip().splitlines()[0].rstrip('.')}."
    return None
