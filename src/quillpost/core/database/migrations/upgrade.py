"""Runs Alembic over the revisions in a folder; revisions are plain SQL scripts."""

from pathlib import Path
from typing import cast

import psycopg
import sqlalchemy as sa
from alembic import command, op
from alembic.config import Config


def config_of(folder: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: sa.Connection, folder: Path) -> None:
    """In the connection's own transaction and role."""
    config = config_of(folder)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def run_script(script: Path) -> None:
    """Run a file of statements as it stands: no placeholders, no interpretation of `%` or `:`."""
    driver = cast(psycopg.Connection, op.get_bind().connection.driver_connection)
    driver.execute(script.read_bytes())
