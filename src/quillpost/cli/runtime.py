"""Settings and a database at the right schema, for every command."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy as sa
from rich.console import Console
from rich.markup import escape

from quillpost.accounts.billing.prices import load_default_prices
from quillpost.app.runtime import CoreServices, build_core_services, load_settings, open_runtime
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.schema import SchemaState, migrate, read_schema_state, require_current
from quillpost.core.errors import QuillpostError
from quillpost.orders.giftcards.queries import load_default_brands


def read_schema(conninfo: str) -> SchemaState:
    engine = create_admin_engine(conninfo)
    try:
        with engine.connect() as connection:
            return read_schema_state(connection)
    finally:
        engine.dispose()


def prepare_database(conninfo: str) -> None:
    """Fill an empty database; any other must be at this release's schema already."""
    schema = read_schema(conninfo)
    if schema.status == "empty":
        upgrade_database(conninfo)
    else:
        require_current(schema)


def upgrade_database(conninfo: str) -> SchemaState:
    """Bring the schema up to date and put the shipped prices and brands in; where it stood before."""
    before = migrate(conninfo)
    engine = create_admin_engine(conninfo)
    try:
        with engine.begin() as tx:
            tx.execute(sa.text("set local role quillpost_worker"))
            load_default_prices(tx)
            load_default_brands(tx)
    finally:
        engine.dispose()
    return before


@contextmanager
def open_core_services() -> Iterator[CoreServices]:
    """What a command that comes and goes stands on, beside a running server or alone."""
    settings = load_settings()
    runtime = open_runtime(settings)
    try:
        prepare_database(runtime.conninfo)
        services = build_core_services(settings, runtime.conninfo)
        try:
            yield services
        finally:
            services.db.close()
    finally:
        runtime.close()


def exit_with_error(error: Exception) -> None:
    """Say it and end; what only we can mend is left to be raised."""
    message = _error_message(error)
    if message is None:
        return
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"[bold red]quillpost:[/] {escape(message)}")
    sys.exit(1)


def _error_message(error: Exception) -> str | None:
    if isinstance(error, QuillpostError):
        return error.message
    if isinstance(error, psycopg.Error | sa.exc.DBAPIError):
        database_error = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        return f"The database refused: {str(database_error).strip().splitlines()[0].rstrip('.')}."
    return None
