"""Revisions are plain SQL scripts: exact, frozen, and readable without an ORM in mind."""

from pathlib import Path
from typing import cast

import psycopg
from alembic import op


def run_script(script: Path) -> None:
    """Run a file of statements as it stands: no placeholders, no interpretation of `%` or `:`."""
    driver = cast(psycopg.Connection, op.get_bind().connection.driver_connection)
    driver.execute(script.read_bytes())
