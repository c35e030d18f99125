"""Addresses are standardised and judged."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0011_judged_addresses.sql"))
