"""Styles and signatures that are an account's own, and the manner of each order's handwriting."""

from pathlib import Path

from quillpost.core.database.migrations.upgrade import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_script(Path(__file__).with_suffix(".sql"))
