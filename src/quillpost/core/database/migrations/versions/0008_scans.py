"""Scans of QR codes, as they come in and as they are counted."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0008_scans.sql"))
