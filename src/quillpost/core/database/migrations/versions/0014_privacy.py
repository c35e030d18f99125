"""People are forgotten."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0014_privacy.sql"))
