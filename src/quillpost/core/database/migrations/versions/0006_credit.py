"""What accounts have and have spent, kept with the ledger; payments in and out of it."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0006_credit.sql"))
