"""What a verifier says of addresses."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0016_verified.sql"))
