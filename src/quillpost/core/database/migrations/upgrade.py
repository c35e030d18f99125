"""Runs Alembic over the revisions in a folder."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config


def config_of(folder: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: sa.Connection, folder: Path) -> None:
    """To the newest revision, in the connection's own transaction and role."""
    config = config_of(folder)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
