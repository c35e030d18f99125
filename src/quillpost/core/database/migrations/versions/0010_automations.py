"""Sends that start by themselves."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0010_automations.sql"))
