"""Pieces may carry pictures of their own."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0003_own_pictures.sql"))
