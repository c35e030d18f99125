"""What every command stands on: settings, a database at the right schema."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from quillpost.database.engine import administrator
from quillpost.database.schema import SchemaState, migrate, require_current, state
from quillpost.footing import Footing, load_settings, open_ground, stand
from quillpost.giftcards.catalogue import load_default_brands
from quillpost.pricing.store import load_default_prices


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
