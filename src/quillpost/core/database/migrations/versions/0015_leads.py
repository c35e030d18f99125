"""Addresses to be bought."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0015_leads.sql"))
