"""Deliveries by day, the lanes they travel in, and a subscription's second secret."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0007_outbox.sql"))
