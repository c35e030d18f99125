"""What it takes from the review to the mailbox: prints, batches with their files, holds, sightings."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0005_fulfilment.sql"))
