"""The foundation: accounts, lists, templates, orders, items, facts, money, webhooks, files."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_script(Path(__file__).with_name("0001_foundation.sql"))
