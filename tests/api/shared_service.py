"""One service for many tests of calls that leave nothing behind: each proves that by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from makers import Clock
from quillpost import wiring
from quillpost.database.embedded import EmbeddedPostgres
from quillpost.parts import Parts


@contextmanager
def shared_service(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[Parts]:
    name = f"shared_{home.parent.name}_{home.name}".replace("-", "_").lower()
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f'create database "{name}" template {template} strategy file_copy')
        settings = wiring.Settings.model_validate({"home": home, "calls_a_minute": 1_000_000})
        parts = wiring.build(settings, postgres.conninfo(name), clock=Clock().now)
        yield parts
        parts.db.close()
        admin.execute(f'drop database "{name}" with (force)')
